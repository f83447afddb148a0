//! Digests of whole tables and files, and the rows in which two of them differ.
//!
//! What a digest is stands in `floodmark_pipeline::digest`; here batches come in, from tables (`table`) or Arrow files.
//! Doesn't know: the command line. Keeps: memory is bounded, however large the tables are, except for `orders`, which sorts.
//! Tested: digest/tests.rs, digest/orders/tests.rs.
pub mod compare;
pub mod orders;
pub mod source;

use floodmark_pipeline::digest::{Digest, DigestError, Options, RowHasher};

use crate::sink::SinkError;
use crate::table::TableError;
use source::RowSource;

#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    #[error(transparent)]
    Table(#[from] TableError),
    #[error(transparent)]
    Catalog(#[from] SinkError),
    #[error("the catalog has no table {name}")]
    NoTable { name: String },
    #[error("`{name}` is no table's name; write it as NAMESPACE.TABLE")]
    TableName { name: String },
    #[error("{file} can't be used; `floodmark check {file}` says why")]
    PipelineFile { file: String },
    #[error("{file} has no Iceberg sink `{name}`; it has {has}")]
    NoSink { file: String, name: String, has: String },
    #[error("{source_name}: {error}")]
    Digest { source_name: String, error: DigestError },
    #[error("{path}: not readable as an Arrow IPC file or stream: {source}")]
    ArrowFile { path: String, source: arrow::error::ArrowError },
    #[error("{path}: {source}")]
    File { path: String, source: std::io::Error },
    #[error("{source_name}: {error}")]
    Columns { source_name: String, error: arrow::error::ArrowError },
    #[error("can't pick columns: {0}")]
    Project(arrow::error::ArrowError),
    #[error("{source_name}: {error}")]
    Orders { source_name: String, error: orders::OrdersError },
    #[error("can't write to the terminal: {0}")]
    Terminal(std::io::Error),
    #[error("can't start: {0}")]
    Runtime(std::io::Error),
    #[error("can't show a row: {0}")]
    Display(arrow::error::ArrowError),
}

/// Digest of all rows of a source.
pub async fn digest(source: &RowSource, options: Options) -> Result<Digest, CompareError> {
    let mut rows = source.open().await?;
    let mut hasher = hasher(source, &rows.schema(), options)?;
    let mut digest = Digest::default();
    while let Some(batch) = rows.next().await? {
        digest.merge(hasher.digest(&batch).map_err(in_source(source))?);
    }
    Ok(digest)
}

/// The digest of the orders drills; see `orders`. With the number of rows.
pub async fn orders_digest(source: &RowSource) -> Result<(u64, String), CompareError> {
    let mut rows = source.open().await?;
    let mut digest = orders::OrdersDigest::default();
    while let Some(batch) = rows.next().await? {
        digest.add(&batch).map_err(|error| CompareError::Orders { source_name: source.to_string(), error })?;
    }
    Ok((digest.rows(), digest.finish()))
}

fn hasher(source: &RowSource, schema: &arrow_schema::SchemaRef, options: Options) -> Result<RowHasher, CompareError> {
    RowHasher::new(schema, options).map_err(in_source(source))
}

fn in_source(source: &RowSource) -> impl FnOnce(DigestError) -> CompareError + '_ {
    move |error| CompareError::Digest { source_name: source.to_string(), error }
}

#[cfg(test)]
mod tests;
