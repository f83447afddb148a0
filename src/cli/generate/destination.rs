//! Where a log goes, and what each place must be able to do.
//!
//! Doesn't know: workloads, except that the keys of orders are bytes and not text.
//! Tested: here, generate/tests.rs.
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::GenerateError;
use super::files::{Compression, PartFiles};
use super::kafka::TopicWriter;
use super::terminal::Terminal;
use crate::workload::{Record, WorkloadName};

/// Takes the records of a log in order.
pub trait LogWriter {
    /// Offset that the first record of each partition gets.
    fn first_offsets(&self) -> Vec<u64>;

    fn write(&mut self, record: &Record) -> Result<(), GenerateError>;

    /// Makes what was written so far visible; called before a rest.
    fn flush(&mut self) -> Result<(), GenerateError>;

    /// Returns once every record is where it belongs.
    fn finish(self: Box<Self>) -> Result<(), GenerateError>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    Kafka { brokers: String, topic: String },
    Files { dir: PathBuf },
    Terminal,
}

impl Destination {
    pub fn open(
        &self,
        workload: WorkloadName,
        partitions: u32,
        compression: Option<Compression>,
    ) -> Result<Box<dyn LogWriter>, GenerateError> {
        Ok(match self {
            Destination::Kafka { brokers, topic } => Box::new(TopicWriter::open(brokers, topic, partitions)?),
            Destination::Files { dir } => Box::new(PartFiles::create(dir, partitions, compression)?),
            Destination::Terminal => Box::new(Terminal::new(partitions, workload == WorkloadName::Orders)),
        })
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no destination; write kafka://BROKER:PORT/TOPIC, file:DIR, or -")]
pub struct UnknownDestination(String);

impl FromStr for Destination {
    type Err = UnknownDestination;

    fn from_str(text: &str) -> Result<Self, UnknownDestination> {
        let refused = || UnknownDestination(text.into());
        if text == "-" {
            return Ok(Destination::Terminal);
        }
        if let Some(rest) = text.strip_prefix("kafka://") {
            let (brokers, topic) = rest.rsplit_once('/').ok_or_else(refused)?;
            if brokers.is_empty() || brokers.contains('/') || topic.is_empty() {
                return Err(refused());
            }
            return Ok(Destination::Kafka { brokers: brokers.into(), topic: topic.into() });
        }
        let dir = text.strip_prefix("file:").map(|dir| dir.strip_prefix("//").unwrap_or(dir));
        match dir {
            Some(dir) if !dir.is_empty() => Ok(Destination::Files { dir: dir.into() }),
            _ => Err(refused()),
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Destination::Kafka { brokers, topic } => write!(f, "kafka://{brokers}/{topic}"),
            Destination::Files { dir } => write!(f, "file:{}", dir.display()),
            Destination::Terminal => f.write_str("-"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_are_read_as_they_are_printed() {
        for text in ["kafka://localhost:9092/clicks", "kafka://a:1,b:2/t", "file:data/in", "-"] {
            assert_eq!(text.parse::<Destination>().unwrap().to_string(), text);
        }
        assert_eq!("file:///tmp/x".parse(), Ok(Destination::Files { dir: "/tmp/x".into() }));
    }

    #[test]
    fn an_unknown_destination_shows_the_forms() {
        for text in ["data/in", "kafka://localhost:9092", "kafka://localhost/", "file:", ""] {
            assert_eq!(
                text.parse::<Destination>().unwrap_err().to_string(),
                format!("`{text}` is no destination; write kafka://BROKER:PORT/TOPIC, file:DIR, or -")
            );
        }
    }
}
