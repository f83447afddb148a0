//! A log in a Kafka topic.
//!
//! Doesn't know: how partitions are chosen; each record names its own.
//! Keeps: `finish` returns only if the broker acknowledged every record and each partition grew by exactly what was sent to it.
//! A topic made here keeps records for ever, because their times lie in the past and Kafka counts retention from them.
//! Tested: generate/tests.rs (librdkafka's mock cluster; it can't create topics).
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError as ClientError;
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::util::Timeout;

use super::GenerateError;
use super::destination::LogWriter;
use crate::workload::Record;

const ANSWER_WITHIN: Duration = Duration::from_secs(15);
const TOPIC_READY_WITHIN: Duration = Duration::from_secs(30);
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(50);
const QUEUE_FULL_REST: Duration = Duration::from_millis(1);
const BROKER_DEFAULT_REPLICATION: i32 = -1;

#[derive(Debug, thiserror::Error)]
pub enum KafkaError {
    #[error("no answer from Kafka at {brokers}: {source}; is the broker up, and its address right?")]
    Unreachable { brokers: String, source: ClientError },
    #[error("can't create topic {topic} at {brokers}: {reason}")]
    Create { brokers: String, topic: String, reason: String },
    #[error("topic {topic} has {found} partitions, not {wanted}; name another topic, or ask for --partitions {found}")]
    OtherPartitions { topic: String, found: usize, wanted: usize },
    #[error("can't use Kafka's client: {0}")]
    Client(ClientError),
    #[error("Kafka took {delivered} of {sent} records of topic {topic}: {reason}")]
    Undelivered { topic: String, delivered: u64, sent: u64, reason: String },
    #[error(
        "partition {partition} of topic {topic} grew by {grown} records, {sent} were sent to it; does someone else write to it?"
    )]
    OtherEnd { topic: String, partition: usize, grown: u64, sent: u64 },
}

pub struct TopicWriter {
    topic: Topic,
    producer: ThreadedProducer<Deliveries>,
    first_offsets: Vec<u64>,
    sent: Vec<u64>,
}

impl TopicWriter {
    pub fn open(brokers: &str, topic: &str, partitions: u32) -> Result<Self, KafkaError> {
        let topic = Topic::connect(brokers, topic)?;
        topic.create_or_check(partitions as usize)?;
        let first_offsets = topic.ends(partitions as usize)?;
        let producer = ClientConfig::new()
            .set("bootstrap.servers", brokers)
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("compression.type", "lz4")
            .set("linger.ms", "10")
            .set("queue.buffering.max.messages", "300000")
            .create_with_context(Deliveries::default())
            .map_err(KafkaError::Client)?;
        let sent = vec![0; partitions as usize];
        Ok(TopicWriter { topic, producer, first_offsets, sent })
    }

    fn deliveries(&self) -> &Deliveries {
        self.producer.client().context()
    }

    fn undelivered(&self, reason: String) -> KafkaError {
        KafkaError::Undelivered {
            topic: self.topic.name.clone(),
            delivered: self.deliveries().delivered.load(Ordering::Relaxed),
            sent: self.sent.iter().sum(),
            reason,
        }
    }

    fn send(&mut self, record: &Record) -> Result<(), KafkaError> {
        if let Some(reason) = self.deliveries().first_failure.get() {
            return Err(self.undelivered(reason.clone()));
        }
        let mut message = BaseRecord::to(&self.topic.name)
            .partition(record.partition as i32)
            .timestamp(record.timestamp_ms)
            .key(&record.key)
            .payload(&record.value);
        loop {
            match self.producer.send(message) {
                Ok(()) => break,
                Err((ClientError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    message = back;
                    thread::sleep(QUEUE_FULL_REST);
                }
                Err((error, _)) => return Err(self.undelivered(error.to_string())),
            }
        }
        self.sent[record.partition as usize] += 1;
        Ok(())
    }

    fn check_all_delivered(&self) -> Result<(), KafkaError> {
        let flushed = self.producer.flush(Timeout::Never);
        if let Some(reason) = self.deliveries().first_failure.get() {
            return Err(self.undelivered(reason.clone()));
        }
        flushed.map_err(|error| self.undelivered(error.to_string()))?;
        let ends = self.topic.ends(self.sent.len())?;
        for (partition, end) in ends.into_iter().enumerate() {
            let grown = end.saturating_sub(self.first_offsets[partition]);
            let sent = self.sent[partition];
            if grown != sent {
                let topic = self.topic.name.clone();
                return Err(KafkaError::OtherEnd { topic, partition, grown, sent });
            }
        }
        Ok(())
    }
}

impl LogWriter for TopicWriter {
    fn first_offsets(&self) -> Vec<u64> {
        self.first_offsets.clone()
    }

    fn write(&mut self, record: &Record) -> Result<(), GenerateError> {
        Ok(self.send(record)?)
    }

    /// The producer sends by itself after `linger.ms`.
    fn flush(&mut self) -> Result<(), GenerateError> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), GenerateError> {
        Ok(self.check_all_delivered()?)
    }
}

/// Counts what the broker acknowledged; runs on the producer's own thread.
#[derive(Default)]
struct Deliveries {
    delivered: AtomicU64,
    first_failure: OnceLock<String>,
}

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _opaque: ()) {
        match result {
            Ok(_) => {
                self.delivered.fetch_add(1, Ordering::Relaxed);
            }
            Err((error, _)) => {
                // Only the first failure is kept: the others follow from it.
                let _ = self.first_failure.set(error.to_string());
            }
        }
    }
}

/// A topic as its broker describes it. Asked through a consumer, since asking through a producer may create the topic.
struct Topic {
    brokers: String,
    name: String,
    client: BaseConsumer,
}

impl Topic {
    fn connect(brokers: &str, name: &str) -> Result<Self, KafkaError> {
        let client = ClientConfig::new().set("bootstrap.servers", brokers).create().map_err(KafkaError::Client)?;
        Ok(Topic { brokers: brokers.into(), name: name.into(), client })
    }

    fn create_or_check(&self, partitions: usize) -> Result<(), KafkaError> {
        if self.partitions()? == 0 {
            self.create(partitions)?;
            self.wait_until_ready()?;
        }
        let found = self.partitions()?;
        if found != partitions {
            let topic = self.name.clone();
            return Err(KafkaError::OtherPartitions { topic, found, wanted: partitions });
        }
        Ok(())
    }

    /// Number of partitions that have a leader; 0 if there is no such topic.
    fn partitions(&self) -> Result<usize, KafkaError> {
        let metadata =
            self.client.fetch_metadata(Some(&self.name), ANSWER_WITHIN).map_err(|source| self.unreachable(source))?;
        Ok(metadata.topics().iter().map(|topic| topic.partitions().len()).sum())
    }

    fn create(&self, partitions: usize) -> Result<(), KafkaError> {
        let refused =
            |reason: String| KafkaError::Create { brokers: self.brokers.clone(), topic: self.name.clone(), reason };
        let admin: AdminClient<DefaultClientContext> =
            ClientConfig::new().set("bootstrap.servers", &self.brokers).create().map_err(KafkaError::Client)?;
        let replication = TopicReplication::Fixed(BROKER_DEFAULT_REPLICATION);
        let topic = NewTopic::new(&self.name, partitions as i32, replication)
            .set("retention.ms", "-1")
            .set("message.timestamp.type", "CreateTime");
        let options = AdminOptions::new().operation_timeout(Some(TOPIC_READY_WITHIN));
        let results = futures::executor::block_on(admin.create_topics([&topic], &options))
            .map_err(|error| refused(error.to_string()))?;
        for result in results {
            result.map_err(|(_, code)| refused(code.to_string()))?;
        }
        Ok(())
    }

    /// A broker may still not know a topic that another one has just created.
    fn wait_until_ready(&self) -> Result<(), KafkaError> {
        let asked = Instant::now();
        while self.partitions()? == 0 && asked.elapsed() < TOPIC_READY_WITHIN {
            thread::sleep(ASK_AGAIN_AFTER);
        }
        Ok(())
    }

    /// Offset that the next record of each partition gets.
    fn ends(&self, partitions: usize) -> Result<Vec<u64>, KafkaError> {
        (0..partitions).map(|partition| self.end(partition as i32)).collect()
    }

    /// A partition of a topic just created is described before its leader answers for it.
    fn end(&self, partition: i32) -> Result<u64, KafkaError> {
        let asked = Instant::now();
        loop {
            match self.client.fetch_watermarks(&self.name, partition, ANSWER_WITHIN) {
                Ok((_, high)) => return Ok(high.max(0) as u64),
                Err(source) if !has_no_leader_yet(&source) || asked.elapsed() > TOPIC_READY_WITHIN => {
                    return Err(self.unreachable(source));
                }
                Err(_) => thread::sleep(ASK_AGAIN_AFTER),
            }
        }
    }

    fn unreachable(&self, source: ClientError) -> KafkaError {
        KafkaError::Unreachable { brokers: self.brokers.clone(), source }
    }
}

/// Also where the leader has just gone: another takes its place.
fn has_no_leader_yet(error: &ClientError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            RDKafkaErrorCode::NotLeaderForPartition
                | RDKafkaErrorCode::LeaderNotAvailable
                | RDKafkaErrorCode::UnknownTopicOrPartition
                | RDKafkaErrorCode::DestroyBroker
                | RDKafkaErrorCode::BrokerTransportFailure
        )
    )
}
