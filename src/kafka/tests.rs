//! The paths that need no real broker, on librdkafka's mock cluster. It knows no transactions and describes no topics: see tests/kafka_source.rs.
use std::collections::BTreeMap;
use std::time::Duration;

use floodmark_pipeline::ids::{PartitionIndex, PartitionName};
use rdkafka::ClientConfig;

use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer};

use super::KafkaLog;
use crate::config::model::{End, KafkaConfig, Secret, Start};
use crate::source::{Log, PartitionInfo, Position, Progress, Reader, SourceError};

/// Polls that may come back empty before a test gives up: each waits a millisecond.
const PATIENCE: usize = 20_000;

struct World {
    cluster: MockCluster<'static, DefaultProducerContext>,
    producer: BaseProducer,
    config: KafkaConfig,
}

/// A record as a test sees it: (partition, offset, value).
type Seen = (u32, i64, String);

fn world(partitions: i32) -> World {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("t", partitions, 1).unwrap();
    let brokers = cluster.bootstrap_servers();
    let producer = ClientConfig::new().set("bootstrap.servers", &brokers).create().unwrap();
    World { cluster, producer, config: KafkaConfig { brokers, topics: vec!["t".into()], properties: BTreeMap::new() } }
}

impl World {
    fn produce(&self, partition: i32, values: std::ops::Range<i64>) {
        for value in values {
            let value = value.to_string();
            self.producer.send(BaseRecord::<(), str>::to("t").partition(partition).payload(&value)).unwrap();
        }
        self.producer.flush(Duration::from_secs(30)).unwrap();
    }

    fn log(&self) -> KafkaLog {
        KafkaLog::new("events", "test", self.config.clone(), true).unwrap()
    }

    fn log_error(&self) -> String {
        KafkaLog::new("events", "test", self.config.clone(), false).err().unwrap().to_string()
    }
}

fn name(partition: i32) -> PartitionName {
    PartitionName { source: "events".into(), topic: "t".into(), partition }
}

fn at(offset: i64) -> Position {
    Position { offset, resume: Vec::new() }
}

/// Reads until `enough`, in polls of at most `max` records.
fn read_until(
    reader: &mut dyn Reader,
    max: usize,
    enough: impl Fn(&[Seen], &dyn Reader) -> bool,
) -> Result<Vec<Seen>, SourceError> {
    let mut seen = Vec::new();
    let mut empty = 0;
    while !enough(&seen, reader) {
        let before = seen.len();
        let count = reader.poll(max, &mut |batch| {
            for record in batch.records {
                let value = String::from_utf8(record.payload.unwrap().to_vec()).unwrap();
                seen.push((batch.partition.0, record.offset, value));
            }
        })?;
        assert!(count <= max);
        assert_eq!(count, seen.len() - before);
        empty = if count == 0 { empty + 1 } else { 0 };
        assert!(empty < PATIENCE, "nothing comes any more: {} records seen", seen.len());
    }
    Ok(seen)
}

fn ended(partition: u32) -> impl Fn(&[Seen], &dyn Reader) -> bool {
    move |_, reader| reader.progress(PartitionIndex(partition)).unwrap().ended
}

/// What a broker would say of partitions of `ends` records; the mock has no controller to ask for topics.
fn infos(ends: &[i64]) -> Vec<PartitionInfo> {
    let info = |(partition, &end)| PartitionInfo { name: name(partition), identity: String::new(), start: 0, end };
    (0..).zip(ends).map(info).collect()
}

#[test]
fn all_partitions_are_read_in_order_and_in_turn() {
    let world = world(3);
    for partition in 0..3 {
        world.produce(partition, 0..500);
    }
    let mut reader = world.log().reader().unwrap();
    for partition in 0..3 {
        reader.assign(PartitionIndex(partition as u32), &name(partition), &at(0), None).unwrap();
    }
    let seen = read_until(reader.as_mut(), 64, |seen, _| seen.len() == 1500).unwrap();
    for partition in 0..3 {
        let of_one: Vec<_> = seen.iter().filter(|(p, ..)| *p == partition).cloned().collect();
        let expected: Vec<_> = (0..500).map(|n| (partition, n, n.to_string())).collect();
        assert_eq!(of_one, expected);
        assert_eq!(reader.progress(PartitionIndex(partition)), Some(Progress { position: at(500), ended: false }));
    }
}

#[test]
fn reading_goes_on_from_where_it_is_told() {
    let world = world(1);
    world.produce(0, 0..10);
    let mut reader = world.log().reader().unwrap();
    reader.assign(PartitionIndex(7), &name(0), &at(8), None).unwrap();
    let seen = read_until(reader.as_mut(), 100, |seen, _| seen.len() == 2).unwrap();
    assert_eq!(seen, [(7, 8, "8".into()), (7, 9, "9".into())]);
}

#[test]
fn nothing_at_or_after_the_end_is_handed_out() {
    let world = world(1);
    world.produce(0, 0..100);
    let mut reader = world.log().reader().unwrap();
    reader.assign(PartitionIndex(0), &name(0), &at(0), Some(42)).unwrap();
    let seen = read_until(reader.as_mut(), 10, ended(0)).unwrap();
    assert_eq!(seen.len(), 42);
    assert_eq!(reader.progress(PartitionIndex(0)), Some(Progress { position: at(42), ended: true }));
}

#[test]
fn an_end_that_the_log_has_not_reached_is_waited_for_and_no_record_is_passed_over() {
    let world = world(2);
    world.produce(1, 0..3);
    let mut reader = world.log().reader().unwrap();
    reader.assign(PartitionIndex(0), &name(0), &at(0), Some(5)).unwrap();
    reader.assign(PartitionIndex(1), &name(1), &at(0), Some(5)).unwrap();
    let all_drained = |_: &[Seen], reader: &dyn Reader| [0, 1].iter().all(|p| reader.drained(PartitionIndex(*p)));
    read_until(reader.as_mut(), 100, all_drained).unwrap();
    // The next look at the position comes with a poll that hands out nothing.
    reader.poll(100, &mut |_| ()).unwrap();
    let offset = |reader: &dyn Reader, partition| reader.progress(PartitionIndex(partition)).unwrap().position.offset;
    assert_eq!([offset(reader.as_ref(), 0), offset(reader.as_ref(), 1)], [0, 3]);
    world.produce(0, 0..5);
    world.produce(1, 3..5);
    let both_ended = |seen: &[Seen], reader: &dyn Reader| ended(0)(seen, reader) && ended(1)(seen, reader);
    let mut seen = read_until(reader.as_mut(), 100, both_ended).unwrap();
    seen.sort();
    let expected = (0..5).map(|n| (0, n)).chain((3..5).map(|n| (1, n)));
    assert_eq!(seen, expected.map(|(p, n)| (p, n, n.to_string())).collect::<Vec<_>>());
}

#[test]
fn a_partition_assigned_at_its_end_has_ended_at_once() {
    let world = world(1);
    let mut reader = world.log().reader().unwrap();
    reader.assign(PartitionIndex(0), &name(0), &at(5), Some(5)).unwrap();
    assert_eq!(reader.progress(PartitionIndex(0)), Some(Progress { position: at(5), ended: true }));
}

#[test]
fn a_paused_partition_hands_out_nothing_and_loses_nothing() {
    let world = world(2);
    world.produce(0, 0..1000);
    world.produce(1, 0..1000);
    let mut reader = world.log().reader().unwrap();
    for partition in 0..2 {
        reader.assign(PartitionIndex(partition as u32), &name(partition), &at(0), None).unwrap();
    }
    let mut seen = read_until(reader.as_mut(), 10, |seen, _| seen.iter().any(|(p, ..)| *p == 0)).unwrap();
    reader.pause(PartitionIndex(0), true).unwrap();
    let of_one = seen.iter().filter(|(p, ..)| *p == 1).count();
    let meanwhile = read_until(reader.as_mut(), 100, |seen, _| seen.len() == 1000 - of_one).unwrap();
    assert!(meanwhile.iter().all(|(p, ..)| *p == 1));
    reader.pause(PartitionIndex(0), false).unwrap();
    seen.extend(
        read_until(reader.as_mut(), 100, |seen, r| {
            !seen.is_empty() && r.progress(PartitionIndex(0)).unwrap().position == at(1000)
        })
        .unwrap(),
    );
    let offsets: Vec<_> = seen.iter().filter(|(p, ..)| *p == 0).map(|(_, o, _)| *o).collect();
    assert_eq!(offsets, (0..1000).collect::<Vec<_>>());
}

#[test]
fn one_that_was_paused_and_is_assigned_again_goes_on_where_it_is_told() {
    let world = world(1);
    world.produce(0, 0..100);
    let mut reader = world.log().reader().unwrap();
    let first = PartitionIndex(0);
    reader.assign(first, &name(0), &at(0), None).unwrap();
    let mut seen = read_until(reader.as_mut(), 10, |seen, _| seen.len() == 30).unwrap();
    reader.pause(first, true).unwrap();
    reader.assign(first, &name(0), &at(30), None).unwrap();
    seen.extend(read_until(reader.as_mut(), 10, |seen, _| seen.len() == 70).unwrap());
    let offsets: Vec<_> = seen.iter().map(|(_, offset, _)| *offset).collect();
    assert_eq!(offsets, (0..100).collect::<Vec<_>>(), "where it was left");

    reader.pause(first, true).unwrap();
    reader.assign(first, &name(0), &at(50), Some(60)).unwrap();
    let again = read_until(reader.as_mut(), 100, ended(0)).unwrap();
    let offsets: Vec<_> = again.iter().map(|(_, offset, _)| *offset).collect();
    assert_eq!(offsets, (50..60).collect::<Vec<_>>(), "elsewhere");
    reader.assign(first, &name(0), &at(60), Some(100)).unwrap();
    let rest = read_until(reader.as_mut(), 100, ended(0)).unwrap();
    assert_eq!(rest.len(), 40, "one that had ended");
}

#[test]
fn an_offset_above_the_end_is_an_error_and_no_jump() {
    let world = world(1);
    world.produce(0, 0..10);
    let mut reader = world.log().reader().unwrap();
    reader.assign(PartitionIndex(0), &name(0), &at(1000), None).unwrap();
    let error = read_until(reader.as_mut(), 10, |seen, _| !seen.is_empty()).unwrap_err();
    assert!(matches!(error, SourceError::AboveEnd { offset: 1000, end: 10, .. }), "{error}");
}

#[test]
fn key_headers_and_timestamp_come_with_the_record() {
    let world = world(1);
    let headers = OwnedHeaders::new()
        .insert(Header { key: "a", value: Some("1") })
        .insert(Header::<&str> { key: "none", value: None });
    world
        .producer
        .send(BaseRecord::to("t").partition(0).key("k").payload("v").timestamp(1234).headers(headers))
        .unwrap();
    world.producer.send(BaseRecord::<str, str>::to("t").partition(0).key("tombstone")).unwrap();
    world.producer.send(BaseRecord::<str, str>::to("t").partition(0).payload("")).unwrap();
    world.producer.flush(Duration::from_secs(30)).unwrap();
    let mut reader = world.log().reader().unwrap();
    reader.assign(PartitionIndex(0), &name(0), &at(0), None).unwrap();
    let mut seen = Vec::new();
    while seen.len() < 3 {
        reader
            .poll(10, &mut |batch| {
                for record in batch.records {
                    let headers: Vec<_> =
                        record.headers.iter().map(|(k, v)| ((*k).to_owned(), v.map(<[u8]>::to_vec))).collect();
                    seen.push((
                        record.key.map(<[u8]>::to_vec),
                        record.payload.map(<[u8]>::to_vec),
                        record.timestamp_ms,
                        headers,
                    ));
                }
            })
            .unwrap();
    }
    assert_eq!(seen[0].0.as_deref(), Some(&b"k"[..]));
    assert_eq!(seen[0].1.as_deref(), Some(&b"v"[..]));
    assert_eq!(seen[0].2, Some(1234));
    assert_eq!(seen[0].3, [("a".to_owned(), Some(b"1".to_vec())), ("none".to_owned(), None)]);
    assert_eq!((seen[1].0.as_deref(), seen[1].1.as_deref()), (Some(&b"tombstone"[..]), None));
    assert_eq!((seen[2].0.as_deref(), seen[2].1.as_deref()), (None, Some(&b""[..])));
}

#[test]
fn a_broker_that_is_away_is_trouble_and_passes() {
    let world = world(1);
    world.produce(0, 0..10);
    let mut reader = world.log().reader().unwrap();
    reader.assign(PartitionIndex(0), &name(0), &at(0), None).unwrap();
    read_until(reader.as_mut(), 10, |seen, _| seen.len() == 10).unwrap();
    world.cluster.broker_down(1).unwrap();
    read_until(reader.as_mut(), 10, |_, reader| reader.trouble().is_some()).unwrap();
    world.cluster.broker_up(1).unwrap();
    read_until(reader.as_mut(), 10, |_, reader| reader.trouble().is_none()).unwrap();
    world.produce(0, 10..20);
    let seen = read_until(reader.as_mut(), 10, |seen, _| seen.len() == 10).unwrap();
    assert_eq!(seen[0], (0, 10, "10".into()));
}

#[tokio::test]
async fn a_broker_that_is_not_there_is_named() {
    let mut world = world(1);
    world.config.brokers = "127.0.0.1:1".into();
    let error = world.log().partitions().await.unwrap_err();
    assert!(matches!(&error, SourceError::Away(brokers, _) if brokers == "127.0.0.1:1"), "{error}");
}

#[tokio::test]
async fn starts_and_ends_are_resolved_to_offsets() {
    let of = infos(&[10, 0]);
    let world = world(2);
    let log = world.log();
    let start = |start| {
        let (log, of) = (&log, &of);
        async move { log.resolve_start(&start, of).await }
    };
    assert_eq!(start(Start::Earliest).await.unwrap(), [at(0), at(0)]);
    assert_eq!(start(Start::Latest).await.unwrap(), [at(10), at(0)]);
    let given = BTreeMap::from([(("t".to_owned(), 0), 4), (("t".to_owned(), 1), 0)]);
    assert_eq!(start(Start::Offsets(given.clone())).await.unwrap(), [at(4), at(0)]);
    assert_eq!(log.resolve_end(&End::Offsets(given), &of).await.unwrap(), [Some(4), Some(0)]);
    assert_eq!(log.resolve_end(&End::Latest, &of).await.unwrap(), [Some(10), Some(0)]);
    assert_eq!(log.resolve_end(&End::Never, &of).await.unwrap(), [None, None]);
}

#[tokio::test]
async fn a_start_offset_that_is_missing_or_out_of_range_is_refused() {
    let of = infos(&[10]);
    let world = world(1);
    let missing = world.log().resolve_start(&Start::Offsets(BTreeMap::new()), &of).await.unwrap_err();
    assert_eq!(missing.to_string(), "events:t-0: `start` names no offset for this partition: give one");
    let beyond = BTreeMap::from([(("t".to_owned(), 0), 11)]);
    let beyond = world.log().resolve_start(&Start::Offsets(beyond), &of).await.unwrap_err();
    assert!(matches!(beyond, SourceError::AboveEnd { offset: 11, end: 10, .. }), "{beyond}");
}

#[test]
fn a_property_that_librdkafka_refuses_is_named_without_its_value() {
    let mut world = world(1);
    world.config.properties.insert("security.protocol".into(), Secret("hunter2".into()));
    let error = world.log_error();
    assert_eq!(error, "properties: the value of `security.protocol` isn't one that librdkafka takes");
    world.config.properties = BTreeMap::from([("no.such".into(), Secret("hunter2".into()))]);
    assert_eq!(world.log_error(), "properties: `no.such` is no setting of librdkafka");
}

#[test]
fn a_partition_is_drained_when_the_broker_has_no_more() {
    let world = world(2);
    world.produce(0, 0..5);
    let mut reader = world.log().reader().unwrap();
    for partition in 0..2 {
        reader.assign(PartitionIndex(partition as u32), &name(partition), &at(0), None).unwrap();
    }
    assert!(!reader.drained(PartitionIndex(0)) && !reader.drained(PartitionIndex(1)), "nothing is known yet");
    let both = |reader: &dyn Reader| reader.drained(PartitionIndex(0)) && reader.drained(PartitionIndex(1));
    let seen = read_until(reader.as_mut(), 64, |_, reader| both(reader)).unwrap();
    assert_eq!(seen.len(), 5, "all of it was handed out before");
}
