//! The seeded log, written to Kafka in parts by `floodmark generate`, and how far it has come.
//!
//! Both paths read it while it is written, so that a fault falls at the same place of the feed for both, with records under way.
//! Doesn't know: faults, paths. Tested: tests/flink/main.rs.
use std::ops::Range;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use floodmark_stack::process::Process;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};

use super::ParityError;

/// A broker that is away answers later or not at all.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
const AT_ONCE_LIMIT: Duration = Duration::from_secs(300);
const SHORTEST: Duration = Duration::from_secs(10);
const MOST_RATE: f64 = 8_000.0;

#[derive(Clone)]
pub struct Feed {
    pub brokers: String,
    pub topic: &'static str,
    pub partitions: u32,
    /// Of `floodmark generate`: what makes the log.
    pub words: Vec<String>,
    /// Records a second.
    pub rate: f64,
    pub messages: PathBuf,
}

impl Feed {
    /// Records a second for a log of so many: the feed takes ten seconds or more, and a Flink of two slots keeps up with it beside floodmark on two cores.
    pub fn rate(events: u64) -> f64 {
        (events as f64 / SHORTEST.as_secs_f64()).clamp(1.0, MOST_RATE)
    }

    /// Begins to write these records.
    pub fn write(&self, records: &Range<u64>) -> Result<Process, ParityError> {
        let mut command = Command::new(std::env::current_exe().map_err(ParityError::Start)?);
        let only = format!("{}..{}", records.start, records.end);
        command.args(&self.words).args(["--only", &only, "--rate", &self.rate.to_string()]);
        command.args(["--to", &format!("kafka://{}/{}", self.brokers, self.topic)]);
        Ok(Process::start(command, &self.messages)?)
    }

    /// All of so many, as fast as the broker takes them.
    pub fn write_at_once(&self, events: u64) -> Result<(), ParityError> {
        let unlimited = Feed { rate: 1e9, ..self.clone() };
        let mut process = unlimited.write(&(0..events))?;
        let status = process.wait(AT_ONCE_LIMIT)?;
        if status.success() {
            return Ok(());
        }
        let why = format!("{status}\n{}", process.output_tail());
        Err(ParityError::Child { what: "generate", why })
    }

    /// How long a part takes at least.
    pub fn takes(&self, records: &Range<u64>) -> Duration {
        Duration::from_secs_f64((records.end - records.start) as f64 / self.rate)
    }
}

/// Records in the topic.
pub struct Written {
    client: BaseConsumer,
    topic: &'static str,
    partitions: u32,
    last: AtomicU64,
}

impl Written {
    pub fn to(feed: &Feed) -> Result<Self, ParityError> {
        let client = ClientConfig::new().set("bootstrap.servers", &feed.brokers).create();
        let client = client.map_err(ParityError::Kafka)?;
        Ok(Self { client, topic: feed.topic, partitions: feed.partitions, last: AtomicU64::new(0) })
    }

    /// As many as at the last answer while the broker of a partition is away.
    pub fn count(&self) -> u64 {
        let end = |partition: u32| {
            let watermarks = self.client.fetch_watermarks(self.topic, partition as i32, ANSWER_WITHIN);
            watermarks.map(|(_, end)| end.max(0) as u64)
        };
        match (0..self.partitions).map(end).sum::<Result<u64, _>>() {
            Ok(sum) => self.last.fetch_max(sum, Ordering::Relaxed).max(sum),
            Err(_) => self.last.load(Ordering::Relaxed),
        }
    }
}
