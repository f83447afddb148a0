//! What reports of logs come to: who is quiet, who is back, who is new, and which log isn't the one that was read.
use floodmark_pipeline::stamp::PartitionTime;
use floodmark_pipeline::time::Span;
use floodmark_pipeline::watermark::PartitionWatermark;

use super::*;
use crate::checkpoint::partitions::SourceInfo;
use crate::file::prefix::StoredPrefix;
use crate::source::Position;

const EVENTS: NodeId = NodeId(0);
const FIRST: PartitionIndex = PartitionIndex(0);

fn name(topic: &str) -> PartitionName {
    PartitionName { source: "events".into(), topic: topic.into(), partition: 0 }
}

fn record(topic: &str, offset: i64, status: Status) -> PartitionRecord {
    PartitionRecord {
        name: name(topic),
        identity: "id".into(),
        begin: 0,
        // Of a file: ten bytes a line.
        position: Position {
            offset,
            resume: StoredPrefix { bytes: offset as u64 * 10, ..Default::default() }.encode(),
        },
        time: PartitionTime::new(PartitionWatermark::new(Span(0)), BTreeMap::new()),
        status,
        end: None,
    }
}

fn table(records: Vec<PartitionRecord>) -> Partitions {
    let source = SourceInfo { node: EVENTS, name: "events".into(), bound: Span(0), watermark: None, bounded: true };
    Partitions::new(records, vec![], vec![source])
}

fn watch(kind: LogKind, idle_ms: Option<u64>) -> Watch {
    let (_, reports) = unbounded_channel();
    let watched = Watched { name: "events".into(), idle_ms, kind, discovery_ms: 1_000, discovery_at_ms: 0 };
    let watched = BTreeMap::from([(EVENTS, watched)]);
    Watch { watched, quiet_since: BTreeMap::new(), ends: BTreeMap::new(), reports, _tasks: vec![] }
}

fn info(topic: &str, end: i64) -> PartitionInfo {
    PartitionInfo { name: name(topic), identity: "id".into(), start: 0, end }
}

/// What the watch makes of a log with these ends.
fn judge(watch: &mut Watch, table: &Partitions, now_ms: u64, ends: &[(&str, i64)]) -> String {
    let seen = Seen { node: EVENTS, partitions: Ok(ends.iter().map(|(topic, end)| info(topic, *end)).collect()) };
    let inputs = watch.judge(seen, table, now_ms).unwrap();
    let told = inputs.iter().filter_map(|input| match input {
        Input::Quiet(p) => Some(format!("{} quiet", p.0)),
        Input::CameBack(p, _) => Some(format!("{} back", p.0)),
        Input::Discovered(found) if found.is_empty() => None,
        Input::Discovered(found) => {
            Some(format!("new {}", found.iter().map(|f| &*f.name.topic).collect::<Vec<_>>().join(" ")))
        }
        other => Some(format!("{other:?}")),
    });
    told.collect::<Vec<_>>().join(", ")
}

#[test]
fn a_partition_is_quiet_when_it_has_stood_at_the_end_for_long_enough() {
    let (mut watch, table) = (watch(LogKind::Kafka, Some(300)), table(vec![record("a", 7, Status::Live)]));
    assert_eq!(judge(&mut watch, &table, 100, &[("a", 7)]), "");
    assert_eq!(judge(&mut watch, &table, 399, &[("a", 7)]), "");
    assert_eq!(judge(&mut watch, &table, 400, &[("a", 7)]), "0 quiet");
    assert_eq!(watch.quiet_since(FIRST), Some(100));
}

#[test]
fn one_with_something_to_read_is_not_quiet_however_long_it_is_not_read() {
    // Busy, or waiting for others to catch up: its position stays where it is, before the end.
    let (mut watch, table) = (watch(LogKind::Kafka, Some(300)), table(vec![record("a", 7, Status::Live)]));
    judge(&mut watch, &table, 100, &[("a", 7)]);
    assert_eq!(judge(&mut watch, &table, 200, &[("a", 9)]), "");
    assert_eq!(judge(&mut watch, &table, 9_000, &[("a", 9)]), "");
    assert_eq!(watch.quiet_since(FIRST), None);
}

#[test]
fn without_idle_a_partition_is_quiet_for_ever_and_stays_in_the_minimum() {
    let (mut watch, table) = (watch(LogKind::Kafka, None), table(vec![record("a", 7, Status::Live)]));
    judge(&mut watch, &table, 100, &[("a", 7)]);
    assert_eq!(judge(&mut watch, &table, 1_000_000, &[("a", 7)]), "");
    assert_eq!(watch.quiet_since(FIRST), Some(100), "a status says since when");
}

#[test]
fn a_log_that_can_not_be_asked_makes_nobody_quiet() {
    let (mut watch, table) = (watch(LogKind::Kafka, Some(300)), table(vec![record("a", 7, Status::Live)]));
    judge(&mut watch, &table, 100, &[("a", 7)]);
    let away = Seen { node: EVENTS, partitions: Err("connection refused".into()) };
    assert!(watch.judge(away, &table, 300).unwrap().is_empty());
    assert_eq!(judge(&mut watch, &table, 500, &[("a", 7)]), "", "counted anew");
    assert_eq!(judge(&mut watch, &table, 800, &[("a", 7)]), "0 quiet");
}

#[test]
fn one_that_left_comes_back_with_its_next_record() {
    let (mut watch, table) = (watch(LogKind::Kafka, Some(300)), table(vec![record("a", 7, Status::Idle)]));
    assert_eq!(judge(&mut watch, &table, 100, &[("a", 7)]), "");
    assert_eq!(judge(&mut watch, &table, 200, &[("a", 8)]), "0 back");
}

#[test]
fn a_file_is_at_its_end_by_its_bytes_not_by_its_lines() {
    let (mut watch, table) = (watch(LogKind::File, Some(300)), table(vec![record("a.ndjson", 7, Status::Live)]));
    judge(&mut watch, &table, 100, &[("a.ndjson", 70)]);
    assert_eq!(judge(&mut watch, &table, 400, &[("a.ndjson", 70)]), "0 quiet");
    assert_eq!(judge(&mut watch, &table, 500, &[("a.ndjson", 80)]), "", "it has grown");
}

#[test]
fn a_file_that_left_comes_back_when_it_has_grown() {
    let (mut watch, table) = (watch(LogKind::File, Some(300)), table(vec![record("a.ndjson", 7, Status::Idle)]));
    assert_eq!(judge(&mut watch, &table, 100, &[("a.ndjson", 70)]), "");
    assert_eq!(judge(&mut watch, &table, 200, &[("a.ndjson", 75)]), "0 back");
}

#[test]
fn a_compressed_file_is_never_called_quiet_since_its_size_says_nothing() {
    let (mut watch, table) = (watch(LogKind::File, Some(300)), table(vec![record("a.gz", 7, Status::Live)]));
    judge(&mut watch, &table, 100, &[("a.gz", 20)]);
    assert_eq!(judge(&mut watch, &table, 9_000, &[("a.gz", 20)]), "");
}

#[test]
fn new_partitions_are_told_of_once_in_a_discovery_interval() {
    let (mut watch, table) = (watch(LogKind::Kafka, None), table(vec![record("a", 7, Status::Live)]));
    assert_eq!(judge(&mut watch, &table, 0, &[("a", 9), ("b", 3)]), "new b");
    assert_eq!(judge(&mut watch, &table, 500, &[("a", 9), ("b", 3), ("c", 0)]), "");
    assert_eq!(judge(&mut watch, &table, 1_000, &[("a", 9), ("b", 3), ("c", 0)]), "new b c");
    assert_eq!(watch.end_of(&name("c")), Some(0));
}

#[test]
fn another_log_under_the_same_name_ends_the_job() {
    let (mut watch, table) = (watch(LogKind::Kafka, None), table(vec![record("a", 7, Status::Live)]));
    let mut seen = |info| watch.judge(Seen { node: EVENTS, partitions: Ok(vec![info]) }, &table, 0);
    let again = seen(PartitionInfo { identity: "other".into(), ..info("a", 9) }).unwrap_err();
    assert!(again.contains("the topic was deleted and made again"), "{again}");
    let short = seen(info("a", 3)).unwrap_err();
    assert!(short.contains("offset 7 is beyond the log's end 3"), "{short}");
    let gone = seen(PartitionInfo { start: 8, ..info("a", 9) }).unwrap_err();
    assert!(gone.contains("offset 7 is no longer in the log"), "{gone}");
}
