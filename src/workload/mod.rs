//! Workloads: logs that are known before they are written.
//!
//! A workload answers what record stands at an index, a pure function of its dials, so any record can be made again, alone and in any
//! order: by `floodmark generate`, by the generator source that resumes at an offset, and by whoever checks a table against the log.
//! Doesn't know: Kafka, files, the engine, the clock.
//! Keeps: same dials, same bytes; a partition's offsets are 0, 1, 2, … in index order.
//! Tested: workload/*/tests.rs (golden vectors, lateness rules), tests in `ledger.rs` (written and derived ledgers agree).
pub mod clickstream;
pub mod dials;
pub mod ledger;
pub mod orders;
pub mod partitioner;
mod python_random;
pub mod roster;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use clickstream::Clickstream;
use dials::{Dials, WorkloadError};
use orders::Orders;
use roster::Roster;

/// One record of a log. Its buffers are filled again for the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub partition: u32,
    pub timestamp_ms: i64,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

/// What a record is to a pipeline that reads the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A new event in order.
    OnTime,
    /// A new event behind the newest one of its partition, but ahead of the watermark.
    OutOfOrder,
    /// A new event at or behind its partition's watermark.
    Late,
    /// A byte-equal copy of the on-time or out-of-order event at offset `original` of the same partition.
    Resent { original: u64 },
    /// A record that can't be decoded.
    Poison(Poison),
}

/// Ways in which a record can't be decoded. Each hits a field that every schema of the workload has: `event_id` or `event_time_ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Poison {
    BadJson,
    MissingField,
    NullInRequired,
    WrongType,
    NumberTooLarge,
    InvalidUtf8,
    EmptyValue,
}

impl Poison {
    pub const ALL: [Poison; 7] = [
        Poison::BadJson,
        Poison::MissingField,
        Poison::NullInRequired,
        Poison::WrongType,
        Poison::NumberTooLarge,
        Poison::InvalidUtf8,
        Poison::EmptyValue,
    ];
}

/// A log of `records()` records. An index is a record's place in the order of writing; with its partition's offsets it is one to one.
pub trait Workload: Send + Sync {
    fn records(&self) -> u64;

    fn partition_of(&self, index: u64) -> u32;

    /// Index of the record at an offset of a partition; `None` at and past the partition's end.
    fn index_of(&self, partition: u32, offset: u64) -> Option<u64>;

    fn fate(&self, index: u64) -> Fate;

    /// Fills `out` with the record at `index`, which must be below `records()`.
    fn record(&self, index: u64, out: &mut Record);
}

/// Names under which workloads are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkloadName {
    Clickstream,
    Roster,
    Orders,
}

impl WorkloadName {
    pub const ALL: [WorkloadName; 3] = [WorkloadName::Clickstream, WorkloadName::Roster, WorkloadName::Orders];

    pub fn as_str(self) -> &'static str {
        match self {
            WorkloadName::Clickstream => "clickstream",
            WorkloadName::Roster => "roster",
            WorkloadName::Orders => "orders",
        }
    }

    pub fn build(self, dials: &Dials) -> Result<Box<dyn Workload>, WorkloadError> {
        Ok(match self {
            WorkloadName::Clickstream => Box::new(Clickstream::new(dials)?),
            WorkloadName::Roster => Box::new(Roster::new(dials)?),
            WorkloadName::Orders => Box::new(Orders::new(dials)?),
        })
    }
}

impl fmt::Display for WorkloadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for WorkloadName {
    type Err = WorkloadError;

    fn from_str(name: &str) -> Result<Self, WorkloadError> {
        WorkloadName::ALL
            .into_iter()
            .find(|known| known.as_str() == name)
            .ok_or_else(|| WorkloadError::UnknownWorkload { name: name.into() })
    }
}
