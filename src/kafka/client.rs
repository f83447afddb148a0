//! How librdkafka is set up: what the engine owns, what it tunes, and what the user says.
//!
//! Doesn't know: partitions, offsets. Keeps: the engine's own settings win over `properties`, which win over the tuning here; values of
//! `properties` may be secrets and never get into a message.
//! Tested: kafka/tests.rs.
use std::sync::Arc;

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::BaseConsumer;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaConfRes;

use super::watch::Watch;
use crate::config::model::KafkaConfig;
use crate::source::SourceError;

/// Overridable by `properties`. What is fetched ahead is bounded by `queued.max.messages.kbytes` *for each partition* that a reader has, and by one
/// fetch response beyond it.
const TUNING: [(&str, &str); 8] = [
    ("queued.min.messages", "50000"),
    ("queued.max.messages.kbytes", "8192"),
    // A fetch that waits at the broker delays partitions that are assigned meanwhile, and the news that an end is reached.
    ("fetch.wait.max.ms", "50"),
    // The default of a second would leave a partition without records each time its queue was full.
    ("fetch.queue.backoff.ms", "5"),
    ("fetch.error.backoff.ms", "100"),
    ("reconnect.backoff.max.ms", "1000"),
    ("check.crcs", "true"),
    ("socket.keepalive.enable", "true"),
];

/// What promises rest on.
const OWNED: [(&str, &str); 6] = [
    ("isolation.level", "read_committed"),
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    ("auto.offset.reset", "error"),
    ("enable.partition.eof", "true"),
    ("allow.auto.create.topics", "false"),
];

/// What only asks. Polled rarely, so nothing that librdkafka says regularly may pile up in it.
pub fn asking(config: &KafkaConfig, group: &str) -> Result<Arc<BaseConsumer<Watch>>, SourceError> {
    consumer(config, group, "0")
}

/// What reads. Statistics are the only sign that a connection over which nothing comes is there again.
pub fn reading(config: &KafkaConfig, group: &str) -> Result<Arc<BaseConsumer<Watch>>, SourceError> {
    consumer(config, group, "1000")
}

/// In no group: `group` only names the offsets that are reported for people's tools.
fn consumer(config: &KafkaConfig, group: &str, statistics_ms: &str) -> Result<Arc<BaseConsumer<Watch>>, SourceError> {
    let mut client = ClientConfig::new();
    client.set_log_level(RDKafkaLogLevel::Info);
    client.set("client.id", "floodmark");
    for (key, value) in TUNING {
        client.set(key, value);
    }
    for (key, value) in &config.properties {
        client.set(key, &value.0);
    }
    for (key, value) in OWNED {
        client.set(key, value);
    }
    client
        .set("bootstrap.servers", &config.brokers)
        .set("group.id", group)
        .set("statistics.interval.ms", statistics_ms);
    client.create_with_context(Watch::default()).map(Arc::new).map_err(refused)
}

fn refused(error: KafkaError) -> SourceError {
    SourceError::Setting(match error {
        KafkaError::ClientConfig(RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN, _, key, _) => {
            format!("properties: `{key}` is no setting of librdkafka")
        }
        KafkaError::ClientConfig(_, _, key, _) => {
            format!("properties: the value of `{key}` isn't one that librdkafka takes")
        }
        other => format!("properties: librdkafka refuses them: {other}"),
    })
}
