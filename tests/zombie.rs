//! A process that stood still while another took its place, and wakes: it writes nothing that counts, and goes.
use std::collections::BTreeMap;
use std::time::Duration;

use floodmark::steps::Point;
use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;

use crate::harness::log::Log;
use crate::harness::pipelines::Dials;
use crate::harness::tables::block_on;
use crate::harness::{FENCED, Job, Run};

/// Shares of the log, in thousandths.
const AT_FIRST: usize = 300;
const A_LITTLE: usize = 10;
const ALL: usize = 1000;

fn log() -> Log {
    Log::clickstream(&["--events", "20k", "--event-rate", "200", "--users", "500"])
}

/// A pipeline that waits for more, so that a run ends only when it is told to.
fn dials(commit_interval: &str) -> Dials {
    let source = "type = \"file\"\npath = \"data/events\"\nend = \"never\"\ndiscovery_interval = \"200ms\"";
    Dials { source: source.into(), commit_interval: commit_interval.into(), ..Dials::default() }
}

/// The tables of a run without a zombie.
fn expected(log: &Log) -> BTreeMap<&'static str, String> {
    let job = Job::new(&dials("100ms").clicks());
    log.grow(&job, 0, ALL);
    read_to_the_end(&job, &mut job.start(), log);
    job.digests()
}

fn read_to_the_end(job: &Job, run: &mut Run, log: &Log) {
    let records = log.ledger.total("records");
    job.wait_while(run, |job| job.records_seen() == records);
    run.stop();
}

/// A process that stands still, and how much of the log had come by then.
struct Zombie {
    job: Job,
    run: Run,
    come: usize,
}

impl Zombie {
    /// With something to do at a point, where it stands still.
    fn at(point: Point, log: &Log) -> Zombie {
        let job = Job::new(&dials("100ms").clicks());
        log.grow(&job, 0, AT_FIRST);
        let mut run = job.start();
        job.wait_while(&mut run, |job| job.rows("events") > 0);
        let mut zombie = Zombie { job, run, come: AT_FIRST };
        zombie.stands_still_at(point, |zombie| {
            log.grow(&zombie.job, zombie.come, zombie.come + A_LITTLE);
            zombie.come += A_LITTLE;
        });
        zombie
    }

    /// With nothing more to do.
    fn with_all_read(log: &Log) -> Zombie {
        let job = Job::new(&dials("100ms").clicks());
        log.grow(&job, 0, ALL);
        let mut run = job.start();
        let records = log.ledger.total("records");
        job.wait_while(&mut run, |job| job.records_seen() == records);
        let mut zombie = Zombie { job, run, come: ALL };
        zombie.stands_still_at(Point::Barrier, |_| ());
        zombie
    }

    /// But not with the catalog's lock in a hand of its own: SQLite would keep everybody else out.
    fn stands_still_at(&mut self, point: Point, mut something_to_do: impl FnMut(&mut Zombie)) {
        loop {
            something_to_do(self);
            self.run.stand_still_at(point);
            if catalog_is_free(&self.job) {
                return;
            }
            self.run.resume();
        }
    }

    /// Starts another in its place, and waits until it has published a manifest of its own.
    fn replaced(&self) -> Run {
        let mut second = self.job.start();
        self.job.wait_while(&mut second, second_owns);
        second
    }

    fn wakes_and_is_fenced(&mut self) {
        self.run.resume();
        assert_eq!(self.run.wait(), Some(FENCED), "{}", self.run.said());
        assert!(self.run.has_said("fenced: incarnation 2"), "{}", self.run.said());
    }

    fn wakes_while_the_other_works(mut self, log: &Log) {
        let mut second = self.replaced();
        log.grow(&self.job, self.come, ALL);
        self.wakes_and_is_fenced();
        read_to_the_end(&self.job, &mut second, log);
        assert_eq!(self.job.digests(), expected(log));
        self.goes_on_from_the_other();
    }

    fn wakes_when_the_other_is_done(mut self, log: &Log) {
        log.grow(&self.job, self.come, ALL);
        read_to_the_end(&self.job, &mut self.job.start(), log);
        let done = self.job.digests();
        self.wakes_and_is_fenced();
        assert_eq!(self.job.digests(), done);
        assert_eq!(done, expected(log));
        self.goes_on_from_the_other();
    }

    /// What the zombie has put into the checkpoint directory isn't taken for the newest.
    fn goes_on_from_the_other(&self) {
        let before = self.job.digests();
        self.job.start_and_stop();
        assert_eq!(self.job.digests(), before);
    }
}

fn catalog_is_free(job: &Job) -> bool {
    let catalog = SqliteConnectOptions::new().filename(job.path("data/catalog.db")).busy_timeout(Duration::ZERO);
    block_on(async {
        let mut catalog = catalog.connect().await.unwrap();
        sqlx::query("BEGIN EXCLUSIVE").execute(&mut catalog).await.is_ok()
    })
}

/// The second start has published a manifest of its own.
fn second_owns(job: &Job) -> bool {
    let manifests = std::fs::read_dir(job.path("data/checkpoints/manifests")).unwrap();
    manifests.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("00000000000000000002-"))
}

#[test]
fn one_that_stood_still_between_its_check_and_its_manifest_is_fenced_while_the_other_works() {
    let log = log();
    Zombie::at(Point::ManifestDue, &log).wakes_while_the_other_works(&log);
}

#[test]
fn one_that_stood_still_between_its_check_and_its_manifest_is_fenced_when_the_other_is_done() {
    let log = log();
    Zombie::at(Point::ManifestDue, &log).wakes_when_the_other_is_done(&log);
}

#[test]
fn one_that_stood_still_between_its_check_and_its_commit_is_fenced_while_the_other_works() {
    let log = log();
    Zombie::at(Point::CommitDue, &log).wakes_while_the_other_works(&log);
}

#[test]
fn one_that_stood_still_between_its_check_and_its_commit_is_fenced_when_the_other_is_done() {
    let log = log();
    Zombie::at(Point::CommitDue, &log).wakes_when_the_other_is_done(&log);
}

#[test]
fn one_that_wakes_with_nothing_to_commit_is_told_so_by_the_checkpoint_directory() {
    let log = log();
    let mut zombie = Zombie::with_all_read(&log);
    let mut second = zombie.replaced();
    zombie.wakes_and_is_fenced();
    second.stop();
    assert_eq!(zombie.job.digests(), expected(&log));
}

/// The other went on from the zombie's state files, and has written none of its own yet.
#[test]
fn one_that_wakes_removes_no_state_that_the_other_stands_on() {
    let log = log();
    let mut zombie = Zombie::at(Point::Manifest, &log);
    let rare = r#"{ interval = "1h", dir = "file:data/checkpoints" }"#;
    zombie.job.edit(&Dials { checkpoint: rare.into(), ..dials("1h") }.clicks());
    let mut second = zombie.replaced();
    zombie.wakes_and_is_fenced();
    second.kill();
    zombie.job.edit(&dials("100ms").clicks());
    log.grow(&zombie.job, zombie.come, ALL);
    read_to_the_end(&zombie.job, &mut zombie.job.start(), &log);
    assert_eq!(zombie.job.digests(), expected(&log));
}
