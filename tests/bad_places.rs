//! Disks that are full or read-only, catalogs that are away, tables that someone alters: what a job says then, and that nothing is lost.
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use floodmark_stack::mount::{SmallDisk, with_read_only};
use floodmark_stack::until;
use serde_json::Value;

use crate::harness::log::Log;
use crate::harness::pipelines::Dials;
use crate::harness::status::{Listening, read};
use crate::harness::tables::{CatalogLock, Digest, duckdb, reader};
use crate::harness::{FAILED, Job, PATIENCE, REFUSED, Run};

fn log() -> Log {
    Log::clickstream(&["--events", "10k", "--partitions", "2", "--event-rate", "100", "--users", "500"])
}

/// A pipeline that waits for more, and tells how it is.
fn dials(listening: &Listening) -> Dials {
    let source = "type = \"file\"\npath = \"data/events\"\nend = \"never\"".to_owned();
    Dials { source, ..Dials::pipeline(&format!("workers = 2\n{}", listening.line())) }
}

/// The tables of a job that nothing happens to, of the log in whole.
fn expected(log: &Log) -> BTreeMap<&'static str, Digest> {
    let listening = Listening::somewhere();
    let job = Job::new(&dials(&listening).clicks());
    log.grow(&job, 0, 1000);
    read_to_the_end(&job, &mut job.start(), &listening, log);
    job.digests()
}

fn read_to_the_end(job: &Job, run: &mut Run, listening: &Listening, log: &Log) {
    let records = log.ledger.total("records");
    listening.wait_for(job, run, |status| read(status) == records);
    run.stop();
}

fn wait_for_a_commit(job: &Job, run: &mut Run, listening: &Listening) {
    let committed = |status: &Value| status["sinks"][0]["rows"].as_u64().is_some_and(|rows| rows > 0);
    listening.wait_for(job, run, committed);
}

/// A folder of the job as a disk of its own.
fn disk(job: &Job, folder: &str, kib: u32) -> SmallDisk {
    fs::create_dir_all(job.path(folder)).unwrap();
    SmallDisk::start(&job.path(folder), kib).unwrap()
}

/// What is on the disk, in the folder that it hides: for whoever looks without it.
fn keep(disk: &SmallDisk, job: &Job, folder: &str) {
    let mut copy = Command::new("cp");
    let done = copy.arg("-a").arg(disk.path(".")).arg(job.path(folder)).status().unwrap();
    assert!(done.success());
}

#[test]
fn a_checkpoint_directory_that_is_read_only_is_named_and_nothing_is_begun() {
    let log = log();
    let job = Job::new(&Dials::default().clicks());
    log.grow(&job, 0, 500);
    fs::create_dir_all(job.path("data/checkpoints")).unwrap();
    let read_only = |job: &Job| {
        job.start_in(&[], |command| with_read_only(&command, &job.path("data/checkpoints"))).ends_with(FAILED)
    };
    let why = "error: checkpoint directory file:data/checkpoints: probing probe-";
    let what_to_do = ": the disk is read-only: make it writable, or name another place\n";
    let said = read_only(&job);
    assert!(said.contains(why) && said.contains(what_to_do), "{said}");
    assert_eq!(job.digest_with("events", &[]), None);

    job.finish();
    let before = job.digests();
    log.grow(&job, 500, 1000);
    let said = read_only(&job);
    assert!(said.contains(why) && said.contains(what_to_do), "{said}");
    assert_eq!(job.digests(), before);
    job.finish();
    assert_eq!(job.rows("events"), log.ledger.total("events"));
}

/// Runs while its checkpoint directory fills up, and goes on when there is space again: by itself, or with the next start.
fn survives_a_full_checkpoint_directory(state: &str) {
    let (log, listening) = (log(), Listening::somewhere());
    let mut dials = dials(&listening);
    dials.pipeline += &format!("\nstate = \"{state}\"");
    let job = Job::new(&dials.clicks());
    let disk = disk(&job, "data/checkpoints", 64 << 10);
    let start = || job.start_in(&[], |command| disk.seen_by(&command));
    log.grow(&job, 0, 500);
    let mut run = start();
    wait_for_a_commit(&job, &mut run, &listening);
    disk.fill(0).unwrap();
    log.grow(&job, 500, 1000);
    if until_full(&mut run) {
        // Its end has given space back.
        disk.fill(0).unwrap();
        let said = start().ends_with(FAILED);
        assert!(said.contains("error: checkpoint directory file:data/checkpoints: probing"), "{said}");
        assert!(said.contains(": the disk is full: free space there\n"), "{said}");
    }
    disk.free().unwrap();
    let all = log.ledger.total("records");
    until(PATIENCE, || run.ended().is_some() || listening.status().is_some_and(|status| read(&status) == all));
    if let Some(code) = run.ended() {
        assert_eq!(code, Some(FAILED), "{}", run.said());
        run = start();
    }
    read_to_the_end(&job, &mut run, &listening, &log);
    assert_eq!(job.digests(), expected(&log));
}

/// Waits until the run has said that the disk is full. True if that was its end: its state needs the disk too.
fn until_full(run: &mut Run) -> bool {
    until(PATIENCE, || run.ended().is_some() || run.has_said("the disk is full: free space there"));
    match run.ended() {
        Some(code) => {
            assert_eq!(code, Some(FAILED), "{}", run.said());
            assert!(run.has_said("disk full while ") || run.has_said("the disk is full"), "{}", run.said());
            true
        }
        None => {
            assert!(run.has_said("not durable yet, trying again: checkpoint directory file:data/checkpoints: "));
            false
        }
    }
}

#[test]
fn a_full_checkpoint_directory_delays_rows_and_loses_none_with_state_on_disk() {
    survives_a_full_checkpoint_directory("rocksdb");
}

#[test]
fn a_full_checkpoint_directory_delays_rows_and_loses_none_with_state_in_memory() {
    survives_a_full_checkpoint_directory("memory");
}

#[test]
fn rows_wait_while_the_warehouse_is_full() {
    let (log, listening) = (log(), Listening::somewhere());
    let job = Job::new(&dials(&listening).clicks());
    let disk = disk(&job, "data/warehouse", 64 << 10);
    log.grow(&job, 0, 500);
    let mut run = job.start_in(&[], |command| disk.seen_by(&command));
    wait_for_a_commit(&job, &mut run, &listening);
    disk.fill(0).unwrap();
    log.grow(&job, 500, 1000);
    let why = "its rows wait in the outbox: shop.events: the table's files: the disk is full: free space there\n";
    run.wait_until(|run| run.has_said(why));
    let all = log.ledger.total("records");
    let status = listening.wait_for(&job, &mut run, |status| read(status) == all);
    assert!(status["sinks"].as_array().unwrap().iter().any(|sink| sink["waiting_rows"].as_u64() > Some(0)), "{status}");
    disk.free().unwrap();
    read_to_the_end(&job, &mut run, &listening, &log);
    keep(&disk, &job, "data/warehouse");
    assert_eq!(job.digests(), expected(&log));
}

/// Waits until this many checkpoints more are complete; gives the last status.
fn some_checkpoints_later(job: &Job, run: &mut Run, listening: &Listening, more: u64) -> Value {
    let completed = |status: &Value| status["checkpoint"]["completed"].as_u64().unwrap();
    let now = completed(&listening.wait_for(job, run, |_| true));
    listening.wait_for(job, run, |status| completed(status) >= now + more)
}

#[test]
fn a_full_outbox_pauses_reading_and_nothing_else_until_the_catalog_is_back() {
    let log = Log::clickstream(&["--events", "60k", "--partitions", "2", "--event-rate", "1000"]);
    let listening = Listening::somewhere();
    let mut dials = dials(&listening);
    dials.pipeline += "\noutbox = \"1MiB\"\nbatch_rows = 200";
    let job = Job::new(&dials.clicks());
    log.grow(&job, 0, 50);
    let mut run = job.start();
    wait_for_a_commit(&job, &mut run, &listening);

    let lock = CatalogLock::of(&job);
    let mut grown = 50;
    let paused = |status: &Value| status["outbox"]["sources_paused"] == true;
    while !paused(&some_checkpoints_later(&job, &mut run, &listening, 3)) {
        assert!(grown < 950, "the outbox took all of it: {:?}", listening.status());
        log.grow(&job, grown, grown + 50);
        grown += 50;
    }
    log.grow(&job, grown, 1000);
    let then = listening.status().unwrap();
    let later = some_checkpoints_later(&job, &mut run, &listening, 5);
    assert_eq!(read(&later), read(&then), "nothing is read any more");
    assert!(read(&later) < log.ledger.total("records"));
    assert!(later["outbox"]["bytes"].as_u64() > Some(1 << 20), "{later}");
    run.wait_until(|run| run.has_said("sources are paused: "));
    assert!(
        run.has_said("and `outbox` allows 1.0MiB. Reading goes on by itself once they are committed."),
        "{}",
        run.said()
    );

    lock.release();
    let all = log.ledger.total("records");
    listening.wait_for(&job, &mut run, |status| read(status) == all);
    run.stop();
    assert_eq!(job.digests(), expected(&log));
}

#[test]
fn rows_wait_while_the_catalogs_file_is_gone() {
    let (log, listening) = (log(), Listening::somewhere());
    let job = Job::new(&dials(&listening).clicks());
    log.grow(&job, 0, 100);
    let mut run = job.start();
    wait_for_a_commit(&job, &mut run, &listening);
    fs::rename(job.path("data/catalog.db"), job.path("data/away.db")).unwrap();
    log.grow(&job, 100, 1000);
    run.wait_until(|run| run.has_said("catalog sqlite:data/catalog.db: the file is gone: bring it back"));
    assert!(!job.path("data/catalog.db").exists(), "nobody makes another");
    fs::rename(job.path("data/away.db"), job.path("data/catalog.db")).unwrap();
    read_to_the_end(&job, &mut run, &listening, &log);
    assert_eq!(job.digests(), expected(&log));
}

#[test]
fn a_catalog_whose_file_is_replaced_gets_no_rows_until_a_start_has_judged_it() {
    let (log, listening) = (log(), Listening::somewhere());
    let job = Job::new(&dials(&listening).clicks());
    log.grow(&job, 0, 300);
    let mut run = job.start();
    wait_for_a_commit(&job, &mut run, &listening);
    fs::copy(job.path("data/catalog.db"), job.path("data/copy.db")).unwrap();
    let before = rows_committed(&listening);
    log.grow(&job, 300, 600);
    listening.wait_for(&job, &mut run, |_| rows_committed(&listening) > before);
    // A manifest knows of that commit: before, its rows still wait, and nothing is lost.
    job.wait_for_checkpoints(&mut run, 3);
    fs::rename(job.path("data/copy.db"), job.path("data/catalog.db")).unwrap();
    log.grow(&job, 600, 1000);
    run.wait_until(|run| run.has_said("the file was replaced while it was open: start the job again"));
    run.kill();
    let said = job.ends_with(REFUSED, &[]);
    assert!(said.contains("the table is behind the state\n"), "{said}");
}

fn rows_committed(listening: &Listening) -> u64 {
    let status = listening.status().unwrap();
    status["sinks"].as_array().unwrap().iter().filter_map(|sink| sink["rows"].as_u64()).sum()
}

#[test]
fn a_stop_while_the_catalog_is_locked_ends_in_time_and_loses_nothing() {
    let (log, listening) = (log(), Listening::somewhere());
    let job = Job::new(&dials(&listening).clicks());
    log.grow(&job, 0, 100);
    let mut run = job.start_with(&["--stop-within", "2s"]);
    wait_for_a_commit(&job, &mut run, &listening);
    let lock = CatalogLock::of(&job);
    log.grow(&job, 100, 1000);
    listening.wait_for(&job, &mut run, |status| status["outbox"]["bytes"].as_u64() > Some(0));
    run.stop();
    assert!(run.has_said("these rows stay in the outbox, and the next start commits them"), "{}", run.said());
    lock.release();
    read_to_the_end(&job, &mut job.start(), &listening, &log);
    assert_eq!(job.digests(), expected(&log));
}

/// Records as fast as they can be made, without end.
fn fire_hose(listening: &Listening) -> Dials {
    let source = "type = \"generator\"\nworkload = \"clickstream\"\npartitions = 2\nend = \"never\"".to_owned();
    let checkpoint = r#"{ interval = "200ms", dir = "file:data/checkpoints" }"#.into();
    let pipeline = format!("workers = 2\n{}", listening.line());
    Dials { source, checkpoint, commit_interval: "200ms".into(), ..Dials::pipeline(&pipeline) }
}

#[test]
fn a_fire_hose_stops_drains_and_is_saved_without_a_row_lost_or_doubled() {
    let listening = Listening::somewhere();
    let job = Job::new(&fire_hose(&listening).clicks());
    let counts_are_those_of_the_tables = |run: &Run| {
        let unique: u64 = duckdb(&job.metadata("events"), "select count(distinct event_id) from t").parse().unwrap();
        let said = run.said();
        let number = |digits: &str| digits.replace(',', "").parse::<u64>().unwrap();
        let line = said.lines().find(|line| line.contains("dedup  clean: ")).unwrap_or_else(|| panic!("{said}"));
        let counted = |what: &str| {
            let before = line.split(what).next().unwrap().trim_end();
            number(before.rsplit(' ').next().unwrap())
        };
        assert_eq!(job.rows("events"), unique, "none twice");
        assert_eq!(counted(" unique"), unique, "{line}");
        assert_eq!(counted(" duplicates"), job.rows("duplicates"), "{line}");
    };

    let mut run = job.start();
    wait_for_a_commit(&job, &mut run, &listening);
    run.stop();
    counts_are_those_of_the_tables(&run);

    let mut run = job.start_with(&["--drain"]);
    some_checkpoints_later(&job, &mut run, &listening, 2);
    run.stop();
    counts_are_those_of_the_tables(&run);

    let mut run = job.start();
    some_checkpoints_later(&job, &mut run, &listening, 2);
    let (code, said) = job.ask(&["savepoint", "pipeline.toml", "in-the-middle"]);
    assert_eq!(code, Some(0), "{said}");
    run.stop();
    counts_are_those_of_the_tables(&run);
}

/// Someone else's change of a table, by PyIceberg.
fn alter(job: &Job, action: &str, column: &str) {
    let [catalog, warehouse] =
        ["data/catalog.db", "data/warehouse"].map(|p| job.path(p).to_string_lossy().into_owned());
    reader("alter_table.py", &[&catalog, &warehouse, "shop.events", action, column]);
}

#[test]
fn a_column_that_someone_adds_to_the_table_while_running_stays_empty() {
    let (log, listening) = (log(), Listening::somewhere());
    let job = Job::new(&dials(&listening).clicks());
    log.grow(&job, 0, 500);
    let mut run = job.start();
    wait_for_a_commit(&job, &mut run, &listening);
    alter(&job, "add", "note");
    log.grow(&job, 500, 1000);
    read_to_the_end(&job, &mut run, &listening, &log);
    assert_eq!(job.digests(), expected(&log));
    let rows = duckdb(&job.metadata("events"), "select count(*), count(note) from t");
    assert_eq!(rows, format!("{},0", log.ledger.total("events")));
    job.start_and_stop();
}

#[test]
fn a_column_that_someone_drops_from_the_table_while_running_ends_the_job_and_a_start_is_refused() {
    let (log, listening) = (log(), Listening::somewhere());
    let job = Job::new(&dials(&listening).clicks());
    log.grow(&job, 0, 500);
    let mut run = job.start();
    wait_for_a_commit(&job, &mut run, &listening);
    alter(&job, "drop", "product_id");
    log.grow(&job, 500, 1000);
    assert_eq!(run.wait(), Some(FAILED), "{}", run.said());
    assert!(
        run.has_said("error: shop.events: column `product_id` is not in the table and can't be added"),
        "{}",
        run.said()
    );

    let before = job.rows("events");
    let said = job.ends_with(REFUSED, &[]);
    let refusal = "error: refused to start: the table is not what the pipeline file says\n  sink events_table: shop.events: column `product_id` is not in the table and can't be added, since it may not be null\n  choose: change the table or the pipeline file\n";
    assert!(said.contains(refusal), "{said}");
    assert_eq!(job.rows("events"), before);
}
