//! The engine against the oracle, which shares no code with it: any small log, any dials, any crash, the same rows of every output.
//!
//! Copies of an id lie in one partition: then every output is a function of the log. Shrinks to a small log.
use std::collections::BTreeMap;

use floodmark_oracle::{Record, expected};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::super::log::Entry;
use super::super::{Event, Fault, Least, Scenario, Trouble, play};

const PARTITIONS: usize = 2;

const CASES: u32 = 400;
/// Outputs of the pipeline below, each with a sink of its name.
const OUTPUTS: [&str; 8] =
    ["clean", "clean.duplicates", "clean.late", "hops", "hops.late", "visits", "visits.late", "visits.errors"];

#[derive(Clone, Debug)]
struct Dials {
    bound_ms: i64,
    lateness: &'static str,
    horizon_ms: i64,
    bucket_ms: i64,
    size_ms: i64,
    slide_ms: i64,
    offset_ms: i64,
    gap_ms: i64,
    workers: usize,
    batch_rows: usize,
    /// A step at which the first run is killed.
    kill_at: Option<usize>,
    /// When everything is set back to a checkpoint, and to which.
    back: Option<(u64, usize)>,
}

impl Dials {
    fn file(&self) -> String {
        let Self { bound_ms, lateness, horizon_ms, bucket_ms, size_ms, slide_ms, offset_ms, gap_ms, .. } = self;
        let sinks: String = OUTPUTS.iter().map(|output| sink(output)).collect();
        format!(
            r#"
[pipeline]
id = "simulated"
state = "memory"
queue_batches = 1
checkpoint = {{ interval = "10ms", dir = "s3://simulated/checkpoints", retain = 2 }}
workers = {workers}
batch_rows = {batch_rows}

[source.events]
type = "kafka"
brokers = "sim:9092"
topic = "t"
event_time = {{ field = "at" }}
watermark = {{ bound = "{bound_ms}ms" }}
lateness = "{lateness}"
discard = ["errors"]
schema = {{ key = "string", user = "string?", at = "timestamp_ms", price = "int64?", tax = "decimal(4,2)?" }}

[dedup.clean]
from = "events"
key = ["key"]
horizon = "{horizon_ms}ms"
bucket = "{bucket_ms}ms"

[window.hops]
from = "clean"
type = "hopping"
size = "{size_ms}ms"
slide = "{slide_ms}ms"
offset = "{offset_ms}ms"
key = ["user"]
aggregates = {{ n = "count()", lowest = "min(price)", mean = "avg(tax)" }}

[window.visits]
from = "clean"
type = "session"
gap = "{gap_ms}ms"
key = ["user"]
aggregates = {{ n = "count(price)", total = "sum(price)", highest = "max(tax)" }}
{sinks}"#,
            workers = self.workers,
            batch_rows = self.batch_rows,
        )
    }
}

fn sink(output: &str) -> String {
    let name = sink_of(output);
    format!(
        "\n[sink.{name}]\nfrom = \"{output}\"\ntype = \"file\"\ndir = \"s3://simulated/{name}\"\ncommit_interval = \"20ms\"\n"
    )
}

fn sink_of(output: &str) -> String {
    format!("{}_rows", output.replace('.', "_"))
}

fn dials() -> impl Strategy<Value = Dials> {
    let time = (0i64..40, select(vec!["window", "event"]));
    // A horizon has at most a thousand buckets, and a window begins at less than a step.
    let dedup = (1i64..60, 1i64..30);
    let windows = (1i64..30, 1i64..30, 0i64..30, 1i64..15);
    let run = (1usize..4, select(vec![1usize, 2, 7, 100]), proptest::option::of(0usize..150), back());
    (time, dedup, windows, run).prop_map(|(time, dedup, windows, run)| Dials {
        bound_ms: time.0,
        lateness: time.1,
        horizon_ms: dedup.0,
        bucket_ms: dedup.1.min(dedup.0),
        size_ms: windows.0.max(windows.1),
        slide_ms: windows.0.min(windows.1),
        offset_ms: windows.2 % windows.0.min(windows.1),
        gap_ms: windows.3,
        workers: run.0,
        batch_rows: run.1,
        kill_at: run.2,
        back: run.3,
    })
}

fn back() -> impl Strategy<Value = Option<(u64, usize)>> {
    proptest::option::weighted(0.3, (15u64..95, 0usize..6))
}

/// Values of the first partition's records and of the second's: few ids, users and times, so that copies, ties and gaps of every width come up.
fn log() -> impl Strategy<Value = [Vec<String>; PARTITIONS]> {
    let record = |partition: usize| {
        let user = proptest::option::of(0..3);
        let price = proptest::option::of(prop_oneof![8 => -9i64..9, 1 => Just(i64::MAX), 1 => Just(i64::MIN)]);
        let tax = proptest::option::of(-999i64..999);
        let whole = (0..8, user, -60i64..60, price, tax).prop_map(move |(id, user, at, price, tax)| {
            let user = user.map_or("null".to_owned(), |user| format!("\"u{user}\""));
            let price = price.map_or(String::new(), |price| format!(",\"price\":{price}"));
            let tax = tax.map_or(String::new(), |tax| format!(",\"tax\":\"{}\"", cents(tax)));
            format!("{{\"key\":\"{partition}-{id}\",\"user\":{user},\"at\":{at}{price}{tax}}}")
        });
        let bad =
            select(vec!["", "{", "[]", "{\"key\":\"x\"}", "{\"key\":1,\"at\":0}", "{\"key\":\"x\",\"at\":\"soon\"}"]);
        prop_oneof![15 => whole, 1 => bad.prop_map(str::to_owned)]
    };
    [proptest::collection::vec(record(0), 0..25), proptest::collection::vec(record(1), 0..25)]
}

fn cents(n: i64) -> String {
    format!("{}{}.{:02}", if n < 0 { "-" } else { "" }, n.abs() / 100, n.abs() % 100)
}

fn entries(values: &[String]) -> Vec<Entry> {
    values.iter().map(|value| Entry { value: value.clone(), timestamp_ms: 0 }).collect()
}

fn scenario(dials: &Dials, log: &[Vec<String>]) -> Scenario {
    let append =
        |(partition, values): (usize, &Vec<String>)| (0, Event::Append { partition, entries: entries(values) });
    let kill = dials.kill_at.map(|nth| Fault { class: None, nth, trouble: Trouble::Kill });
    let back = dials.back.map(|(at_ms, to)| (at_ms, Event::GoBack { to }));
    Scenario {
        seed: dials.kill_at.unwrap_or(0) as u64,
        file: dials.file(),
        partitions: PARTITIONS,
        events: log.iter().enumerate().map(append).chain(back).collect(),
        faults: kill.into_iter().collect(),
        calm_at_ms: 100,
        least: Least::default(),
        is_durable: true,
        is_encoded: false,
        is_watched: true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn the_engine_makes_of_any_log_what_the_oracle_says(dials in dials(), log in log()) {
        let report = play(&scenario(&dials, &log));
        prop_assert!(report.is_right(), "{}\n{}", report.violations[0], report.trace.join("\n"));
    }
}

fn records(log: &[Vec<String>]) -> Vec<Record> {
    let of = |(partition, values): (usize, &Vec<String>)| {
        let record = move |(offset, value): (usize, &String)| Record {
            source: "events".into(),
            topic: "t".into(),
            partition: partition as i32,
            offset: offset as i64,
            value: Some(value.as_bytes().to_vec()),
            ..Record::default()
        };
        values.iter().enumerate().map(record).collect::<Vec<_>>()
    };
    log.iter().enumerate().flat_map(of).collect()
}

#[test]
fn such_logs_give_rows_to_every_output() {
    let mut runner = TestRunner::deterministic();
    let mut rows = BTreeMap::from(OUTPUTS.map(|output| (output, 0)));
    for _ in 0..CASES {
        let (dials, log) = (dials(), log()).new_tree(&mut runner).unwrap().current();
        let right = expected(&dials.file(), &records(&log), &[]).unwrap();
        rows.iter_mut().for_each(|(output, rows)| *rows += right[*output].len());
    }
    assert!(rows.values().all(|rows| *rows > 5), "{rows:?}");
}

/// The log comes in portions, so that checkpoints lie in the midst of it.
fn in_portions(dials: &Dials, log: &[Vec<String>]) -> Scenario {
    let mut scenario = scenario(dials, log);
    let appended = std::mem::take(&mut scenario.events);
    for (at_ms, event) in appended {
        let Event::Append { partition, entries } = event else {
            scenario.events.push((at_ms, event));
            continue;
        };
        let portions = (0..).step_by(12).zip(entries.chunks(3));
        scenario
            .events
            .extend(portions.map(|(at_ms, some)| (at_ms, Event::Append { partition, entries: some.to_vec() })));
    }
    scenario.events.sort_by_key(|(at_ms, _)| *at_ms);
    scenario
}

/// Metamorphic: what the tables hold rests on the log alone, and not on how often and from where it was begun anew.
#[test]
fn going_back_to_any_checkpoint_with_its_tables_changes_no_table() {
    let mut runner = TestRunner::deterministic();
    let mut went_back = 0;
    for case in 0..20 {
        let (dials, log) = (dials(), log()).new_tree(&mut runner).unwrap().current();
        for to in 0..3 {
            let dials = Dials { back: Some((100 + case * 6, to)), kill_at: None, ..dials.clone() };
            let report = play(&Scenario { calm_at_ms: 250, ..in_portions(&dials, &log) });
            assert!(report.is_right(), "{dials:?}: {}\n{}", report.violations[0], report.trace.join("\n"));
            went_back += usize::from(report.trace.iter().any(|line| line.contains(" back to manifests/")));
        }
    }
    assert!(went_back > 40, "{went_back} of 60");
}

/// The same from where it is killed at any request on its way, with tables of their own beside the folders.
#[test]
fn going_back_and_being_killed_at_any_request_changes_no_table() {
    let mut runner = TestRunner::deterministic();
    let (dials, log) = (dials(), log()).new_tree(&mut runner).unwrap().current();
    for kill_at in (20..200).step_by(3) {
        let dials = Dials { back: Some((120, kill_at)), kill_at: Some(kill_at), workers: 2, ..dials.clone() };
        let mut scenario = Scenario { calm_at_ms: 250, ..in_portions(&dials, &log) };
        scenario.file = scenario.file.replacen("type = \"file\"\ndir = \"s3://simulated/clean_rows\"", TABLE, 1);
        let report = play(&scenario);
        assert!(report.is_right(), "{dials:?}: {}\n{}", report.violations[0], report.trace.join("\n"));
    }
}

const TABLE: &str = r#"type = "iceberg"
catalog = { type = "sql", uri = "sqlite:simulated.db", warehouse = "s3://simulated/warehouse" }
table = "lake.clean""#;
