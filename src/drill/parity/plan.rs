//! Where in the feed faults fall, and in which parts it is written.
//!
//! ```text
//! records  0 ───────────── gate ── place ─────────────── gate ── place ─── end
//!          one part          │ next part, the fault in it   │
//!                            └ waits until both paths show rows that they didn't at the last fault
//! ```
//! Doesn't know: records. Keeps: a fault falls while its part is written, after rows of an earlier part were visible. Tested: here.
use std::ops::Range;

/// Of all records: how far before its place a fault's part begins.
const LEAD: f64 = 0.05;

#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub records: Range<u64>,
    pub strike: Option<Strike>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Strike {
    pub share: f64,
    /// Records of the log that are written before it.
    pub place: u64,
}

/// `at`: shares of the feed, in order.
pub fn parts(events: u64, at: &[f64]) -> Vec<Part> {
    let place = |share: f64| (events as f64 * share) as u64;
    let gates: Vec<u64> = at.iter().map(|share| place((share - LEAD).max(share / 2.0))).collect();
    let strikes = at.iter().map(|share| Some(Strike { share: *share, place: place(*share) }));
    let begins = std::iter::once(0).chain(gates.iter().copied());
    let ends = gates.iter().copied().chain([events]);
    let strikes = std::iter::once(None).chain(strikes);
    begins.zip(ends).zip(strikes).map(|((begin, end), strike)| Part { records: begin..end, strike }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_fault_there_is_one_part() {
        assert_eq!(parts(100, &[]), [Part { records: 0..100, strike: None }]);
    }

    #[test]
    fn each_fault_has_a_part_that_begins_shortly_before_it() {
        let parts = parts(1_000, &[0.02, 0.5, 0.8]);
        let records: Vec<Range<u64>> = parts.iter().map(|part| part.records.clone()).collect();
        assert_eq!(records, [0..10, 10..450, 450..750, 750..1_000]);
        let places: Vec<Option<u64>> = parts.iter().map(|part| part.strike.map(|strike| strike.place)).collect();
        assert_eq!(places, [None, Some(20), Some(500), Some(800)]);
        assert!(parts.iter().all(|part| part.strike.is_none_or(|strike| part.records.contains(&strike.place))));
    }
}
