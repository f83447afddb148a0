//! The rows of one snapshot, batch by batch.
//!
//! Data files come one after another, partition by partition; the deletes of a partition are read when its first file is.
//! Doesn't know: where a table is, what its rows are for. Tested: table/tests.rs.
use std::vec::IntoIter;

use arrow::compute::filter_record_batch;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use iceberg::io::FileIO;

use super::TableError;
use super::columns::{Columns, FileBatches, NameMapping};
use super::deletes::{KeyDeletes, PositionDeletes, kept, key_fields};
use super::plan::{DataFile, DeleteFile, PartitionNumber, Plan};

pub struct Scan {
    file_io: FileIO,
    /// The table's columns, then key columns that only deletes need.
    columns: Columns,
    /// How many of the columns are the table's.
    table_columns: usize,
    table_schema: SchemaRef,
    mapping: NameMapping,
    data: IntoIter<DataFile>,
    position_deletes: Vec<DeleteFile>,
    equality_deletes: Vec<DeleteFile>,
    /// Equality deletes that concern every partition.
    global: Option<Vec<KeyDeletes>>,
    deletes: Option<PartitionDeletes>,
    open: Option<OpenFile>,
}

struct PartitionDeletes {
    partition: PartitionNumber,
    positions: PositionDeletes,
    keys: Vec<KeyDeletes>,
}

struct OpenFile {
    file: DataFile,
    batches: FileBatches,
    next_position: i64,
}

impl Scan {
    pub(super) fn new(file_io: FileIO, plan: Plan) -> Result<Self, TableError> {
        let table = Columns::new(plan.schema.as_struct().fields().to_vec())?;
        let mut fields = table.fields.clone();
        fields.extend(key_fields(&plan)?);
        let mapping = plan.name_mapping.as_deref().map(NameMapping::parse).transpose()?;
        Ok(Scan {
            file_io,
            columns: Columns::new(fields)?,
            table_columns: table.fields.len(),
            table_schema: table.schema,
            mapping: mapping.unwrap_or_default(),
            data: plan.data.into_iter(),
            position_deletes: plan.position_deletes,
            equality_deletes: plan.equality_deletes,
            global: None,
            deletes: None,
            open: None,
        })
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.table_schema
    }

    /// The next rows; never an empty batch, `None` at the end.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>, TableError> {
        loop {
            let Some(open) = &mut self.open else {
                let Some(file) = self.data.next() else { return Ok(None) };
                self.read_deletes(file.partition).await?;
                let (columns, mapping) = (&self.columns, &self.mapping);
                let batches = FileBatches::open(&self.file_io, &file.path, columns, mapping, &file.constants).await?;
                self.open = Some(OpenFile { file, batches, next_position: 0 });
                continue;
            };
            let Some(batch) = open.batches.next().await? else {
                self.open = None;
                continue;
            };
            let first = open.next_position;
            open.next_position += batch.num_rows() as i64;
            let batch = self.without_deleted(batch, first)?;
            if batch.num_rows() > 0 {
                return Ok(Some(batch));
            }
        }
    }

    async fn read_deletes(&mut self, partition: PartitionNumber) -> Result<(), TableError> {
        if self.deletes.as_ref().is_some_and(|deletes| deletes.partition == partition) {
            return Ok(());
        }
        if self.global.is_none() {
            let files = self.equality_deletes.iter().filter(|file| file.global);
            self.global = Some(KeyDeletes::read(&self.file_io, files, &self.columns).await?);
        }
        // Let go of the last partition's before the next one's are read.
        self.deletes = None;
        let positions = self.position_deletes.iter().filter(|file| file.partition == partition);
        let keys = self.equality_deletes.iter().filter(|file| !file.global && file.partition == partition);
        self.deletes = Some(PartitionDeletes {
            partition,
            positions: PositionDeletes::read(&self.file_io, positions).await?,
            keys: KeyDeletes::read(&self.file_io, keys, &self.columns).await?,
        });
        Ok(())
    }

    fn without_deleted(&self, batch: RecordBatch, first: i64) -> Result<RecordBatch, TableError> {
        let (Some(open), Some(deletes)) = (&self.open, &self.deletes) else { return Ok(batch) };
        let file = &open.file;
        let mut deleted = vec![false; batch.num_rows()];
        deletes.positions.mark(&file.path, file.sequence, first..open.next_position, &mut deleted);
        for keys in self.global.iter().flatten().chain(&deletes.keys) {
            keys.mark(&file.path, file.sequence, &batch, &mut deleted)?;
        }
        let table_columns: Vec<usize> = (0..self.table_columns).collect();
        let batch = batch.project(&table_columns).map_err(TableError::arrow(&file.path))?;
        if !deleted.contains(&true) {
            return Ok(batch);
        }
        filter_record_batch(&batch, &kept(deleted)).map_err(TableError::arrow(&file.path))
    }
}
