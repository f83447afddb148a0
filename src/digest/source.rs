//! Something that holds rows and can be read more than once: a table's snapshot, or an Arrow IPC file.
//!
//! Doesn't know: what the rows are for. Tested: digest/tests.rs.
use std::fmt;
use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::ipc::reader::{FileReader, StreamReader};
use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};

use super::CompareError;
use crate::table::{At, LoadedTable, Scan};

pub enum RowSource {
    Table {
        name: String,
        table: LoadedTable,
        at: At,
    },
    ArrowFile(PathBuf),
    /// Only these columns of another source.
    Columns(Box<RowSource>, &'static [&'static str]),
}

impl RowSource {
    pub async fn open(&self) -> Result<Rows, CompareError> {
        match self {
            RowSource::Table { table, at, .. } => Ok(Rows::Table(Box::new(table.scan(at).await?))),
            RowSource::ArrowFile(path) => open_arrow(path),
            RowSource::Columns(source, names) => {
                let rows = Box::pin(source.open()).await?;
                let schema = rows.schema();
                let places = names.iter().map(|name| schema.index_of(name)).collect::<Result<Vec<_>, _>>();
                let places =
                    places.map_err(|error| CompareError::Columns { source_name: source.to_string(), error })?;
                Ok(Rows::Columns(Box::new(rows), places))
            }
        }
    }
}

impl fmt::Display for RowSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RowSource::Table { name, .. } => f.write_str(name),
            RowSource::ArrowFile(path) => write!(f, "{}", path.display()),
            RowSource::Columns(source, _) => source.fmt(f),
        }
    }
}

pub enum Rows {
    Table(Box<Scan>),
    Arrow { path: PathBuf, batches: ArrowBatches },
    Columns(Box<Rows>, Vec<usize>),
}

/// The two forms of Arrow IPC.
pub enum ArrowBatches {
    File(FileReader<BufReader<File>>),
    Stream(StreamReader<BufReader<File>>),
}

impl Rows {
    pub fn schema(&self) -> SchemaRef {
        match self {
            Rows::Table(scan) => scan.schema().clone(),
            Rows::Arrow { batches: ArrowBatches::File(reader), .. } => reader.schema(),
            Rows::Arrow { batches: ArrowBatches::Stream(reader), .. } => reader.schema(),
            Rows::Columns(rows, places) => {
                let schema = rows.schema();
                Arc::new(Schema::new(places.iter().map(|place| schema.field(*place).clone()).collect::<Vec<_>>()))
            }
        }
    }

    pub async fn next(&mut self) -> Result<Option<RecordBatch>, CompareError> {
        match self {
            Rows::Table(scan) => Ok(scan.next().await?),
            Rows::Arrow { path, batches } => {
                let next = match batches {
                    ArrowBatches::File(reader) => reader.next(),
                    ArrowBatches::Stream(reader) => reader.next(),
                };
                next.transpose().map_err(not_arrow(path))
            }
            Rows::Columns(rows, places) => {
                let batch = Box::pin(rows.next()).await?;
                batch.map(|batch| batch.project(places)).transpose().map_err(CompareError::Project)
            }
        }
    }
}

fn open_arrow(path: &Path) -> Result<Rows, CompareError> {
    const FILE_MAGIC: &[u8; 6] = b"ARROW1";
    let unreadable = |source| CompareError::File { path: path.display().to_string(), source };
    let mut file = File::open(path).map_err(unreadable)?;
    let mut magic = Vec::new();
    file.by_ref().take(FILE_MAGIC.len() as u64).read_to_end(&mut magic).map_err(unreadable)?;
    file.rewind().map_err(unreadable)?;
    let file = BufReader::new(file);
    let batches = if magic == FILE_MAGIC {
        ArrowBatches::File(FileReader::try_new(file, None).map_err(not_arrow(path))?)
    } else {
        ArrowBatches::Stream(StreamReader::try_new(file, None).map_err(not_arrow(path))?)
    };
    Ok(Rows::Arrow { path: path.to_owned(), batches })
}

fn not_arrow(path: &Path) -> impl FnOnce(arrow::error::ArrowError) -> CompareError + '_ {
    move |source| CompareError::ArrowFile { path: path.display().to_string(), source }
}
