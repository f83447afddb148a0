//! Stamps decoded records with what they are judged by: event time, and the watermark of their own partition before them.
//!
//! Doesn't know: batches (one record at a time would give the same), other partitions, wall clocks.
//! Keeps: a record whose clock is far ahead of its own log timestamp moves no watermark; every other decoded record does.
use std::collections::BTreeMap;

use crate::ids::PartitionIndex;
use crate::mark::ReplayFrom;
use crate::rows::{NO_WATERMARK, Side};
use crate::time::{EventTime, Span};
use crate::watermark::PartitionWatermark;

/// Event-time memory of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionTime {
    pub watermark: PartitionWatermark,
    /// First offset of each slice of event time, with the watermark before it: where a replay must begin to see that slice whole.
    pub slices: BTreeMap<i64, ReplayFrom>,
    /// Slice of the last record, which is in `slices` for sure.
    last_slice: Option<i64>,
}

/// Width of the slices in which replay points are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceWidth(pub Span);

impl SliceWidth {
    fn of(self, time: EventTime) -> i64 {
        time.0.div_euclid(self.0.0)
    }
}

/// One decoded record, as far as time is concerned.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    pub partition: PartitionIndex,
    pub offset: i64,
    pub time: EventTime,
    pub log_timestamp: Option<EventTime>,
}

/// The record's time lies too far ahead of its log timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FromTheFuture;

impl PartitionTime {
    pub fn new(watermark: PartitionWatermark, slices: BTreeMap<i64, ReplayFrom>) -> Self {
        Self { watermark, slices, last_slice: None }
    }

    /// Appends the record's side columns, or refuses it.
    pub fn stamp(
        &mut self,
        record: Record,
        max_future: Option<Span>,
        width: SliceWidth,
        side: &mut Side,
    ) -> Result<(), FromTheFuture> {
        if let (Some(lead), Some(logged)) = (max_future, record.log_timestamp)
            && record.time > logged.plus(lead)
        {
            return Err(FromTheFuture);
        }
        let before = self.watermark.before_next();
        self.note_slice(width.of(record.time), record.offset, before);
        side.partition.push(record.partition.0);
        side.offset.push(record.offset);
        side.event_time.push(record.time.0);
        side.watermark.push(before.map_or(NO_WATERMARK, |w| w.0));
        side.cause.push(self.watermark.cause());
        self.watermark.observe(record.time);
        Ok(())
    }

    /// Where a replay must begin for every record at or after `needed` to be seen; `None` if none has been read.
    /// Forgets what lies before.
    pub fn replay_from(&mut self, needed: Option<EventTime>, width: SliceWidth) -> Option<ReplayFrom> {
        if let Some(needed) = needed {
            self.slices = self.slices.split_off(&width.of(needed));
            self.last_slice = None;
        }
        self.slices.values().copied().min_by_key(|from| from.offset)
    }

    fn note_slice(&mut self, slice: i64, offset: i64, watermark: Option<EventTime>) {
        if self.last_slice != Some(slice) {
            self.last_slice = Some(slice);
            self.slices.entry(slice).or_insert(ReplayFrom { offset, watermark });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTH: SliceWidth = SliceWidth(Span(10));

    fn partition() -> PartitionTime {
        PartitionTime::new(PartitionWatermark::new(Span(5)), BTreeMap::new())
    }

    fn record(offset: i64, time: i64, logged: Option<i64>) -> Record {
        let log_timestamp = logged.map(EventTime);
        Record { partition: PartitionIndex(0), offset, time: EventTime(time), log_timestamp }
    }

    #[test]
    fn a_clock_gone_wrong_does_not_move_the_watermark() {
        let (mut partition, mut side) = (partition(), Side::default());
        let mut stamp = |r| partition.stamp(r, Some(Span(100)), WIDTH, &mut side);
        assert_eq!(stamp(record(0, 50, Some(0))), Ok(()));
        assert_eq!(stamp(record(1, 101, Some(0))), Err(FromTheFuture));
        assert_eq!(stamp(record(2, 60, Some(0))), Ok(()));
        assert_eq!(stamp(record(3, 5_000, None)), Ok(()), "no log timestamp, no test");
        assert_eq!(side.watermark, [NO_WATERMARK, 45, 55]);
        assert_eq!(side.offset, [0, 2, 3]);
    }

    #[test]
    fn a_time_just_as_far_ahead_as_it_may_be_is_taken() {
        let (mut partition, mut side) = (partition(), Side::default());
        assert_eq!(partition.stamp(record(0, 100, Some(0)), Some(Span(100)), WIDTH, &mut side), Ok(()));
        assert_eq!(partition.watermark.before_next(), Some(EventTime(95)));
    }

    #[test]
    fn a_replay_begins_at_the_first_record_that_is_still_needed() {
        let (mut partition, mut side) = (partition(), Side::default());
        for (offset, time) in [(0, 5), (1, 12), (2, 8), (3, 25), (4, 14)] {
            partition.stamp(record(offset, time, None), None, WIDTH, &mut side).unwrap();
        }
        let at = |offset, watermark: Option<i64>| Some(ReplayFrom { offset, watermark: watermark.map(EventTime) });
        assert_eq!(partition.replay_from(None, WIDTH), at(0, None));
        assert_eq!(partition.replay_from(Some(EventTime(11)), WIDTH), at(1, Some(0)));
        assert_eq!(partition.replay_from(Some(EventTime(20)), WIDTH), at(3, Some(7)));
        assert_eq!(partition.replay_from(Some(EventTime(90)), WIDTH), None);
    }
}
