//! Records on their way through the engine: Arrow columns, and fixed side columns that the user never names.
//!
//! The side columns carry what lateness and dedup are judged from (partition, offset, event time, the partition's watermark before the record),
//! so that no operator needs to know how batches or partitions interleave. A decoded batch is shared by all that read it: spreading its rows over
//! workers, or leaving duplicates out, chooses rows and copies none.
//! Keeps: every column has the same length; rows stay in the order of their batch.
use std::sync::Arc;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_schema::ArrowError;

use crate::hash::{KeyHash, hash_keys};
use crate::ids::PartitionIndex;
use crate::time::EventTime;

/// Stands for "no watermark yet" in the watermark side column: the record is the first of its partition, nothing is late.
pub const NO_WATERMARK: i64 = i64::MIN;

/// Why the watermark that a record met is what it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WatermarkCause {
    /// The partition's own records moved it there.
    #[default]
    Own,
    /// The floor the partition got when it was found while running.
    Joined,
    /// The floor it got when it came back from idleness.
    Returned,
    /// The end that its windows had already fired at.
    Ended,
}

impl WatermarkCause {
    /// The `_reason` of a late row.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Own => "late",
            Self::Joined => "joined",
            Self::Returned => "returned",
            Self::Ended => "ended",
        }
    }
}

/// Where a record came from and what its partition's watermark was.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    pub partition: Vec<u32>,
    pub offset: Vec<i64>,
    /// Milliseconds; 0 where the source has no event time (then nothing downstream needs one).
    pub event_time: Vec<i64>,
    /// `wm(p, o)` in milliseconds: the watermark of the record's own partition before it, or [`NO_WATERMARK`].
    pub watermark: Vec<i64>,
    pub cause: Vec<WatermarkCause>,
}

impl Side {
    pub fn with_capacity(rows: usize) -> Self {
        Self {
            partition: Vec::with_capacity(rows),
            offset: Vec::with_capacity(rows),
            event_time: Vec::with_capacity(rows),
            watermark: Vec::with_capacity(rows),
            cause: Vec::with_capacity(rows),
        }
    }

    pub fn len(&self) -> usize {
        self.offset.len()
    }

    pub fn is_empty(&self) -> bool {
        self.offset.is_empty()
    }

    pub fn partition(&self, row: usize) -> PartitionIndex {
        PartitionIndex(self.partition[row])
    }

    pub fn event_time(&self, row: usize) -> EventTime {
        EventTime(self.event_time[row])
    }

    pub fn watermark(&self, row: usize) -> Option<EventTime> {
        let watermark = self.watermark[row];
        (watermark != NO_WATERMARK).then_some(EventTime(watermark))
    }
}

/// Some rows of a decoded batch, all of one schema. All are inserts in this version.
#[derive(Clone, Debug)]
pub struct Rows {
    batch: Arc<Batch>,
    /// Places in the batch; `None` stands for all of them.
    chosen: Option<Vec<u32>>,
    keys: Vec<KeyHash>,
}

#[derive(Debug)]
struct Batch {
    columns: RecordBatch,
    side: Side,
}

impl Rows {
    /// All rows of a batch.
    pub fn new(columns: RecordBatch, side: Side) -> Self {
        Self { batch: Arc::new(Batch { columns, side }), chosen: None, keys: vec![] }
    }

    pub fn len(&self) -> usize {
        self.chosen.as_ref().map_or(self.batch.side.len(), Vec::len)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Columns of the whole batch, to be read at [`places`](Self::places).
    pub fn columns(&self) -> &RecordBatch {
        &self.batch.columns
    }

    /// Side columns of the whole batch, to be read at [`places`](Self::places).
    pub fn side(&self) -> &Side {
        &self.batch.side
    }

    /// Where each of these rows stands in the batch.
    pub fn places(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        (0..self.len()).map(|n| self.chosen.as_ref().map_or(n, |chosen| chosen[n] as usize))
    }

    /// Hashes of the key that the receiving operator is keyed by, one for each row; empty where it is not keyed.
    pub fn keys(&self) -> &[KeyHash] {
        &self.keys
    }

    /// The same rows with the hashes of other key columns.
    pub fn keyed_by(&self, columns: &[usize]) -> Self {
        let keys = hash_keys(&self.batch.columns, columns, self.places());
        self.with_keys(keys)
    }

    pub fn with_keys(&self, keys: Vec<KeyHash>) -> Self {
        Self { batch: self.batch.clone(), chosen: self.chosen.clone(), keys }
    }

    /// Of these rows those at `numbers` (the first is 0), in that order.
    pub fn choose(&self, numbers: &[u32]) -> Self {
        let place = |n: &u32| self.chosen.as_ref().map_or(*n, |chosen| chosen[*n as usize]);
        let keys = if self.keys.is_empty() { vec![] } else { numbers.iter().map(|n| self.keys[*n as usize]).collect() };
        Self { batch: self.batch.clone(), chosen: Some(numbers.iter().map(place).collect()), keys }
    }

    /// Copies the rows out of their batch, unless they are all of it.
    pub fn to_batch(&self) -> Result<RecordBatch, ArrowError> {
        match &self.chosen {
            None => Ok(self.batch.columns.clone()),
            Some(chosen) => take_batch(&self.batch.columns, chosen),
        }
    }
}

/// The rows of a batch at `rows`, in that order.
pub fn take_batch(batch: &RecordBatch, rows: &[u32]) -> Result<RecordBatch, ArrowError> {
    arrow_select::take::take_record_batch(batch, &UInt32Array::from(rows.to_vec()))
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{ArrayRef, Int64Array};

    use super::*;

    fn rows(values: &[i64]) -> Rows {
        let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
        let mut side = Side::with_capacity(values.len());
        for (offset, value) in values.iter().enumerate() {
            side.partition.push(0);
            side.offset.push(offset as i64);
            side.event_time.push(*value);
            side.watermark.push(NO_WATERMARK);
            side.cause.push(WatermarkCause::Own);
        }
        Rows::new(RecordBatch::try_from_iter([("n", column)]).unwrap(), side)
    }

    #[test]
    fn rows_are_none_where_none_were_decoded_or_none_chosen() {
        let (none, two) = (rows(&[]), rows(&[10, 11]));
        assert!(none.is_empty() && none.side().is_empty());
        assert!(!two.is_empty() && !two.side().is_empty());
        let chosen = two.choose(&[]);
        assert!(chosen.is_empty() && !chosen.side().is_empty(), "the side columns are those of the batch");
    }

    #[test]
    fn a_choice_of_a_choice_names_places_in_the_batch() {
        let all = rows(&[10, 11, 12, 13, 14]).keyed_by(&[0]);
        let chosen = all.choose(&[1, 3, 4]).choose(&[0, 2]);
        assert_eq!(chosen.places().collect::<Vec<_>>(), [1, 4]);
        assert_eq!(chosen.keys(), [all.keys()[1], all.keys()[4]]);
        assert_eq!(chosen.keyed_by(&[0]).keys(), chosen.keys());
        let batch = chosen.to_batch().unwrap();
        assert_eq!(batch.column(0).as_primitive::<Int64Type>().values(), &[11, 14]);
    }
}
