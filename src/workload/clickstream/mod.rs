//! Clickstream: what a shop's visitors do, with the faults of a real log, each of them known.
//!
//! Each partition is a sequence of its own; the record at (partition, offset) is drawn from a hash of seed, partition and offset.
//! Doesn't know: Kafka, files, windows, the engine's watermarks.
//! Keeps, for the watermark of a partition (largest event time before the record, less 5 s):
//!   a `Late` record is at or behind it; every other decodable record, copies too, is ahead of it;
//!   an `OutOfOrder` record is behind the largest event time; an `OnTime` one is not;
//!   event ids are distinct, and each hashes (murmur2) to the partition it stands in.
//! By construction: only on-time records move the largest event time, and every 32nd record is one, so the largest event time before any
//! record is found by a short walk back, and late, out of order and resent are measured from it.
//! Tested: clickstream/tests.rs.
mod fates;
mod identity;
mod json;
mod visits;

use super::dials::{Dials, WorkloadError};
use super::{Fate, Record, Workload};
use fates::Fates;
use identity::Identities;
use visits::Visits;

pub use identity::EventId;

/// The watermark bound that the workload's lateness is made for: `watermark = { bound = "5s" }`.
pub const WATERMARK_BOUND_MS: u64 = 5_000;

/// Every so many records of a partition, one is on time whatever the dials say.
pub const ANCHOR_EVERY: u64 = 32;

pub struct Clickstream {
    events: u64,
    partitions: u32,
    fates: Fates,
    identities: Identities,
    visits: Visits,
}

/// A new event as a reader of the log should find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub partition: u32,
    pub offset: u64,
    pub event_id: EventId,
    pub event_time_ms: i64,
    pub late: bool,
}

impl Clickstream {
    pub fn new(dials: &Dials) -> Result<Self, WorkloadError> {
        dials.check_partitions()?;
        dials.check_clickstream()?;
        Ok(Clickstream {
            events: dials.events,
            partitions: dials.partitions,
            fates: Fates::new(dials),
            identities: Identities::new(dials.partitions),
            visits: Visits::new(dials),
        })
    }

    /// Largest event time of the partition before `offset`, less the bound; `None` before the first record.
    pub fn watermark_before(&self, partition: u32, offset: u64) -> Option<i64> {
        let newest = self.fates.newest_before(partition, offset)?;
        Some(newest - WATERMARK_BOUND_MS as i64)
    }

    /// Event time of a record; of a poison record the time at which it was logged.
    pub fn time_ms(&self, partition: u32, offset: u64) -> i64 {
        self.fates.time_ms(partition, offset, self.fates.fate(partition, offset))
    }

    /// The `event_id` and key of a record. A copy has its original's.
    pub fn event_id(&self, partition: u32, offset: u64) -> EventId {
        let offset = match self.fates.fate(partition, offset) {
            Fate::Resent { original } => original,
            _ => offset,
        };
        self.identities.event_id(partition, self.fates.draw(partition, offset))
    }

    /// Every event that a deduplicated reading of the log holds, once, at its first place.
    pub fn events(&self) -> impl Iterator<Item = Event> + '_ {
        (0..self.events).filter_map(|index| {
            let (partition, offset) = self.place(index);
            let fate = self.fates.fate(partition, offset);
            let is_event = matches!(fate, Fate::OnTime | Fate::OutOfOrder | Fate::Late);
            is_event.then(|| Event {
                partition,
                offset,
                event_id: self.identities.event_id(partition, self.fates.draw(partition, offset)),
                event_time_ms: self.fates.time_ms(partition, offset, fate),
                late: fate == Fate::Late,
            })
        })
    }

    fn place(&self, index: u64) -> (u32, u64) {
        let partitions = u64::from(self.partitions);
        ((index % partitions) as u32, index / partitions)
    }
}

impl Workload for Clickstream {
    fn records(&self) -> u64 {
        self.events
    }

    fn partition_of(&self, index: u64) -> u32 {
        self.place(index).0
    }

    fn index_of(&self, partition: u32, offset: u64) -> Option<u64> {
        let index = offset.checked_mul(u64::from(self.partitions))?.checked_add(u64::from(partition))?;
        (partition < self.partitions && index < self.events).then_some(index)
    }

    fn fate(&self, index: u64) -> Fate {
        let (partition, offset) = self.place(index);
        self.fates.fate(partition, offset)
    }

    fn record(&self, index: u64, out: &mut Record) {
        let (partition, mut offset) = self.place(index);
        let mut fate = self.fates.fate(partition, offset);
        if let Fate::Resent { original } = fate {
            offset = original;
            fate = self.fates.fate(partition, offset);
        }
        let draw = self.fates.draw(partition, offset);
        let event_id = self.identities.event_id(partition, draw);
        out.partition = partition;
        out.timestamp_ms = self.fates.time_ms(partition, offset, fate);
        out.key.clear();
        out.key.extend_from_slice(event_id.as_bytes());
        let click = json::Click {
            event_id: &event_id,
            user: self.visits.user_at(out.timestamp_ms, draw),
            event_time_ms: out.timestamp_ms,
            draw,
        };
        out.value.clear();
        match fate {
            Fate::Poison(poison) => click.write_poison(poison, &mut out.value),
            _ => click.write(&mut out.value),
        }
    }
}

#[cfg(test)]
mod tests;
