//! Tables, catalogs and checkpoints that were damaged behind the job's back: refused with what happened and the choices, never repaired by guess.
use std::fs;
use std::path::{Path, PathBuf};

use floodmark::checkpoint::manifest::Manifest;
use floodmark::steps::Point;
use serde_json::Value;

use crate::harness::log::Log;
use crate::harness::pipelines::{Dials, TABLES};
use crate::harness::tables::{change_catalog, forget_table, pause_beside_the_catalog, reader};
use crate::harness::{FAILED, Job, Order, REFUSED, newest};

/// One checkpoint, at the end.
const RARE: &str = r#"{ interval = "1h", dir = "file:data/checkpoints" }"#;

fn log() -> Log {
    Log::clickstream(&["--events", "10k", "--event-rate", "100", "--users", "500"])
}

/// Half of the log is read and committed, and killed before a manifest could say so; the other half has come since.
fn half_committed(log: &Log) -> Job {
    let job = Job::new(&Dials { checkpoint: RARE.into(), commit_interval: "1h".into(), ..Dials::default() }.clicks());
    log.grow(&job, 0, 500);
    let mut run = job.start_ordered(Order::kill(Point::AckDue, TABLES.len() as u64));
    assert_eq!(run.wait(), None, "{}", run.said());
    log.grow(&job, 500, 1000);
    job
}

/// The same, ended well: the newest manifest knows of every commit, and no rows wait.
fn half_done(log: &Log) -> Job {
    let job = Job::new(&Dials::default().clicks());
    log.grow(&job, 0, 500);
    job.finish();
    log.grow(&job, 500, 1000);
    job
}

fn drop_events(job: &Job) {
    forget_table(job, "events");
}

/// Refused with this as the first line, and none of the tables touched.
fn is_refused(job: &Job, why: &str) {
    let before = found(job);
    let said = job.ends_with(REFUSED, &[]);
    let first = format!("error: refused to start: {why}\n");
    assert!(said.contains(&first), "{said}");
    assert!(said.contains("choose:"), "{said}");
    assert_eq!(found(job), before);
    assert_eq!(job.ends_with(REFUSED, &[]).matches(&first).count(), 1, "a refusal stays one");
}

/// Digests of the tables that there are.
fn found(job: &Job) -> [Option<String>; 6] {
    TABLES.map(|table| job.digest_with(table, &[]))
}

#[test]
fn a_dropped_table_is_refused() {
    let job = half_done(&log());
    drop_events(&job);
    is_refused(&job, "the table is behind the state");
}

/// What was committed last still waits in the outbox of a manifest that hasn't heard of it: nothing is lost, so nothing is refused.
#[test]
fn a_table_dropped_before_its_commit_was_noted_is_filled_again() {
    let log = log();
    let whole = half_committed(&log);
    whole.finish();
    let job = half_committed(&log);
    drop_events(&job);
    job.finish();
    assert_eq!(job.digests(), whole.digests());
}

#[test]
fn a_table_that_another_made_again_is_refused() {
    let log = log();
    let job = half_done(&log);
    drop_events(&job);
    let checkpoint = r#"{ interval = "50ms", dir = "file:data/other-checkpoints" }"#.into();
    job.edit(&Dials { id: "other".into(), checkpoint, ..Dials::default() }.clicks());
    // The tables that are left hold what was read before.
    is_refused(&job, "the table holds rows of another pipeline");
    let others: Vec<_> =
        TABLES.iter().filter(|table| **table != "events").map(|table| format!("{table}_table")).collect();
    let options: Vec<_> = others.iter().flat_map(|sink| ["--accept-gap", sink.as_str()]).collect();
    job.ends_with(0, &options);
    job.edit(&Dials::default().clicks());
    is_refused(&job, "the table is behind the state");
}

#[test]
fn rows_that_others_deleted_are_named_by_the_next_start() {
    let job = half_done(&log());
    let [catalog, warehouse] =
        ["data/catalog.db", "data/warehouse"].map(|p| job.path(p).to_string_lossy().into_owned());
    let before = job.rows("events");
    reader("alter_table.py", &[&catalog, &warehouse, "shop.events", "delete", "event_type == 'add_to_cart'"]);
    let deleted = before - job.rows("events");
    assert!(deleted > 0 && deleted < before, "{deleted} of {before}");
    let mut run = job.start();
    run.wait();
    let named = |line: &&str| line.contains("shop.events: ") && line.contains(" of others since our last commit: ");
    let said = run.said();
    let line = said.lines().find(named).unwrap_or_else(|| panic!("{said}"));
    // Files are rewritten without these rows, so that the ones that stay are counted on both sides.
    let numbers: Vec<u64> = line.split(&[' ', ',']).filter_map(|word| word.parse().ok()).collect();
    let [_, added, gone] = numbers[numbers.len() - 3..] else { panic!("{line}") };
    assert_eq!(gone - added, deleted, "{line}");
    assert_eq!(said.lines().filter(named).count(), 1, "once: {said}");
}

/// Sets `main` of the events table back to the snapshot before, as a rollback does: the properties stay.
fn roll_back_events(job: &Job) {
    let current = PathBuf::from(job.metadata("events").trim_start_matches("file://"));
    let mut metadata: Value = serde_json::from_slice(&fs::read(&current).unwrap()).unwrap();
    let head = metadata["current-snapshot-id"].clone();
    let snapshots = metadata["snapshots"].as_array().unwrap();
    let parent = snapshots.iter().find(|s| s["snapshot-id"] == head).unwrap()["parent-snapshot-id"].clone();
    assert!(parent.is_i64(), "one snapshot can't be rolled back");
    metadata["current-snapshot-id"] = parent.clone();
    metadata["refs"]["main"]["snapshot-id"] = parent;
    let rolled_back = current.with_file_name("99999-rolled-back.metadata.json");
    fs::write(&rolled_back, metadata.to_string()).unwrap();
    point_events_to(job, &rolled_back);
}

fn point_events_to(job: &Job, metadata: &Path) {
    let location = format!("file://{}", metadata.display());
    change_catalog(
        job,
        &format!("UPDATE iceberg_tables SET metadata_location = '{location}' WHERE table_name = 'events'"),
    );
}

#[test]
fn a_table_that_was_rolled_back_is_refused() {
    let job = half_done(&log());
    roll_back_events(&job);
    is_refused(&job, "the table was rolled back under us");
}

#[test]
fn a_catalog_restored_from_a_copy_is_refused() {
    let job = half_done(&log());
    fs::copy(job.path("data/catalog.db"), job.path("data/copy.db")).unwrap();
    job.finish();
    fs::rename(job.path("data/copy.db"), job.path("data/catalog.db")).unwrap();
    is_refused(&job, "the table is behind the state");
}

#[test]
fn a_lost_checkpoint_directory_is_no_fresh_start() {
    let job = half_done(&log());
    fs::remove_dir_all(job.path("data/checkpoints")).unwrap();
    is_refused(&job, "the state is gone, but the table isn't");
    let said = job.ends_with(REFUSED, &[]);
    assert_eq!(said.matches(" holds checkpoint ").count(), TABLES.len(), "{said}");
    assert_eq!(said.matches("choose:").count(), 1, "one choice for all tables: {said}");
}

#[test]
fn a_table_dropped_while_running_ends_the_job_before_a_row_is_written() {
    let log = log();
    let source = "type = \"file\"\npath = \"data/events\"\nend = \"never\"".to_owned();
    let job = Job::new(&Dials { source, ..Dials::default() }.clicks());
    log.grow(&job, 0, 500);
    let mut run = job.start();
    job.wait_while(&mut run, |job| job.rows("events") > 0);
    // The manifests that follow know of that commit.
    job.wait_for_checkpoints(&mut run, 3);
    drop_events(&job);
    log.grow(&job, 500, 1000);
    assert_eq!(run.wait(), Some(FAILED), "{}", run.said());
    assert!(run.has_said("error: shop.events: dropped while running"), "{}", run.said());
    is_refused(&job, "the table is behind the state");
}

#[test]
fn a_table_rolled_back_while_running_ends_the_job_before_a_row_is_written() {
    let log = log();
    let source = "type = \"file\"\npath = \"data/events\"\nend = \"never\"".to_owned();
    let job = Job::new(&Dials { source, ..Dials::default() }.clicks());
    log.grow(&job, 0, 300);
    let mut run = job.start();
    job.wait_while(&mut run, |job| job.rows("events") > 0);
    // The job must not commit between our look and our change.
    pause_beside_the_catalog(&job, &mut run);
    roll_back_events(&job);
    run.resume();
    log.grow(&job, 300, 1000);
    assert_eq!(run.wait(), Some(FAILED), "{}", run.said());
    assert!(run.has_said("error: shop.events: rolled back under us"), "{}", run.said());
}

/// A run killed when some checkpoints are complete and only the first of them is committed.
fn killed_with_epochs_waiting(log: &Log) -> Job {
    let source = "type = \"file\"\npath = \"data/events\"\nend = \"never\"".to_owned();
    let job = Job::new(&Dials { source, commit_interval: "1h".into(), ..Dials::default() }.clicks());
    log.grow(&job, 0, 500);
    let mut run = job.start();
    job.wait_while(&mut run, |job| job.rows("events") > 0);
    log.grow(&job, 500, 1000);
    job.wait_for_checkpoints(&mut run, 3);
    run.kill();
    job
}

fn tear(file: &Path) {
    let bytes = fs::read(file).unwrap();
    fs::write(file, &bytes[..bytes.len() / 2]).unwrap();
}

#[test]
fn a_torn_newest_manifest_is_passed_over_for_the_one_before() {
    let log = log();
    let whole = Job::new(&Dials::default().clicks());
    log.give(&whole);
    whole.finish();

    let job = killed_with_epochs_waiting(&log);
    tear(&newest(&job.path("data/checkpoints/manifests")));
    let mut run = job.start();
    run.wait_until(|run| run.has_said("put aside as unreadable/"));
    // Stopping commits what waits.
    job.wait_for_checkpoints(&mut run, 20);
    run.stop();
    for table in ["events", "duplicates", "errors"] {
        assert_eq!(job.digest(table), whole.digest(table), "{table}");
    }
}

#[test]
fn a_torn_manifest_whose_rows_are_committed_is_refused() {
    let job = half_committed(&log());
    tear(&newest(&job.path("data/checkpoints/manifests")));
    is_refused(&job, "the table is ahead of the state");
}

/// All files of the newest state.
fn state_files(job: &Job) -> Vec<PathBuf> {
    let folder = newest(&job.path("data/checkpoints/state"));
    fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect()
}

#[test]
fn a_missing_state_file_is_refused_by_name() {
    let job = half_done(&log());
    state_files(&job).iter().for_each(|file| fs::remove_file(file).unwrap());
    is_refused(&job, "the state is not whole");
    let said = job.ends_with(REFUSED, &[]);
    assert!(said.contains("\n  file:data/checkpoints/state/"), "{said}");
    assert!(said.contains(": the file is missing, which manifests/"), "{said}");
}

#[test]
fn a_state_file_cut_short_is_refused_by_name() {
    let job = half_done(&log());
    state_files(&job).iter().for_each(|file| tear(file));
    is_refused(&job, "the state is not whole");
}

/// Its length is right: what is wrong with it is seen only when it is loaded.
#[test]
fn a_state_file_with_other_content_is_refused() {
    let job = half_done(&log());
    for file in state_files(&job) {
        let length = fs::metadata(&file).unwrap().len() as usize;
        fs::write(file, vec![b'x'; length]).unwrap();
    }
    let said = job.ends_with(REFUSED, &[]);
    assert!(said.contains("error: refused to start: the state is not whole\n"), "{said}");
}

#[test]
fn a_file_changed_in_place_is_refused_and_so_is_one_that_shrank_or_went() {
    let log = log();
    let source = "type = \"file\"\npath = \"data/events\"\nend = \"never\"".to_owned();
    let job = Job::new(&Dials { source, ..Dials::default() }.clicks());
    log.grow(&job, 0, 500);
    let file = newest(&job.path("data/events"));
    let whole = fs::read(&file).unwrap();
    // Half a line, which waits for its end.
    fs::write(&file, [&whole[..], b"{\"half"].concat()).unwrap();
    let mut run = job.start();
    job.wait_while(&mut run, |job| job.rows("events") > 0);
    run.stop();
    let before = job.digests();
    let (bytes, name) = (fs::read(&file).unwrap(), file.file_name().unwrap().to_string_lossy().into_owned());

    let refused = |why: &str| {
        let said = job.ends_with(REFUSED, &[]);
        assert!(said.contains(why), "{why}: {said}");
        assert!(said.contains("choose:"), "{said}");
        assert_eq!(job.digests(), before);
    };
    let mut changed = bytes.clone();
    changed[2] = b'#';
    fs::write(&file, &changed).unwrap();
    refused(&format!(
        "error: source events: data/events/{name}: changed in place: what was read of it before is no longer"
    ));
    fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    refused(&format!("the log is not the one that was read\n  events:{name}-0: "));
    fs::remove_file(&file).unwrap();
    refused(&format!("events:{name}-0: the file is gone, of which {} bytes were read and not all", whole.len()));

    fs::write(&file, &whole).unwrap();
    log.grow(&job, 500, 1000);
    let mut run = job.start();
    job.wait_while(&mut run, |job| job.records_seen() == log.ledger.total("records"));
    run.stop();
}

/// Whoever tidies up the folder of an endless job takes away what was read: while it runs, between two runs, and behind its back with a kill.
#[test]
fn files_that_were_read_may_be_taken_away() {
    let log = log();
    let source = "type = \"file\"\npath = \"data/events\"\nend = \"never\"\ndiscovery_interval = \"50ms\"";
    let job = Job::new(&Dials { source: source.into(), ..Dials::default() }.clicks());
    log.give(&job);
    let total = log.ledger.total("records");
    let mut run = job.start();
    job.wait_while(&mut run, |job| job.records_seen() == total);
    // The manifest after next knows that nothing more was there.
    job.wait_for_checkpoints(&mut run, 3);
    let files: Vec<_> = fs::read_dir(job.path("data/events")).unwrap().map(|entry| entry.unwrap().path()).collect();
    fs::remove_file(&files[0]).unwrap();
    run.wait_until(|run| run.has_said("the file is gone; all that it had was read"));
    run.kill();
    fs::rename(&files[1], job.path("elsewhere")).unwrap();
    let mut run = job.start();
    job.wait_for_checkpoints(&mut run, 3);
    run.stop();
    let before = job.digests();
    fs::remove_file(&files[2]).unwrap();
    let later = Log::clickstream(&["--events", "1k", "--seed", "2", "--partitions", "1"]);
    later.give_as(&job, |_, _| "later.json".into());
    let mut run = job.start();
    job.wait_while(&mut run, |job| job.records_seen() == total + later.ledger.total("records"));
    run.stop();
    assert_ne!(job.digests(), before);
    assert_eq!(job.rows("events"), log.ledger.total("events") + later.ledger.total("events"));
}

#[test]
fn a_file_written_anew_while_running_ends_the_job_also_where_it_is_longer_now() {
    let log = log();
    let source = "type = \"file\"\npath = \"data/events\"\nend = \"never\"".to_owned();
    let job = Job::new(&Dials { source, ..Dials::default() }.clicks());
    log.grow(&job, 0, 500);
    let mut run = job.start();
    job.wait_while(&mut run, |job| job.records_seen() > 0);
    job.wait_for_checkpoints(&mut run, 3);
    let file = newest(&job.path("data/events"));
    let bytes = fs::read(&file).unwrap();
    let mut lines: Vec<_> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    lines.reverse();
    let seen = job.digests();
    fs::write(&file, [lines.concat(), bytes].concat()).unwrap();
    let said = run.ends_with(REFUSED);
    assert!(said.contains("changed in place: what was read of it before is no longer what it begins with"), "{said}");
    assert_eq!(job.digests()["errors"], seen["errors"], "no half line was taken for a record");
}

/// Every segment that the newest manifest names.
fn segments(job: &Job) -> Vec<PathBuf> {
    let folders = fs::read_dir(job.path("data/checkpoints/segments")).unwrap().map(|entry| entry.unwrap().path());
    folders.flat_map(|folder| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path())).collect()
}

#[test]
fn rows_that_wait_and_went_missing_are_refused_and_given_up_only_if_asked() {
    let log = log();
    let whole = Job::new(&Dials::default().clicks());
    log.give(&whole);
    whole.finish();
    let job = killed_with_epochs_waiting(&log);
    let kept: Vec<_> = segments(&job).into_iter().map(|file| (fs::read(&file).unwrap(), file)).collect();
    kept.iter().for_each(|(_, file)| fs::remove_file(file).unwrap());
    is_refused(&job, "rows that wait for a sink can't be read");
    let said = job.ends_with(REFUSED, &[]);
    assert!(said.contains(": rows that wait for a sink are missing\n"), "{said}");
    let command = said.lines().find(|line| line.starts_with("          floodmark run pipeline.toml --accept-gap "));
    let command = command.unwrap_or_else(|| panic!("{said}"));
    assert!(command.contains(" --accept-gap events_table ") && command.ends_with(" and leave these rows out for ever"));

    for (bytes, file) in &kept {
        let mut changed = bytes.clone();
        *changed.last_mut().unwrap() ^= 1;
        let middle = changed.len() / 2;
        changed[middle] ^= 1;
        fs::write(file, changed).unwrap();
    }
    is_refused(&job, "rows that wait for a sink can't be read");
    let said = job.ends_with(REFUSED, &[]);
    assert!(said.contains(": the rows that wait there for a sink were changed\n"), "{said}");

    kept.iter().for_each(|(bytes, file)| fs::write(file, bytes).unwrap());
    let mut run = job.start();
    job.wait_for_checkpoints(&mut run, 3);
    run.stop();
    for table in ["events", "duplicates", "errors"] {
        assert_eq!(job.digest(table), whole.digest(table), "{table}");
    }

    let given_up = killed_with_epochs_waiting(&log);
    segments(&given_up).iter().for_each(|file| fs::remove_file(file).unwrap());
    let sinks = TABLES.map(|table| format!("{table}_table"));
    let accepted: Vec<&str> = sinks.iter().flat_map(|sink| ["--accept-gap", sink.as_str()]).collect();
    let mut run = given_up.start_with(&accepted);
    given_up.wait_for_checkpoints(&mut run, 3);
    run.stop();
    let rows = given_up.rows("events");
    assert!(0 < rows && rows < whole.rows("events"), "{rows}: what was given up is missing, and nothing else");
    given_up.start_and_stop();
    assert_eq!(given_up.rows("events"), rows, "it isn't spoken of again");
}

/// As if a row had been made from nothing: counters of the newest manifest that say one row too many.
#[test]
fn a_sum_that_does_not_close_stops_the_job_before_a_commit() {
    let job = half_done(&log());
    let path = newest(&job.path("data/checkpoints/manifests"));
    let mut manifest = Manifest::decode(&fs::read(&path).unwrap()).unwrap();
    let clean = manifest.nodes.iter_mut().find(|node| node.name == "clean").unwrap();
    clean.counters.records_out += 1;
    fs::write(&path, manifest.encode()).unwrap();
    let before = job.digests();
    let said = job.ends_with(FAILED, &[]);
    let error = said.lines().find(|line| line.starts_with("error: A1 (")).unwrap_or_else(|| panic!("{said}"));
    assert!(
        error.contains(" clean: in = ") && error.contains(", but unique + duplicates + beyond horizon = "),
        "{error}"
    );
    assert!(said.contains("this is a bug in floodmark: the job stops before anything more is committed"), "{said}");
    assert_eq!(job.digests(), before);
}
