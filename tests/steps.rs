//! The crash matrix: every step point of a start, a checkpoint and a commit × {kill, error, lost answer, panic, stall} × {first run, recovery} × {1, 3
//! workers}. None changes a table or a file. MATRIX=all plays all of it; without that all kills, errors and lost answers of one worker, and a tenth of the rest.
//! Over Postgres and a REST catalog the same with one worker's first run; without MATRIX=all, at the steps that the catalog has a part in.
//!
//! A point that doesn't fire fails its test, so none can be forgotten. Errors and lost answers are where a step can have one. Sleeping over a table's commit is in tests/zombie.rs; kills with a broker
//! are in tests/kafka_exactly_once.rs.
use std::cell::Cell as Counter;
use std::collections::BTreeMap;
use std::time::Duration;

use floodmark::steps::Point;
use floodmark_stack::postgres::Postgres;
use floodmark_stack::rest_catalog::{Pointers, RestCatalog, Warehouse};

use crate::harness::log::Log;
use crate::harness::pipelines::{Dials, sqlite};
use crate::harness::tables::Catalog;
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
        let unharmed = job(&log, 2, Tables::in_sqlite());
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

/// Where the tables of one job are.
struct Tables {
    catalog: String,
    namespace: String,
    at: Catalog,
}

impl Tables {
    fn in_sqlite() -> Tables {
        Tables { catalog: sqlite(), namespace: "shop".into(), at: Catalog::Sqlite }
    }
}

/// Clicks into tables, and the first copies into files too. Small batches and frequent checkpoints, so that a run has many of each step.
fn job(log: &Log, workers: usize, tables: Tables) -> Job {
    let checkpoint = r#"{ interval = "10ms", dir = "file:data/checkpoints", retain = 1 }"#;
    let dials = Dials {
        pipeline: format!("workers = {workers}\nbatch_rows = 5"),
        checkpoint: checkpoint.into(),
        commit_interval: "20ms".into(),
        catalog: tables.catalog,
        namespace: tables.namespace,
        ..Dials::default()
    };
    let files =
        "\n[sink.files]\nfrom = \"clean\"\ntype = \"file\"\ndir = \"file:data/out\"\ncommit_interval = \"20ms\"\n";
    let job = Job::with_catalog(&(dials.clicks() + files), tables.at);
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

/// How a run ended: killed, well, or by something that was ordered.
fn ended(run: &mut Run) -> Option<i32> {
    let code = run.wait();
    assert!(code.is_none_or(|code| code <= 1), "{}", run.said());
    code
}

/// What happens to a process at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Happens {
    /// SIGKILL.
    Kill,
    /// The step is refused; the process tries again or ends.
    Error,
    /// The step is done, and the process doesn't hear so.
    LostAnswer,
    Panic,
    /// It stands still for longer than any of its intervals, and goes on.
    Stall,
}

/// Runs in which something to collect must come up.
const TRIES: usize = 5;
/// Longer than what the matrix has for a time-out, and what some cells sleep instead: longer than any that a job has.
const STALL: Duration = Duration::from_secs(2);
const LONG_STALL: Duration = Duration::from_secs(30);
const STALL_LONG: [Point; 4] = [Point::Owned, Point::Part, Point::ManifestDue, Point::Committed];

/// Where a step can be refused, and where its answer can be lost.
const ERRORS: [Point; 3] = [Point::FenceDue, Point::ManifestDue, Point::CommitDue];
const LOST_ANSWERS: [Point; 5] = [Point::Fenced, Point::Segment, Point::StateFile, Point::Manifest, Point::Committed];

impl Happens {
    fn can_happen_at(self, point: Point) -> bool {
        match self {
            Self::Error => ERRORS.contains(&point),
            Self::LostAnswer => LOST_ANSWERS.contains(&point),
            Self::Kill | Self::Panic | Self::Stall => true,
        }
    }

    /// The process doesn't come to the end of its input.
    fn ends_the_run_at(self, point: Point) -> bool {
        match self {
            Self::Kill | Self::Panic => true,
            Self::Error => point == Point::FenceDue,
            Self::LostAnswer | Self::Stall => false,
        }
    }
}

fn all_is_played() -> bool {
    std::env::var("MATRIX").is_ok_and(|all| all == "all")
}

/// One cell of the matrix.
#[derive(Clone, Copy, Debug)]
struct Cell {
    point: Point,
    happens: Happens,
    /// In the recovery from a kill, where it also happens a second time if it comes to that.
    in_recovery: bool,
    workers: usize,
}

impl Cell {
    fn order(self) -> Order {
        match self.happens {
            Happens::Kill => Order::kill(self.point, 1),
            Happens::Error | Happens::LostAnswer => Order::fail(self.point),
            Happens::Panic => Order::panic(self.point),
            Happens::Stall => Order::stop(self.point),
        }
    }

    /// Without MATRIX=all: every kill, error and lost answer of one worker's first run, and a tenth of the rest.
    fn is_played(self, number: usize) -> bool {
        let first = !self.in_recovery && self.workers == 1;
        let always = first && !matches!(self.happens, Happens::Panic | Happens::Stall);
        always || number % 10 == 7 || all_is_played()
    }

    fn sleeps(self) -> Duration {
        let long = all_is_played() && !self.in_recovery && self.workers == 1 && STALL_LONG.contains(&self.point);
        if long { LONG_STALL } else { STALL }
    }

    /// Plays the run in which it happens. False: it didn't come to that. Nothing need be there to be collected before the end.
    fn happens_to(self, job: &Job) -> bool {
        let mut run = job.start_ordered(self.order());
        let code = match self.happens {
            Happens::Stall => {
                if run.stands_still_before_its_end() {
                    std::thread::sleep(self.sleeps());
                    run.resume();
                }
                ended(&mut run)
            }
            _ => ended(&mut run),
        };
        if !run.has_said(&format!("ordered at {}", self.point)) {
            assert!(COLLECTION.contains(&self.point), "{self:?} never happened: {}", run.said());
            return false;
        }
        match self.happens {
            Happens::Kill => assert_eq!(code, None, "{self:?}"),
            Happens::Panic => {
                assert_eq!(code, Some(FAILED), "{self:?}");
                assert!(run.has_said("this is a bug in floodmark"), "{}", run.said());
            }
            Happens::Error if self.point == Point::FenceDue => assert_eq!(code, Some(FAILED), "{self:?}"),
            _ => assert_eq!(code, Some(0), "{self:?}: {}", run.said()),
        }
        true
    }

    fn play(self, world: &World, tables: impl Fn() -> Tables) {
        let job = (0..TRIES).find_map(|_| {
            let job = job(&world.log, self.workers, tables());
            if self.in_recovery || COLLECTION.contains(&self.point) {
                assert_eq!(ended(&mut job.start_ordered(Order::kill(Point::Manifest, 2))), None, "{self:?}");
            }
            self.happens_to(&job).then_some(job)
        });
        let job = job.unwrap_or_else(|| panic!("{self:?} never happened"));
        // Once more in the recovery from that, where there is one.
        if self.in_recovery && self.happens.ends_the_run_at(self.point) && !COLLECTION.contains(&self.point) {
            assert!(self.happens_to(&job), "{self:?} a second time");
        }
        world.comes_out(&job, &self);
    }
}

fn play_all(happens: Happens) {
    let world = World::new();
    let workers = [1, 3];
    let cells = workers.into_iter().flat_map(|workers| [false, true].map(|in_recovery| (workers, in_recovery)));
    let cells = cells.flat_map(|(workers, in_recovery)| {
        let points = Point::ALL.iter().filter(move |point| happens.can_happen_at(**point));
        points.map(move |point| Cell { point: *point, happens, in_recovery, workers })
    });
    let mut played = 0;
    for (_, cell) in cells.enumerate().filter(|(number, cell)| cell.is_played(*number)) {
        cell.play(&world, Tables::in_sqlite);
        played += 1;
    }
    println!("matrix: {played} cells of {happens:?}");
}

#[test]
fn a_kill_at_any_point_changes_nothing() {
    play_all(Happens::Kill);
}

#[test]
fn an_error_at_any_point_that_can_have_one_changes_nothing() {
    play_all(Happens::Error);
}

#[test]
fn an_answer_lost_at_any_point_that_has_one_changes_nothing() {
    play_all(Happens::LostAnswer);
}

#[test]
fn a_panic_at_any_point_ends_the_process_and_changes_nothing() {
    play_all(Happens::Panic);
}

#[test]
fn a_stall_at_any_point_changes_nothing() {
    play_all(Happens::Stall);
}

/// Steps that a catalog has a part in.
const OF_A_CATALOG: [Point; 5] = [Point::FenceDue, Point::Fenced, Point::DataFiles, Point::CommitDue, Point::Committed];

/// The first run of one worker; each job has tables of its own.
fn play_in(catalog: &str, tables: impl Fn(&str) -> Tables) {
    let (world, jobs) = (World::new(), Counter::new(0));
    let own = || {
        jobs.set(jobs.get() + 1);
        tables(&format!("job_{}", jobs.get()))
    };
    let mut played = 0;
    for happens in [Happens::Kill, Happens::Error, Happens::LostAnswer] {
        let points = Point::ALL.iter().filter(|point| all_is_played() || OF_A_CATALOG.contains(point));
        for point in points.copied().filter(|point| happens.can_happen_at(*point)) {
            Cell { point, happens, in_recovery: false, workers: 1 }.play(&world, own);
            played += 1;
        }
    }
    println!("matrix: {played} cells in {catalog}");
}

#[test]
fn nothing_that_happens_at_a_commit_into_postgres_changes_a_table() {
    let postgres = Postgres::start().unwrap();
    play_in("postgres", |name| {
        postgres.create_database(name).unwrap();
        let url = postgres.url(name);
        let catalog = format!(r#"{{ type = "sql", uri = "{url}", warehouse = "file:data/warehouse" }}"#);
        Tables { catalog, namespace: "shop".into(), at: Catalog::Postgres(url) }
    });
}

#[test]
fn nothing_that_happens_at_a_commit_into_a_rest_catalog_changes_a_table() {
    let rest = RestCatalog::start(Pointers::Sqlite, Warehouse::Local).unwrap();
    play_in("rest", |name| {
        let catalog = format!(r#"{{ type = "rest", uri = "{}" }}"#, rest.url());
        Tables { catalog, namespace: name.into(), at: Catalog::RestIn(rest.url(), name.into()) }
    });
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
        let asleep = (0..TRIES).find_map(|_| {
            let job = into_files(&log);
            if COLLECTION.contains(point) {
                assert_eq!(ended(&mut job.start_ordered(Order::kill(Point::Manifest, 1))), None);
            }
            let mut sleeper = job.start_ordered(Order::stop(*point));
            sleeper.stands_still_before_its_end().then_some((job, sleeper))
        });
        let (job, mut sleeper) = asleep.unwrap_or_else(|| panic!("{point} never happened"));
        job.finish();
        assert_eq!(made(&job), expected, "{point}: while it sleeps");
        sleeper.resume();
        // One that has claimed nothing yet is no old one: it takes over from the other.
        let code = if *point == Point::Looked { Some(0) } else { Some(FENCED) };
        assert_eq!(sleeper.wait(), code, "{point}: {}", sleeper.said());
        assert_eq!(made(&job), expected, "{point}: when it has woken");
    }
}
