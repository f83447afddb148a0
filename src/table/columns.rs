//! One Parquet file, seen with the columns that a table's schema asks for.
//!
//! Columns are found by field id (by the table's name mapping where a file has no ids); missing ones are what the file's partition says,
//! the field's default, or null; older, narrower types are widened: int to long, float to double, decimal to more digits.
//! Doesn't know: deletes, other files. Nested columns are handed on as the file has them. Tested: table/tests.rs.
use std::collections::HashMap;
use std::sync::Arc;

use arrow::compute::{CastOptions, cast_with_options};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use futures::TryStreamExt;
use iceberg::arrow::{ArrowFileReader, type_to_arrow_type};
use iceberg::io::FileIO;
use iceberg::spec::{Literal, NestedFieldRef};
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::{ParquetRecordBatchStream, ParquetRecordBatchStreamBuilder};
use parquet::arrow::{PARQUET_FIELD_ID_META_KEY, ProjectionMask};
use serde::Deserialize;

use super::TableError;
use super::constant::{Constants, constant};

const BATCH_ROWS: usize = 8192;

/// Columns that a reader wants, and how they look as Arrow. Every one may be null: an older file may lack it.
#[derive(Clone, Debug)]
pub struct Columns {
    pub fields: Vec<NestedFieldRef>,
    pub schema: SchemaRef,
}

impl Columns {
    pub fn new(fields: Vec<NestedFieldRef>) -> Result<Self, TableError> {
        let arrow_fields = fields.iter().map(|field| {
            let data_type = type_to_arrow_type(&field.field_type).map_err(TableError::iceberg(&field.name))?;
            Ok(Field::new(&field.name, data_type, true))
        });
        let schema = Arc::new(Schema::new(arrow_fields.collect::<Result<Vec<_>, TableError>>()?));
        Ok(Columns { fields, schema })
    }
}

/// Field ids of columns by their names, for files that came without ids.
#[derive(Clone, Debug, Default)]
pub struct NameMapping(HashMap<String, i32>);

impl NameMapping {
    /// From the table property `schema.name-mapping.default`; top-level names only.
    pub fn parse(json: &str) -> Result<Self, TableError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "kebab-case")]
        struct Mapped {
            field_id: Option<i32>,
            names: Vec<String>,
        }
        let mapped: Vec<Mapped> = serde_json::from_str(json).map_err(TableError::NameMapping)?;
        let pairs = mapped.into_iter().filter_map(|mapped| Some((mapped.field_id?, mapped.names)));
        Ok(NameMapping(pairs.flat_map(|(id, names)| names.into_iter().map(move |name| (name, id))).collect()))
    }
}

pub struct FileBatches {
    path: String,
    columns: Columns,
    /// Where each wanted column comes from.
    origins: Vec<Origin>,
    stream: ParquetRecordBatchStream<ArrowFileReader>,
}

enum Origin {
    /// The file's batches, at this place.
    File(usize),
    /// The file's partition, or the field's default.
    Constant(Literal),
    Nowhere,
}

impl FileBatches {
    /// `constants` stand in for columns that the file lacks.
    pub async fn open(
        file_io: &FileIO,
        path: &str,
        columns: &Columns,
        mapping: &NameMapping,
        constants: &Constants,
    ) -> Result<Self, TableError> {
        let input = file_io.new_input(path).map_err(TableError::iceberg(path))?;
        let metadata = input.metadata().await.map_err(TableError::iceberg(path))?;
        let reader = input.reader().await.map_err(TableError::iceberg(path))?;
        // The writer's own Arrow schema is not wanted: it may ask for layouts that only cost a cast here.
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let builder =
            ParquetRecordBatchStreamBuilder::new_with_options(ArrowFileReader::new(metadata, reader), options);
        let builder = builder.await.map_err(TableError::parquet(path))?;
        let ids =
            field_ids(builder.schema(), mapping).ok_or_else(|| TableError::NoFieldIds { path: path.to_owned() })?;
        let place = |field: &NestedFieldRef| ids.iter().position(|id| *id == Some(field.id));
        let mut roots: Vec<usize> = columns.fields.iter().filter_map(place).collect();
        roots.sort_unstable();
        // The file's batches hold the chosen columns in the file's order.
        let origins = columns.fields.iter().map(|field| {
            let place = place(field).and_then(|root| roots.binary_search(&root).ok());
            let constant = || constants.get(&field.id).or(field.initial_default.as_ref());
            place.map(Origin::File).or_else(|| constant().cloned().map(Origin::Constant)).unwrap_or(Origin::Nowhere)
        });
        let origins = origins.collect();
        let mask = ProjectionMask::roots(builder.parquet_schema(), roots);
        let stream =
            builder.with_projection(mask).with_batch_size(BATCH_ROWS).build().map_err(TableError::parquet(path))?;
        Ok(FileBatches { path: path.to_owned(), columns: columns.clone(), origins, stream })
    }

    pub async fn next(&mut self) -> Result<Option<RecordBatch>, TableError> {
        let batch = self.stream.try_next().await.map_err(TableError::parquet(&self.path))?;
        batch.map(|batch| self.project(&batch)).transpose()
    }

    fn project(&self, batch: &RecordBatch) -> Result<RecordBatch, TableError> {
        let rows = batch.num_rows();
        let wanted = self.columns.schema.fields().iter().zip(&self.origins);
        let arrays = wanted.map(|(field, origin)| match origin {
            Origin::File(place) => self.widen(batch.column(*place), field.data_type()),
            Origin::Constant(literal) => constant(literal, field.data_type(), rows)
                .ok_or_else(|| TableError::Constant { path: self.path.clone(), column: field.name().clone() }),
            Origin::Nowhere => Ok(new_null_array(field.data_type(), rows)),
        });
        let arrays = arrays.collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.columns.schema.clone(), arrays, &options)
            .map_err(TableError::arrow(&self.path))
    }

    fn widen(&self, array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, TableError> {
        if array.data_type() == wanted {
            return Ok(array.clone());
        }
        let refuse_loss = CastOptions { safe: false, ..Default::default() };
        cast_with_options(array, wanted, &refuse_loss).map_err(TableError::arrow(&self.path))
    }
}

/// Field id of each top-level column of a file; `None` if it has none at all and no mapping helps.
fn field_ids(schema: &Schema, mapping: &NameMapping) -> Option<Vec<Option<i32>>> {
    let own = |field: &Arc<Field>| field.metadata().get(PARQUET_FIELD_ID_META_KEY).and_then(|id| id.parse().ok());
    let ids: Vec<Option<i32>> = schema.fields().iter().map(own).collect();
    if ids.iter().any(Option::is_some) || schema.fields().is_empty() {
        return Some(ids);
    }
    let mapped: Vec<Option<i32>> = schema.fields().iter().map(|field| mapping.0.get(field.name()).copied()).collect();
    mapped.iter().any(Option::is_some).then_some(mapped)
}
