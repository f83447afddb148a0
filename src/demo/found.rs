//! What the tables hold, each row written down by the columns that tell it from all others (and its aggregates).
//!
//! Doesn't know: what should be there. Times are milliseconds, a null is `null`, columns are joined by a blank: as `expected` writes them.
//! Tested: here.
use arrow::compute::cast;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use uuid::Uuid;

use super::DemoError;
use super::expected::event_id;
use crate::digest::source::RowSource;

/// A kind of rows, the sink that holds them, and the columns by which they are compared.
pub struct Layer {
    pub name: &'static str,
    pub sink: &'static str,
    columns: &'static [&'static str],
}

pub const PER_TYPE: Layer = Layer {
    name: "per type",
    sink: "per_type_lake",
    columns: &["window_start", "window_end", "event_type", "events", "revenue_cents"],
};
pub const SESSIONS: Layer = Layer {
    name: "sessions",
    sink: "sessions_lake",
    columns: &["window_start", "window_end", "user_id", "events", "revenue_cents"],
};
pub const LATE: Layer = Layer { name: "late", sink: "late", columns: &["_topic", "_offset", "_window_node"] };
pub const ERRORS: Layer = Layer { name: "errors", sink: "bad", columns: &["_topic", "_offset", "_reason"] };

/// Ids of the events table.
pub async fn events(source: &RowSource) -> Result<Vec<Uuid>, DemoError> {
    let column = || DemoError::Column { table: "lake", column: "event_id" };
    let mut rows = source.open().await?;
    let mut ids = Vec::new();
    while let Some(batch) = rows.next().await? {
        let values = batch.column_by_name("event_id").ok_or_else(column)?;
        for id in values.as_string_opt::<i32>().ok_or_else(column)? {
            ids.push(event_id(id.unwrap_or_default())?);
        }
    }
    Ok(ids)
}

pub async fn rows(layer: &Layer, source: &RowSource) -> Result<Vec<String>, DemoError> {
    let mut rows = source.open().await?;
    let mut texts = Vec::new();
    while let Some(batch) = rows.next().await? {
        let columns = layer
            .columns
            .iter()
            .map(|&column| batch.column_by_name(column).ok_or(DemoError::Column { table: layer.sink, column }));
        let columns: Vec<&ArrayRef> = columns.collect::<Result<_, _>>()?;
        texts.extend(as_texts(&batch, &columns).map_err(|error| DemoError::Cell { table: layer.sink, error })?);
    }
    Ok(texts)
}

fn as_texts(batch: &RecordBatch, columns: &[&ArrayRef]) -> Result<Vec<String>, ArrowError> {
    let options = FormatOptions::new().with_null("null");
    let columns = columns.iter().map(|column| in_ms(column)).collect::<Result<Vec<_>, _>>()?;
    let cells = columns.iter().map(|column| ArrayFormatter::try_new(column, &options));
    let cells = cells.collect::<Result<Vec<_>, _>>()?;
    let row = |row: usize| {
        let cells: Result<Vec<String>, _> = cells.iter().map(|cell| cell.value(row).try_to_string()).collect();
        cells.map(|cells| cells.join(" "))
    };
    (0..batch.num_rows()).map(row).collect()
}

fn in_ms(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let DataType::Timestamp(_, zone) = column.data_type() else { return Ok(column.clone()) };
    let ms = cast(column, &DataType::Timestamp(TimeUnit::Millisecond, zone.clone()))?;
    cast(&ms, &DataType::Int64)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int64Array, StringArray, TimestampMicrosecondArray};

    use super::*;

    #[test]
    fn a_row_is_its_columns_with_times_in_milliseconds() {
        let start = TimestampMicrosecondArray::from(vec![-1_000, 10_000_000]).with_timezone("+00:00");
        let columns: [(&str, ArrayRef); 3] = [
            ("window_start", Arc::new(start)),
            ("user_id", Arc::new(StringArray::from(vec!["u1", "u2"]))),
            ("revenue_cents", Arc::new(Int64Array::from(vec![Some(7), None]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let columns: Vec<&ArrayRef> = batch.columns().iter().collect();
        assert_eq!(as_texts(&batch, &columns).unwrap(), ["-1 u1 7", "10000 u2 null"]);
    }
}
