//! A log in memory, for tests: it outlives whoever reads it, and nobody else changes it.
//!
//! Keeps: what any log keeps.
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use floodmark_pipeline::ids::{PartitionIndex, PartitionName};

use super::{Log, PartitionInfo, Position, Progress, RawBatch, RawRecord, Reader, SourceError};
use crate::config::model::{End, Start};

/// A clone is the same log.
#[derive(Clone)]
pub struct MemoryLog {
    source: String,
    partitions: Arc<Mutex<Vec<Vec<String>>>>,
}

impl MemoryLog {
    pub fn new(source: &str, partitions: usize) -> Self {
        Self { source: source.into(), partitions: Arc::new(Mutex::new(vec![vec![]; partitions])) }
    }

    pub fn append(&self, partition: usize, payloads: impl IntoIterator<Item = String>) {
        self.with(|partitions| partitions[partition].extend(payloads));
    }

    pub fn name(&self, partition: usize) -> PartitionName {
        PartitionName { source: self.source.clone(), topic: "t".into(), partition: partition as i32 }
    }

    fn with<T>(&self, look: impl FnOnce(&mut Vec<Vec<String>>) -> T) -> T {
        look(&mut self.partitions.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl Log for MemoryLog {
    async fn partitions(&self) -> Result<Vec<PartitionInfo>, SourceError> {
        let ends = self.with(|partitions| partitions.iter().map(|p| p.len() as i64).collect::<Vec<_>>());
        let info = |(number, end)| PartitionInfo { name: self.name(number), identity: String::new(), start: 0, end };
        Ok(ends.into_iter().enumerate().map(info).collect())
    }

    async fn resolve_start(&self, _: &Start, of: &[PartitionInfo]) -> Result<Vec<Position>, SourceError> {
        Ok(vec![Position::default(); of.len()])
    }

    async fn resolve_end(&self, end: &End, of: &[PartitionInfo]) -> Result<Vec<Option<i64>>, SourceError> {
        Ok(of.iter().map(|info| (*end != End::Never).then_some(info.end)).collect())
    }

    fn reader(&self) -> Result<Box<dyn Reader>, SourceError> {
        Ok(Box::new(MemoryReader { log: self.clone(), assigned: vec![], turn: 0 }))
    }

    async fn report(&self, _: &[(PartitionName, i64)]) -> Result<(), SourceError> {
        Ok(())
    }
}

struct MemoryReader {
    log: MemoryLog,
    assigned: Vec<Assigned>,
    turn: usize,
}

struct Assigned {
    partition: PartitionIndex,
    number: usize,
    offset: i64,
    end: Option<i64>,
    paused: bool,
}

impl MemoryReader {
    fn find(&self, partition: PartitionIndex) -> Option<&Assigned> {
        self.assigned.iter().find(|a| a.partition == partition)
    }

    /// Up to where a partition can be read now.
    fn there(&self, assigned: &Assigned) -> i64 {
        let length = self.log.with(|partitions| partitions[assigned.number].len() as i64);
        assigned.end.map_or(length, |end| end.min(length))
    }
}

impl Reader for MemoryReader {
    fn assign(
        &mut self,
        partition: PartitionIndex,
        name: &PartitionName,
        from: &Position,
        end: Option<i64>,
    ) -> Result<(), SourceError> {
        self.assigned.retain(|a| a.partition != partition);
        let (number, offset) = (name.partition as usize, from.offset);
        self.assigned.push(Assigned { partition, number, offset, end, paused: false });
        Ok(())
    }

    fn pause(&mut self, partition: PartitionIndex, paused: bool) -> Result<(), SourceError> {
        self.assigned.iter_mut().filter(|a| a.partition == partition).for_each(|a| a.paused = paused);
        Ok(())
    }

    /// One batch of one partition, in turn.
    fn poll(&mut self, max_records: usize, take: &mut dyn FnMut(RawBatch<'_>)) -> Result<usize, SourceError> {
        for _ in 0..self.assigned.len() {
            let place = self.turn % self.assigned.len();
            self.turn += 1;
            let there = self.there(&self.assigned[place]);
            let assigned = &mut self.assigned[place];
            let to = there.min(assigned.offset + max_records as i64);
            if assigned.paused || to <= assigned.offset {
                continue;
            }
            let payloads = self.log.with(|p| p[assigned.number][assigned.offset as usize..to as usize].to_vec());
            let mut records = vec![];
            for (offset, payload) in (assigned.offset..).zip(&payloads) {
                records.push(RawRecord { offset, payload: Some(payload.as_bytes()), ..RawRecord::default() });
            }
            take(RawBatch { partition: assigned.partition, records: &records });
            assigned.offset = to;
            return Ok(records.len());
        }
        Ok(0)
    }

    fn progress(&self, partition: PartitionIndex) -> Option<Progress> {
        let assigned = self.find(partition)?;
        let position = Position { offset: assigned.offset, resume: vec![] };
        Some(Progress { position, ended: assigned.end.is_some_and(|end| assigned.offset >= end) })
    }

    fn drained(&self, partition: PartitionIndex) -> bool {
        self.find(partition).is_some_and(|assigned| assigned.offset >= self.there(assigned))
    }
}
