//! What is done to both paths at a place of the feed, and what was seen of it.
//!
//! Doesn't know: how a path does it to itself. Keeps: a fault that wasn't seen to happen fails the run. Tested: here, tests/flink/main.rs.
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

/// How long a frozen path stands still.
pub const FREEZE: Duration = Duration::from_secs(30);
/// How long the third of three brokers is away.
pub const BROKER_AWAY: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// Nothing
    None,
    /// SIGKILL: Flink's TaskManager, floodmark
    Kill,
    /// SIGKILL: Flink's JobManager, whose job is submitted again from its newest checkpoint; floodmark
    JobManager,
    /// SIGKILL: one of three brokers, for ten seconds
    Broker,
    /// SIGSTOP for 30 s: Flink's TaskManager, floodmark
    Freeze,
    /// Stopped with a savepoint, and started from it; floodmark by SIGTERM, whose last checkpoint is one
    Savepoint,
}

impl Fault {
    /// In the words of a run's name.
    pub fn name(self) -> &'static str {
        match self {
            Fault::None => "none",
            Fault::Kill => "kill",
            Fault::JobManager => "job-manager",
            Fault::Broker => "broker",
            Fault::Freeze => "freeze",
            Fault::Savepoint => "savepoint",
        }
    }

    /// Whether the feed stands still until both are back. A task of Flink that has lost its JobManager must not come to the log's end: it would commit there, by
    /// itself, what the job that is submitted again commits too (docs/PARITY.md).
    pub fn holds_the_feed(self) -> bool {
        self == Fault::JobManager
    }

    /// Whether Flink's job goes on from a checkpoint or savepoint afterwards.
    pub fn restores_flink(self) -> bool {
        matches!(self, Fault::Kill | Fault::JobManager | Fault::Savepoint)
    }
}

/// A fault that one path has been through.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Struck {
    pub path: &'static str,
    pub fault: Fault,
    /// Of the feed.
    pub share: f64,
    /// Since the feed began.
    pub at_ms: u64,
    /// Rows of the watched table when it was hit: what was there before is there still.
    pub rows: u64,
    /// That it happened, as it was seen.
    pub seen: String,
    /// From the hit to the first rows that weren't visible then.
    pub new_rows_after_ms: Option<u64>,
}

impl Struck {
    /// A hit before the first row or after the last one shows nothing.
    pub fn is_within(&self, all: u64) -> bool {
        0 < self.rows && self.rows < all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_before_the_first_or_after_the_last_row_does_not_count() {
        let struck = |rows| Struck {
            path: "flink",
            fault: Fault::Kill,
            share: 0.5,
            at_ms: 1,
            rows,
            seen: String::new(),
            new_rows_after_ms: None,
        };
        assert_eq!([0, 1, 9, 10].map(|rows| struck(rows).is_within(10)), [false, true, true, false]);
    }
}
