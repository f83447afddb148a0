//! Hours in seconds: ids expire, sessions open and close, checkpoints, segments and manifests come and go, and nothing grows.
//!
//! Two million records in two jobs, of twenty minutes of event time each, remembered for a minute. What the second half of a run takes at most in memory, on
//! disk and in files is held against the first half; what lasts for a moment only, as a checkpoint in the making does, isn't counted. At a rate that a busy
//! machine keeps up: otherwise what is in a checkpoint would rest on how fast it is. `GROWTH=8` goes on for eight hours.
//!
//! Left out: tables, whose metadata keeps every snapshot until somebody expires them (so rows go into files here); those files, which belong to who reads
//! them, and are removed here as that one would; and the file sink's marks beside them, which are never removed (one a commit).
use std::env;
use std::fs;
use std::time::{Duration, Instant};

use crate::harness::disk::held;
use crate::harness::status::{Listening, read};
use crate::harness::{Job, Run};

/// Where the default form ends, and when at the latest: a busy machine doesn't come that far.
const RECORDS: u64 = 1_000_000;
const AT_MOST: Duration = Duration::from_secs(25);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Looks that are taken together: their median counts.
const STRETCH: usize = 9;

/// What the second half may take at most, to the first half's hundred. Memory that was freed is given back to the system in lumps, and later: over hours
/// that evens out, over seconds it doesn't.
const MEMORY: [u64; 2] = [140, 110];
const DISK: u64 = 110;
/// And beside that what a merge holds while it goes on, which may fall into one half only. Without expiry a half would add twenty megabytes, and without
/// removal hundreds of files.
const MERGE_BYTES: u64 = 4 << 20;
const MERGE_FILES: u64 = 16;

fn pipeline(state: &str, listening: &Listening) -> String {
    format!(
        r#"[pipeline]
id = "growth"
workers = 2
state = "{state}"
memory = "64MiB"
checkpoint = {{ interval = "100ms", dir = "file:data/checkpoints", retain = 3 }}
{}

[source.made]
type = "generator"
workload = "clickstream"
rate = "40k"
event_rate = "800"
users = "4800"
partitions = "2"
event_time = {{ field = "event_time_ms" }}
watermark = {{ bound = "5s", align = "5s" }}
discard = ["errors"]
schema = {{ event_id = "string", user_id = "string", event_type = "string", event_time_ms = "timestamp_ms" }}

[dedup.clean]
from = "made"
key = ["event_id"]
horizon = "60s"
bucket = "5s"
discard = ["duplicates", "late"]

[window.per_type]
from = "clean"
type = "tumbling"
size = "10s"
key = ["event_type"]
aggregates = {{ events = "count()" }}
discard = ["late"]

[window.sessions]
from = "clean"
type = "session"
gap = "30s"
key = ["user_id"]
aggregates = {{ events = "count()" }}
discard = ["late"]

[sink.per_type_files]
from = "per_type"
type = "file"
dir = "file:data/out/per_type"

[sink.sessions_files]
from = "sessions"
type = "file"
dir = "file:data/out/sessions"
"#,
        listening.line()
    )
}

/// What a job took at one moment.
#[derive(Clone, Copy, Debug)]
struct Look {
    records: u64,
    memory: u64,
    disk: u64,
    files: u64,
}

/// How long to go on, if it isn't the default form.
fn hours() -> Option<Duration> {
    let hours: f64 = env::var("GROWTH").ok()?.parse().expect("GROWTH is a number of hours");
    Some(Duration::from_secs_f64(hours * 3_600.0))
}

fn looks_of(job: &Job, listening: &Listening, run: &mut Run) -> Vec<Look> {
    let (began, hours) = (Instant::now(), hours());
    let mut looks: Vec<Look> = vec![];
    loop {
        let records = read(&listening.wait_for(job, run, |status| read(status) > 0));
        let held = held(&job.path("data/checkpoints"));
        looks.push(Look { records, memory: run.memory_bytes(), disk: held.bytes, files: held.files });
        take_away_rows(job);
        if began.elapsed() >= hours.unwrap_or(AT_MOST) || (hours.is_none() && records >= RECORDS) {
            return looks;
        }
        assert_eq!(run.ended_within(LOOK_EVERY), None, "{}", run.said());
    }
}

/// As somebody does who has read them.
fn take_away_rows(job: &Job) {
    for output in ["per_type", "sessions"] {
        for entry in fs::read_dir(job.path("data/out").join(output)).into_iter().flatten().flatten() {
            if entry.path().is_file() {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// The largest of the medians of stretches.
fn most(looks: &[Look], of: fn(&Look) -> u64) -> u64 {
    let median = |stretch: &[Look]| {
        let mut values: Vec<u64> = stretch.iter().map(of).collect();
        values.sort_unstable();
        values[values.len() / 2]
    };
    looks.chunks_exact(STRETCH).map(median).max().expect("too few looks")
}

fn nothing_grows(state: &str) {
    let listening = Listening::somewhere();
    let job = Job::new(&pipeline(state, &listening));
    let mut run = job.start();
    let looks = looks_of(&job, &listening, &mut run);
    run.stop();
    let middle = looks.last().unwrap().records / 2;
    let (first, second): (Vec<_>, Vec<_>) = looks.into_iter().partition(|look| look.records <= middle);
    let memory = if hours().is_some() { MEMORY[1] } else { MEMORY[0] };
    type Of = fn(&Look) -> u64;
    let whats: [(&str, Of, u64, u64); 3] = [
        ("memory", |look| look.memory, memory, 0),
        ("disk", |look| look.disk, DISK, MERGE_BYTES),
        ("files", |look| look.files, DISK, MERGE_FILES),
    ];
    for (what, of, allowed, beside) in whats {
        let [before, after] = [&first, &second].map(|looks| most(looks, of));
        eprintln!("{state}: {what} at most {before}, then {after}, in {} and {} looks", first.len(), second.len());
        assert!(after <= before * allowed / 100 + beside, "{state}: {what} grew from {before} to {after}");
    }
}

#[test]
fn nothing_grows_while_ids_expire_and_sessions_close_in_memory() {
    nothing_grows("memory");
}

#[test]
fn nothing_grows_while_ids_expire_and_sessions_close_in_rocksdb() {
    nothing_grows("rocksdb");
}
