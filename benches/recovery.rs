//! How long a table stands still when a job with a large state is killed: from the SIGKILL to its first new rows.
//!
//! `cargo bench --bench recovery [-- KILLS [MIB]]`: builds dedup state of MIB (1024) in RocksDB, then KILLS (10) times kills the running job, starts it
//! again at once, and looks at the table as any other reader: at what the catalog points to. An empty commit, such as a fence, isn't counted.
//! Two times are told: until rows come that nobody has seen (they may have waited in the outbox), and until rows come that were read after the restart.
// It measures.
#![allow(clippy::disallowed_methods)]
// It uses a part of what the tests share.
#[allow(dead_code)]
#[path = "../tests/harness/mod.rs"]
mod harness;

use std::time::{Duration, Instant};

use floodmark_stack::until;
use harness::dice::Dice;
use harness::{Job, PATIENCE, Run};
use serde_json::Value;

/// A second passes before each kill, and up to two more.
const RUNS_FOR: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(2));
const BUILDS_FOR: Duration = Duration::from_secs(3_600);

/// 24 hours of event time in 24 buckets hold some 40 million ids.
fn pipeline(rate: &str) -> String {
    format!(
        r#"[pipeline]
id = "recovery"
state = "rocksdb"
memory = "2GiB"
workers = 2
checkpoint = {{ interval = "1s", dir = "file:data/checkpoints", retain = 2 }}

[source.events]
type = "generator"
workload = "clickstream"
end = "never"
event_rate = 450
poison = 0
{rate}
event_time = {{ field = "event_time_ms" }}
watermark = {{ bound = "5s" }}
discard = ["errors"]
schema = {{ event_id = "string", event_time_ms = "timestamp_ms" }}

[dedup.clean]
from = "events"
key = ["event_id"]
horizon = "24h"
discard = ["duplicates", "late"]

[sink.lake]
from = "clean"
type = "iceberg"
table = "shop.events"
catalog = {{ type = "sql", uri = "sqlite:data/catalog.db", warehouse = "file:data/warehouse" }}
commit_interval = "1s"
"#
    )
}

/// What a reader sees.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Table {
    rows: u64,
    /// Which start the newest rows were read by.
    read_by: u64,
}

fn look(job: &Job) -> Table {
    let metadata = job.metadata("events");
    let text = std::fs::read(metadata.trim_start_matches("file://")).unwrap();
    let table: Value = serde_json::from_slice(&text).unwrap();
    let current = &table["current-snapshot-id"];
    let snapshots = table["snapshots"].as_array().unwrap();
    let snapshot = snapshots.iter().find(|snapshot| snapshot["snapshot-id"] == *current).unwrap();
    let mark: Value = serde_json::from_str(table["properties"]["floodmark.recovery.lake"].as_str().unwrap()).unwrap();
    Table {
        rows: snapshot["summary"]["total-records"].as_str().unwrap().parse().unwrap(),
        read_by: mark["epoch"]["incarnation"]["number"].as_u64().unwrap_or(0),
    }
}

/// Size of the newest checkpoint's state files, and the ids in them.
fn state(job: &Job) -> Option<(u64, u64)> {
    let output = job.command(&["checkpoints", "pipeline.toml", "--json"]).output().unwrap();
    let listed: Value = serde_json::from_slice(&output.stdout).ok()?;
    let newest = &listed[0];
    Some((newest["state_bytes"].as_u64()?, newest["nodes"][0]["entries"].as_u64().unwrap_or(0)))
}

fn build(job: &Job, bytes: u64) {
    let start = Instant::now();
    let mut run = job.start();
    let mut asked = Instant::now();
    let large = until(BUILDS_FOR, || {
        assert_eq!(run.ended(), None, "{}", run.said());
        std::thread::sleep(Duration::from_secs(2));
        if asked.elapsed() > Duration::from_secs(20) {
            asked = Instant::now();
            let mib = state(job).map_or(0, |(bytes, _)| bytes >> 20);
            println!("  {mib} MiB after {:.0?}", start.elapsed());
        }
        state(job).is_some_and(|(now, _)| now >= bytes)
    });
    assert!(large, "{:?} of {bytes} bytes: {}", state(job), run.said());
    run.stop();
    println!("built in {:.0?}", start.elapsed());
}

/// Waits until the table is so; tells how long after `since` it was.
fn seen(job: &Job, run: &mut Run, since: Instant, so: impl Fn(Table) -> bool) -> Duration {
    let deadline = Instant::now() + PATIENCE;
    while !so(look(job)) {
        assert_eq!(run.ended(), None, "{}", run.said());
        assert!(Instant::now() < deadline, "{}", run.said());
        std::thread::sleep(Duration::from_millis(5));
    }
    since.elapsed()
}

fn told(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: usize| times[(times.len() * share).div_ceil(100).max(1) - 1];
    println!("{what}: median {:.2?}, p90 {:.2?}, longest {:.2?} of {}", at(50), at(90), at(100), times.len());
}

fn main() {
    let numbers: Vec<u64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let kills = numbers.first().copied().unwrap_or(10).max(1);
    let bytes = numbers.get(1).copied().unwrap_or(1_024) << 20;

    let job = Job::new(&pipeline(""));
    build(&job, bytes);
    job.edit(&pipeline("rate = 20000"));
    let (mut run, mut dice) = (job.start(), Dice::new(kills));
    let before = look(&job);
    seen(&job, &mut run, Instant::now(), |table| table.rows > before.rows && table.read_by > before.read_by);
    let (mut any, mut own) = (vec![], vec![]);
    for kill in 1..=kills {
        std::thread::sleep(RUNS_FOR.0 + dice.moment(RUNS_FOR.1));
        let killed = Instant::now();
        run.kill();
        run = job.start();
        let before = look(&job);
        any.push(seen(&job, &mut run, killed, |table| table.rows > before.rows));
        let read_after = |table: Table| table.rows > before.rows && table.read_by > before.read_by;
        own.push(seen(&job, &mut run, killed, read_after));
        println!(
            "kill {kill}: new rows after {:.2?}, rows read after it {:.2?}",
            any[any.len() - 1],
            own[own.len() - 1]
        );
    }
    run.stop();
    let (bytes, ids) = state(&job).unwrap();
    println!("state: {:.2} GiB in the checkpoint's files, {ids} ids", bytes as f64 / f64::from(1 << 30));
    told("SIGKILL to new rows in the table", any);
    told("SIGKILL to rows in the table that were read after it", own);
    assert_eq!(
        harness::tables::rows_of(&job.digest("events")),
        look(&job).rows,
        "a full scan finds the rows that are claimed"
    );
}
