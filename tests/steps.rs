//! Every step point of a start, a checkpoint and a commit: a crash, a failure, a lost answer or a long sleep there changes no table and no file.
//!
//! A point that doesn't fire fails its test, so none can be forgotten. Sleeping over a table's commit is in tests/zombie.rs; kills with a broker
//! are in tests/kafka_exactly_once.rs.
use std::collections::BTreeMap;

use floodmark::steps::Point;

use crate::harness::log::Log;
use crate::harness::pipelines::Dials;
use crate::harness::{FAILED, FENCED, Job, Order, Run};

/// What a process does only when it finds checkpoints of an older one.
const COLLECTION: [Point; 3] = [Point::ManifestGone, Point::ObjectGone, Point::Swept];

/// A log, and what a job that nothing happens to makes of it.
struct World {
    log: Log,
    expected: Made,
}

/// Digests of the tables, and ids of the rows in files.
type Made = (BTreeMap<&'static str, String>, Vec<String>);

impl World {
    fn new() -> World {
        let log = Log::clickstream(&["--events", "16k", "--event-rate", "200", "--users", "300"]);
        let unharmed = job(&log);
        unharmed.finish();
        let expected = made(&unharmed);
        assert!(!expected.1.is_empty());
        World { log, expected }
    }

    fn comes_out(&self, job: &Job, what: &dyn std::fmt::Debug) {
        job.finish();
        assert_eq!(made(job), self.expected, "after {what:?}");
    }
}

/// Clicks into tables, and the first copies into files too. Small batches and frequent checkpoints, so that a run has many of each step.
fn job(log: &Log) -> Job {
    let checkpoint = r#"{ interval = "10ms", dir = "file:data/checkpoints", retain = 1 }"#;
    let dials = Dials {
        pipeline: "workers = 2\nbatch_rows = 5".into(),
        checkpoint: checkpoint.into(),
        commit_interval: "20ms".into(),
        ..Dials::default()
    };
    let files =
        "\n[sink.files]\nfrom = \"clean\"\ntype = \"file\"\ndir = \"file:data/out\"\ncommit_interval = \"20ms\"\n";
    let job = Job::new(&(dials.clicks() + files));
    log.give(&job);
    job
}

fn made(job: &Job) -> Made {
    (job.digests(), rows_in_files(job, "data/out"))
}

fn rows_in_files(job: &Job, folder: &str) -> Vec<String> {
    let mut rows = vec![];
    for entry in std::fs::read_dir(job.path(folder)).unwrap().flatten() {
        if entry.path().extension().is_some_and(|ending| ending == "ndjson") {
            rows.extend(std::fs::read_to_string(entry.path()).unwrap().lines().map(str::to_owned));
        }
    }
    rows.sort();
    rows
}

/// Kills a start there and, where it comes to that again, the next one too.
fn killed_there_and_again(log: &Log, point: Point) -> Job {
    let job = job(log);
    if COLLECTION.contains(&point) {
        assert_eq!(ended(&mut job.start_ordered(Order::kill(Point::Manifest, 1))), None);
    }
    assert_eq!(ended(&mut job.start_ordered(Order::kill(point, 1))), None, "{point} has not been reached");
    ended(&mut job.start_ordered(Order::kill(point, 1)));
    job
}

/// How a run ended: killed, well, or by a panic that was ordered.
fn ended(run: &mut Run) -> Option<i32> {
    let code = run.wait();
    assert!(code.is_none_or(|code| code <= 1), "{}", run.said());
    code
}

#[test]
fn a_kill_at_any_point_and_again_in_recovery_changes_nothing() {
    let world = World::new();
    for point in Point::ALL {
        world.comes_out(&killed_there_and_again(&world.log, *point), point);
    }
}

#[test]
fn what_fails_at_a_point_is_tried_again_and_changes_nothing() {
    let world = World::new();
    let points = [Point::Segment, Point::StateFile, Point::ManifestDue, Point::CommitDue];
    for point in points {
        let job = job(&world.log);
        let mut run = job.start_ordered(Order::fail(point));
        assert_eq!(run.wait(), Some(0), "{}", run.said());
        assert!(run.has_said(&format!("ordered to fail at {point}")), "{}", run.said());
        assert_eq!(made(&job), world.expected, "after {point}");
    }
}

#[test]
fn an_answer_lost_at_a_fence_or_a_commit_changes_nothing() {
    let world = World::new();
    for point in [Point::Fenced, Point::Committed] {
        let job = job(&world.log);
        let mut run = job.start_ordered(Order::fail(point));
        assert_eq!(run.wait(), Some(0), "{}", run.said());
        assert!(run.has_said(&format!("ordered to fail at {point}")), "{}", run.said());
        assert_eq!(made(&job), world.expected, "after {point}");
    }
}

#[test]
fn a_fence_that_can_not_be_put_ends_the_start() {
    let world = World::new();
    let job = job(&world.log);
    assert_eq!(job.start_ordered(Order::fail(Point::FenceDue)).wait(), Some(FAILED));
    world.comes_out(&job, &Point::FenceDue);
}

/// On a worker's thread, in the publisher, in a committer: nothing goes on without it.
#[test]
fn a_panic_anywhere_ends_the_process_and_changes_nothing() {
    let world = World::new();
    for point in [Point::Read, Point::ManifestDue, Point::CommitDue] {
        let job = job(&world.log);
        let mut run = job.start_ordered(Order::panic(point));
        assert_eq!(run.wait(), Some(FAILED), "{}", run.said());
        assert!(run.has_said("this is a bug in floodmark"), "{}", run.said());
        world.comes_out(&job, &point);
    }
}

/// Into files alone: no catalog whose lock the sleeper could have in its hand.
const INTO_FILES: &str = r#"[pipeline]
id = "clicks"
checkpoint = { interval = "10ms", dir = "file:data/checkpoints", retain = 1 }
workers = 2
batch_rows = 5

[source.events]
type = "file"
path = "data/events"
event_time = { field = "event_time_ms" }
watermark = { bound = "5s" }
discard = ["errors"]
schema = { event_id = "string", event_type = "string", event_time_ms = "timestamp_ms" }

[dedup.clean]
from = "events"
key = ["event_id"]
horizon = "24h"
discard = ["duplicates", "late"]

[window.per_type]
from = "clean"
type = "tumbling"
size = "10s"
key = ["event_type"]
aggregates = { events = "count()" }
discard = ["late"]

[sink.clicks]
from = "clean"
type = "file"
dir = "file:data/clicks"
commit_interval = "20ms"

[sink.windows]
from = "per_type"
type = "file"
dir = "file:data/windows"
commit_interval = "20ms"
"#;

fn into_files(log: &Log) -> Job {
    let job = Job::new(INTO_FILES);
    log.give(&job);
    job
}

#[test]
fn one_that_stood_still_at_any_point_while_another_did_its_work_changes_nothing() {
    let log = Log::clickstream(&["--events", "16k", "--event-rate", "200", "--users", "300"]);
    let made = |job: &Job| [rows_in_files(job, "data/clicks"), rows_in_files(job, "data/windows")];
    let unharmed = into_files(&log);
    unharmed.finish();
    let expected = made(&unharmed);
    for point in Point::ALL {
        let job = into_files(&log);
        if COLLECTION.contains(point) {
            assert_eq!(ended(&mut job.start_ordered(Order::kill(Point::Manifest, 1))), None);
        }
        let mut sleeper = job.start_ordered(Order::stop(*point));
        sleeper.wait_until_it_stands_still();
        job.finish();
        assert_eq!(made(&job), expected, "{point}: while it sleeps");
        sleeper.resume();
        // One that has claimed nothing yet is no old one: it takes over from the other.
        let code = if *point == Point::Looked { Some(0) } else { Some(FENCED) };
        assert_eq!(sleeper.wait(), code, "{point}: {}", sleeper.said());
        assert_eq!(made(&job), expected, "{point}: when it has woken");
    }
}
