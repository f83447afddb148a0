//! The result is a function of the log: not of workers, batches, queues, the order of reading, or kills.
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;

use floodmark::checkpoint::manifest::{Manifest, Status};
use floodmark::steps::Point;

use crate::harness::kills::finish_through_points;
use crate::harness::log::Log;
use crate::harness::pipelines::Dials;
use crate::harness::tables::{Digest, rows_of};
use crate::harness::{Job, Order};

type Digests = BTreeMap<&'static str, Digest>;

fn job(log: &Log, dials: &Dials) -> Job {
    let job = Job::new(&dials.clicks());
    log.give(&job);
    job
}

fn result(log: &Log, dials: &Dials) -> Digests {
    let job = job(log, dials);
    job.finish();
    job.digests()
}

/// A log of this many partitions with records that are really late.
fn log(partitions: &str, events: &str) -> Log {
    let dials = ["--events", events, "--partitions", partitions, "--event-rate", "100", "--users", "500"];
    let log = Log::clickstream(&dials);
    assert_ne!(log.ledger.total("late"), 0);
    log
}

/// Every way of running gives what one worker gives.
fn is_the_same_in_every_way(log: &Log) {
    let expected = result(log, &Dials::pipeline("workers = 1"));
    assert_eq!(rows_of(&expected["late"]), 2 * log.ledger.total("late"));
    for ways in [
        "workers = 2\nbatch_rows = 7\nqueue_batches = 1",
        "workers = 3\nbatch_rows = 1000\nqueue_batches = 1",
        "workers = 2\nbatch_rows = 10000\nstate = \"memory\"",
        "workers = 3\nmemory = \"16MiB\"",
    ] {
        assert_eq!(result(log, &Dials::pipeline(ways)), expected, "{ways}");
    }
    // Partitions take turns otherwise: whoever is a second ahead waits for the others.
    let aligned = Dials { watermark: r#"{ bound = "5s", align = "1s" }"#.into(), ..Dials::pipeline("workers = 2") };
    assert_eq!(result(log, &aligned), expected, "aligned");
    let rare = r#"{ interval = "10s", dir = "file:data/checkpoints" }"#;
    let at_the_end = Dials { checkpoint: rare.into(), commit_interval: "10s".into(), ..Dials::pipeline("workers = 2") };
    assert_eq!(result(log, &at_the_end), expected, "one checkpoint at the end");

    let ways = Dials::pipeline("workers = 3\nbatch_rows = 100\nqueue_batches = 1");
    let killed = job(log, &ways);
    assert_ne!(finish_through_points(&killed, &ON_THE_WAY), 0);
    assert_eq!(killed.digests(), expected, "with kills");
}

/// The first is sure to come, however fast the machine is; the others as far as there is still something to read.
const ON_THE_WAY: [(Point, u64); 4] =
    [(Point::Read, 20), (Point::Manifest, 2), (Point::Committed, 1), (Point::Read, 30)];

#[test]
fn one_partition_gives_the_same_tables_however_it_is_run() {
    is_the_same_in_every_way(&log("1", "12k"));
}

#[test]
fn two_partitions_give_the_same_tables_however_they_are_run() {
    is_the_same_in_every_way(&log("2", "12k"));
}

#[test]
fn four_partitions_give_the_same_tables_however_they_are_run() {
    is_the_same_in_every_way(&log("4", "12k"));
}

#[test]
fn a_batch_may_be_one_record() {
    for partitions in ["1", "2", "4"] {
        let log = log(partitions, "1500");
        let expected = result(&log, &Dials::pipeline("workers = 1"));
        for workers in 1..=3 {
            let ways = Dials::pipeline(&format!("workers = {workers}\nbatch_rows = 1\nqueue_batches = 1"));
            let killed = job(&log, &ways);
            assert_ne!(finish_through_points(&killed, &ON_THE_WAY), 0);
            assert_eq!(killed.digests(), expected, "{workers} workers, {partitions} partitions");
        }
    }
}

#[test]
fn the_same_events_survive_dedup_over_one_two_and_four_partitions() {
    let log = log("1", "12k");
    let survivors = [1, 2, 4].map(|files| {
        let job = Job::new(&Dials::pipeline("workers = 2").clicks());
        log.spread(&job, files);
        job.finish();
        job.digest_with("events", &["--without-meta"]).unwrap()
    });
    assert_eq!(rows_of(&survivors[0]), log.ledger.total("events"));
    assert_eq!(survivors[0], survivors[1]);
    assert_eq!(survivors[0], survivors[2]);
}

/// Which file is the first, and which worker has it, is a matter of names.
#[test]
fn files_under_other_names_give_the_same_rows_in_whatever_order_they_are_listed() {
    let log = log("4", "12k");
    let rows = |workers: usize, name: &dyn Fn(&str, usize) -> String| {
        let job = Job::new(&Dials::pipeline(&format!("workers = {workers}\nbatch_rows = 100")).clicks());
        log.give_as(&job, name);
        job.finish();
        ["events", "duplicates", "per_type", "sessions", "late"]
            .map(|table| job.digest_with(table, &["--without-meta"]).unwrap())
    };
    let expected = rows(1, &|name: &str, _: usize| name.to_owned());
    assert_eq!(rows_of(&expected[4]), 2 * log.ledger.total("late"));
    assert_eq!(rows(2, &|name: &str, place: usize| format!("{}-{name}", 9 - place)), expected, "the last is the first");
    assert_eq!(
        rows(3, &|_: &str, place: usize| format!("{}.ndjson", ["c", "a", "d", "b"][place])),
        expected,
        "shuffled"
    );
}

#[test]
fn a_killed_run_goes_on_with_another_number_of_workers() {
    let log = log("4", "30k");
    let checkpoint = r#"{ interval = "10ms", dir = "file:data/checkpoints" }"#;
    let with_workers = |workers: usize| Dials {
        checkpoint: checkpoint.into(),
        ..Dials::pipeline(&format!("workers = {workers}\nbatch_rows = 5"))
    };
    let expected = result(&log, &with_workers(2));

    let job = job(&log, &with_workers(2));
    for workers in [2, 3, 1] {
        job.edit(&with_workers(workers).clicks());
        // The first manifest of a start is the restored cut.
        let killed = job.start_ordered(Order::kill(Point::Manifest, 2)).wait();
        assert_eq!(killed, None, "{workers} workers came to the end");
    }
    job.edit(&with_workers(3).clicks());
    job.finish();
    assert_eq!(job.digests(), expected);
}

#[test]
fn a_run_that_waited_for_more_ends_when_the_file_says_so_now() {
    let log = log("2", "3k");
    let bounded = Dials::pipeline("workers = 2");
    let unbounded = Dials { source: format!("{}\nend = \"never\"", bounded.source), ..bounded.clone() };
    let job = job(&log, &unbounded);
    let mut run = job.start();
    job.wait_while(&mut run, |job| job.records_seen() == log.ledger.total("records"));
    run.stop();
    assert!(job.rows("sessions") < rows_of(&result(&log, &bounded)["sessions"]), "the last windows are open");
    job.edit(&bounded.clicks());
    job.finish();
    assert_eq!(job.digests(), result(&log, &bounded));
}

/// A click of its own in `file`, at this second of the log.
fn click(file: &str, n: i64, second: i64) -> String {
    let (user, at) = (n % 97, 1_767_225_600_000 + second * 1_000);
    let ids = format!(r#""event_id":"{file}-{n}","user_id":"u{user}","event_type":"view","product_id":"p""#);
    format!("{{{ids},\"price_cents\":5,\"event_time_ms\":{at},\"source\":\"{file}\"}}\n")
}

fn append(job: &Job, file: &str, lines: &str) {
    let path = job.path(&format!("data/events/{file}.ndjson"));
    fs::File::options().create(true).append(true).open(path).unwrap().write_all(lines.as_bytes()).unwrap();
}

/// Two files over the same 28 hours: one with a record every second, one with a record every 100 s. Read in equal batches, the second runs ahead.
fn uneven(dials: &Dials) -> Job {
    let job = Job::new(&dials.clicks());
    fs::create_dir(job.path("data/events")).unwrap();
    for (file, records, seconds) in [("dense", 100_000, 1), ("sparse", 1_000, SPARSE_SECONDS)] {
        append(&job, file, &(0..records).map(|n| click(file, n, n * seconds)).collect::<String>());
    }
    job
}

const SPARSE_SECONDS: i64 = 100;
const BATCH_ROWS: i64 = 10;

/// How far the sparse file was ahead of the dense one in event time, at every checkpoint that stands while both are read.
fn leads(job: &Job) -> Vec<i64> {
    let mut leads = vec![];
    for file in fs::read_dir(job.path("data/checkpoints/manifests")).unwrap() {
        let manifest = Manifest::decode(&fs::read(file.unwrap().path()).unwrap()).unwrap();
        let of = |name: &str| manifest.partitions.iter().find(|p| p.name.topic.contains(name)).unwrap();
        let seen = |name: &str| of(name).time.watermark.max_seen.map(|t| t.0);
        if let (Some(dense), Some(sparse), Status::Live) = (seen("dense"), seen("sparse"), of("dense").status) {
            leads.push((sparse - dense) / 1_000);
        }
    }
    leads
}

#[test]
fn partitions_stay_within_align_of_each_other_and_give_the_same_tables() {
    let with_watermark = |watermark: &str| Dials {
        pipeline: format!("workers = 2\nbatch_rows = {BATCH_ROWS}"),
        checkpoint: r#"{ interval = "20ms", dir = "file:data/checkpoints", retain = 10000 }"#.into(),
        watermark: watermark.into(),
        ..Dials::default()
    };
    let apart = uneven(&with_watermark(r#"{ bound = "5s" }"#));
    apart.finish();
    let aligned = uneven(&with_watermark(r#"{ bound = "5s", align = "60s" }"#));
    aligned.finish();
    // As far as it may be ahead, and the batch that took it there.
    let furthest = 60 + BATCH_ROWS * SPARSE_SECONDS;
    let (apart_by, aligned_by) = (leads(&apart), leads(&aligned));
    assert!(apart_by.iter().any(|lead| *lead > 5 * furthest), "{apart_by:?}");
    assert!(!aligned_by.is_empty() && aligned_by.iter().all(|lead| *lead <= furthest), "{aligned_by:?}");
    assert_eq!(aligned.digests(), apart.digests());
}

#[test]
fn a_file_that_grows_no_more_is_left_behind_where_idle_is_set_and_read_again_when_it_does() {
    let dials = Dials {
        source: "type = \"file\"\npath = \"data/events\"\nend = \"never\"".into(),
        watermark: r#"{ bound = "5s", idle = "300ms" }"#.into(),
        ..Dials::default()
    };
    let job = Job::new(&dials.clicks());
    fs::create_dir(job.path("data/events")).unwrap();
    append(&job, "quiet", &click("quiet", 0, 0));
    append(&job, "busy", &click("busy", 0, 0));
    let (mut run, mut busy) = (job.start(), 1);
    job.wait_while(&mut run, |job| {
        append(job, "busy", &click("busy", busy, busy));
        busy += 1;
        // The quiet file alone would hold every window open.
        job.rows("per_type") > 0
    });
    append(&job, "quiet", &(1..5).map(|n| click("quiet", n, n)).collect::<String>());
    job.wait_while(&mut run, |job| job.records_seen() == busy as u64 + 5);
    run.stop();
}
