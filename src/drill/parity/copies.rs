//! Copies of events in other partitions, with another payload: which of them survives dedup is left to how partitions interleave.
//!
//! Doesn't know: the rest of the log, which `floodmark generate` writes. Keeps: same dials, same copies. Tested: here.
use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use serde_json::Value;

use super::ParityError;
use super::compare::Readers;
use super::feed::Feed;
use super::record::Record as Run;
use super::services::{FLINK, OURS};
use crate::workload::{Fate, Record, Workload};

/// One event in so many has a copy.
const EVERY: u64 = 50;
const LIMIT: Duration = Duration::from_secs(60);
/// What differs in a copy's payload; each event has it.
const SCHEMA: [&[u8]; 2] = [br#""schema_version":1"#, br#""schema_version":2"#];
const SCRIPT: &str = include_str!("../../../compose/readers/candidates.py");

/// All copies of a log.
pub fn of(log: &dyn Workload, partitions: u32) -> impl Iterator<Item = Record> {
    let copied = (0..log.records()).step_by(EVERY as usize).filter(|index| log.fate(*index) == Fate::OnTime);
    copied.filter_map(move |index| {
        let mut record = Record::default();
        log.record(index, &mut record);
        let at = record.value.windows(SCHEMA[0].len()).position(|part| part == SCHEMA[0])?;
        record.value[at..at + SCHEMA[0].len()].copy_from_slice(SCHEMA[1]);
        record.partition = (record.partition + 1) % partitions;
        Some(record)
    })
}

pub fn write(log: &dyn Workload, feed: &Feed) -> Result<(), ParityError> {
    let written = || -> Result<(), KafkaError> {
        let producer: ThreadedProducer<DefaultProducerContext> =
            ClientConfig::new().set("bootstrap.servers", &feed.brokers).set("enable.idempotence", "true").create()?;
        for record in of(log, feed.partitions) {
            let message = BaseRecord::to(feed.topic)
                .partition(record.partition as i32)
                .timestamp(record.timestamp_ms)
                .key(&record.key)
                .payload(&record.value);
            producer.send(message).map_err(|(error, _)| error)?;
        }
        producer.flush(LIMIT)
    };
    written().map_err(ParityError::Kafka)
}

/// Each id once, the same ids on both paths, and each row one that was written.
pub fn check(readers: &Readers, run: &mut Run) -> Result<(), ParityError> {
    let files = [FLINK, OURS, "oracle"].map(|side| readers.exported("shop.events", side));
    let counted = readers.ask("candidates.py", SCRIPT, &files)?;
    for (holds, what) in judged(&counted) {
        run.check(holds, what);
    }
    Ok(())
}

fn judged(counted: &Value) -> Vec<(bool, String)> {
    let number = |name: &str| counted[name].as_u64().unwrap_or(u64::MAX);
    let (ids, several) = (number("ids"), number("ids_of_several_rows"));
    let mut judged = vec![(
        several > 0 && ids > several,
        format!("{several} of {ids} ids were written in two partitions, with two payloads"),
    )];
    for side in ["flink", "floodmark"] {
        let of = |what: &str| number(&format!("{what}_{side}"));
        let (rows, missing, foreign, second) = (of("rows"), of("missing"), of("foreign"), of("second"));
        judged.push((
            rows == ids && missing == 0 && foreign == 0,
            format!("{side} has each id once: {rows} rows, {missing} ids missing, {foreign} rows that nobody wrote; of {second} ids the second payload"),
        ));
    }
    judged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::WorkloadName;
    use crate::workload::dials::Dials;

    #[test]
    fn a_copy_has_the_id_of_its_event_another_payload_and_another_partition() {
        let dials = Dials { events: 1_000, partitions: 3, late: 0.0, poison: 0.0, ..Dials::default() };
        let log = WorkloadName::Clickstream.build(&dials).unwrap();
        let copies: Vec<Record> = of(log.as_ref(), 3).collect();
        assert!(copies.len() > 10);
        assert_eq!(copies, of(log.as_ref(), 3).collect::<Vec<_>>());
        let mut event = Record::default();
        log.record(0, &mut event);
        let [event_json, copy_json] =
            [&event, &copies[0]].map(|record| serde_json::from_slice::<Value>(&record.value).unwrap());
        assert_eq!((&event.key, &event_json["event_id"]), (&copies[0].key, &copy_json["event_id"]));
        assert_eq!(copies[0].partition, (event.partition + 1) % 3);
        assert_eq!([&event_json["schema_version"], &copy_json["schema_version"]], [1, 2]);
    }

    #[test]
    fn a_row_that_nobody_wrote_or_an_id_that_is_missing_breaks_the_rule() {
        let counted = |foreign: u64, missing: u64| {
            serde_json::json!({
                "ids": 9, "ids_of_several_rows": 2,
                "rows_flink": 9, "missing_flink": 0, "foreign_flink": foreign, "second_flink": 1,
                "rows_floodmark": 9, "missing_floodmark": missing, "foreign_floodmark": 0, "second_floodmark": 2,
            })
        };
        let broken = |counted: &Value| judged(counted).iter().filter(|(holds, _)| !holds).count();
        assert_eq!([counted(0, 0), counted(1, 0), counted(0, 1)].map(|counted| broken(&counted)), [0, 1, 1]);
        assert!(broken(&Value::Null) > 0);
    }
}
