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

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Int32Type, Int64Type, TimestampMicrosecondType};

    use super::*;
    use crate::rows::{NO_WATERMARK, Side, WatermarkCause};
    use crate::schema::Field;
    use crate::state::Bucket;

    fn input() -> Schema {
        Schema::new(vec![Field::required("n", FieldType::Int64)])
    }

    /// Partitions 0 and 1 of the table are `clicks` 4 and `views` 7.
    fn names() -> [PartitionName; 2] {
        [("clicks", 4), ("views", 7)].map(|(topic, partition)| PartitionName {
            source: "events".into(),
            topic: topic.into(),
            partition,
        })
    }

    /// Rows 10, 11 and 12: the second is of `views`, and each has its own offset.
    fn rows() -> Rows {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![10, 11, 12]));
        let side = Side {
            partition: vec![0, 1, 0],
            offset: vec![100, 50, 101],
            event_time: vec![1, 2, 3],
            watermark: vec![NO_WATERMARK; 3],
            cause: vec![WatermarkCause::Own; 3],
        };
        Rows::new(RecordBatch::try_new(input().arrow(), vec![column]).unwrap(), side)
    }

    fn texts(batch: &RecordBatch, name: &str) -> Vec<String> {
        batch.column_by_name(name).unwrap().as_string::<i32>().iter().flatten().map(str::to_owned).collect()
    }

    fn longs(batch: &RecordBatch, name: &str) -> Vec<i64> {
        batch.column_by_name(name).unwrap().as_primitive::<Int64Type>().values().to_vec()
    }

    fn partitions(batch: &RecordBatch, name: &str) -> Vec<i32> {
        batch.column_by_name(name).unwrap().as_primitive::<Int32Type>().values().to_vec()
    }

    fn micros(batch: &RecordBatch, name: &str) -> Vec<Option<i64>> {
        batch.column_by_name(name).unwrap().as_primitive::<TimestampMicrosecondType>().iter().collect()
    }

    #[test]
    fn a_late_row_has_its_place_the_watermark_it_met_and_the_window_it_missed() {
        let late = |row, window: Option<(i64, i64)>, reason| {
            let window = window.map(|(start, end)| (EventTime(start), EventTime(end)));
            LateRow { row, watermark: Some(EventTime(9)), window, reason }
        };
        let late = [late(1, Some((0, 10)), "late"), late(1, Some((-5, 5)), "late"), late(2, None, "joined")];
        let batch = late_batch(&input(), &rows(), &late, "per_user", &names()).unwrap();
        assert_eq!(longs(&batch, "n"), [11, 11, 12]);
        assert_eq!(texts(&batch, "_topic"), ["views", "views", "clicks"]);
        assert_eq!(partitions(&batch, "_partition"), [7, 7, 4]);
        assert_eq!(longs(&batch, "_offset"), [50, 50, 101]);
        assert_eq!(micros(&batch, "_watermark"), [Some(9_000); 3]);
        assert_eq!(texts(&batch, "_window_node"), ["per_user"; 3]);
        assert_eq!(micros(&batch, "_window_start"), [Some(0), Some(-5_000), None]);
        assert_eq!(micros(&batch, "_window_end"), [Some(10_000), Some(5_000), None]);
        assert_eq!(texts(&batch, "_reason"), ["late", "late", "joined"]);
    }

    #[test]
    fn a_duplicate_has_its_place_and_that_of_the_copy_that_was_kept() {
        let first = Seen { bucket: Bucket(0), partition: 1, offset: 3 };
        let batch = duplicates_batch(&input(), &rows(), &[(2, first)], &names()).unwrap();
        assert_eq!(longs(&batch, "n"), [12]);
        assert_eq!(
            (texts(&batch, "_topic"), texts(&batch, "_first_topic")),
            (vec!["clicks".into()], vec!["views".into()])
        );
        assert_eq!((partitions(&batch, "_partition"), partitions(&batch, "_first_partition")), (vec![4], vec![7]));
        assert_eq!((longs(&batch, "_offset"), longs(&batch, "_first_offset")), (vec![101], vec![3]));
    }

    #[test]
    fn a_time_that_microseconds_can_not_hold_becomes_the_last_that_they_can() {
        let times = timestamps([Some(EventTime::MAX), Some(EventTime::MIN), Some(EventTime(-1)), None].into_iter());
        let times: Vec<_> = times.as_primitive::<TimestampMicrosecondType>().iter().collect();
        assert_eq!(times, [Some(i64::MAX), Some(i64::MIN), Some(-1_000), None]);
    }
}
