//! Pipeline files that were edited between two runs: what a sink that has left was still owed, it gets.
use std::fs;

use floodmark::checkpoint::manifest::{Manifest, SinkRecord};

use crate::harness::Job;
use crate::harness::log::Log;
use crate::harness::pipelines::Dials;
use crate::harness::tables::rows_of;

const RETIRED: &str = "duplicates_table";

fn log() -> Log {
    Log::clickstream(&["--events", "10k", "--event-rate", "100", "--users", "500"])
}

fn dials() -> Dials {
    Dials { commit_interval: "1h".into(), ..Dials::default() }
}

fn endless() -> Dials {
    Dials { source: "type = \"file\"\npath = \"data/events\"\nend = \"never\"".into(), ..dials() }
}

/// A pipeline without the section of the sink for duplicates, which are discarded instead.
fn without(pipeline: &str) -> String {
    let begin = pipeline.find(&format!("\n[sink.{RETIRED}]")).unwrap();
    let length = pipeline[begin + 1..].find("\n[").unwrap() + 1;
    let rest = format!("{}{}", &pipeline[..begin], &pipeline[begin + length..]);
    rest.replace("horizon = \"24h\"", "horizon = \"24h\"\ndiscard = [\"duplicates\"]")
}

/// Has read the whole log and is killed when only a part of it is committed. Its file has lost a sink since.
fn killed_and_edited(log: &Log) -> Job {
    let job = Job::new(&endless().clicks());
    log.grow(&job, 0, 500);
    let mut run = job.start();
    // It commits its first rows at once, and none for an hour after.
    job.wait_while(&mut run, |job| newest_manifest(job).is_some_and(|m| retired(&m).base.is_some()));
    log.grow(&job, 500, 1000);
    let records = log.ledger.total("records");
    job.wait_while(&mut run, |job| newest_manifest(job).is_some_and(|m| read_by(&m) == records));
    run.kill();
    let waiting = retired(&newest_manifest(&job).unwrap()).epochs.iter().map(|e| e.rows()).sum::<u64>();
    assert_ne!(waiting, 0, "rows wait");
    job.edit(&without(&dials().clicks()));
    job
}

fn newest_manifest(job: &Job) -> Option<Manifest> {
    Manifest::decode(&fs::read(job.newest_manifest()?).ok()?).ok()
}

fn retired(manifest: &Manifest) -> &SinkRecord {
    manifest.sinks.iter().find(|s| s.name == RETIRED).unwrap()
}

fn read_by(manifest: &Manifest) -> u64 {
    manifest.partitions.iter().map(|p| p.position.offset as u64).sum()
}

#[test]
fn rows_that_wait_for_a_sink_that_left_the_file_are_committed_once() {
    let log = log();
    let whole = Job::new(&dials().clicks());
    log.give(&whole);
    whole.finish();

    let job = killed_and_edited(&log);
    let said = job.ends_with(0, &[]);
    assert!(said.contains("committed what waited for a sink that has left the pipeline file"), "{said}");
    assert_eq!(job.digests(), whole.digests());
    assert!(newest_manifest(&job).unwrap().sinks.iter().all(|s| s.name != RETIRED), "let go");
    let again = job.ends_with(0, &[]);
    assert!(!again.contains("has left the pipeline file"), "{again}");
    assert_eq!(job.digests(), whole.digests());
}

/// One that left and one that began, over one table: what waited for the old one and what the new one gets are all rows, each once.
#[test]
fn a_sink_under_a_new_name_over_its_table_leaves_no_gap() {
    let log = log();
    let whole = Job::new(&dials().clicks());
    log.give(&whole);
    whole.finish();
    let job = Job::new(&endless().clicks());
    log.grow(&job, 0, 500);
    let mut run = job.start();
    job.wait_while(&mut run, |job| newest_manifest(job).is_some_and(|m| retired(&m).base.is_some()));
    log.grow(&job, 500, 700);
    job.wait_for_checkpoints(&mut run, 4);
    run.kill();
    log.grow(&job, 700, 1000);
    job.edit(&dials().clicks().replace(&format!("[sink.{RETIRED}]"), "[sink.copies_table]"));
    let said = job.ends_with(0, &[]);
    assert!(said.contains("committed what waited for a sink that has left the pipeline file"), "{said}");
    assert!(said.contains("copies_table is new: it gets "), "{said}");
    assert_eq!(job.digest("duplicates"), whole.digest("duplicates"));
    job.finish();
    assert_eq!(job.digest("duplicates"), whole.digest("duplicates"));
}

#[test]
fn rows_of_a_sink_that_left_the_file_are_given_up_only_if_asked() {
    let log = log();
    let job = killed_and_edited(&log);
    let before = job.digest("duplicates");
    let said = job.ends_with(0, &["--forget", RETIRED]);
    let given_up = log.ledger.total("resent") - rows_of(&before);
    assert!(said.contains("gave up the rows that waited for a sink that has left the pipeline file"), "{said}");
    assert!(said.contains(&format!("rows={given_up}")), "{given_up} rows: {said}");
    assert_eq!(job.digest("duplicates"), before);
    job.finish();
    assert_eq!(job.digest("duplicates"), before);
}
