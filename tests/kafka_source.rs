//! The Kafka source against a real broker: transactions, deleted records, recreated topics, a broker that dies.
//!
//! Asserts on records and positions. What needs no broker is in src/kafka/tests.rs.
use std::collections::BTreeMap;

use floodmark::config::model::{End, KafkaConfig, Start};
use floodmark::kafka::KafkaLog;
use floodmark::source::check::check;
use floodmark::source::{Log, PartitionInfo, Position, Progress, Reader, SourceError};
use floodmark_pipeline::ids::{PartitionIndex, PartitionName};
use floodmark_stack::broker::Broker;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use crate::harness::broker::{LONG, broker, producer};

/// Polls that may come back empty before a test gives up: each waits a millisecond.
const PATIENCE: usize = 60_000;
const FIRST: PartitionIndex = PartitionIndex(0);

fn log(broker: &Broker, topic: &str) -> KafkaLog {
    let config = KafkaConfig { brokers: broker.address(), topics: vec![topic.into()], properties: BTreeMap::new() };
    KafkaLog::new("events", &format!("test-{topic}"), config, false).unwrap()
}

/// Each value is also the record's timestamp.
fn send(producer: &BaseProducer, topic: &str, partition: i32, values: std::ops::Range<i64>) {
    for value in values {
        let payload = value.to_string();
        let record = BaseRecord::<(), str>::to(topic).partition(partition).payload(&payload).timestamp(value);
        producer.send(record).unwrap();
    }
    producer.flush(LONG).unwrap();
}

fn name(topic: &str, partition: i32) -> PartitionName {
    PartitionName { source: "events".into(), topic: topic.into(), partition }
}

fn at(offset: i64) -> Position {
    Position { offset, resume: Vec::new() }
}

fn numbers(seen: &[(u32, i64, i64)]) -> Vec<i64> {
    seen.iter().map(|(.., value)| *value).collect()
}

/// Reads (partition, offset, value) until `enough`.
fn read_until(
    reader: &mut dyn Reader,
    enough: impl Fn(&[(u32, i64, i64)], &dyn Reader) -> bool,
) -> Result<Vec<(u32, i64, i64)>, SourceError> {
    let mut seen = Vec::new();
    let mut empty = 0;
    while !enough(&seen, reader) {
        let count = reader.poll(1000, &mut |batch| {
            for record in batch.records {
                let value = std::str::from_utf8(record.payload.unwrap()).unwrap().parse().unwrap();
                seen.push((batch.partition.0, record.offset, value));
            }
        })?;
        empty = if count == 0 { empty + 1 } else { 0 };
        assert!(empty < PATIENCE, "nothing comes any more: {} records seen", seen.len());
    }
    Ok(seen)
}

fn position(reader: &dyn Reader, partition: PartitionIndex) -> i64 {
    reader.progress(partition).unwrap().position.offset
}

async fn only(log: &KafkaLog) -> PartitionInfo {
    let mut found = log.partitions().await.unwrap();
    assert_eq!(found.len(), 1);
    found.remove(0)
}

#[tokio::test]
async fn aborted_records_are_never_handed_out_and_the_lag_reaches_0() {
    let topic = "transactional";
    broker().create_topic(topic, 1).unwrap();
    let transactions = producer(broker(), Some("transactional-1"));
    for (values, commit) in [(0..10, true), (10..20, false), (20..30, true), (30..40, false)] {
        transactions.begin_transaction().unwrap();
        send(&transactions, topic, 0, values);
        if commit {
            transactions.commit_transaction(LONG).unwrap();
        } else {
            transactions.abort_transaction(LONG).unwrap();
        }
    }
    let stable = only(&log(broker(), topic)).await.end;
    assert_eq!(stable, 44, "40 records, 4 control records");
    transactions.begin_transaction().unwrap();
    send(&transactions, topic, 0, 40..50);
    assert_eq!(only(&log(broker(), topic)).await.end, stable, "an open transaction is behind the end");

    let mut reader = log(broker(), topic).reader().unwrap();
    reader.assign(FIRST, &name(topic, 0), &at(0), None).unwrap();
    let seen = read_until(reader.as_mut(), |_, reader| position(reader, FIRST) == stable).unwrap();
    assert_eq!(numbers(&seen), (0..10).chain(20..30).collect::<Vec<_>>());

    transactions.commit_transaction(LONG).unwrap();
    let end = only(&log(broker(), topic)).await.end;
    let seen = read_until(reader.as_mut(), |_, reader| position(reader, FIRST) == end).unwrap();
    assert_eq!(numbers(&seen), (40..50).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_bounded_read_ends_behind_a_control_record() {
    let topic = "bounded";
    broker().create_topic(topic, 1).unwrap();
    let transactions = producer(broker(), Some("bounded-1"));
    for (values, commit) in [(0..5, true), (5..10, false)] {
        transactions.begin_transaction().unwrap();
        send(&transactions, topic, 0, values);
        if commit {
            transactions.commit_transaction(LONG).unwrap();
        } else {
            transactions.abort_transaction(LONG).unwrap();
        }
    }
    let log = log(broker(), topic);
    let info = only(&log).await;
    let end = log.resolve_end(&End::Latest, std::slice::from_ref(&info)).await.unwrap()[0];
    assert_eq!(end, Some(12));
    let mut reader = log.reader().unwrap();
    reader.assign(FIRST, &info.name, &at(0), end).unwrap();
    let seen = read_until(reader.as_mut(), |_, reader| reader.progress(FIRST).unwrap().ended).unwrap();
    assert_eq!(numbers(&seen), (0..5).collect::<Vec<_>>());
    assert_eq!(reader.progress(FIRST), Some(Progress { position: at(12), ended: true }));
}

#[tokio::test]
async fn an_end_before_later_records_is_kept() {
    let topic = "end-before";
    broker().create_topic(topic, 1).unwrap();
    send(&producer(broker(), None), topic, 0, 0..5000);
    let mut reader = log(broker(), topic).reader().unwrap();
    reader.assign(FIRST, &name(topic, 0), &at(0), Some(1234)).unwrap();
    let seen = read_until(reader.as_mut(), |_, reader| reader.progress(FIRST).unwrap().ended).unwrap();
    assert_eq!(numbers(&seen), (0..1234).collect::<Vec<_>>());
}

#[tokio::test]
async fn new_partitions_are_found_and_read_beside_the_others() {
    let topic = "growing";
    broker().create_topic(topic, 1).unwrap();
    let plain = producer(broker(), None);
    send(&plain, topic, 0, 0..10);
    let log = log(broker(), topic);
    let mut reader = log.reader().unwrap();
    reader.assign(FIRST, &only(&log).await.name, &at(0), None).unwrap();
    read_until(reader.as_mut(), |seen, _| seen.len() == 10).unwrap();

    broker().add_partitions(topic, 3).unwrap();
    let found = log.partitions().await.unwrap();
    assert_eq!(found.iter().map(|info| info.name.partition).collect::<Vec<_>>(), [0, 1, 2]);
    let plain = producer(broker(), None);
    send(&plain, topic, 2, 100..105);
    send(&plain, topic, 0, 10..15);
    reader.assign(PartitionIndex(2), &name(topic, 2), &at(found[2].start), None).unwrap();
    let mut seen = read_until(reader.as_mut(), |seen, _| seen.len() == 10).unwrap();
    seen.sort_unstable();
    let expected: Vec<_> = (10..15).map(|n| (0, n, n)).chain((0..5).map(|n| (2, n, n + 100))).collect();
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn a_topic_made_again_is_recognised_by_its_id() {
    let topic = "recreated";
    broker().create_topic(topic, 1).unwrap();
    send(&producer(broker(), None), topic, 0, 0..10);
    let log = log(broker(), topic);
    let before = only(&log).await;
    assert!(!before.identity.is_empty());
    assert!(check(10, &before.identity, &only(&log).await).is_ok());

    broker().delete_topic(topic).unwrap();
    let gone = log.partitions().await.unwrap_err();
    assert!(matches!(&gone, SourceError::UnknownTopic { topic, .. } if topic == "recreated"), "{gone}");

    broker().create_topic(topic, 1).unwrap();
    send(&producer(broker(), None), topic, 0, 0..100);
    let again = check(10, &before.identity, &only(&log).await).unwrap_err();
    assert!(matches!(&again, SourceError::Recreated { expected, .. } if *expected == before.identity), "{again}");
}

#[tokio::test]
async fn a_topic_made_again_under_a_reader_is_not_read_from_an_old_offset() {
    let topic = "recreated-while-read";
    broker().create_topic(topic, 1).unwrap();
    send(&producer(broker(), None), topic, 0, 0..10);
    let log = log(broker(), topic);
    let mut reader = log.reader().unwrap();
    reader.assign(FIRST, &only(&log).await.name, &at(0), None).unwrap();
    read_until(reader.as_mut(), |seen, _| seen.len() == 10).unwrap();

    broker().delete_topic(topic).unwrap();
    broker().create_topic(topic, 1).unwrap();
    send(&producer(broker(), None), topic, 0, 0..3);
    let error = read_until(reader.as_mut(), |seen, _| !seen.is_empty()).unwrap_err();
    assert!(matches!(error, SourceError::AboveEnd { offset: 10, end: 3, .. }), "{error}");
}

#[tokio::test]
async fn deleted_records_are_a_gap_and_no_jump() {
    let topic = "deleted";
    broker().create_topic(topic, 1).unwrap();
    send(&producer(broker(), None), topic, 0, 0..100);
    broker().delete_records(topic, 0, 60).unwrap();
    let log = log(broker(), topic);
    let info = only(&log).await;
    assert_eq!((info.start, info.end), (60, 100));
    assert!(matches!(check(20, &info.identity, &info), Err(SourceError::BelowStart { offset: 20, start: 60, .. })));

    let mut reader = log.reader().unwrap();
    reader.assign(FIRST, &info.name, &at(20), None).unwrap();
    let error = read_until(reader.as_mut(), |seen, _| !seen.is_empty()).unwrap_err();
    assert!(matches!(error, SourceError::BelowStart { offset: 20, start: 60, .. }), "{error}");
}

#[tokio::test]
async fn a_timestamp_is_resolved_to_its_first_record_or_the_end() {
    let topic = "timestamps";
    broker().create_topic(topic, 2).unwrap();
    let plain = producer(broker(), None);
    send(&plain, topic, 0, 1000..1010);
    send(&plain, topic, 1, 500..510);
    let log = log(broker(), topic);
    let of = log.partitions().await.unwrap();
    assert_eq!(log.resolve_start(&Start::TimestampMs(1004), &of).await.unwrap(), [at(4), at(10)]);
    assert_eq!(log.resolve_end(&End::TimestampMs(504), &of).await.unwrap(), [Some(0), Some(4)]);
}

#[tokio::test]
async fn reported_offsets_are_seen_by_the_groups_tools() {
    let topic = "reported";
    broker().create_topic(topic, 1).unwrap();
    send(&producer(broker(), None), topic, 0, 0..10);
    let group: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", broker().address())
        .set("group.id", "floodmark-test-reported")
        .create()
        .unwrap();
    let log = log(broker(), topic);
    let mut committed = Offset::Invalid;
    for _ in 0..200 {
        log.report(&[(name(topic, 0), 7)]).await.unwrap();
        let mut asked = TopicPartitionList::new();
        asked.add_partition(topic, 0);
        let found = group.committed_offsets(asked, LONG).unwrap();
        committed = found.elements()[0].offset();
        if committed == Offset::Offset(7) {
            break;
        }
    }
    assert_eq!(committed, Offset::Offset(7));
}

#[tokio::test]
async fn a_topic_that_does_not_exist_is_named() {
    let error = log(broker(), "nowhere").partitions().await.unwrap_err();
    assert!(matches!(&error, SourceError::UnknownTopic { topic, .. } if topic == "nowhere"), "{error}");
}

#[tokio::test]
async fn a_killed_broker_costs_no_record_and_repeats_none() {
    let topic = "killed";
    let mut broker = Broker::start().unwrap();
    broker.create_topic(topic, 2).unwrap();
    let plain = producer(&broker, None);
    send(&plain, topic, 0, 0..200_000);
    send(&plain, topic, 1, 0..200_000);
    let log = log(&broker, topic);
    let mut reader = log.reader().unwrap();
    for partition in 0..2 {
        reader.assign(PartitionIndex(partition as u32), &name(topic, partition), &at(0), None).unwrap();
    }
    let mut seen = read_until(reader.as_mut(), |seen, _| seen.len() >= 20_000).unwrap();
    broker.kill().unwrap();
    // What has been fetched is still read, then there is trouble.
    seen.extend(read_until(reader.as_mut(), |_, reader| reader.trouble().is_some()).unwrap());
    let away = log.partitions().await.unwrap_err();
    assert!(matches!(away, SourceError::Away(..)), "{away}");
    broker.start_again().unwrap();
    seen.extend(
        read_until(reader.as_mut(), |_, reader| {
            (0..2).all(|partition| position(reader, PartitionIndex(partition)) == 200_000)
        })
        .unwrap(),
    );
    for partition in 0..2 {
        let of_one: Vec<_> = seen.iter().filter(|(p, ..)| *p == partition).map(|(_, o, v)| (*o, *v)).collect();
        assert_eq!(of_one, (0..200_000).map(|n| (n, n)).collect::<Vec<_>>());
    }
    read_until(reader.as_mut(), |_, reader| reader.trouble().is_none()).unwrap();
    assert_eq!(ends(&log).await, [200_000, 200_000]);
}

async fn ends(log: &KafkaLog) -> Vec<i64> {
    log.partitions().await.unwrap().into_iter().map(|info| info.end).collect()
}
