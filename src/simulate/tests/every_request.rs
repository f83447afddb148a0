//! One thing goes wrong, at every request of a small job in turn.
use super::super::log::Entry;
use super::super::{Event, Fault, Least, Report, Scenario, Trouble, play};

const PARTITIONS: usize = 2;
const FILE: &str = r#"
[pipeline]
id = "simulated"
state = "memory"
queue_batches = 1
workers = WORKERS
batch_rows = 2
checkpoint = { interval = "10ms", dir = "s3://simulated/checkpoints", retain = 2 }

[source.events]
type = "kafka"
brokers = "sim:9092"
topic = "t"
event_time = { field = "at" }
watermark = { bound = "1s" }
discard = ["errors"]
schema = { id = "string", user = "string", at = "timestamp_ms" }

[dedup.clean]
from = "events"
key = ["id"]
horizon = "1h"
discard = ["duplicates", "late"]

[window.per_user]
from = "clean"
type = "tumbling"
size = "5s"
key = ["user"]
aggregates = { events = "count()" }
discard = ["late"]

[sink.rows]
from = "clean"
type = "iceberg"
catalog = { type = "sql", uri = "sqlite:simulated.db", warehouse = "s3://simulated/warehouse" }
table = "lake.rows"
commit_interval = "20ms"

[sink.counts]
from = "per_user"
type = "file"
dir = "s3://simulated/counts"
commit_interval = "20ms"
"#;

/// An event every 1.5 s of event time in each partition, every third of them sent twice.
fn scenario(workers: usize, faults: Vec<Fault>) -> Scenario {
    let entry = |partition: usize, n: i64| {
        let at = 1_767_225_600_000 + n * 1_500;
        let value = format!("{{\"id\":\"{partition}-{n}\",\"user\":\"u{}\",\"at\":{at}}}", n % 2);
        vec![Entry { value, timestamp_ms: at }; if n % 3 == 0 { 2 } else { 1 }]
    };
    let portion = |partition: usize, portion: i64| {
        let entries = (portion * 3..portion * 3 + 3).flat_map(|n| entry(partition, n)).collect();
        (portion as u64 * 15, Event::Append { partition, entries })
    };
    Scenario {
        seed: 1,
        file: FILE.replace("WORKERS", &workers.to_string()),
        partitions: PARTITIONS,
        events: (0..PARTITIONS).flat_map(|p| (0..3).map(move |n| portion(p, n))).collect(),
        faults,
        calm_at_ms: 100,
        least: Least::default(),
        is_durable: true,
        is_encoded: false,
        is_watched: true,
    }
}

fn at(nth: usize, trouble: Trouble) -> Fault {
    Fault { class: None, nth, trouble }
}

fn right(workers: usize, faults: &[Fault]) -> Report {
    let report = play(&scenario(workers, faults.to_vec()));
    assert!(report.is_right(), "{faults:?}: {}\n{}", report.violations[0], report.trace.join("\n"));
    report
}

/// Requests of a run to which nothing happens, before it is calm.
fn requests(workers: usize) -> usize {
    let report = right(workers, &[]);
    assert!(report.rows >= PARTITIONS * 9 + 6, "{} rows: {}", report.rows, report.trace.join("\n"));
    report.trace.iter().take_while(|line| !line.ends_with(" calm")).filter(|line| line.contains(": ")).count()
}

#[test]
fn a_job_to_which_nothing_happens_makes_every_kind_of_request() {
    let trace = right(2, &[]).trace.join("\n");
    for request in [
        "log: ask",
        "checkpoints: put incarnations/",
        "checkpoints: put segments/",
        "checkpoints: put state/",
        "checkpoints: put manifests/",
        "checkpoints: list manifests",
        "checkpoints: get manifests/",
        "checkpoints: delete manifests/",
        "checkpoints: delete segments/",
        "checkpoints: delete state/",
        "rows: load",
        "rows: make",
        "rows: commit ",
        "counts: put _floodmark/counts/rows/",
        "counts: put _floodmark/counts/0",
        "counts: rename ",
    ] {
        assert!(trace.contains(request), "no request `{request}`:\n{trace}");
    }
}

fn every_request_in_turn(workers: usize, trouble: Trouble) {
    for nth in 0..requests(workers) {
        let report = right(workers, &[at(nth, trouble)]);
        assert_eq!(report.faults, 1, "{trouble:?} at {nth} never came:\n{}", report.trace.join("\n"));
    }
}

#[test]
fn a_kill_at_any_request_of_one_worker_changes_no_table() {
    every_request_in_turn(1, Trouble::Kill);
}

#[test]
fn a_kill_at_any_request_of_two_workers_changes_no_table() {
    every_request_in_turn(2, Trouble::Kill);
}

#[test]
fn a_freeze_at_any_request_while_another_starts_changes_no_table() {
    every_request_in_turn(2, Trouble::Freeze { ms: 60 });
}

#[test]
fn an_answer_lost_at_any_request_changes_no_table() {
    every_request_in_turn(2, Trouble::LoseAnswer);
}

#[test]
fn a_request_that_is_refused_changes_no_table() {
    every_request_in_turn(2, Trouble::Refuse);
}

#[test]
fn a_second_start_at_any_request_changes_no_table() {
    every_request_in_turn(1, Trouble::Twin);
}

/// The first kill comes where most is under way; the second at any request of the recovery from it.
#[test]
fn a_kill_at_any_request_of_a_recovery_changes_no_table() {
    let trace = right(2, &[]).trace;
    let requests = trace.iter().filter(|line| line.contains(" p1 ") && line.contains(": "));
    let first = requests.into_iter().position(|line| line.contains("rows: commit ")).expect("a commit") + 6;
    let all = right(2, &[at(first, Trouble::Kill)]).trace;
    let after = all.iter().take_while(|line| !line.ends_with(" calm")).filter(|line| line.contains(": ")).count();
    for nth in first + 1..after {
        right(2, &[at(first, Trouble::Kill), at(nth, Trouble::Kill)]);
    }
}
