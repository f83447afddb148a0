//! Dials: every number a workload depends on, and what each may be.
//!
//! One flat value for all workloads, so that a ledger can carry it and a checker can make the same log from it.
//! Doesn't know: how a value was written on a command line or in a pipeline file.
//! Keeps: a workload is only built from dials under which its promises hold (late is late, on time is not).
//! Tested: here.
use serde::{Deserialize, Serialize};

use super::Poison;
use super::clickstream::{ANCHOR_EVERY, WATERMARK_BOUND_MS};

/// 2026-01-01T00:00:00Z.
pub const BASE_TIME_MS: i64 = 1_767_225_600_000;

/// Times stay within what an i64 of nanoseconds holds, some 146 years to either side of 1970.
const TIME_LIMIT_MS: i64 = i64::MAX / 2_000_000;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Dials {
    /// Records in the log, copies and poison included.
    pub events: u64,
    pub seed: u64,
    pub partitions: u32,
    /// Roster: size of the pool that records are about.
    pub providers: u32,
    /// Clickstream: size of the pool of users.
    pub users: u64,
    /// Event time of the first record.
    pub base_time_ms: i64,
    /// Clickstream: records for each second of event time, over all partitions.
    pub event_rate: f64,
    /// Clickstream: share of late records, and the least that they are behind the newest event of their partition.
    /// They are late for sessions, and for every window no longer than `late_by_ms` less the watermark bound.
    pub late: f64,
    pub late_by_ms: u64,
    /// Clickstream: share of records out of order, and the most that they are behind.
    pub disorder: f64,
    pub disorder_within_ms: u64,
    /// Clickstream: share of copies.
    pub resent: f64,
    /// Clickstream: share of each kind of poison.
    pub poison: f64,
}

impl Default for Dials {
    fn default() -> Self {
        Dials {
            events: 0,
            seed: 1,
            partitions: 4,
            providers: 2_000,
            users: 10_000,
            base_time_ms: BASE_TIME_MS,
            event_rate: 1_000.0,
            late: 0.01,
            late_by_ms: 60_000,
            disorder: 0.05,
            disorder_within_ms: 4_000,
            resent: 0.02,
            poison: 0.001,
        }
    }
}

impl Dials {
    /// Share of clickstream records that are not new events in order.
    pub fn faults(&self) -> f64 {
        self.late + self.disorder + self.resent + self.poison * Poison::ALL.len() as f64
    }

    pub(super) fn check_partitions(&self) -> Result<(), WorkloadError> {
        within("partitions", self.partitions, 1..=10_000, "1 to 10000")
    }

    /// Roster and orders are about numbered things, and keep a table of them.
    pub(super) fn check_countable(&self) -> Result<(), WorkloadError> {
        within("events", self.events, 0..=u64::from(u32::MAX), "at most 4294967295")
    }

    pub(super) fn check_roster(&self) -> Result<(), WorkloadError> {
        within("providers", self.providers, 1..=u32::MAX, "1 or more")?;
        self.check_base_time()
    }

    pub(super) fn check_clickstream(&self) -> Result<(), WorkloadError> {
        within("users", self.users, 1..=1_000_000_000, "1 to 1000000000")?;
        within("event rate", self.event_rate, 0.001..=1e9, "0.001 to 1000000000 records a second")?;
        self.check_base_time()?;
        let span_ms = self.events as f64 / self.event_rate * 1_000.0;
        if span_ms > TIME_LIMIT_MS as f64 {
            return Err(WorkloadError::OutOfRange {
                dial: "events",
                value: self.events.to_string(),
                allowed: "so many that events ÷ event rate stays below 140 years",
            });
        }
        for (dial, share) in
            [("late", self.late), ("disorder", self.disorder), ("resent", self.resent), ("poison", self.poison)]
        {
            within(dial, share, 0.0..=1.0, "0 to 1, or 0% to 100%")?;
        }
        if self.faults() > most_faults() {
            return Err(WorkloadError::TooManyFaults { faults: self.faults() });
        }
        within_ms("late-by", self.late_by_ms, WATERMARK_BOUND_MS..=YEAR_MS, "5s (the watermark bound) to 365d")?;
        within_ms(
            "disorder-within",
            self.disorder_within_ms,
            1..=WATERMARK_BOUND_MS - 1,
            "1ms to 4999ms (below the watermark bound of 5s)",
        )
    }

    fn check_base_time(&self) -> Result<(), WorkloadError> {
        within("base-time", self.base_time_ms, -TIME_LIMIT_MS..=TIME_LIMIT_MS, "1824 to 2115")
    }
}

const YEAR_MS: u64 = 365 * 24 * 3_600_000;

/// Every `ANCHOR_EVERY`th record of a partition is on time whatever the dials say.
fn most_faults() -> f64 {
    1.0 - 1.0 / ANCHOR_EVERY as f64
}

fn within<T: PartialOrd + ToString>(
    dial: &'static str,
    value: T,
    range: std::ops::RangeInclusive<T>,
    allowed: &'static str,
) -> Result<(), WorkloadError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(WorkloadError::OutOfRange { dial, value: value.to_string(), allowed })
}

fn within_ms(
    dial: &'static str,
    value_ms: u64,
    range: std::ops::RangeInclusive<u64>,
    allowed: &'static str,
) -> Result<(), WorkloadError> {
    if range.contains(&value_ms) {
        return Ok(());
    }
    Err(WorkloadError::OutOfRange { dial, value: format!("{value_ms}ms"), allowed })
}

#[derive(Debug, PartialEq, thiserror::Error)]
pub enum WorkloadError {
    #[error("unknown workload `{name}`; there are: clickstream, roster, orders")]
    UnknownWorkload { name: String },
    #[error("{dial} can't be {value}; allowed: {allowed}")]
    OutOfRange { dial: &'static str, value: String, allowed: &'static str },
    #[error(
        "late + disorder + resent + {kinds} kinds of poison make {faults:.3} of all records; at most {most:.3} can be other than on time",
        kinds = Poison::ALL.len(),
        most = most_faults()
    )]
    TooManyFaults { faults: f64 },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_allowed() {
        assert_eq!(Dials::default().check_clickstream(), Ok(()));
    }

    #[test]
    fn late_below_the_watermark_bound_is_refused() {
        let dials = Dials { late_by_ms: 4_999, ..Dials::default() };
        let error = dials.check_clickstream().unwrap_err().to_string();
        assert_eq!(error, "late-by can't be 4999ms; allowed: 5s (the watermark bound) to 365d");
    }

    #[test]
    fn disorder_that_would_be_late_is_refused() {
        let dials = Dials { disorder_within_ms: 5_000, ..Dials::default() };
        assert!(dials.check_clickstream().is_err());
    }

    #[test]
    fn more_faults_than_room_are_refused() {
        let dials = Dials { disorder: 0.97, ..Dials::default() };
        assert!(matches!(dials.check_clickstream(), Err(WorkloadError::TooManyFaults { .. })));
    }

    #[test]
    fn an_unknown_workload_lists_those_there_are() {
        let error = "clicks".parse::<super::super::WorkloadName>().unwrap_err().to_string();
        assert_eq!(error, "unknown workload `clicks`; there are: clickstream, roster, orders");
    }
}
