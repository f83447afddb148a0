//! Reads Iceberg tables, whoever wrote them: for digests, diffs and tests, not on the hot path.
//!
//! The iceberg crate's scan applies equality deletes row by key, O(rows × keys), and can hang on shared position deletes; so files are
//! planned here through its public `spec` API, and deletes are applied by hash.
//! Doesn't know: catalogs. A table is its metadata and a `FileIO`. Never writes.
//! Keeps: memory is bounded by a row group and the deletes of one partition.
//! Tested: table/tests.rs (tables with deletes, by the crate's writers), compose/readers (tables that PyIceberg wrote).
//!
//! ```text
//! metadata.json -> locate -> plan (manifests) -> scan: file -> columns by field id -> minus deletes -> batch
//! ```
mod columns;
mod constant;
mod deletes;
pub mod locate;
mod plan;
mod scan;

use std::sync::Arc;

use floodmark_pipeline::digest::DigestError;
use iceberg::io::FileIO;
use iceberg::spec::TableMetadata;

pub use plan::At;
pub use scan::Scan;

/// A table as it stands in one metadata file.
#[derive(Clone, Debug)]
pub struct LoadedTable {
    pub metadata: Arc<TableMetadata>,
    pub file_io: FileIO,
}

impl LoadedTable {
    /// Begins to read one snapshot; a table without any is read as empty.
    pub async fn scan(&self, at: &At) -> Result<Scan, TableError> {
        let plan = plan::plan(&self.metadata, &self.file_io, at).await?;
        Scan::new(self.file_io.clone(), plan)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum TableError {
    #[error("{path}: {source}")]
    Iceberg { path: String, source: Box<iceberg::Error> },
    #[error("{path}: not readable as Parquet: {source}")]
    Parquet { path: String, source: parquet::errors::ParquetError },
    #[error("{path}: {source}")]
    Arrow { path: String, source: arrow::error::ArrowError },
    #[error("{path}: a {format} file; only Parquet is read")]
    Format { path: String, format: String },
    #[error("{path}: not a deletion vector where the manifest says that one is")]
    DeletionVector { path: String },
    #[error("{path}: has no field ids, and the table no `schema.name-mapping.default` to find its columns by")]
    NoFieldIds { path: String },
    #[error("the table property `schema.name-mapping.default` isn't a name mapping: {0}")]
    NameMapping(serde_json::Error),
    #[error("{path}: lacks column `{column}`, and what its partition or the default says for it is of another type")]
    Constant { path: String, column: String },
    #[error("{path}: equality deletes by field id {field_id}, which no schema of the table has")]
    UnknownField { path: String, field_id: i32 },
    #[error("no snapshot or ref `{wanted}` in this table; it has {has}")]
    NoSnapshot { wanted: String, has: String },
    #[error("{path}: delete keys: {source}")]
    Keys { path: String, source: DigestError },
    #[error("{path}: {problem}")]
    Location { path: String, problem: String },
}

impl TableError {
    fn iceberg(path: impl Into<String>) -> impl FnOnce(iceberg::Error) -> TableError {
        let path = path.into();
        move |source| TableError::Iceberg { path, source: Box::new(source) }
    }

    fn parquet(path: &str) -> impl FnOnce(parquet::errors::ParquetError) -> TableError + '_ {
        move |source| TableError::Parquet { path: path.to_owned(), source }
    }

    fn arrow(path: &str) -> impl FnOnce(arrow::error::ArrowError) -> TableError + '_ {
        move |source| TableError::Arrow { path: path.to_owned(), source }
    }
}

#[cfg(test)]
mod tests;
