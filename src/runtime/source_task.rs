//! A source on one worker: reads its partitions, decodes, stamps each record with its watermark.
//!
//! Doesn't know: operators, queues. Keeps: read = decoded + errors; a partition that has left the minimum is not read, nor one that is too far ahead.
use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_schema::ArrowError;
use floodmark_pipeline::align::{Reach, Standing};
use floodmark_pipeline::guard::{Guard, holds};
use floodmark_pipeline::ids::{NodeId, PartitionIndex, PartitionName};
use floodmark_pipeline::plan::{EventTimeFrom, OnError, Source};
use floodmark_pipeline::rows::{NO_WATERMARK, Rows, Side, WatermarkCause, take_batch};
use floodmark_pipeline::stamp::{FromTheFuture, PartitionTime, Record, SliceWidth};
use floodmark_pipeline::time::EventTime;

use super::alignment::Alignment;
use super::counters::NodeCounters;
use super::element::{PartitionAtCut, Watermark};
use super::part::{Admission, Leaving, PartitionPart};
use crate::decode::{BadRecord, Decoded, Decoder, reason};
use crate::source::{Position, RawBatch, Reader, SourceError};
use crate::steps::{self, Point};

pub struct SourceTask {
    reader: Box<dyn Reader>,
    decoder: Box<dyn Decoder>,
    stamping: Stamping,
    /// As it was last told.
    trouble: Option<String>,
    alignment: Option<Arc<Alignment>>,
    pub counters: NodeCounters,
}

struct Own {
    name: PartitionName,
    time: PartitionTime,
    /// Its last position, where the reader isn't asked (a partition that has left).
    left: Option<(Leaving, Position)>,
    exhausted: bool,
    /// Not read until others have caught up.
    held: bool,
}

impl Own {
    fn is_read(&self) -> bool {
        self.left.is_none() && !self.exhausted
    }
}

/// What one poll gave.
#[derive(Debug, Default)]
pub struct Polled {
    pub read: usize,
    /// One batch for each partition that had something.
    pub rows: Vec<Rows>,
    pub errors: Vec<BadRecord>,
    pub unknown_fields: u64,
}

impl SourceTask {
    pub fn new(
        node: NodeId,
        spec: Source,
        reader: Box<dyn Reader>,
        decoder: Box<dyn Decoder>,
        slices: SliceWidth,
    ) -> Self {
        let stamping = Stamping { node, spec, slices, partitions: BTreeMap::new() };
        Self { reader, decoder, stamping, alignment: None, trouble: None, counters: NodeCounters::default() }
    }

    /// Partitions wait for each other, and for those that other workers read.
    pub fn aligned(self, alignment: Option<Arc<Alignment>>) -> Self {
        Self { alignment, ..self }
    }

    pub fn node(&self) -> NodeId {
        self.stamping.node
    }

    pub fn admit(&mut self, admission: Admission) -> Result<(), SourceError> {
        let Admission { partition, name, position, time, end, left, .. } = admission;
        if left.is_none() {
            self.reader.assign(partition, &name, &position, end)?;
        }
        let left = left.map(|left| (left, position));
        self.stamping.partitions.insert(partition, Own { name, time, left, exhausted: false, held: false });
        Ok(())
    }

    /// Tells the others where our partitions stand, and learns how far any may be.
    fn meet(&self) -> Option<Reach> {
        let standing = |(partition, own): (&PartitionIndex, &Own)| {
            let (watermark, has_more) = (own.time.watermark.before_next(), !self.reader.drained(*partition));
            (*partition, Standing { watermark, has_more })
        };
        let read = self.stamping.partitions.iter().filter(|(_, own)| own.is_read());
        Some(self.alignment.as_ref()?.meet(read.map(standing)))
    }

    /// Holds back the partitions that are too far ahead, and no others.
    fn align(&mut self) -> Result<(), SourceError> {
        let Some(reach) = self.meet() else { return Ok(()) };
        for (partition, own) in self.stamping.partitions.iter_mut().filter(|(_, own)| own.is_read()) {
            let held = reach.is_short_of(own.time.watermark.before_next());
            if held != own.held {
                self.reader.pause(*partition, held)?;
                own.held = held;
            }
        }
        Ok(())
    }

    /// A partition is no longer one to wait for.
    fn leave_alignment(&self, partition: PartitionIndex) {
        self.alignment.iter().for_each(|alignment| alignment.leave(partition));
    }

    pub fn poll(&mut self, max_records: usize) -> Result<Polled, SourceError> {
        self.align()?;
        let Self { reader, decoder, stamping, .. } = self;
        let mut polled = Polled::default();
        let mut failed = None;
        polled.read = reader.poll(max_records, &mut |batch| {
            decoder.decode(&batch, &mut polled.errors);
            let stamped = decoder.finish().and_then(|decoded| {
                polled.unknown_fields += decoded.unknown_fields;
                stamping.stamp(decoded, &batch, &mut polled.errors)
            });
            match stamped {
                Ok(rows) => polled.rows.extend(rows),
                Err(error) => failed = Some(error),
            }
        })?;
        if let Some(error) = failed {
            return Err(SourceError::Setting(error.to_string()));
        }
        if polled.read > 0 {
            steps::reached(Point::Read);
            // Whoever waits for us needn't wait for our next poll.
            self.meet();
        }
        self.refuse_bad_records(&polled)?;
        self.counters.records_in += polled.read as u64;
        self.counters.records_out += polled.rows.iter().map(|r| r.len() as u64).sum::<u64>();
        self.counters.unknown_fields += polled.unknown_fields;
        self.counters.errors += polled.errors.len() as u64;
        Ok(polled)
    }

    fn refuse_bad_records(&self, polled: &Polled) -> Result<(), SourceError> {
        match polled.errors.first() {
            Some(bad) if self.stamping.spec.on_error == OnError::Fail => Err(SourceError::Record {
                partition: self.stamping.partitions[&bad.partition].name.clone(),
                offset: bad.offset,
                message: format!("{}: {}; the source says `on_error = \"fail\"`", bad.reason, bad.detail),
            }),
            _ => Ok(()),
        }
    }

    /// Why nothing comes, or that it has passed; each once. A reader that hands out records has no trouble.
    pub fn news_of_trouble(&mut self, read: usize) -> Option<Option<String>> {
        let now = if read > 0 { None } else { self.reader.trouble() };
        (now != self.trouble).then(|| {
            self.trouble = now.clone();
            now
        })
    }

    /// Partitions that have handed out their last record since the last call.
    pub fn exhausted(&mut self) -> Vec<PartitionIndex> {
        let mut found = vec![];
        for (partition, own) in &mut self.stamping.partitions {
            if own.is_read() && self.reader.progress(*partition).is_some_and(|p| p.ended) {
                own.exhausted = true;
                found.push(*partition);
            }
        }
        found.iter().for_each(|partition| self.leave_alignment(*partition));
        found
    }

    /// Drops replay points that nothing needs any more.
    pub fn forget_before(&mut self, needed: Option<EventTime>) {
        let Stamping { partitions, slices, .. } = &mut self.stamping;
        if needed.is_some() {
            partitions.values_mut().for_each(|own| {
                own.time.replay_from(needed, *slices);
            });
        }
    }

    /// Cuts the stream: partitions named in `leaving` leave the minimum. Returns where each partition stands.
    pub fn cut(&mut self, leaving: &[Leaving]) -> Result<(Vec<PartitionAtCut>, Vec<PartitionPart>), SourceError> {
        let mut going = BTreeMap::new();
        for left in leaving {
            if let Some(own) = self.stamping.partitions.get_mut(&left.partition)
                && own.left.is_none()
            {
                let position = self.reader.progress(left.partition).map(|p| p.position).unwrap_or_default();
                self.reader.pause(left.partition, true)?;
                own.left = Some((*left, position));
                if !left.ended {
                    going.insert(left.partition, own.time.watermark.before_next());
                }
                self.leave_alignment(left.partition);
            }
        }
        let stamping = &self.stamping;
        let at_cut = |(partition, own): (&PartitionIndex, &Own)| {
            let going = going.get(partition).copied().flatten();
            stamping.at_cut(&*self.reader, *partition, own, going)
        };
        Ok(stamping.partitions.iter().map(at_cut).unzip())
    }
}

/// Event time of a source's partitions.
struct Stamping {
    node: NodeId,
    spec: Source,
    slices: SliceWidth,
    partitions: BTreeMap<PartitionIndex, Own>,
}

impl Stamping {
    /// The rows of one batch; those that can't be right about their time join the errors.
    fn stamp(
        &mut self,
        decoded: Decoded,
        batch: &RawBatch<'_>,
        errors: &mut Vec<BadRecord>,
    ) -> Result<Option<Rows>, ArrowError> {
        let n = decoded.columns.num_rows();
        if !holds(Guard::OwnPartition) {
            self.share_the_largest_time(batch.partition);
        }
        let Some(own) = self.partitions.get_mut(&batch.partition) else { return Ok(None) };
        let Some(times) = event_times(&self.spec, &decoded) else {
            return Ok((n > 0).then(|| without_time(decoded)));
        };
        let mut side = Side::with_capacity(n);
        let mut kept = Vec::with_capacity(n);
        let is_logged = matches!(self.spec.event_time, Some(EventTimeFrom::Log));
        for (row, time) in times.into_iter().enumerate() {
            let logged = decoded.timestamp_ms[row];
            let log_timestamp = (logged != i64::MIN).then_some(EventTime(logged));
            let record = Record { partition: batch.partition, offset: decoded.offset[row], time, log_timestamp };
            if is_logged && log_timestamp.is_none() {
                let detail = "event time is the log's timestamp, and the record has none".into();
                errors.push(untimely(&record, batch, reason::MISSING, detail));
                continue;
            }
            match own.time.stamp(record, self.spec.max_future, self.slices, &mut side) {
                Ok(()) => kept.push(row as u32),
                Err(FromTheFuture) => errors.push(future(&record, batch)),
            }
        }
        let columns = if kept.len() == n { decoded.columns } else { take_batch(&decoded.columns, &kept)? };
        Ok((!kept.is_empty()).then_some(Rows::new(columns, side)))
    }

    /// What engines do that judge lateness by whatever a task has read so far.
    fn share_the_largest_time(&mut self, with: PartitionIndex) {
        let largest = self.partitions.values().filter_map(|own| own.time.watermark.max_seen).max();
        let own = self.partitions.get_mut(&with).map(|own| &mut own.time.watermark);
        if let (Some(own), Some(largest)) = (own, largest) {
            own.observe(largest);
        }
    }

    fn at_cut(
        &self,
        reader: &dyn Reader,
        partition: PartitionIndex,
        own: &Own,
        going: Option<EventTime>,
    ) -> (PartitionAtCut, PartitionPart) {
        let (watermark, position, ended) = match &own.left {
            Some((left, position)) => (Some(Watermark::Idle), position.clone(), left.ended),
            None => {
                let position = reader.progress(partition).map(|p| p.position).unwrap_or_default();
                (own.time.watermark.before_next().map(Watermark::EventTime), position, false)
            }
        };
        (
            PartitionAtCut { partition, source: self.node, watermark, going, ended },
            PartitionPart { partition, position, time: own.time.clone() },
        )
    }
}

fn event_times(spec: &Source, decoded: &Decoded) -> Option<Vec<EventTime>> {
    match spec.event_time.as_ref()? {
        EventTimeFrom::Log => Some(decoded.timestamp_ms.iter().map(|t| EventTime(*t)).collect()),
        EventTimeFrom::Column(column) => {
            let micros = decoded.columns.column(*column).as_primitive::<TimestampMicrosecondType>();
            Some(micros.values().iter().map(|us| EventTime(us.div_euclid(1_000))).collect())
        }
    }
}

fn without_time(decoded: Decoded) -> Rows {
    let n = decoded.offset.len();
    let side = Side {
        partition: decoded.partition,
        offset: decoded.offset,
        event_time: vec![0; n],
        watermark: vec![NO_WATERMARK; n],
        cause: vec![WatermarkCause::Own; n],
    };
    Rows::new(decoded.columns, side)
}

fn future(record: &Record, batch: &RawBatch<'_>) -> BadRecord {
    let logged = record.log_timestamp.map(|t| t.to_string()).unwrap_or_default();
    let detail = format!("event time {} is too far ahead of the record's log timestamp {logged}", record.time);
    untimely(record, batch, reason::FUTURE, detail)
}

fn untimely(record: &Record, batch: &RawBatch<'_>, reason: &'static str, detail: String) -> BadRecord {
    let raw = batch.records.iter().find(|r| r.offset == record.offset);
    BadRecord {
        partition: record.partition,
        offset: record.offset,
        timestamp_ms: record.log_timestamp.map(|t| t.0),
        key: raw.and_then(|r| r.key).map(<[u8]>::to_vec),
        value: raw.and_then(|r| r.payload).map(<[u8]>::to_vec),
        reason,
        detail,
    }
}

#[cfg(test)]
mod tests;
