//! Keep first by key: which copy of an id goes on, which is a duplicate, which comes too late to tell.
//!
//! Ids live in buckets of first-seen event time. An id counts as seen for a record iff its bucket's end + horizon lies above the watermark of the record's
//! *own* partition; so dropping a bucket once the node's watermark has passed its end + horizon is invisible to every record.
//! Doesn't know: where ids are kept (see [`SeenIds`]), how batches fall, what other partitions do.
//! Keeps: in = unique + duplicates + beyond horizon; a record that can't be judged never goes through as new.
use crate::guard::{Guard, holds};
use crate::plan::Dedup;
use crate::rows::Rows;
use crate::state::{Bucket, Seen, SeenIds};
use crate::time::{EventTime, Span};

/// What became of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    First,
    /// With the copy that was kept.
    Duplicate(Seen),
    /// Its own bucket has passed out of the horizon for its partition: whether it was seen can't be told any more.
    BeyondHorizon,
}

/// The rule of one dedup node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    pub horizon: Span,
    pub bucket: Span,
}

impl Rule {
    pub fn of(dedup: &Dedup) -> Self {
        Self { horizon: dedup.horizon, bucket: dedup.bucket }
    }

    pub fn bucket_of(&self, time: EventTime) -> Bucket {
        Bucket(time.0.div_euclid(self.bucket.0))
    }

    /// Whether an id of `bucket` still counts as seen under a watermark.
    pub fn remembers(&self, bucket: Bucket, watermark: Option<EventTime>) -> bool {
        watermark.is_none_or(|w| self.forgotten_at(bucket) > w)
    }

    /// The newest bucket that no record can ask for once the node's watermark is `watermark`.
    pub fn expired_through(&self, watermark: EventTime) -> Bucket {
        if !holds(Guard::Horizon) {
            return self.bucket_of(watermark);
        }
        Bucket(watermark.minus(self.horizon).0.div_euclid(self.bucket.0) - 1)
    }

    /// End of the bucket + horizon.
    fn forgotten_at(&self, bucket: Bucket) -> EventTime {
        EventTime(bucket.0.saturating_add(1).saturating_mul(self.bucket.0)).plus(self.horizon)
    }
}

/// Judges rows in order and remembers their first copies. They are keyed by the dedup key.
pub fn judge<S: SeenIds>(rule: Rule, rows: &Rows, seen: &mut S) -> Result<Vec<Verdict>, S::Error> {
    seen.warm(rows.keys())?;
    let side = rows.side();
    let verdicts = rows.places().zip(rows.keys()).map(|(row, key)| {
        let watermark = side.watermark(row);
        let own = Seen {
            bucket: rule.bucket_of(side.event_time(row)),
            partition: side.partition[row],
            offset: side.offset[row],
        };
        let mut verdict = Verdict::First;
        seen.admit(*key, |newest| match newest {
            Some(first) if rule.remembers(first.bucket, watermark) => {
                verdict = Verdict::Duplicate(first);
                None
            }
            _ if rule.remembers(own.bucket, watermark) => Some(own),
            _ => {
                verdict = Verdict::BeyondHorizon;
                None
            }
        });
        verdict
    });
    Ok(verdicts.collect())
}

#[cfg(test)]
mod tests;
