//! A process that stood still while another took its place, and wakes: it writes nothing and goes.
mod harness;

use std::time::Duration;

use harness::log::Log;
use harness::pipelines::Dials;
use harness::tables::block_on;
use harness::{Job, Run};
use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;

/// The exit code that says "don't restart me".
const FENCED: Option<i32> = Some(4);

fn log() -> Log {
    Log::clickstream(&["--events", "20k", "--event-rate", "200", "--users", "500"])
}

/// A pipeline that waits for more, so that a run ends only when it is told to.
fn dials(commit_interval: &str) -> Dials {
    let source = "type = \"file\"\npath = \"data/events\"\nend = \"never\"\ndiscovery_interval = \"200ms\"";
    Dials { source: source.into(), commit_interval: commit_interval.into(), ..Dials::default() }
}

/// The tables of a run without a zombie: first a half of the log, then the other.
fn expected(log: &Log) -> std::collections::BTreeMap<&'static str, String> {
    let job = Job::new(&dials("100ms").clicks());
    log.grow(&job, 0, 1000);
    read_to_the_end(&job, &mut job.start(), log);
    job.digests()
}

fn read_to_the_end(job: &Job, run: &mut Run, log: &Log) {
    let records = log.ledger.total("records");
    job.wait_while(run, |job| job.records_seen() == records);
    run.stop();
}

fn first_half_is_read(job: &Job, run: &mut Run) {
    job.wait_while(run, |job| job.rows("events") > 0);
}

#[test]
fn one_that_wakes_while_the_other_works_is_fenced_and_nothing_comes_twice() {
    let log = log();
    let job = Job::new(&dials("100ms").clicks());
    log.grow(&job, 0, 500);
    let mut first = job.start();
    first_half_is_read(&job, &mut first);
    pause_between_commits(&job, &mut first);

    let mut second = job.start();
    job.wait_while(&mut second, |_| second_owns(&job));
    log.grow(&job, 500, 1000);
    first.resume();
    assert_eq!(first.wait(), FENCED, "{}", first.said());
    assert!(first.has_said("fenced: incarnation 2"), "{}", first.said());
    read_to_the_end(&job, &mut second, &log);
    assert_eq!(job.digests(), expected(&log));
}

/// Stops it where it stands, but not with the catalog's lock in its hand: SQLite would keep everybody else out.
fn pause_between_commits(job: &Job, run: &mut Run) {
    let catalog = SqliteConnectOptions::new().filename(job.path("data/catalog.db")).busy_timeout(Duration::ZERO);
    let is_free = || {
        block_on(async {
            let mut catalog = catalog.connect().await.unwrap();
            sqlx::query("BEGIN IMMEDIATE").execute(&mut catalog).await.is_ok()
        })
    };
    run.pause();
    while !is_free() {
        run.resume();
        std::thread::sleep(Duration::from_millis(7));
        run.pause();
    }
}

/// The second start has published a manifest of its own.
fn second_owns(job: &Job) -> bool {
    let manifests = std::fs::read_dir(job.path("data/checkpoints/manifests")).unwrap();
    manifests.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("00000000000000000002-"))
}

#[test]
fn one_that_wakes_when_the_other_is_done_is_fenced_and_nothing_comes_twice() {
    let log = log();
    let job = Job::new(&dials("100ms").clicks());
    log.grow(&job, 0, 500);
    let mut first = job.start();
    first_half_is_read(&job, &mut first);
    pause_between_commits(&job, &mut first);

    log.grow(&job, 500, 1000);
    read_to_the_end(&job, &mut job.start(), &log);
    let done = job.digests();
    first.resume();
    assert_eq!(first.wait(), FENCED, "{}", first.said());
    assert_eq!(job.digests(), done);
    assert_eq!(done, expected(&log));
}

#[test]
fn one_that_wakes_with_nothing_to_commit_is_told_so_by_the_checkpoint_directory() {
    let log = log();
    let job = Job::new(&dials("100ms").clicks());
    log.grow(&job, 0, 1000);
    let mut first = job.start();
    let records = log.ledger.total("records");
    job.wait_while(&mut first, |job| job.records_seen() == records);
    pause_between_commits(&job, &mut first);
    let mut second = job.start();
    job.wait_while(&mut second, |_| second_owns(&job));
    first.resume();
    assert_eq!(first.wait(), FENCED, "{}", first.said());
    second.stop();
    assert_eq!(job.digests(), expected(&log));
}

/// The other went on from the zombie's state files, and has written none of its own yet.
#[test]
fn one_that_wakes_removes_no_state_that_the_other_stands_on() {
    let log = log();
    let job = Job::new(&dials("100ms").clicks());
    log.grow(&job, 0, 500);
    let mut first = job.start();
    first_half_is_read(&job, &mut first);
    pause_between_commits(&job, &mut first);

    let rare = r#"{ interval = "1h", dir = "file:data/checkpoints" }"#;
    job.edit(&Dials { checkpoint: rare.into(), ..dials("1h") }.clicks());
    let mut second = job.start();
    job.wait_while(&mut second, |_| second_owns(&job));
    first.resume();
    assert_eq!(first.wait(), FENCED, "{}", first.said());
    second.kill();
    job.edit(&dials("100ms").clicks());
    log.grow(&job, 500, 1000);
    read_to_the_end(&job, &mut job.start(), &log);
    assert_eq!(job.digests(), expected(&log));
}
