//! Writes rows into Parquet data files, one file per partition value, and measures them for the manifest.
//!
//! Doesn't know: epochs, commits. Keeps: at most [`OPEN_WRITERS`] files are open at once; files roll at the target size; bounds in the
//! manifest hold for every row (Parquet's own statistics aren't cut, since iceberg's writer would skip a row group whose bounds are).
//! Tested: tests.rs beside it, bounds.rs.
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef as ArrowSchemaRef};
use arrow_select::concat::concat_batches;
use iceberg::arrow::schema_to_arrow_schema;
use iceberg::io::FileIO;
use iceberg::spec::{DataFile, PartitionSpecRef, SchemaRef, Struct, TableMetadata};
use iceberg::writer::CurrentFileStatus;
use iceberg::writer::file_writer::{FileWriter, FileWriterBuilder, ParquetWriter, ParquetWriterBuilder};
use iceberg::{Error, ErrorKind, Result};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::bounds;
use super::partition::{Run, Splitter};
use super::table::align;

pub const OPEN_WRITERS: usize = 64;
/// Rows encoded between two chances for other tasks of the same thread.
const SLICE_ROWS: usize = 32_768;
/// What one open file may hold unflushed. Smaller where many may be open.
const ROW_GROUP_BYTES: usize = 128 << 20;
const ROW_GROUP_BYTES_PARTITIONED: usize = 16 << 20;

pub struct DataWriter {
    io: FileIO,
    arrow: ArrowSchemaRef,
    schema: SchemaRef,
    splitter: Splitter,
    sort_order_id: Option<i32>,
    properties: WriterProperties,
    folder: String,
    /// Begins each file's name; unique for each writer.
    prefix: String,
    target_size: u64,
    open: Vec<Open>,
    finished: Vec<DataFile>,
    started: usize,
}

struct Open {
    partition: Struct,
    writer: ParquetWriter,
    location: String,
    runs: usize,
}

impl DataWriter {
    pub fn new(metadata: &TableMetadata, io: FileIO, prefix: String, target_size: u64) -> Result<Self> {
        let schema = metadata.current_schema().clone();
        let arrow = Arc::new(schema_to_arrow_schema(&schema)?);
        let spec = metadata.default_partition_spec().clone();
        let order = metadata.default_sort_order();
        let of_table = format!("{}/data", metadata.location());
        let folder = metadata.properties().get("write.data.path").unwrap_or(&of_table).trim_end_matches('/').to_owned();
        Ok(Self {
            io,
            splitter: Splitter::new(spec.clone(), order, &schema, &arrow)?,
            arrow,
            sort_order_id: i32::try_from(order.order_id).ok().filter(|id| *id > 0),
            properties: properties(metadata, !spec.is_unpartitioned())?,
            schema,
            folder,
            prefix,
            target_size,
            open: Vec::new(),
            finished: Vec::new(),
            started: 0,
        })
    }

    pub fn spec(&self) -> &PartitionSpecRef {
        &self.splitter.spec
    }

    /// Rows are sorted within one call; a file that took rows of several calls is not called sorted.
    pub async fn write(&mut self, batches: &[RecordBatch]) -> Result<()> {
        let aligned = batches.iter().map(|batch| align(batch, &self.arrow)).collect::<std::result::Result<Vec<_>, _>>();
        let mut aligned = aligned.map_err(invalid)?;
        if self.splitter.sorts() {
            aligned = vec![concat_batches(&self.arrow, &aligned).map_err(invalid)?];
        }
        for batch in aligned {
            for run in self.splitter.split(&batch)? {
                self.write_run(run).await?;
            }
        }
        Ok(())
    }

    async fn write_run(&mut self, run: Run) -> Result<()> {
        for at in (0..run.rows.num_rows()).step_by(SLICE_ROWS) {
            let slice = run.rows.slice(at, SLICE_ROWS.min(run.rows.num_rows() - at));
            let mut open = self.take_open(&run.partition).await?;
            open.runs += usize::from(at == 0);
            open.writer.write(&slice).await?;
            if open.writer.current_written_size() as u64 >= self.target_size {
                self.close(open).await?;
            } else {
                self.open.push(open);
            }
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// The open file of a partition, out of the list: the one used last goes back to its end.
    async fn take_open(&mut self, partition: &Struct) -> Result<Open> {
        if let Some(at) = self.open.iter().position(|open| open.partition == *partition) {
            return Ok(self.open.remove(at));
        }
        if self.open.len() >= OPEN_WRITERS {
            let oldest = self.open.remove(0);
            self.close(oldest).await?;
        }
        let location = self.location(partition);
        self.started += 1;
        let builder = ParquetWriterBuilder::new(self.properties.clone(), self.schema.clone());
        let writer = builder.build(self.io.new_output(&location)?).await?;
        Ok(Open { partition: partition.clone(), writer, location, runs: 0 })
    }

    fn location(&self, partition: &Struct) -> String {
        let file = format!("{}-{:05}.parquet", self.prefix, self.started);
        let spec = &self.splitter.spec;
        if spec.is_unpartitioned() {
            return format!("{}/{file}", self.folder);
        }
        let types = spec.partition_type(&self.schema).map(|t| t.fields().to_vec()).unwrap_or_default();
        let parts = spec.fields().iter().zip(&types).zip(partition.iter()).map(|((field, of_type), value)| {
            let value = field.transform.to_human_string(&of_type.field_type, value.cloned().as_ref());
            format!("{}={}", plain(&field.name), plain(&value))
        });
        format!("{}/{}/{file}", self.folder, parts.collect::<Vec<_>>().join("/"))
    }

    async fn close(&mut self, open: Open) -> Result<()> {
        let sorted = self.sort_order_id.filter(|_| open.runs == 1);
        for mut builder in open.writer.close().await? {
            builder.partition(open.partition.clone()).partition_spec_id(self.splitter.spec.spec_id());
            if let Some(id) = sorted {
                builder.sort_order_id(id);
            }
            let invalid = |e: iceberg::spec::DataFileBuilderError| Error::new(ErrorKind::Unexpected, e.to_string());
            let measured = builder.build().map_err(invalid)?;
            builder.lower_bounds(bounds::lower(measured.lower_bounds()));
            builder.upper_bounds(bounds::upper(measured.upper_bounds()));
            self.finished.push(builder.build().map_err(invalid)?);
        }
        tracing::debug!("wrote {}", open.location);
        Ok(())
    }

    pub async fn finish(&mut self) -> Result<Vec<DataFile>> {
        for open in std::mem::take(&mut self.open) {
            self.close(open).await?;
        }
        Ok(std::mem::take(&mut self.finished))
    }

    /// Deletes what was finished: nothing names it.
    pub async fn abandon(self) {
        delete_files(&self.io, self.finished.iter().map(DataFile::file_path)).await;
    }
}

/// Files that stay behind do no harm: no metadata names them.
pub async fn delete_files(io: &FileIO, files: impl Iterator<Item = &str>) {
    for file in files {
        if let Err(e) = io.delete(file).await {
            tracing::debug!("{file} was never used and stays behind: {e}");
        }
    }
}

/// A partition's value as part of a path: informative only, so what some reader or store might take amiss is replaced.
pub fn plain(value: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || "-_.+:".contains(c) { c } else { '_' };
    let kept: String = value.chars().take(64).map(keep).collect();
    if kept.trim_matches('.').is_empty() { "_".repeat(kept.len().max(1)) } else { kept }
}

fn invalid(error: ArrowError) -> Error {
    Error::new(ErrorKind::DataInvalid, error.to_string())
}

fn properties(metadata: &TableMetadata, partitioned: bool) -> Result<WriterProperties> {
    let property = |key: &str| metadata.properties().get(&format!("write.parquet.{key}")).map(String::as_str);
    let compression = match property("compression-codec").unwrap_or("zstd") {
        "zstd" => {
            let level = property("compression-level").and_then(|level| level.parse().ok()).unwrap_or(1);
            let level = ZstdLevel::try_new(level).map_err(|e| Error::new(ErrorKind::DataInvalid, e.to_string()))?;
            Compression::ZSTD(level)
        }
        "snappy" => Compression::SNAPPY,
        "uncompressed" | "none" => Compression::UNCOMPRESSED,
        other => {
            let why =
                format!("write.parquet.compression-codec = {other}: only zstd, snappy and uncompressed are written");
            return Err(Error::new(ErrorKind::FeatureUnsupported, why));
        }
    };
    Ok(WriterProperties::builder()
        .set_compression(compression)
        .set_statistics_truncate_length(None)
        .set_max_row_group_bytes(Some(if partitioned { ROW_GROUP_BYTES_PARTITIONED } else { ROW_GROUP_BYTES }))
        .build())
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
