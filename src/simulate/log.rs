//! The simulated log: partitions of a topic that grow, in transactions or without, have holes, lose their beginning, and are joined by others.
//!
//! ```text
//!   offset   0       1         2        3        4          5
//!            record  record    hole     record   pending    pending      (a hole: an aborted record, or a transaction's end)
//!            ^ start                             ^ stable end: what is not decided isn't handed out
//! ```
//! Doesn't know: what is in the records. Keeps: what any log keeps. Tested: the runs that read it.
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use floodmark_pipeline::ids::{PartitionIndex, PartitionName};

use super::executor::ProcessId;
use super::gate::{Class, Fate, Gate, Place};
use crate::config::model::{End, Start};
use crate::source::{Log, PartitionInfo, Position, Progress, RawBatch, RawRecord, Reader, SourceError};

pub const SOURCE: &str = "events";
pub const TOPIC: &str = "t";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub value: String,
    pub timestamp_ms: i64,
}

/// The content; a clone is the same log.
#[derive(Clone, Default)]
pub struct Topic(Arc<Mutex<Content>>);

#[derive(Default)]
struct Content {
    /// Of the topic: another after it was deleted and made again.
    identity: u32,
    partitions: Vec<Partition>,
}

#[derive(Clone, Default)]
struct Partition {
    /// From offset 0 on; `None`: a hole.
    slots: Vec<Option<Entry>>,
    /// Offsets from here on belong to a transaction that is open.
    pending_from: Option<usize>,
    start: usize,
}

impl Partition {
    fn stable_end(&self) -> usize {
        self.pending_from.unwrap_or(self.slots.len())
    }
}

impl Topic {
    pub fn new(partitions: usize) -> Self {
        Self(Arc::new(Mutex::new(Content { identity: 1, partitions: vec![Partition::default(); partitions] })))
    }

    fn with<T>(&self, look: impl FnOnce(&mut Content) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn append(&self, partition: usize, entries: impl IntoIterator<Item = Entry>) {
        self.with(|content| content.partitions[partition].slots.extend(entries.into_iter().map(Some)));
    }

    /// The same as the records of a transaction that isn't over.
    pub fn begin(&self, partition: usize, entries: impl IntoIterator<Item = Entry>) {
        self.with(|content| {
            let partition = &mut content.partitions[partition];
            partition.pending_from.get_or_insert(partition.slots.len());
            partition.slots.extend(entries.into_iter().map(Some));
        });
    }

    /// The open transaction is committed or aborted; a control record takes an offset of its own.
    pub fn close(&self, partition: usize, commit: bool) {
        self.with(|content| {
            let partition = &mut content.partitions[partition];
            if let Some(from) = partition.pending_from.take() {
                if !commit {
                    partition.slots[from..].fill(None);
                }
                partition.slots.push(None);
            }
        });
    }

    pub fn add_partition(&self) {
        self.with(|content| content.partitions.push(Partition::default()));
    }

    /// Retention: what lies before this offset is gone.
    pub fn truncate(&self, partition: usize, start: usize) {
        self.with(|content| {
            let partition = &mut content.partitions[partition];
            partition.start = partition.start.max(start.min(partition.stable_end()));
        });
    }

    /// Deleted and made again under its name, with other records.
    pub fn recreate(&self, records: impl IntoIterator<Item = Entry>) {
        self.with(|content| {
            content.identity += 1;
            let records: Vec<_> = records.into_iter().map(Some).collect();
            content
                .partitions
                .iter_mut()
                .for_each(|p| *p = Partition { slots: records.clone(), ..Partition::default() });
        });
    }

    /// Where each partition ends, as far as it can be read.
    pub fn ends(&self) -> Vec<i64> {
        self.with(|content| content.partitions.iter().map(|p| p.stable_end() as i64).collect())
    }

    /// Every record that can be read, by partition and offset.
    pub fn records(&self) -> Vec<(i32, i64, Entry)> {
        self.with(|content| {
            let of = |(number, partition): (usize, &Partition)| {
                let slots = partition.slots[..partition.stable_end()].iter().enumerate();
                let found = slots.filter_map(move |(offset, slot)| Some((number as i32, offset as i64, slot.clone()?)));
                found.collect::<Vec<_>>()
            };
            content.partitions.iter().enumerate().flat_map(of).collect()
        })
    }

    pub fn name(partition: usize) -> PartitionName {
        PartitionName { source: SOURCE.into(), topic: TOPIC.into(), partition: partition as i32 }
    }
}

/// The log as one process sees it.
#[derive(Clone)]
pub struct SimulatedLog {
    pub topic: Topic,
    pub gate: Gate,
    pub process: ProcessId,
}

impl SimulatedLog {
    /// A log to which nothing happens.
    #[cfg(test)]
    pub fn undisturbed(topic: &Topic) -> Self {
        Self { topic: topic.clone(), gate: Gate::new(super::executor::Executor::new(0), vec![]), process: 0 }
    }
}

#[async_trait]
impl Log for SimulatedLog {
    async fn partitions(&self) -> Result<Vec<PartitionInfo>, SourceError> {
        if let Fate::Refused(why) = self.gate.request(self.process, Class::AskLog, "log: ask".into()).await {
            return Err(SourceError::Away("sim:9092".into(), why.into()));
        }
        Ok(self.topic.with(|content| {
            let identity = content.identity.to_string();
            let info = |(number, p): (usize, &Partition)| PartitionInfo {
                name: Topic::name(number),
                identity: identity.clone(),
                start: p.start as i64,
                end: p.stable_end() as i64,
            };
            content.partitions.iter().enumerate().map(info).collect()
        }))
    }

    async fn resolve_start(&self, _: &Start, of: &[PartitionInfo]) -> Result<Vec<Position>, SourceError> {
        Ok(of.iter().map(|info| Position { offset: info.start, resume: vec![] }).collect())
    }

    async fn resolve_end(&self, end: &End, of: &[PartitionInfo]) -> Result<Vec<Option<i64>>, SourceError> {
        Ok(of.iter().map(|info| (*end != End::Never).then_some(info.end)).collect())
    }

    fn reader(&self) -> Result<Box<dyn Reader>, SourceError> {
        Ok(Box::new(SimulatedReader { log: self.clone(), assigned: vec![], turn: 0 }))
    }

    async fn report(&self, _: &[(PartitionName, i64)]) -> Result<(), SourceError> {
        Ok(())
    }
}

struct SimulatedReader {
    log: SimulatedLog,
    assigned: Vec<Assigned>,
    turn: usize,
}

struct Assigned {
    partition: PartitionIndex,
    number: usize,
    next: usize,
    end: Option<usize>,
    paused: bool,
}

impl SimulatedReader {
    fn find(&self, partition: PartitionIndex) -> Option<&Assigned> {
        self.assigned.iter().find(|a| a.partition == partition)
    }

    /// Up to where a partition can be read now.
    fn there(&self, assigned: &Assigned) -> usize {
        let stable = self.log.topic.with(|content| content.partitions[assigned.number].stable_end());
        assigned.end.map_or(stable, |end| end.min(stable))
    }

    /// The next records of one partition, and the position behind them: past holes too where nothing else is there.
    fn fetch(&self, place: usize, most: usize) -> Result<(usize, Vec<(i64, Entry)>), SourceError> {
        let assigned = &self.assigned[place];
        let there = self.there(assigned);
        self.log.topic.with(|content| {
            let partition = &content.partitions[assigned.number];
            let (offset, start) = (assigned.next as i64, partition.start as i64);
            if offset < start {
                return Err(SourceError::BelowStart { partition: Topic::name(assigned.number), offset, start });
            }
            let (mut next, mut found) = (assigned.next, vec![]);
            while next < there && found.len() < most {
                found.extend(partition.slots[next].clone().map(|entry| (next as i64, entry)));
                next += 1;
            }
            Ok((next, found))
        })
    }
}

impl Reader for SimulatedReader {
    fn assign(
        &mut self,
        partition: PartitionIndex,
        name: &PartitionName,
        from: &Position,
        end: Option<i64>,
    ) -> Result<(), SourceError> {
        self.assigned.retain(|a| a.partition != partition);
        let (number, next) = (name.partition as usize, from.offset as usize);
        let end = end.map(|end| end as usize);
        self.assigned.push(Assigned { partition, number, next, end, paused: false });
        Ok(())
    }

    fn pause(&mut self, partition: PartitionIndex, paused: bool) -> Result<(), SourceError> {
        self.assigned.iter_mut().filter(|a| a.partition == partition).for_each(|a| a.paused = paused);
        Ok(())
    }

    /// One batch of one partition, in turn.
    fn poll(&mut self, max_records: usize, take: &mut dyn FnMut(RawBatch<'_>)) -> Result<usize, SourceError> {
        if self.log.gate.is_away(Place::Log) {
            return Ok(0);
        }
        for _ in 0..self.assigned.len() {
            let place = self.turn % self.assigned.len();
            self.turn += 1;
            if self.assigned[place].paused {
                continue;
            }
            let (next, found) = self.fetch(place, max_records)?;
            self.assigned[place].next = next;
            if found.is_empty() {
                continue;
            }
            let mut records = vec![];
            for (offset, entry) in &found {
                let (offset, payload, timestamp_ms) = (*offset, Some(entry.value.as_bytes()), Some(entry.timestamp_ms));
                records.push(RawRecord { offset, payload, timestamp_ms, ..RawRecord::default() });
            }
            take(RawBatch { partition: self.assigned[place].partition, records: &records });
            return Ok(records.len());
        }
        Ok(0)
    }

    fn progress(&self, partition: PartitionIndex) -> Option<Progress> {
        let assigned = self.find(partition)?;
        let position = Position { offset: assigned.next as i64, resume: vec![] };
        Some(Progress { position, ended: assigned.end.is_some_and(|end| assigned.next >= end) })
    }

    fn drained(&self, partition: PartitionIndex) -> bool {
        self.find(partition).is_some_and(|assigned| assigned.next >= self.there(assigned))
    }

    fn trouble(&self) -> Option<String> {
        self.log.gate.is_away(Place::Log).then(|| "sim:9092: not reachable".to_owned())
    }
}
