//! A batch of records on its way through the engine: Arrow columns, and fixed side columns that the user never names.
//!
//! The side columns carry what lateness and dedup are judged from (partition, offset, event time, the partition's watermark before the record),
//! so that no operator needs to know how batches or partitions interleave.
//! Keeps: every column has the same length; a selection keeps rows and their side columns together.
use arrow_array::{RecordBatch, UInt32Array};
use arrow_schema::ArrowError;

use crate::hash::KeyHash;
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

    fn take(&self, rows: &[u32]) -> Self {
        fn pick<T: Copy>(from: &[T], rows: &[u32]) -> Vec<T> {
            rows.iter().map(|i| from[*i as usize]).collect()
        }
        Self {
            partition: pick(&self.partition, rows),
            offset: pick(&self.offset, rows),
            event_time: pick(&self.event_time, rows),
            watermark: pick(&self.watermark, rows),
            cause: pick(&self.cause, rows),
        }
    }
}

/// A batch of source records (decoded, perhaps deduplicated), all of one schema. All are inserts in this version.
#[derive(Clone, Debug)]
pub struct Rows {
    pub columns: RecordBatch,
    pub side: Side,
    /// Hashes of the key that the receiving operator is keyed by; empty where it is not keyed.
    pub keys: Vec<KeyHash>,
}

impl Rows {
    pub fn len(&self) -> usize {
        self.columns.num_rows()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows at `rows`, in that order.
    pub fn take(&self, rows: &[u32]) -> Result<Self, ArrowError> {
        let keys = if self.keys.is_empty() { vec![] } else { rows.iter().map(|i| self.keys[*i as usize]).collect() };
        Ok(Self { columns: take_batch(&self.columns, rows)?, side: self.side.take(rows), keys })
    }
}

/// The rows of a batch at `rows`, in that order.
pub fn take_batch(batch: &RecordBatch, rows: &[u32]) -> Result<RecordBatch, ArrowError> {
    arrow_select::take::take_record_batch(batch, &UInt32Array::from(rows.to_vec()))
}
