//! Who must wait: watermark alignment of one source's partitions.
//!
//! A partition that is further ahead of the slowest one than `align` isn't read until the others have caught up, so what windows and dedup hold of times
//! that the slowest one hasn't reached stays bounded. It decides when a record is read and never what becomes of it.
//! Doesn't know: workers, readers, barriers. Keeps: the slowest partition that has something to read never waits, so one can always be read.
//!
//! ```text
//! align 10 s     a 10:00:03 (slowest)    b 10:00:09 reads on    c 10:00:14 waits    d 09:00:00, nothing to read: holds nobody
//! ```
use crate::time::{EventTime, Span};

/// A partition as the others see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// What its next record meets; `None`: none has come yet, so it is behind all others.
    pub watermark: Option<EventTime>,
    /// It has something to read, as far as is known. One that hasn't holds nobody.
    pub has_more: bool,
}

/// How far a partition may be and still be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Nobody has anything to read that others could wait for.
    Any,
    /// The slowest one has given no record yet: only such are read.
    BeforeFirst,
    UpTo(EventTime),
}

/// The reach that `align` gives to partitions which stand like this.
pub fn reach(standings: impl IntoIterator<Item = Standing>, align: Span) -> Reach {
    let slowest = standings.into_iter().filter(|s| s.has_more).map(|s| s.watermark).min();
    match slowest {
        None => Reach::Any,
        Some(None) => Reach::BeforeFirst,
        Some(Some(watermark)) => Reach::UpTo(watermark.plus(align)),
    }
}

impl Reach {
    /// Whether a partition at this watermark must wait.
    pub fn is_short_of(self, watermark: Option<EventTime>) -> bool {
        match (self, watermark) {
            (Self::Any, _) | (_, None) => false,
            (Self::BeforeFirst, Some(_)) => true,
            (Self::UpTo(limit), Some(watermark)) => watermark > limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALIGN: Span = Span(10);

    fn at(watermark: i64) -> Standing {
        Standing { watermark: Some(EventTime(watermark)), has_more: true }
    }

    fn drained(watermark: i64) -> Standing {
        Standing { has_more: false, ..at(watermark) }
    }

    const UNREAD: Standing = Standing { watermark: None, has_more: true };

    /// Which of these wait.
    fn waiting(standings: &[Standing]) -> Vec<bool> {
        let reach = reach(standings.iter().copied(), ALIGN);
        standings.iter().map(|s| reach.is_short_of(s.watermark)).collect()
    }

    #[test]
    fn who_is_further_ahead_of_the_slowest_than_allowed_waits() {
        assert_eq!(waiting(&[at(3), at(13), at(14)]), [false, false, true]);
    }

    #[test]
    fn a_single_partition_never_waits() {
        assert_eq!(waiting(&[at(500)]), [false]);
        assert_eq!(waiting(&[drained(500)]), [false]);
        assert_eq!(waiting(&[UNREAD]), [false]);
    }

    #[test]
    fn one_without_anything_to_read_holds_nobody() {
        assert_eq!(waiting(&[drained(0), at(100), at(105)]), [false, false, false]);
        assert_eq!(waiting(&[drained(0), drained(100)]), [false, false]);
    }

    #[test]
    fn one_that_gave_no_record_yet_is_the_slowest() {
        assert_eq!(waiting(&[UNREAD, at(0), UNREAD]), [false, true, false]);
    }

    #[test]
    fn whatever_they_stand_at_one_with_something_to_read_is_read() {
        let some = [UNREAD, at(0), at(9), at(40), drained(0), drained(90)];
        for a in some {
            for b in some {
                for c in some {
                    let all = [a, b, c];
                    let waits = waiting(&all);
                    let stuck = all.iter().zip(&waits).all(|(s, waits)| !s.has_more || *waits);
                    assert!(!stuck || all.iter().all(|s| !s.has_more), "{all:?}");
                }
            }
        }
    }

    #[test]
    fn a_wild_time_wraps_nowhere() {
        assert_eq!(waiting(&[at(i64::MAX), at(i64::MIN)]), [true, false]);
        assert_eq!(waiting(&[at(i64::MAX), at(i64::MAX - 3)]), [false, false]);
    }
}
