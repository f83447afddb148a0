//! The control side: which partitions there are, where they begin and end, and what the group is told.
//!
//! Doesn't know: workers, checkpoints. Keeps: an end is the last stable offset, so a transaction that is open now is after it; every question is
//! answered in bounded time; offsets told to the group are never read back.
//! Tested: kafka/tests.rs, tests/kafka_source.rs.
use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use floodmark_pipeline::ids::PartitionName;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};

use super::native::{self, TopicDescription};
use super::reader::KafkaReader;
use super::{client, watch::Watch};
use crate::config::model::{End, KafkaConfig, Start};
use crate::source::{Log, PartitionInfo, Position, Reader, SourceError, check};

/// How long one question to the brokers may take.
const ASK: Duration = Duration::from_secs(5);

/// The topics of one source.
pub struct KafkaLog {
    source: String,
    config: KafkaConfig,
    group: String,
    headers_wanted: bool,
    asking: Arc<Asking>,
}

/// What asks; its calls block.
struct Asking {
    consumer: Arc<BaseConsumer<Watch>>,
    brokers: String,
}

impl KafkaLog {
    /// `source` is the node's name, `pipeline` names the group `floodmark-<pipeline>`. Connects to nothing yet.
    pub fn new(
        source: &str,
        pipeline: &str,
        mut config: KafkaConfig,
        headers_wanted: bool,
    ) -> Result<Self, SourceError> {
        // A topic named twice is still one.
        config.topics.sort_unstable();
        config.topics.dedup();
        let group = format!("floodmark-{pipeline}");
        let asking = Asking { consumer: client::asking(&config, &group)?, brokers: config.brokers.clone() };
        Ok(Self { source: source.to_owned(), config, group, headers_wanted, asking: Arc::new(asking) })
    }

    async fn ask<T, F>(&self, question: F) -> Result<T, SourceError>
    where
        T: Send + 'static,
        F: FnOnce(&Asking) -> Result<T, SourceError> + Send + 'static,
    {
        let asking = Arc::clone(&self.asking);
        let answer = tokio::task::spawn_blocking(move || {
            asking.listen();
            let answer = question(&asking);
            if answer.is_ok() {
                asking.consumer.context().answered();
            }
            answer
        });
        answer.await.map_err(|error| SourceError::Away(self.config.brokers.clone(), error.to_string()))?
    }

    /// First offset whose record is at or after `timestamp_ms`, or the partition's end where there is none yet.
    async fn offsets_at(&self, timestamp_ms: i64, of: &[PartitionInfo]) -> Result<Vec<i64>, SourceError> {
        let names: Vec<PartitionName> = of.iter().map(|info| info.name.clone()).collect();
        let found = self.ask(move |asking| asking.offsets(&names, Offset::Offset(timestamp_ms))).await?;
        Ok(found.into_iter().zip(of).map(|(offset, info)| offset.unwrap_or(info.end)).collect())
    }
}

#[async_trait]
impl Log for KafkaLog {
    async fn partitions(&self) -> Result<Vec<PartitionInfo>, SourceError> {
        let (source, topics) = (self.source.clone(), self.config.topics.clone());
        self.ask(move |asking| asking.partitions(&source, &topics)).await
    }

    async fn resolve_start(&self, start: &Start, of: &[PartitionInfo]) -> Result<Vec<Position>, SourceError> {
        let offsets = match start {
            Start::Earliest => of.iter().map(|info| info.start).collect(),
            Start::Latest => of.iter().map(|info| info.end).collect(),
            Start::TimestampMs(timestamp_ms) => self.offsets_at(*timestamp_ms, of).await?,
            Start::Offsets(given) => {
                let offsets = offsets_given(given, of, "start")?;
                for (info, &offset) in of.iter().zip(&offsets) {
                    check::bounds(&info.name, offset, info.start, info.end)?;
                }
                offsets
            }
        };
        Ok(offsets.into_iter().map(|offset| Position { offset, resume: Vec::new() }).collect())
    }

    async fn resolve_end(&self, end: &End, of: &[PartitionInfo]) -> Result<Vec<Option<i64>>, SourceError> {
        let offsets = match end {
            End::Never => return Ok(vec![None; of.len()]),
            End::Latest => of.iter().map(|info| info.end).collect(),
            End::TimestampMs(timestamp_ms) => self.offsets_at(*timestamp_ms, of).await?,
            End::Offsets(given) => offsets_given(given, of, "end")?,
        };
        Ok(offsets.into_iter().map(Some).collect())
    }

    fn reader(&self) -> Result<Box<dyn Reader>, SourceError> {
        Ok(Box::new(KafkaReader::new(client::reading(&self.config, &self.group)?, self.headers_wanted)))
    }

    async fn report(&self, positions: &[(PartitionName, i64)]) -> Result<(), SourceError> {
        let positions = positions.to_vec();
        self.ask(move |asking| {
            asking.report(&positions);
            Ok(())
        })
        .await
    }
}

impl Asking {
    /// Takes in what librdkafka has said since.
    fn listen(&self) {
        while self.consumer.poll(Duration::ZERO).is_some() {}
    }

    fn partitions(&self, source: &str, topics: &[String]) -> Result<Vec<PartitionInfo>, SourceError> {
        let described = self.describe(topics)?;
        let source: Arc<str> = source.into();
        let mut names = Vec::new();
        let mut identities = Vec::new();
        for topic in described {
            let name: Arc<str> = topic.name.into();
            for partition in topic.partitions {
                names.push(PartitionName { source: source.clone(), topic: name.clone(), partition });
                identities.push(topic.id.clone());
            }
        }
        let starts = self.offsets(&names, Offset::Beginning)?;
        let ends = self.offsets(&names, Offset::End)?;
        let mut found = Vec::with_capacity(names.len());
        for (((name, identity), start), end) in names.into_iter().zip(identities).zip(starts).zip(ends) {
            let (Some(start), Some(end)) = (start, end) else {
                return Err(self.away(format!("{name}: no answer where it begins and ends")));
            };
            found.push(PartitionInfo { name, identity, start, end });
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    fn describe(&self, topics: &[String]) -> Result<Vec<TopicDescription>, SourceError> {
        let names: Result<Vec<_>, _> = topics.iter().map(|topic| CString::new(topic.as_str())).collect();
        let names = names.map_err(|_| SourceError::Setting("topic: no topic's name has a zero byte".to_owned()))?;
        let described = native::describe_topics(&self.consumer, &names, ASK).map_err(|code| self.failed(code))?;
        for topic in &described {
            match topic.error {
                None => {}
                Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
                    return Err(self.unknown(&topic.name));
                }
                Some(RDKafkaErrorCode::TopicAuthorizationFailed | RDKafkaErrorCode::InvalidTopic) => {
                    let code = topic.error.unwrap_or(RDKafkaErrorCode::InvalidTopic);
                    return Err(SourceError::Setting(format!("topic {}: {code}", topic.name)));
                }
                Some(code) => return Err(self.away(format!("topic {}: {code}", topic.name))),
            }
        }
        Ok(described)
    }

    /// Offsets of `what` (beginning, end, or a timestamp as an offset) in the order of `names`. `None`: the log has none such.
    ///
    /// The end is the last stable offset, since librdkafka asks with the consumer's isolation level.
    fn offsets(&self, names: &[PartitionName], what: Offset) -> Result<Vec<Option<i64>>, SourceError> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let mut asked = TopicPartitionList::with_capacity(names.len());
        for name in names {
            asked.add_partition_offset(&name.topic, name.partition, what).map_err(|e| self.failed_call(e))?;
        }
        let found = self.consumer.offsets_for_times(asked, ASK).map_err(|e| self.failed_call(e))?;
        names
            .iter()
            .map(|name| match found.find_partition(&name.topic, name.partition) {
                None => Ok(None),
                Some(found) => {
                    found.error().map_err(|e| self.failed_call(e))?;
                    Ok(match found.offset() {
                        Offset::Offset(offset) => Some(offset),
                        _ => None,
                    })
                }
            })
            .collect()
    }

    /// Best effort: without the group nothing is lost but a lag tool's view.
    fn report(&self, positions: &[(PartitionName, i64)]) {
        let mut offsets = TopicPartitionList::with_capacity(positions.len());
        let added = positions.iter().try_for_each(|(name, offset)| {
            offsets.add_partition_offset(&name.topic, name.partition, Offset::Offset(*offset))
        });
        if let Err(error) = added.and_then(|()| self.consumer.commit(&offsets, CommitMode::Async)) {
            tracing::debug!(target: "kafka", "offsets not told to the group: {error}");
        }
    }

    fn failed_call(&self, error: KafkaError) -> SourceError {
        match error.rdkafka_error_code() {
            Some(code) => self.failed(code),
            None => SourceError::Setting(format!("librdkafka: {error}")),
        }
    }

    fn failed(&self, code: RDKafkaErrorCode) -> SourceError {
        self.away(code.to_string())
    }

    /// With what librdkafka said of its connections, which tells more than that time ran out.
    fn away(&self, otherwise: String) -> SourceError {
        self.listen();
        match self.consumer.context().trouble() {
            Some(trouble) if matches!(trouble.code, RDKafkaErrorCode::Authentication | RDKafkaErrorCode::SSL) => {
                SourceError::Setting(format!("{}: refused by the brokers: {}", self.brokers, trouble.reason))
            }
            Some(trouble) => SourceError::Away(self.brokers.clone(), trouble.reason),
            None => SourceError::Away(self.brokers.clone(), otherwise),
        }
    }

    fn unknown(&self, topic: &str) -> SourceError {
        SourceError::UnknownTopic { topic: topic.to_owned(), brokers: self.brokers.clone() }
    }
}

fn offsets_given(
    given: &BTreeMap<(String, i32), i64>,
    of: &[PartitionInfo],
    key: &str,
) -> Result<Vec<i64>, SourceError> {
    of.iter()
        .map(|info| {
            let name = (info.name.topic.to_string(), info.name.partition);
            given.get(&name).copied().ok_or_else(|| {
                SourceError::Setting(format!("{}: `{key}` names no offset for this partition: give one", info.name))
            })
        })
        .collect()
}
