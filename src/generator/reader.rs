//! The data side of a generator: makes records of its partitions in turn, not faster than asked.
//!
//! Doesn't know: how a record is made. Keeps: offset o of a partition is due o' / rate after it was assigned, o' counted from where it began;
//! what was missed is caught up, so the mean rate holds.
//! Tested: generator/tests.rs.
// Its rate is of this machine; no record depends on it.
#![allow(clippy::disallowed_methods)]
use std::sync::Arc;
use std::time::Instant;

use floodmark_pipeline::ids::{PartitionIndex, PartitionName};

use crate::source::{Position, Progress, RawBatch, RawRecord, Reader, SourceError};
use crate::workload::{Record, Workload};

pub struct GeneratorReader {
    workload: Arc<dyn Workload>,
    /// Records a second of each partition.
    rate: Option<f64>,
    partitions: Vec<Assigned>,
    /// Whose turn it is.
    next: usize,
    /// Filled again at each poll.
    records: Vec<Record>,
}

struct Assigned {
    index: PartitionIndex,
    number: u32,
    begin: i64,
    offset: i64,
    end: Option<i64>,
    paused: bool,
    /// The last poll found none due.
    drained: bool,
    since: Instant,
}

impl GeneratorReader {
    pub fn new(workload: Arc<dyn Workload>, rate: Option<f64>) -> Self {
        Self { workload, rate, partitions: vec![], next: 0, records: vec![] }
    }
}

impl Assigned {
    /// How many records may be made now.
    fn due(&self, max: usize, rate: Option<f64>) -> usize {
        if self.paused {
            return 0;
        }
        let left = self.end.map_or(i64::MAX, |end| end - self.offset).max(0);
        let paced = rate.map_or(i64::MAX, |rate| {
            let due = (self.since.elapsed().as_secs_f64() * rate) as i64;
            (due - (self.offset - self.begin)).max(0)
        });
        usize::try_from(left.min(paced)).unwrap_or(max).min(max)
    }
}

impl Reader for GeneratorReader {
    fn assign(
        &mut self,
        partition: PartitionIndex,
        name: &PartitionName,
        from: &Position,
        end: Option<i64>,
    ) -> Result<(), SourceError> {
        self.partitions.retain(|p| p.index != partition);
        self.partitions.push(Assigned {
            index: partition,
            number: name.partition as u32,
            begin: from.offset,
            offset: from.offset,
            end,
            paused: false,
            drained: false,
            since: Instant::now(),
        });
        Ok(())
    }

    fn pause(&mut self, partition: PartitionIndex, paused: bool) -> Result<(), SourceError> {
        self.partitions.iter_mut().filter(|p| p.index == partition).for_each(|p| p.paused = paused);
        Ok(())
    }

    fn poll(&mut self, max_records: usize, take: &mut dyn FnMut(RawBatch<'_>)) -> Result<usize, SourceError> {
        let Self { workload, rate, partitions, next, records } = self;
        let mut taken = 0;
        for _ in 0..partitions.len() {
            let turn = *next % partitions.len();
            *next = turn + 1;
            let partition = &mut partitions[turn];
            let due = partition.due(max_records - taken, *rate);
            let indexes =
                (0..due as i64).map_while(|i| workload.index_of(partition.number, (partition.offset + i) as u64));
            let mut made = 0;
            for index in indexes {
                if made == records.len() {
                    records.push(Record::default());
                }
                workload.record(index, &mut records[made]);
                made += 1;
            }
            if !partition.paused && taken < max_records {
                partition.drained = made == 0;
            }
            if made == 0 {
                continue;
            }
            let batch: Vec<_> = (partition.offset..).zip(&records[..made]).map(raw).collect();
            take(RawBatch { partition: partition.index, records: &batch });
            partition.offset += made as i64;
            taken += made;
        }
        Ok(taken)
    }

    fn progress(&self, partition: PartitionIndex) -> Option<Progress> {
        let partition = self.partitions.iter().find(|p| p.index == partition)?;
        Some(Progress {
            position: Position { offset: partition.offset, resume: vec![] },
            ended: partition.end.is_some_and(|end| partition.offset >= end),
        })
    }

    fn drained(&self, partition: PartitionIndex) -> bool {
        self.partitions.iter().any(|p| p.index == partition && p.drained)
    }
}

fn raw((offset, record): (i64, &Record)) -> RawRecord<'_> {
    RawRecord {
        offset,
        payload: Some(&record.value),
        key: Some(&record.key),
        timestamp_ms: Some(record.timestamp_ms),
        headers: &[],
    }
}
