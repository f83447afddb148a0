//! Rows that leave the main way: late ones and duplicates. Never dropped, but handed on with their place and why.
//!
//! Doesn't know: who decided. Keeps: the columns of [`late_schema`] and [`duplicates_schema`], source columns first.
use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::ArrowError;

use crate::aggregate::column_of;
use crate::ids::PartitionName;
use crate::plan::{duplicates_schema, late_schema};
use crate::rows::{Rows, take_batch};
use crate::schema::{FieldType, Schema};
use crate::state::Seen;
use crate::time::EventTime;

/// One late row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateRow {
    /// Its place in the batch.
    pub row: u32,
    pub watermark: Option<EventTime>,
    /// The window it missed; `None` where it missed a horizon.
    pub window: Option<(EventTime, EventTime)>,
    pub reason: &'static str,
}

/// Late rows as columns. `names` is the table of partitions.
pub fn late_batch(
    input: &Schema,
    rows: &Rows,
    late: &[LateRow],
    node: &str,
    names: &[PartitionName],
) -> Result<RecordBatch, ArrowError> {
    let places: Vec<u32> = late.iter().map(|l| l.row).collect();
    let mut columns = take_batch(rows.columns(), &places)?.columns().to_vec();
    columns.extend(places_of(rows, &places, names));
    columns.extend([
        timestamps(late.iter().map(|l| l.watermark)),
        strings(late.iter().map(|_| node)),
        timestamps(late.iter().map(|l| l.window.map(|w| w.0))),
        timestamps(late.iter().map(|l| l.window.map(|w| w.1))),
        strings(late.iter().map(|l| l.reason)),
    ]);
    RecordBatch::try_new(late_schema(input).arrow(), columns)
}

/// Duplicates (place in the batch, the copy that was kept) as columns.
pub fn duplicates_batch(
    input: &Schema,
    rows: &Rows,
    duplicates: &[(u32, Seen)],
    names: &[PartitionName],
) -> Result<RecordBatch, ArrowError> {
    let places: Vec<u32> = duplicates.iter().map(|d| d.0).collect();
    let first = |d: &(u32, Seen)| &names[d.1.partition as usize];
    let mut columns = take_batch(rows.columns(), &places)?.columns().to_vec();
    columns.extend(places_of(rows, &places, names));
    columns.extend([
        strings(duplicates.iter().map(|d| &*first(d).topic)),
        Arc::new(Int32Array::from_iter_values(duplicates.iter().map(|d| first(d).partition))) as ArrayRef,
        Arc::new(Int64Array::from_iter_values(duplicates.iter().map(|d| d.1.offset))),
    ]);
    RecordBatch::try_new(duplicates_schema(input).arrow(), columns)
}

/// `_topic, _partition, _offset`.
fn places_of(rows: &Rows, places: &[u32], names: &[PartitionName]) -> [ArrayRef; 3] {
    let name = |row: &u32| &names[rows.side().partition[*row as usize] as usize];
    [
        strings(places.iter().map(|row| &*name(row).topic)),
        Arc::new(Int32Array::from_iter_values(places.iter().map(|row| name(row).partition))),
        Arc::new(Int64Array::from_iter_values(places.iter().map(|row| rows.side().offset[*row as usize]))),
    ]
}

fn strings<'a>(values: impl Iterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

/// Milliseconds as a column of microseconds; a time that microseconds can't hold becomes the last one that they can.
pub fn timestamps(times: impl Iterator<Item = Option<EventTime>>) -> ArrayRef {
    let micros = times.map(|t| t.map(|t| i128::from(t.0.saturating_mul(1_000))));
    column_of(FieldType::TIMESTAMP_MS, micros.collect())
}
