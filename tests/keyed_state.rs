//! Keyed state of the real program: what it holds at a cut, what it costs, and what goes when a node begins anew.
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use floodmark_stack::Port;
use serde_json::Value;

use crate::harness::dice::Dice;
use crate::harness::log::Log;
use crate::harness::pipelines::{Dials, sqlite};
use crate::harness::tables::{block_on, rows_of};
use crate::harness::{Job, Run};

/// 2026-01-01T00:00:00Z.
const BASE_MS: i64 = 1_767_225_600_000;

/// Sections that tests change; the sink writes files to `out`.
fn small(pipeline: &str, source: &str, node: &str) -> String {
    format!(
        r#"[pipeline]
id = "small"
workers = 2
{pipeline}
[source.events]
type = "file"
path = "data/events"
event_time = {{ field = "time" }}
watermark = {{ bound = "1s" }}
discard = ["errors"]
schema = {{ id = "string", user = "string", time = "timestamp_ms" }}
{source}
{node}
[sink.out]
from = "keyed"
type = "file"
dir = "file:out"
"#
    )
}

fn dedup(key: &str) -> String {
    format!(
        "[dedup.keyed]\nfrom = \"events\"\nkey = [\"{key}\"]\nhorizon = \"24h\"\ndiscard = [\"duplicates\", \"late\"]"
    )
}

fn tumbling(size: &str) -> String {
    let rest = "aggregates = { events = \"count()\" }\ndiscard = [\"late\"]";
    format!("[window.keyed]\nfrom = \"events\"\ntype = \"tumbling\"\nsize = \"{size}\"\nkey = [\"user\"]\n{rest}")
}

const EVERY_50_MS: &str = r#"checkpoint = { interval = "50ms", dir = "file:data/checkpoints" }"#;
/// A start makes one manifest, and no other follows.
const NEVER: &str = r#"checkpoint = { interval = "7d", dir = "file:data/checkpoints" }"#;
const WAITS: &str = "end = \"never\"\ndiscovery_interval = \"50ms\"";

/// A file of one event for each id, all of one user, at this second.
fn feed(job: &Job, file: &str, ids: std::ops::Range<u32>, second: i64) {
    fs::create_dir_all(job.path("data/events")).unwrap();
    let line = |id| format!("{{\"id\":\"{id}\",\"user\":\"u{}\",\"time\":{}}}\n", id % 2, BASE_MS + second * 1_000);
    fs::write(job.path("data/events").join(file), ids.map(line).collect::<String>()).unwrap();
}

/// The rows that the sink has made visible.
fn rows(job: &Job) -> Vec<Value> {
    job.rows_in("out").iter().map(|row| serde_json::from_str(row).unwrap()).collect()
}

/// What `floodmark checkpoints` says of the newest one.
fn newest_checkpoint(job: &Job) -> Option<Value> {
    let output = job.command(&["checkpoints", "pipeline.toml", "--json"]).output().unwrap();
    let listed: Value = serde_json::from_slice(&output.stdout).ok()?;
    listed.get(0).filter(|newest| newest.get("state_digest").is_some()).cloned()
}

#[test]
fn a_reset_dedup_forgets_what_it_saw_and_remembers_from_there_on() {
    let job = Job::new(&small(EVERY_50_MS, "", &dedup("id")));
    feed(&job, "a.ndjson", 0..100, 10);
    job.finish();
    feed(&job, "b.ndjson", 50..150, 20);
    job.finish();
    assert_eq!(rows(&job).len(), 150, "without a reset");
    feed(&job, "c.ndjson", 0..150, 30);
    job.ends_with(0, &["--reset", "keyed"]);
    assert_eq!(rows(&job).len(), 300, "all ids of the third file are new again");
    feed(&job, "d.ndjson", 100..200, 40);
    job.finish();
    assert_eq!(rows(&job).len(), 350, "what came after the reset is remembered");
}

#[test]
fn a_kill_right_after_a_reset_does_not_bring_the_old_state_back() {
    let job = Job::new(&small(EVERY_50_MS, "", &dedup("id")));
    feed(&job, "a.ndjson", 0..100, 10);
    job.finish();
    job.edit(&small(NEVER, WAITS, &dedup("id")));
    let mut run = job.start_with(&["--reset", "keyed"]);
    job.wait_while(&mut run, |job| newest_checkpoint(job).is_some_and(|c| c["incarnation"] == 2));
    run.kill();
    assert_eq!(newest_checkpoint(&job).unwrap()["nodes"], Value::Array(vec![]), "no node has state");
    job.edit(&small(EVERY_50_MS, "", &dedup("id")));
    feed(&job, "b.ndjson", 0..100, 20);
    job.finish();
    assert_eq!(rows(&job).len(), 200);
}

#[test]
fn a_node_with_another_key_is_refused_until_it_is_reset() {
    let job = Job::new(&small(EVERY_50_MS, "", &dedup("id")));
    feed(&job, "a.ndjson", 0..100, 10);
    job.finish();
    job.edit(&small(EVERY_50_MS, "", &dedup("user")));
    feed(&job, "b.ndjson", 0..100, 20);
    let said = job.ends_with(3, &[]);
    assert!(said.contains("key was id, and is user"), "{said}");
    assert!(
        said.contains("floodmark run pipeline.toml --reset keyed   begin it anew, without what it remembers"),
        "{said}"
    );
    assert_eq!(rows(&job).len(), 100);
    job.ends_with(0, &["--reset", "keyed"]);
    assert_eq!(rows(&job).len(), 102, "two users");
    feed(&job, "c.ndjson", 0..10, 30);
    job.finish();
    assert_eq!(rows(&job).len(), 102, "the new definition needs no reset, and both users are known");
}

#[test]
fn a_dedup_that_became_a_window_begins_anew() {
    let job = Job::new(&small(EVERY_50_MS, "", &dedup("id")));
    feed(&job, "a.ndjson", 0..100, 10);
    job.finish();
    job.edit(&small(EVERY_50_MS, "", &tumbling("10s")));
    feed(&job, "b.ndjson", 0..10, 20);
    let said = job.ends_with(3, &[]);
    assert!(said.contains("type was dedup, and is tumbling") && said.contains("--reset keyed"), "{said}");
    job.ends_with(0, &["--reset", "keyed"]);
    let counted: Vec<_> = rows(&job).iter().filter_map(|row| row["events"].as_u64()).collect();
    assert_eq!((rows(&job).len(), counted), (102, vec![5, 5]), "the rows of both are there");
}

#[test]
fn a_reset_window_counts_from_there_on() {
    let job = Job::new(&small(EVERY_50_MS, WAITS, &tumbling("10s")));
    feed(&job, "a.ndjson", 0..100, 1);
    let mut run = job.start();
    job.wait_while(&mut run, |job| newest_checkpoint(job).is_some_and(|c| c["nodes"][0]["entries"] == 2));
    run.stop();
    job.edit(&small(EVERY_50_MS, "", &tumbling("20s")));
    let said = job.ends_with(3, &[]);
    assert!(said.contains("size was 10s, and is 20s") && said.contains("--reset keyed"), "{said}");
    feed(&job, "b.ndjson", 0..10, 5);
    job.ends_with(0, &["--reset", "keyed"]);
    let counted: Vec<_> = rows(&job).iter().map(|row| row["events"].as_u64().unwrap()).collect();
    assert_eq!(counted, [5, 5], "the window that was open is gone");
}

#[test]
fn only_what_has_state_can_be_reset() {
    let job = Job::new(&small(EVERY_50_MS, "", &dedup("id")));
    feed(&job, "a.ndjson", 0..10, 10);
    let said = job.ends_with(2, &["--reset", "nobody"]);
    assert!(said.contains("--reset nobody: the pipeline file has no such node"), "{said}");
    let said = job.ends_with(2, &["--reset", "events"]);
    assert!(said.contains("--reset events: only dedup and window nodes remember"), "{said}");
    assert!(!job.path("data/checkpoints").exists());
    job.finish();
    job.edit(&small(&format!("{EVERY_50_MS}\nmax_parallelism = 64"), "", &dedup("id")));
    let said = job.ends_with(3, &["--reset", "keyed"]);
    assert!(said.contains("max_parallelism was 128, and is 64") && !said.contains("--reset"), "{said}");
}

#[test]
fn working_files_of_dead_starts_do_not_stay() {
    let job = Job::new(&small(EVERY_50_MS, WAITS, &dedup("id")));
    feed(&job, "a.ndjson", 0..100, 10);
    for _ in 0..3 {
        let mut run = job.start();
        job.wait_for_checkpoints(&mut run, 3);
        run.kill();
    }
    let work = || fs::read_dir(job.path("data/checkpoints/work")).map_or(0, Iterator::count);
    let mut run = job.start();
    job.wait_while(&mut run, |job| newest_checkpoint(job).is_some_and(|c| c["incarnation"] == 4));
    job.wait_while(&mut run, |_| work() == 1);
    run.stop();
    assert_eq!(work(), 0, "nor those of one that ended");
}

/// State at the end of the log, node by node, with the windows still open.
fn state_at_the_end(log: &Log, pipeline: &str) -> Value {
    let dials = Dials::pipeline(pipeline);
    let job = Job::new(&Dials { source: format!("{}\nend = \"never\"", dials.source), ..dials }.clicks());
    log.give(&job);
    let mut run = job.start();
    job.wait_while(&mut run, |job| job.records_seen() == log.ledger.total("records"));
    run.stop();
    let mut newest = newest_checkpoint(&job).unwrap();
    assert_eq!(newest["nodes"].as_array().unwrap().len(), 3, "dedup and both windows hold something: {newest}");
    Value::Array(vec![newest["state_digest"].take(), newest["nodes"].take()])
}

#[test]
fn state_at_one_cut_is_the_same_however_it_came_about() {
    let log = Log::clickstream(&["--events", "12k", "--partitions", "3", "--event-rate", "100", "--users", "500"]);
    let expected = state_at_the_end(&log, "workers = 1");
    for ways in [
        "workers = 1\nbatch_rows = 7",
        "workers = 2\nbatch_rows = 10000",
        "workers = 2\nbatch_rows = 100\nqueue_batches = 1\nstate = \"memory\"",
        "workers = 3\nmemory = \"16MiB\"",
    ] {
        assert_eq!(state_at_the_end(&log, ways), expected, "{ways}");
    }
}

/// The least that the pipeline file allows.
const MEMORY: u64 = 16 << 20;
/// What an id takes in memory.
const ID_BYTES: u64 = 33;
/// Records in a horizon: seven of eight are new ids, and these are a few more than four times the memory would hold.
const LIVE: u64 = 4 * MEMORY / ID_BYTES * 8 / 7 + 100_000;
const RECORDS: u64 = LIVE * 2;
/// Event time of the horizon.
const HORIZON_S: u64 = 3_600;

/// Every eighth record is a copy of one that came up to two horizons ago: some of these count as new.
fn long_log(path: &Path) {
    let mut text = String::new();
    let mut dice = Dice::new(5);
    for n in 0..RECORDS {
        let id = if n % 8 == 7 { n.saturating_sub(1 + dice.below(LIVE * 2)) } else { n };
        let time = BASE_MS as u64 + n * HORIZON_S * 1_000 / LIVE;
        let _ = writeln!(text, "{{\"id\":\"{id:x}\",\"time\":{time}}}");
    }
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn over_budget(memory: u64, port: &Port) -> String {
    format!(
        r#"[pipeline]
id = "large"
workers = 2
memory = "{memory}B"
listen = "{}"
checkpoint = {{ interval = "200ms", dir = "file:data/checkpoints", retain = 2 }}
[source.events]
type = "file"
path = "data/events"
event_time = {{ field = "time" }}
watermark = {{ bound = "1s" }}
discard = ["errors"]
schema = {{ id = "string", time = "timestamp_ms" }}
[dedup.clean]
from = "events"
key = ["id"]
horizon = "{HORIZON_S}s"
discard = ["duplicates", "late"]
[sink.lake]
from = "clean"
type = "iceberg"
table = "shop.events"
catalog = {}
commit_interval = "1s"
"#,
        port.address(),
        sqlite()
    )
}

fn status(port: &Port) -> Option<Value> {
    block_on(async { reqwest::get(format!("http://{}/status", port.address())).await.ok()?.json().await.ok() })
}

/// Bytes of all files below a folder; one that has several names counts once.
fn bytes_below(folder: &Path, counted: &mut BTreeSet<u64>) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => bytes_below(&entry.path(), counted),
        Ok(meta) if counted.insert(meta.ino()) => meta.len(),
        _ => 0,
    });
    bytes.collect::<Vec<_>>().into_iter().sum()
}

/// What was seen of a run while it went on.
#[derive(Default)]
struct Watched {
    most_memory: u64,
    most_ids: u64,
    /// Largest size of the newest checkpoint's state in each quarter of the records.
    state: BTreeMap<u64, u64>,
    most_disk: u64,
    /// Of the whole process.
    most_resident: u64,
}

fn watch(job: &Job, run: &mut Run, port: &Port) -> Watched {
    let mut watched = Watched::default();
    loop {
        watched.most_resident = watched.most_resident.max(run.peak_memory_bytes());
        if let Some(code) = run.ended() {
            assert_eq!(code, Some(0), "{}", run.said());
            return watched;
        }
        if let (Some(status), Some(newest)) = (status(port), newest_checkpoint(job)) {
            let read = status["nodes"][0]["counters"]["read"].as_u64().unwrap();
            let memory = status["state"]["memory_bytes"].as_u64().unwrap();
            assert!(memory <= status["state"]["limit_bytes"].as_u64().unwrap(), "{memory} bytes of memory");
            watched.most_memory = watched.most_memory.max(memory);
            watched.most_ids = watched.most_ids.max(status["nodes"][1]["state_entries"].as_u64().unwrap());
            let state = watched.state.entry(read * 4 / (RECORDS + 1)).or_default();
            *state = (*state).max(newest["state_bytes"].as_u64().unwrap());
            let disk = bytes_below(&job.path("data/checkpoints"), &mut BTreeSet::new());
            watched.most_disk = watched.most_disk.max(disk);
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
}

#[test]
fn a_job_with_four_times_its_memory_in_ids_gives_the_result_of_one_with_enough() {
    let (port, tight_port) = (Port::reserve().unwrap(), Port::reserve().unwrap());
    let roomy = Job::new(&over_budget(MEMORY * 16, &port));
    long_log(&roomy.path("data/events/log.ndjson"));
    let all = watch(&roomy, &mut roomy.start(), &port);

    let tight = Job::new(&over_budget(MEMORY, &tight_port));
    fs::create_dir_all(tight.path("data/events")).unwrap();
    fs::hard_link(roomy.path("data/events/log.ndjson"), tight.path("data/events/log.ndjson")).unwrap();
    let mut run = tight.start();
    let watched = watch(&tight, &mut run, &tight_port);

    assert_eq!(tight.digest("events"), roomy.digest("events"));
    assert!(rows_of(&tight.digest("events")) < RECORDS);
    // Their states at the end may differ: what has expired by then depends on where the cut before the last one fell.

    assert!(watched.most_ids * ID_BYTES >= 4 * MEMORY, "{} ids at most", watched.most_ids);
    assert!(watched.most_resident < all.most_resident, "{} and {}", watched.most_resident, all.most_resident);
    assert!(watched.most_memory > MEMORY / 2, "it was used: {}", watched.most_memory);
    let (half, end) = (watched.state[&2], watched.state[&3]);
    assert!(end <= half * 5 / 4, "state grew from {half} to {end} bytes while as many ids expire as come");
    let rows_waiting = 64 << 20;
    assert!(watched.most_disk <= 6 * half + rows_waiting, "{} bytes on disk, state of {half}", watched.most_disk);
}
