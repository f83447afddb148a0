//! What of librdkafka's settings a user may set, and why not the rest.
//!
//! Doesn't know: what librdkafka knows; a setting it doesn't have is refused by it, at start.
//! Keeps: nothing that exactly-once rests on can be changed from outside.
use std::collections::BTreeMap;

use super::diagnostic::Diagnostic;
use super::error_id::ErrorId;
use super::model::Secret;
use super::table::Table;

/// Settings of the engine, with the reason why they are its own.
pub const OWNED: &[(&str, &str)] = &[
    ("bootstrap.servers", "it is the key `brokers`"),
    ("metadata.broker.list", "it is the key `brokers`"),
    ("enable.auto.commit", "offsets stand in the checkpoint; the group's are written after it, for lag tools only"),
    (
        "auto.commit.interval.ms",
        "offsets stand in the checkpoint; the group's are written after it, for lag tools only",
    ),
    (
        "enable.auto.offset.store",
        "offsets stand in the checkpoint; the group's are written after it, for lag tools only",
    ),
    (
        "auto.offset.reset",
        "an offset that the log doesn't have is refused, never replaced by another; where to begin is the key `start`",
    ),
    ("isolation.level", "records of aborted transactions are never read: it is read_committed"),
    ("partition.assignment.strategy", "partitions are assigned by the engine, not by the group"),
    ("group.instance.id", "partitions are assigned by the engine, not by the group"),
    ("group.protocol", "partitions are assigned by the engine, not by the group"),
    ("group.remote.assignor", "partitions are assigned by the engine, not by the group"),
    ("enable.partition.eof", "the engine finds a partition's end by the broker's last stable offset"),
    ("topic.metadata.refresh.interval.ms", "it is the key `discovery_interval`"),
    ("allow.auto.create.topics", "a topic that isn't there is an error, not a new topic"),
    ("transactional.id", "a source writes nothing"),
    ("enable.idempotence", "a source writes nothing"),
];

pub fn read(table: &Table<'_>) -> BTreeMap<String, Secret> {
    let mut properties = BTreeMap::new();
    for (name, value) in table.pairs("properties") {
        match OWNED.iter().find(|(owned, _)| *owned == name.value) {
            Some((_, reason)) => table.cx.problems.add(
                Diagnostic::new(ErrorId::OWNED_PROPERTY, format!("`{}` is set by the engine", name.value))
                    .at(name.span, "remove it")
                    .note(format!("why: {reason}")),
            ),
            None => {
                properties.insert(name.value, Secret(value.value));
            }
        }
    }
    properties
}
