//! One worker's consumer: its partitions, each read from where it was told, in turn.
//!
//! Doesn't know: other workers, groups, topic ids, whether what it reads is processed. Keeps: each record once for each assignment, in offset order;
//! records at or after a partition's end are not handed out; an offset that the log doesn't have is an error, never a jump.
//! Tested: kafka/tests.rs (mock), tests/kafka_source.rs (broker).
//!
//! A position moves behind each record, and at the end of what is there also over what isn't handed out: control records, aborted records and
//! compaction's gaps. So a lag reaches 0, and a bounded read ends.
use std::sync::Arc;
use std::time::Duration;

use floodmark_pipeline::ids::{PartitionIndex, PartitionName};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};

use super::native::{Header, MessageBuffer, Messages, PartitionQueue};
use super::watch::Watch;
use crate::source::{Position, Progress, RawBatch, RawRecord, Reader, SourceError, check};

/// How long a poll waits if no partition has anything.
const IDLE_WAIT: Duration = Duration::from_millis(1);
/// How long a poll may ask for the bounds of a partition that can't be read on; the only longer wait there is.
const BOUNDS_WAIT: Duration = Duration::from_millis(500);

pub struct KafkaReader {
    consumer: Arc<BaseConsumer<Watch>>,
    headers_wanted: bool,
    slots: Vec<Slot>,
    /// The slot whose turn is first.
    first: usize,
    scratch: Scratch,
}

/// Memory kept from poll to poll.
#[derive(Default)]
struct Scratch {
    messages: MessageBuffer,
    records: Vec<RawRecord<'static>>,
}

/// A partition that is being read.
struct Slot {
    partition: PartitionIndex,
    name: PartitionName,
    /// `None` once it has ended: librdkafka doesn't fetch it any more.
    queue: Option<PartitionQueue>,
    /// Behind the last record handed out, or further where nothing is handed out.
    next: i64,
    end: Option<i64>,
    paused: bool,
    /// The last that was heard of it is that there is no more.
    drained: bool,
    /// The brokers refuse to read on, and what librdkafka said of it: to be looked into.
    refused: Option<String>,
}

impl KafkaReader {
    pub(super) fn new(consumer: Arc<BaseConsumer<Watch>>, headers_wanted: bool) -> Self {
        Self { consumer, headers_wanted, slots: Vec::new(), first: 0, scratch: Scratch::default() }
    }

    /// Hears what librdkafka has to say, for at most about `wait`.
    fn listen(&self, mut wait: Duration) -> Result<(), SourceError> {
        while let Some(said) = self.consumer.poll(wait) {
            wait = Duration::ZERO;
            match said {
                // Errors have been told to the watch, which knows what they mean.
                Err(KafkaError::MessageConsumptionFatal(code)) => {
                    return Err(SourceError::Setting(format!("librdkafka can't go on: {code}")));
                }
                Err(_) => {}
                Ok(message) => return Err(stray(&message)),
            }
        }
        Ok(())
    }

    /// A partition each, in turn; what one doesn't use of its share is left to those after it.
    fn take_turns(&mut self, max_records: usize, take: &mut dyn FnMut(RawBatch<'_>)) -> Result<usize, SourceError> {
        let count = self.slots.len();
        let mut waiting = self.slots.iter().filter(|slot| slot.readable()).count();
        let mut handed_out = 0;
        for turn in 0..count {
            let slot = &mut self.slots[(self.first + turn) % count];
            if !slot.readable() {
                continue;
            }
            let share = (max_records - handed_out).div_ceil(waiting);
            waiting -= 1;
            if share == 0 {
                break;
            }
            handed_out += slot.hand_out(share, self.headers_wanted, &mut self.scratch, take)?;
            if slot.ended() && slot.queue.take().is_some() {
                slot.close(&self.consumer)?;
            }
        }
        self.first = (self.first + 1) % count.max(1);
        Ok(handed_out)
    }

    /// Control records move librdkafka's position without anything being handed out. Matters only where an end is waited for and no record comes.
    /// At the log's end the position is of no use: librdkafka counts its own "end reached" as one record more. Each such event says where the end is,
    /// control records included.
    fn follow_control_records(&mut self) -> Result<(), SourceError> {
        let is_on_its_way = |slot: &Slot| slot.end.is_some() && slot.readable() && !slot.drained;
        if !self.slots.iter().any(is_on_its_way) {
            return Ok(());
        }
        let positions = self.consumer.position().map_err(library)?;
        for slot in self.slots.iter_mut().filter(|slot| is_on_its_way(slot)) {
            let found = positions.find_partition(&slot.name.topic, slot.name.partition);
            if let Some(Offset::Offset(offset)) = found.map(|p| p.offset()) {
                slot.pass(offset);
            }
        }
        Ok(())
    }

    /// Says by name why a partition can't be read on. A log that was cut back and has grown again is refused too: it holds other records.
    fn look_into_refusals(&self) -> Result<(), SourceError> {
        for slot in &self.slots {
            let Some(reason) = &slot.refused else { continue };
            let bounds = self.consumer.fetch_watermarks(&slot.name.topic, slot.name.partition, BOUNDS_WAIT);
            // Without an answer the brokers are away just now: the watch tells it, and the next poll asks again.
            if let Ok((start, end)) = bounds {
                check::bounds(&slot.name, slot.next, start, end)?;
                return Err(slot.record_error(slot.next, reason.clone()));
            }
        }
        Ok(())
    }
}

impl Reader for KafkaReader {
    fn assign(
        &mut self,
        partition: PartitionIndex,
        name: &PartitionName,
        from: &Position,
        end: Option<i64>,
    ) -> Result<(), SourceError> {
        let known = self.slots.iter().position(|slot| slot.partition == partition);
        let before = known.map(|place| self.slots.remove(place));
        let mut slot = Slot {
            partition,
            name: name.clone(),
            queue: None,
            next: from.offset,
            end,
            paused: false,
            drained: false,
            refused: None,
        };
        match before {
            // One that comes back where it was left: what has been fetched of it is still in its queue.
            Some(before) if before.next == from.offset && before.refused.is_none() => slot.queue = before.queue,
            Some(before) if before.queue.is_some() => before.close(&self.consumer)?,
            _ => {}
        }
        match (&slot.queue, slot.ended()) {
            (None, false) => slot.open(&self.consumer)?,
            (Some(_), true) => {
                slot.close(&self.consumer)?;
                slot.queue = None;
            }
            (None, true) | (Some(_), false) => {}
        }
        self.slots.push(slot);
        Ok(())
    }

    /// What librdkafka has fetched stays where it is: its queue isn't read, and is bounded.
    fn pause(&mut self, partition: PartitionIndex, paused: bool) -> Result<(), SourceError> {
        let slot = self.slots.iter_mut().find(|slot| slot.partition == partition);
        let slot = slot.ok_or_else(|| SourceError::Setting(format!("partition {} isn't read here", partition.0)))?;
        slot.paused = paused;
        Ok(())
    }

    fn poll(&mut self, max_records: usize, take: &mut dyn FnMut(RawBatch<'_>)) -> Result<usize, SourceError> {
        self.listen(Duration::ZERO)?;
        let handed_out = self.take_turns(max_records, take)?;
        self.look_into_refusals()?;
        if handed_out == 0 {
            self.follow_control_records()?;
            self.listen(IDLE_WAIT)?;
        }
        Ok(handed_out)
    }

    fn progress(&self, partition: PartitionIndex) -> Option<Progress> {
        let slot = self.slots.iter().find(|slot| slot.partition == partition)?;
        Some(Progress { position: Position { offset: slot.next, resume: Vec::new() }, ended: slot.ended() })
    }

    fn drained(&self, partition: PartitionIndex) -> bool {
        self.slots.iter().any(|slot| slot.partition == partition && (slot.drained || slot.ended()))
    }

    fn trouble(&self) -> Option<String> {
        self.consumer.context().trouble().map(|trouble| trouble.reason)
    }
}

impl Slot {
    fn readable(&self) -> bool {
        self.queue.is_some() && !self.paused && self.refused.is_none()
    }

    fn ended(&self) -> bool {
        self.end.is_some_and(|end| self.next >= end)
    }

    fn at(&self, offset: Offset) -> Result<TopicPartitionList, SourceError> {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.name.topic, self.name.partition, offset).map_err(library)?;
        Ok(list)
    }

    /// Has librdkafka fetch from `next` on, into a queue of the partition's own.
    fn open(&mut self, consumer: &Arc<BaseConsumer<Watch>>) -> Result<(), SourceError> {
        let queue = PartitionQueue::open(consumer, &self.name.topic, self.name.partition);
        self.queue = Some(queue.ok_or_else(|| SourceError::Setting(format!("{}: no topic's name", self.name)))?);
        consumer.incremental_assign(&self.at(Offset::Offset(self.next))?).map_err(library)
    }

    /// librdkafka fetches it no more.
    fn close(&self, consumer: &BaseConsumer<Watch>) -> Result<(), SourceError> {
        consumer.incremental_unassign(&self.at(Offset::Invalid)?).map_err(library)
    }

    /// Nothing that is to be handed out lies before `offset`.
    fn pass(&mut self, offset: i64) {
        self.next = self.next.max(self.end.map_or(offset, |end| offset.min(end)));
    }

    /// Hands out what has been fetched, at most `max` records, as one batch.
    fn hand_out(
        &mut self,
        max: usize,
        headers_wanted: bool,
        scratch: &mut Scratch,
        take: &mut dyn FnMut(RawBatch<'_>),
    ) -> Result<usize, SourceError> {
        let Some(queue) = &self.queue else { return Ok(0) };
        let messages = queue.take(max, &mut scratch.messages);
        let (headers, bounds) = if headers_wanted { all_headers(&messages) } else { Default::default() };
        let mut records = recycle(std::mem::take(&mut scratch.records));
        let mut outcome = Ok(());
        for (row, message) in messages.iter().enumerate() {
            if let Some((code, text)) = message.error() {
                outcome = self.event(code, text, message.offset());
            } else if self.end.is_some_and(|end| message.offset() >= end) {
                self.pass(message.offset());
                break;
            } else if message.offset() < self.next {
                outcome = Err(self.record_error(message.offset(), "handed out a second time by librdkafka".to_owned()));
            } else {
                self.next = message.offset() + 1;
                self.drained = false;
                records.push(RawRecord {
                    offset: message.offset(),
                    payload: message.payload(),
                    key: message.key(),
                    timestamp_ms: message.timestamp_ms(),
                    headers: bounds.get(row..row + 2).map_or(&[], |bounds| &headers[bounds[0]..bounds[1]]),
                });
            }
            if outcome.is_err() || self.refused.is_some() {
                break;
            }
        }
        let count = records.len();
        if count > 0 {
            take(RawBatch { partition: self.partition, records: &records });
        }
        scratch.records = recycle(records);
        outcome.map(|()| count)
    }

    /// What librdkafka says of this partition.
    fn event(&mut self, code: RDKafkaErrorCode, text: String, offset: i64) -> Result<(), SourceError> {
        match code {
            RDKafkaErrorCode::PartitionEOF => {
                self.drained = true;
                self.pass(offset);
            }
            RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange => self.refused = Some(text),
            // These records would be passed over.
            RDKafkaErrorCode::BadMessage
            | RDKafkaErrorCode::InvalidMessage
            | RDKafkaErrorCode::NotImplemented
            | RDKafkaErrorCode::MessageSizeTooLarge => return Err(self.record_error(offset, text)),
            RDKafkaErrorCode::TopicAuthorizationFailed => {
                return Err(SourceError::Setting(format!("{}: reading it isn't allowed: {text}", self.name)));
            }
            // librdkafka goes on by itself; whether the topic is still the same is the control side's to see.
            _ => tracing::debug!(target: "kafka", "{}: {code}: {text}", self.name),
        }
        Ok(())
    }

    fn record_error(&self, offset: i64, message: String) -> SourceError {
        SourceError::Record { partition: self.name.clone(), offset, message }
    }
}

/// All headers of `messages` in a row, and where those of each begin and end.
fn all_headers<'a>(messages: &'a Messages<'_>) -> (Vec<Header<'a>>, Vec<usize>) {
    let (mut headers, mut bounds) = (Vec::new(), vec![0]);
    for message in messages.iter() {
        message.headers(&mut headers);
        bounds.push(headers.len());
    }
    (headers, bounds)
}

/// The same memory for records of another lifetime.
fn recycle<'b>(mut records: Vec<RawRecord<'_>>) -> Vec<RawRecord<'b>> {
    records.clear();
    records.into_iter().map(|_| RawRecord::default()).collect()
}

/// A record on the shared queue is one that no partition would hand out.
fn stray(message: &rdkafka::message::BorrowedMessage<'_>) -> SourceError {
    use rdkafka::Message;
    SourceError::Setting(format!(
        "librdkafka put {}-{} at {} where no one reads",
        message.topic(),
        message.partition(),
        message.offset()
    ))
}

fn library(error: KafkaError) -> SourceError {
    SourceError::Setting(format!("librdkafka: {error}"))
}
