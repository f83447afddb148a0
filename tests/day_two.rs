//! A bounded job that is over isn't the end of its pipeline: what comes into the folder later is read by the next run, and nothing else is.
use std::collections::BTreeMap;
use std::fs;

use crate::harness::dice::Dice;
use crate::harness::kills::finish_through_kills;
use crate::harness::log::Log;
use crate::harness::pipelines::{Dials, TABLES};
use crate::harness::tables::{Digest, rows_of, sum_of};
use crate::harness::{Job, REFUSED, newest};

const SMALL: [&str; 4] = ["--event-rate", "100", "--users", "500"];
/// So rare that none is taken before the end.
const RARE: &str = r#"{ interval = "1h", dir = "file:data/checkpoints" }"#;

fn log(events: &str, partitions: &str, more: &[&str]) -> Log {
    Log::clickstream(&[&SMALL[..], &["--events", events, "--partitions", partitions], more].concat())
}

fn day_one() -> Log {
    log("6k", "2", &[])
}

/// One file, a day later, with other events.
fn day_two() -> Log {
    log("3k", "1", &["--seed", "2", "--base-time", "2026-01-02T00:00:00Z"])
}

fn as_day_two(_: &str, _: usize) -> String {
    "day2.json".to_owned()
}

/// Every way in which the same two days may be run: cuts at any time, one at the end, kills.
fn ways() -> [(&'static str, Dials, usize); 3] {
    let rare = Dials { checkpoint: RARE.into(), commit_interval: "1h".into(), ..Dials::pipeline("workers = 1") };
    [
        ("one checkpoint a run", rare, 0),
        ("many checkpoints", Dials::pipeline("workers = 3\nbatch_rows = 100\nqueue_batches = 1"), 0),
        ("kills", Dials::pipeline("workers = 2\nbatch_rows = 300"), 3),
    ]
}

/// Runs to the end of what is there, through kills.
fn run_through(job: &Job, kills: usize) {
    let within = std::time::Duration::from_millis(900);
    finish_through_kills(job, &mut Dice::new(kills as u64 + 5), kills, within);
}

fn day(log: &Log, name: fn(&str, usize) -> String) -> BTreeMap<&'static str, Digest> {
    let job = Job::new(&Dials::default().clicks());
    log.give_as(&job, name);
    job.finish();
    job.digests()
}

#[test]
fn a_file_that_comes_after_the_end_adds_its_rows_and_no_other() {
    let (first, second) = (day_one(), day_two());
    let (one, two) = (day(&first, |name, _| name.to_owned()), day(&second, as_day_two));
    let both: BTreeMap<_, _> = TABLES.map(|table| (table, sum_of(&one[table], &two[table]))).into();
    for (way, dials, kills) in ways() {
        let job = Job::new(&dials.clicks());
        first.give(&job);
        run_through(&job, kills);
        assert_eq!(job.digests(), one, "{way}");
        second.give_as(&job, as_day_two);
        run_through(&job, kills);
        assert_eq!(job.digests(), both, "{way}");
        job.finish();
        assert_eq!(job.digests(), both, "{way}: with nothing new nothing is added");
    }
}

#[test]
fn what_comes_too_late_on_day_two_is_late_by_what_day_one_has_fired_however_that_was_run() {
    let log = log("6k", "3", &[]);
    let mut seen: Option<BTreeMap<_, _>> = None;
    for (way, dials, kills) in ways() {
        let job = Job::new(&dials.clicks());
        log.give(&job);
        let held_back = newest_file(&job);
        fs::rename(job.path("data/events").join(&held_back), job.path(&held_back)).unwrap();
        run_through(&job, kills);
        let (windows, late) = (job.rows("per_type"), job.rows("late"));
        fs::rename(job.path(&held_back), job.path("data/events").join(&held_back)).unwrap();
        run_through(&job, kills);
        assert_eq!(job.rows("events"), log.ledger.total("events"), "{way}");
        assert!(job.rows("late") > late + 3_000, "{way}: both windows have fired for most of it");
        assert!(job.rows("per_type") < windows + 100, "{way}");
        match &seen {
            None => seen = Some(job.digests()),
            Some(expected) => assert_eq!(&job.digests(), expected, "{way}"),
        }
    }
}

fn newest_file(job: &Job) -> String {
    newest(&job.path("data/events")).file_name().unwrap().to_string_lossy().into_owned()
}

#[test]
fn a_file_that_grew_after_the_end_goes_on_behind_what_was_read() {
    let log = day_one();
    let whole = day(&log, |name, _| name.to_owned());
    let mut seen: Option<BTreeMap<_, _>> = None;
    for (way, dials, kills) in ways() {
        let job = Job::new(&dials.clicks());
        log.grow(&job, 0, 600);
        run_through(&job, kills);
        let before = job.rows("events");
        assert!(0 < before && before < rows_of(&whole["events"]));
        log.grow(&job, 600, 1000);
        run_through(&job, kills);
        for table in ["events", "duplicates", "errors"] {
            assert_eq!(job.digest(table), whole[table], "{way}: {table}");
        }
        match &seen {
            None => seen = Some(job.digests()),
            Some(expected) => assert_eq!(&job.digests(), expected, "{way}"),
        }
    }
}

/// The end of a file is where it ends at this start, not where it ended when a run began that didn't come so far.
#[test]
fn a_line_that_was_half_written_when_a_run_failed_is_whole_in_the_next() {
    let job = Job::new(
        r#"
[pipeline]
id = "halves"
[source.lines]
type = "file"
path = "data/lines.json"
schema = { id = "int64" }
on_error = "fail"
[sink.out]
from = "lines"
type = "file"
dir = "file:out"
"#,
    );
    let write = |text: &str| fs::write(job.path("data/lines.json"), text).unwrap();
    write("{\"id\":1}\n{\"id\":2");
    job.ends_with(REFUSED, &[]);
    write("{\"id\":1}\n{\"id\":2}\n{\"id\":\"3\"}\n");
    job.ends_with(REFUSED, &[]);
    // Mended, and shorter than it was.
    write("{\"id\":1}\n{\"id\":2}\n{\"id\":3}\n");
    job.finish();
    assert_eq!(job.rows_in("out"), ["{\"id\":1}", "{\"id\":2}", "{\"id\":3}"]);
}

#[test]
fn a_folder_without_files_is_an_input_that_has_ended() {
    let job = Job::new(&Dials::default().clicks());
    fs::create_dir_all(job.path("data/events")).unwrap();
    let said = job.ends_with(0, &[]);
    assert!(
        said.contains("there is nothing to read: no file is there yet, and the source ends with what is"),
        "{said}"
    );
    assert_eq!(job.digests().values().map(|digest| rows_of(digest)).sum::<u64>(), 0);
    let log = day_one();
    log.give(&job);
    job.finish();
    assert_eq!(job.rows("events"), log.ledger.total("events"));
}

/// An ended source beside one that waits for its first file: the job waits too.
#[test]
fn a_source_that_has_ended_does_not_end_the_job_while_another_may_get_its_first_file() {
    let dials = Dials::default();
    let second =
        dials.clicks().replace("[dedup.clean]\nfrom = \"events\"", "[dedup.clean]\nfrom = [\"events\", \"more\"]");
    let events = second[second.find("[source.events]").unwrap()..second.find("[dedup.clean]").unwrap()].to_owned();
    let more = events.replace("source.events", "source.more").replace(
        "\"data/events\"",
        "\"data/more\"\nend = \"never\"\ndiscovery_interval = \"100ms\"\ndiscard = [\"errors\"]",
    );
    let job = Job::new(&(second + &more));
    let (first, later) = (day_one(), day_two());
    first.give(&job);
    fs::create_dir_all(job.path("data/more")).unwrap();
    let mut run = job.start();
    job.wait_while(&mut run, |job| job.rows("events") == first.ledger.total("events"));
    job.wait_for_checkpoints(&mut run, 3);
    later.give_as(&job, |_, _| "../more/day2.json".to_owned());
    let both = first.ledger.total("events") + later.ledger.total("events");
    job.wait_while(&mut run, |job| job.rows("events") == both);
    run.stop();
}
