//! Rows of record batches as 128-bit hashes.
//!
//! A row is its cells (`encoding`) one after another, columns in the order of their names' bytes; its hash is xxh3-128 with seed 0.
//! The plan is made once for a schema; a batch costs one pass and no allocation per row.
//! Doesn't know: what the hashes are for (sums, buckets, delete keys). Tested: digest/tests.rs.
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, SchemaRef};
use xxhash_rust::xxh3::xxh3_128;

use super::encoding::{Cells, Class};
use super::{Digest, DigestError};

pub type RowHash = u128;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Leaves out columns whose name begins with `_`: positions and watermarks that another engine's table doesn't have.
    pub without_meta: bool,
}

pub struct RowHasher {
    schema: SchemaRef,
    columns: Vec<Column>,
    row: Vec<u8>,
}

struct Column {
    name: String,
    index: usize,
    prefix: Vec<u8>,
}

impl RowHasher {
    pub fn new(schema: &SchemaRef, options: Options) -> Result<Self, DigestError> {
        let mut columns = Vec::with_capacity(schema.fields().len());
        for (index, field) in schema.fields().iter().enumerate() {
            let name = field.name();
            // A column of type null holds nothing, so it adds nothing.
            if (options.without_meta && name.starts_with('_')) || *field.data_type() == DataType::Null {
                continue;
            }
            let class = Class::of(field.data_type()).ok_or_else(|| DigestError::UnsupportedType {
                column: name.clone(),
                data_type: field.data_type().clone(),
            })?;
            columns.push(Column { name: name.clone(), index, prefix: class.prefix(name) });
        }
        columns.sort_by(|a, b| a.name.cmp(&b.name));
        if let Some(pair) = columns.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return Err(DigestError::DuplicateColumn { column: pair[0].name.clone() });
        }
        Ok(RowHasher { schema: schema.clone(), columns, row: Vec::with_capacity(256) })
    }

    /// Appends one hash for each row of the batch, in its order.
    pub fn hash(&mut self, batch: &RecordBatch, hashes: &mut Vec<RowHash>) -> Result<(), DigestError> {
        self.for_each_row(batch, |bytes| hashes.push(xxh3_128(bytes)))
    }

    pub fn digest(&mut self, batch: &RecordBatch) -> Result<Digest, DigestError> {
        let mut digest = Digest::default();
        self.for_each_row(batch, |bytes| digest.add_row(xxh3_128(bytes)))?;
        Ok(digest)
    }

    /// The encoded bytes of each row: what is hashed, for test vectors and for who must compare rows themselves.
    pub fn for_each_row(&mut self, batch: &RecordBatch, mut take: impl FnMut(&[u8])) -> Result<(), DigestError> {
        self.check_schema(batch)?;
        let cells = self.columns.iter().map(|column| Cells::new(&column.name, batch.column(column.index)));
        let cells = cells.collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            self.row.clear();
            for (column, cells) in self.columns.iter().zip(&cells) {
                cells.append(&column.prefix, row, &mut self.row);
            }
            take(&self.row);
        }
        Ok(())
    }

    /// Names and types must be those of the plan; nullability and metadata don't matter.
    fn check_schema(&self, batch: &RecordBatch) -> Result<(), DigestError> {
        let found = batch.schema_ref();
        let of = |schema: &SchemaRef| {
            schema.fields().iter().map(|f| (f.name().clone(), f.data_type().clone())).collect::<Vec<_>>()
        };
        if Arc::ptr_eq(found, &self.schema) || of(found) == of(&self.schema) {
            return Ok(());
        }
        Err(DigestError::SchemaChanged { expected: describe(&self.schema), found: describe(found) })
    }
}

fn describe(schema: &SchemaRef) -> String {
    let fields = schema.fields().iter().map(|field| format!("{} {}", field.name(), field.data_type()));
    fields.collect::<Vec<_>>().join(", ")
}
