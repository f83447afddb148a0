//! The ledger: what a log holds, kind by kind, to hold tables against.
//!
//! It carries its dials, so a checker can make every record again; the offsets of faults are listed, ids follow from them.
//! For a pipeline that read the whole log: decoded = records − poison, errors = poison, duplicates = resent, unique = events,
//! and under a 5 s bound, records with event time ≤ their partition's watermark = late.
//! Doesn't know: where the log was written, except at which offsets it begins.
//! Keeps: records = events + resent + poison, in each partition and in all; derived from dials it equals the one kept while writing.
//! Tested: here.
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::dials::{Dials, WorkloadError};
use super::{Fate, Poison, Workload, WorkloadName};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ledger {
    pub workload: WorkloadName,
    pub dials: Dials,
    /// Sums over the partitions.
    pub total: Counts,
    pub partitions: Vec<PartitionLedger>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub records: u64,
    /// Distinct events that can be decoded, late ones too.
    pub events: u64,
    pub late: u64,
    pub out_of_order: u64,
    pub resent: u64,
    pub poison: u64,
    pub poison_by_kind: BTreeMap<Poison, u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionLedger {
    pub partition: u32,
    /// Offset of the log's first record: not 0 where the partition already held some. All offsets below count from the partition's start.
    pub first_offset: u64,
    pub counts: Counts,
    pub late_offsets: Vec<u64>,
    /// Offset of a copy, offset of its original.
    pub resent_offsets: Vec<(u64, u64)>,
    pub poison_offsets: Vec<(u64, Poison)>,
}

impl Ledger {
    /// A ledger of no records yet.
    pub fn new(workload: WorkloadName, dials: &Dials) -> Self {
        Ledger {
            workload,
            dials: dials.clone(),
            total: Counts::default(),
            partitions: (0..dials.partitions)
                .map(|partition| PartitionLedger { partition, ..PartitionLedger::default() })
                .collect(),
        }
    }

    /// The ledger of the whole log, from its dials alone.
    pub fn derive(workload: WorkloadName, dials: &Dials) -> Result<Self, WorkloadError> {
        let log = workload.build(dials)?;
        let mut ledger = Ledger::new(workload, dials);
        for index in 0..log.records() {
            ledger.note(log.as_ref(), index);
        }
        Ok(ledger)
    }

    /// Takes in the record at `index`; indexes come in order.
    pub fn note(&mut self, log: &dyn Workload, index: u64) {
        let fate = log.fate(index);
        self.total.note(fate);
        if let Some(partition) = self.partitions.get_mut(log.partition_of(index) as usize) {
            partition.note(fate);
        }
    }
}

impl Counts {
    fn note(&mut self, fate: Fate) {
        self.records += 1;
        match fate {
            Fate::OnTime => self.events += 1,
            Fate::OutOfOrder => {
                self.events += 1;
                self.out_of_order += 1;
            }
            Fate::Late => {
                self.events += 1;
                self.late += 1;
            }
            Fate::Resent { .. } => self.resent += 1,
            Fate::Poison(poison) => {
                self.poison += 1;
                *self.poison_by_kind.entry(poison).or_default() += 1;
            }
        }
    }
}

impl PartitionLedger {
    fn note(&mut self, fate: Fate) {
        let offset = self.first_offset + self.counts.records;
        self.counts.note(fate);
        match fate {
            Fate::OnTime | Fate::OutOfOrder => {}
            Fate::Late => self.late_offsets.push(offset),
            Fate::Resent { original } => {
                self.resent_offsets.push((offset, self.first_offset + original));
            }
            Fate::Poison(poison) => self.poison_offsets.push((offset, poison)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dials() -> Dials {
        Dials { events: 20_000, partitions: 3, ..Dials::default() }
    }

    #[test]
    fn records_are_events_copies_and_poison() {
        let ledger = Ledger::derive(WorkloadName::Clickstream, &dials()).unwrap();
        let mut sum = 0;
        for partition in &ledger.partitions {
            let counts = &partition.counts;
            assert_eq!(counts.records, counts.events + counts.resent + counts.poison);
            assert_eq!(counts.late, partition.late_offsets.len() as u64);
            assert_eq!(counts.poison, counts.poison_by_kind.values().sum::<u64>());
            sum += counts.records;
        }
        assert_eq!((sum, ledger.total.records), (20_000, 20_000));
    }

    #[test]
    fn a_ledger_read_back_makes_the_same_log() {
        let ledger = Ledger::derive(WorkloadName::Clickstream, &dials()).unwrap();
        let read: Ledger = serde_json::from_str(&serde_json::to_string(&ledger).unwrap()).unwrap();
        assert_eq!(read, ledger);
        assert_eq!(Ledger::derive(read.workload, &read.dials).unwrap(), ledger);
    }

    #[test]
    fn offsets_count_from_where_the_log_begins() {
        let log = WorkloadName::Clickstream.build(&dials()).unwrap();
        let mut later = Ledger::new(WorkloadName::Clickstream, &dials());
        later.partitions.iter_mut().for_each(|partition| partition.first_offset = 1_000);
        (0..log.records()).for_each(|index| later.note(log.as_ref(), index));
        let first = Ledger::derive(WorkloadName::Clickstream, &dials()).unwrap();
        for (later, first) in later.partitions.iter().zip(&first.partitions) {
            let moved: Vec<u64> = first.late_offsets.iter().map(|offset| offset + 1_000).collect();
            assert_eq!(later.late_offsets, moved);
            assert_eq!(later.counts, first.counts);
        }
    }

    #[test]
    fn every_order_and_roster_record_is_an_event() {
        for workload in [WorkloadName::Roster, WorkloadName::Orders] {
            let total = Ledger::derive(workload, &Dials { events: 500, ..dials() }).unwrap().total;
            assert_eq!((total.records, total.events), (500, 500));
        }
    }
}
