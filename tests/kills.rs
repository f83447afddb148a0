//! SIGKILL at any moment: the tables are those of a run that nothing happened to.
//!
//! Files → dedup → windows → Iceberg on this machine; the same with real services is in tests/kafka_exactly_once.rs and tests/catalogs.rs.

use crate::harness::Job;
use crate::harness::dice::Dice;
use crate::harness::kills::{finish_through_kills, timed};
use crate::harness::log::{Ledger, Log};
use crate::harness::pipelines::Dials;
use crate::harness::tables::rows_of;

const KILLS: usize = 20;
/// So that several runs come to their end.
const KILLS_A_RUN: usize = 7;

fn job(log: &Log, pipeline: &str) -> Job {
    let job = Job::new(&Dials::pipeline(pipeline).clicks());
    log.give(&job);
    job
}

fn holds_the_ledgers_sums(job: &Job, ledger: &Ledger) {
    let digests = job.digests();
    let rows = |table| rows_of(&digests[table]);
    assert_eq!(rows("events"), ledger.total("events"));
    assert_eq!(rows("duplicates"), ledger.total("resent"));
    assert_eq!(rows("errors"), ledger.total("poison"));
    assert_eq!(rows("late"), 2 * ledger.total("late"), "one for each of the two windows");
}

/// Kills a few runs until there were `KILLS` kills.
fn kills_change_nothing(log: &Log, pipeline: &str, seed: u64) {
    let unkilled = job(log, pipeline);
    let whole_run = timed(&unkilled);
    holds_the_ledgers_sums(&unkilled, &log.ledger);
    let expected = unkilled.digests();

    let (mut kills, mut dice) = (0, Dice::new(seed));
    while kills < KILLS {
        let job = job(log, pipeline);
        let most = KILLS_A_RUN.min(KILLS - kills);
        kills += finish_through_kills(&job, &mut dice, most, whole_run * 2 / 3);
        assert_eq!(job.digests(), expected, "seed {seed}, after {kills} kills");
    }
}

#[test]
fn twenty_kills_leave_the_tables_of_an_unkilled_run() {
    let log = Log::clickstream(&["--events", "60k"]);
    kills_change_nothing(&log, "workers = 2", 1);
}

#[test]
fn twenty_kills_leave_the_tables_of_an_unkilled_run_with_state_in_memory() {
    let log = Log::clickstream(&["--events", "40k", "--seed", "2"]);
    kills_change_nothing(&log, "workers = 2\nstate = \"memory\"\nbatch_rows = 500", 2);
}
