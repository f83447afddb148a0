//! Splits rows by the table's partition values, and sorts them by its sort order.
//!
//! Transforms are the iceberg crate's, except those that it gets wrong: its `day` of a time before 1970 with a part of a second, and
//! `truncate` of binary columns, which it refuses.
//! Doesn't know: files. Keeps: years, months, days and hours are floors, before 1970 too; equal rows keep their order.
//! Tested: here.
use std::ops::Range;
use std::sync::Arc;

use arrow::compute::{SortColumn, SortOptions, cast, lexsort_to_indices, partition};
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{Array, ArrayRef, Date32Array, Int32Array, RecordBatch, StructArray, UInt32Array, cast::AsArray};
use arrow_schema::{DataType, SchemaRef as ArrowSchemaRef, TimeUnit};
use arrow_select::take::take_record_batch;
use iceberg::arrow::{arrow_struct_to_literal, type_to_arrow_type};
use iceberg::spec::{
    Literal, NullOrder, PartitionSpecRef, Schema, SortDirection, SortOrder, Struct, StructType, Transform, Type,
};
use iceberg::transform::create_transform_function;
use iceberg::{Error, ErrorKind, Result};

const MICROS_PER_HOUR: i64 = 3_600_000_000;
const MICROS_PER_DAY: i64 = 24 * MICROS_PER_HOUR;

/// Rows of one partition, sorted.
pub struct Run {
    pub partition: Struct,
    pub rows: RecordBatch,
}

/// How batches with the table's Arrow schema are split and sorted.
pub struct Splitter {
    pub spec: PartitionSpecRef,
    partition_type: StructType,
    by: Vec<(usize, Transform)>,
    sort: Vec<(usize, Transform, SortOptions)>,
}

impl Splitter {
    pub fn new(spec: PartitionSpecRef, order: &SortOrder, schema: &Schema, arrow: &ArrowSchemaRef) -> Result<Self> {
        let column = |id: i32| {
            let name = schema.name_by_field_id(id).unwrap_or_default();
            arrow.index_of(name).map_err(|e| Error::new(ErrorKind::DataInvalid, e.to_string()))
        };
        let by = spec.fields().iter().map(|f| Ok((column(f.source_id)?, f.transform))).collect::<Result<_>>()?;
        let sort = order.fields.iter().map(|f| {
            let descending = f.direction == SortDirection::Descending;
            let options = SortOptions { descending, nulls_first: f.null_order == NullOrder::First };
            Ok((column(f.source_id)?, f.transform, options))
        });
        let sort = sort.collect::<Result<_>>()?;
        Ok(Self { partition_type: spec.partition_type(schema)?, spec, by, sort })
    }

    /// Whether rows are sorted, which is the better the more of them come together.
    pub fn sorts(&self) -> bool {
        !self.sort.is_empty()
    }

    pub fn split(&self, batch: &RecordBatch) -> Result<Vec<Run>> {
        if batch.num_rows() == 0 {
            return Ok(vec![]);
        }
        if self.by.is_empty() && self.sort.is_empty() {
            return Ok(vec![Run { partition: Struct::empty(), rows: batch.clone() }]);
        }
        let apply = |(column, transform): (usize, Transform)| transformed(batch.column(column), transform);
        let values = self.by.iter().map(|by| apply(*by)).collect::<Result<Vec<_>>>()?;
        if self.sort.is_empty() && partition(&values).map_err(arrow_error)?.len() == 1 {
            return Ok(vec![Run { partition: self.partition_of(&values, 0)?, rows: batch.clone() }]);
        }
        let order = self.order(batch, &values)?;
        let rows = take_record_batch(batch, &order).map_err(arrow_error)?;
        if values.is_empty() {
            return Ok(vec![Run { partition: Struct::empty(), rows }]);
        }
        let values = values
            .iter()
            .map(|v| arrow_select::take::take(v, &order, None))
            .collect::<std::result::Result<Vec<_>, _>>();
        let values = values.map_err(arrow_error)?;
        let ranges = partition(&values).map_err(arrow_error)?.ranges();
        let run = |range: Range<usize>| {
            let partition = self.partition_of(&values, range.start)?;
            Ok(Run { partition, rows: rows.slice(range.start, range.len()) })
        };
        ranges.into_iter().map(run).collect()
    }

    /// Partition first, then the table's sort order, then as the rows came.
    fn order(&self, batch: &RecordBatch, partitions: &[ArrayRef]) -> Result<UInt32Array> {
        let mut by: Vec<_> =
            partitions.iter().map(|values| SortColumn { values: values.clone(), options: None }).collect();
        for (column, transform, options) in &self.sort {
            let values = transformed(batch.column(*column), *transform)?;
            by.push(SortColumn { values, options: Some(*options) });
        }
        let rows = u32::try_from(batch.num_rows()).map_err(|e| Error::new(ErrorKind::DataInvalid, e.to_string()))?;
        by.push(SortColumn { values: Arc::new(UInt32Array::from_iter_values(0..rows)), options: None });
        lexsort_to_indices(&by, None).map_err(arrow_error)
    }

    fn partition_of(&self, values: &[ArrayRef], row: usize) -> Result<Struct> {
        let DataType::Struct(fields) = type_to_arrow_type(&Type::Struct(self.partition_type.clone()))? else {
            return Err(Error::new(ErrorKind::Unexpected, "a partition's type is a struct"));
        };
        let columns = values.iter().zip(&fields).map(|(v, field)| cast(&v.slice(row, 1), field.data_type()));
        let columns = columns.collect::<std::result::Result<_, _>>().map_err(arrow_error)?;
        let one: ArrayRef = Arc::new(StructArray::try_new(fields, columns, None).map_err(arrow_error)?);
        match arrow_struct_to_literal(&one, &self.partition_type)?.pop() {
            Some(Some(Literal::Struct(partition))) => Ok(partition),
            other => Err(Error::new(ErrorKind::Unexpected, format!("a partition's value is a struct, not {other:?}"))),
        }
    }
}

fn arrow_error(error: arrow_schema::ArrowError) -> Error {
    Error::new(ErrorKind::DataInvalid, error.to_string())
}

fn transformed(column: &ArrayRef, transform: Transform) -> Result<ArrayRef> {
    match (transform, column.data_type()) {
        (Transform::Identity, _) => Ok(column.clone()),
        (Transform::Day, DataType::Timestamp(TimeUnit::Microsecond, _)) => {
            let days: Date32Array = floors(column, MICROS_PER_DAY);
            Ok(Arc::new(days))
        }
        (Transform::Hour, DataType::Timestamp(TimeUnit::Microsecond, _)) => {
            let hours: Int32Array = floors(column, MICROS_PER_HOUR);
            Ok(Arc::new(hours))
        }
        (Transform::Truncate(_), DataType::LargeBinary) => {
            let narrow = cast(column, &DataType::Binary).map_err(arrow_error)?;
            let truncated = create_transform_function(&transform)?.transform(narrow)?;
            cast(&truncated, &DataType::LargeBinary).map_err(arrow_error)
        }
        _ => create_transform_function(&transform)?.transform(column.clone()),
    }
}

fn floors<T>(column: &ArrayRef, micros: i64) -> arrow_array::PrimitiveArray<T>
where
    T: arrow_array::ArrowPrimitiveType<Native = i32>,
{
    let floor = |t: i64| i32::try_from(t.div_euclid(micros)).unwrap_or(if t < 0 { i32::MIN } else { i32::MAX });
    column.as_primitive::<TimestampMicrosecondType>().unary(floor)
}

#[cfg(test)]
#[path = "partition_tests.rs"]
mod tests;
