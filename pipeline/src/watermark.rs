//! How late is late: the watermark of one partition.
//!
//! Follows the largest event time seen in a partition and answers, for the next record, what watermark it meets.
//! Doesn't know: other partitions, clocks, threads, where records come from.
//! Keeps: a watermark never goes back; it depends only on the partition's own prefix and its recorded floor.
//!
//! ```text
//! offsets   0      1      2      3
//! time      10:01  10:09  10:04  10:20        bound 5 s
//! before    -      09:56  10:04  10:04        <- what `before_next` answers
//! ```
use crate::rows::WatermarkCause;
use crate::time::{EventTime, Span};

/// Largest event time of a partition's prefix, less the bound, and a floor under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionWatermark {
    pub max_seen: Option<EventTime>,
    pub bound: Span,
    pub floor: Option<Floor>,
}

/// The watermark that was in force when a partition joined or came back (DESIGN.md 5, Decisions).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor {
    pub watermark: EventTime,
    pub cause: WatermarkCause,
}

impl PartitionWatermark {
    pub fn new(bound: Span) -> Self {
        Self { max_seen: None, bound, floor: None }
    }

    /// Watermark that the next record meets: records before it only. `None` before the first record: nothing is late yet.
    pub fn before_next(&self) -> Option<EventTime> {
        self.own().max(self.floor.map(|f| f.watermark))
    }

    /// Why [`before_next`](Self::before_next) is what it is.
    pub fn cause(&self) -> WatermarkCause {
        match self.floor {
            Some(floor) if Some(floor.watermark) > self.own() => floor.cause,
            _ => WatermarkCause::Own,
        }
    }

    /// Takes a record's time into account for the records after it.
    pub fn observe(&mut self, time: EventTime) {
        self.max_seen = self.max_seen.max(Some(time));
    }

    fn own(&self) -> Option<EventTime> {
        self.max_seen.map(|t| t.minus(self.bound))
    }
}

/// Watermark of a node: the minimum over the live partitions above it, never less than before. While one of them is still without a record, it
/// stays where it was. Those that go idle at this very cut (`going`) are left out; where nobody stays live they count one last time, since what
/// they have read since the cut before has counted nowhere yet. One without a record holds back nobody then.
pub fn node_watermark(
    before: Option<EventTime>,
    live: impl IntoIterator<Item = Option<EventTime>>,
    going: impl IntoIterator<Item = Option<EventTime>>,
) -> Option<EventTime> {
    let mut live = live.into_iter().peekable();
    let lowest = match live.peek() {
        Some(_) => live.min().flatten(),
        None => going.into_iter().flatten().min(),
    };
    before.max(lowest)
}

/// Too late for a window that ends at `end` (exclusive): the window has fired or may have.
pub fn too_late_for_window(end: EventTime, watermark: Option<EventTime>) -> bool {
    watermark.is_some_and(|w| end.0.saturating_sub(1) <= w.0)
}

/// Too late for any session: one that it belongs to may have fired.
pub fn too_late_for_session(time: EventTime, watermark: Option<EventTime>) -> bool {
    watermark.is_some_and(|w| time <= w)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64, second: i64) -> EventTime {
        EventTime((600 + minute) * 60_000 + second * 1_000)
    }

    #[test]
    fn a_record_meets_the_watermark_of_the_records_before_it() {
        let mut watermark = PartitionWatermark::new(Span(5_000));
        let met: Vec<_> = [at(0, 1), at(0, 9), at(0, 4), at(0, 20)]
            .into_iter()
            .map(|t| {
                let met = watermark.before_next();
                watermark.observe(t);
                met
            })
            .collect();
        assert_eq!(met, [None, Some(at(-1, 56)), Some(at(0, 4)), Some(at(0, 4))]);
    }

    #[test]
    fn a_floor_holds_until_the_partition_outruns_it() {
        let mut watermark = PartitionWatermark::new(Span(5_000));
        watermark.floor = Some(Floor { watermark: at(1, 0), cause: WatermarkCause::Joined });
        watermark.observe(at(0, 30));
        assert_eq!((watermark.before_next(), watermark.cause()), (Some(at(1, 0)), WatermarkCause::Joined));
        watermark.observe(at(1, 6));
        assert_eq!((watermark.before_next(), watermark.cause()), (Some(at(1, 1)), WatermarkCause::Own));
    }

    #[test]
    fn a_partition_that_has_just_reached_its_floor_is_late_by_its_own_records() {
        let mut watermark = PartitionWatermark::new(Span(5_000));
        watermark.floor = Some(Floor { watermark: at(1, 0), cause: WatermarkCause::Returned });
        watermark.observe(at(1, 5));
        assert_eq!((watermark.before_next(), watermark.cause()), (Some(at(1, 0)), WatermarkCause::Own));
    }

    #[test]
    fn a_node_waits_for_the_partition_that_has_seen_nothing() {
        assert_eq!(node_watermark(None, [Some(at(1, 0)), None], []), None);
        assert_eq!(node_watermark(Some(at(0, 1)), [Some(at(1, 0)), None], []), Some(at(0, 1)));
        assert_eq!(node_watermark(Some(at(0, 1)), [], []), Some(at(0, 1)));
        assert_eq!(node_watermark(Some(at(2, 0)), [Some(at(1, 0))], []), Some(at(2, 0)), "never back");
    }

    #[test]
    fn the_last_that_go_idle_count_once_more() {
        assert_eq!(node_watermark(None, [], [Some(at(2, 0)), None, Some(at(1, 0))]), Some(at(1, 0)));
        assert_eq!(node_watermark(Some(at(0, 1)), [], [Some(at(1, 0))]), Some(at(1, 0)));
        assert_eq!(node_watermark(Some(at(2, 0)), [], [Some(at(1, 0))]), Some(at(2, 0)), "never back");
        assert_eq!(node_watermark(None, [], [None]), None, "nobody has seen a record");
    }

    #[test]
    fn one_that_goes_idle_is_left_behind_by_those_that_stay() {
        assert_eq!(node_watermark(None, [Some(at(2, 0))], [Some(at(1, 0)), None]), Some(at(2, 0)));
        assert_eq!(node_watermark(None, [None], [Some(at(1, 0))]), None, "one that stays holds it still");
    }

    #[test]
    fn a_record_on_the_watermark_is_late_for_its_session() {
        assert!(too_late_for_session(at(0, 1), Some(at(0, 1))));
        assert!(!too_late_for_session(at(0, 1), Some(at(0, 0))));
        assert!(!too_late_for_session(at(0, 1), None));
    }

    #[test]
    fn a_window_is_closed_by_the_watermark_of_its_last_millisecond() {
        let end = at(0, 10);
        assert!(!too_late_for_window(end, Some(EventTime(end.0 - 2))));
        assert!(too_late_for_window(end, Some(EventTime(end.0 - 1))));
    }
}
