//! The whole engine on a world in memory: the real coordinator, workers, committers and recovery, stepped in one thread and killed at every step.
//!
//! Not in here: threads, real stores, catalogs, brokers, real time. Those have the tests of the real program (tests/).
mod crank;
mod oracle;
mod store;
mod worker;
mod world;

use crank::run;
use store::Switch;
use world::{PARTITIONS, Tables, World};

const EVENTS: i64 = 9;

fn world(name: &str, keys: &str) -> World {
    let world = World::new(name, keys);
    world.feed(0..EVENTS);
    world
}

async fn finish(world: &World) -> Vec<String> {
    let switch = Switch::default();
    assert!(run(world, &switch).await.unwrap(), "nobody kills this run");
    switch.steps()
}

/// What a run that nobody kills gives, and the steps that it takes.
async fn unkilled(name: &str, keys: &str) -> (Tables, Vec<String>) {
    let world = world(name, keys);
    let steps = finish(&world).await;
    (world.tables().await, steps)
}

#[tokio::test]
async fn a_run_gives_every_event_once() {
    let (tables, steps) = unkilled("fakes-once", "workers = 2\nbatch_rows = 1").await;
    assert_eq!(tables["rows"].len(), PARTITIONS * EVENTS as usize, "{:?}", tables["rows"]);
    let (first, last) = (&tables["rows"][0], &tables["rows"][tables["rows"].len() - 1]);
    assert!(first.contains("\"0-0\"") && last.contains("\"1-8\""), "{first} {last}");
    // At the end of the log all windows fire: three of them, for two users each.
    assert_eq!(tables["counts"].len(), 6, "{:?}", tables["counts"]);
    for step in [
        "checkpoints: put incarnations/",
        "checkpoints: put segments/",
        "checkpoints: put state/",
        "checkpoints: put manifests/",
        "checkpoints: delete",
        "rows: put _floodmark/rows/rows/",
        "rows: put _floodmark/rows/0",
        "rows: rename to rows-",
        "counts: put _floodmark/counts/0",
        "commit answered",
        "worker 1",
    ] {
        assert!(steps.iter().any(|s| s.starts_with(step)), "no step `{step}` to be killed at: {steps:#?}");
    }
}

/// Kills at each step of a run, goes on, and compares the tables.
async fn survives_a_kill_at_every_step(name: &str, keys: &str) {
    let (expected, steps) = unkilled(name, keys).await;
    for (kill_at, step) in steps.iter().enumerate() {
        let world = world(name, keys);
        run(&world, &Switch::kill_at(kill_at)).await.unwrap();
        finish(&world).await;
        assert_eq!(world.tables().await, expected, "killed after step {kill_at}, {step}");
    }
}

#[tokio::test]
async fn a_kill_at_any_step_of_one_worker_changes_no_table() {
    survives_a_kill_at_every_step("fakes-one", "workers = 1\nbatch_rows = 2").await;
}

#[tokio::test]
async fn a_kill_at_any_step_of_two_workers_changes_no_table() {
    survives_a_kill_at_every_step("fakes-two", "workers = 2\nbatch_rows = 1").await;
}

/// The first run dies where most is under way: rows are written and their mark is not made.
#[tokio::test]
async fn a_kill_at_any_step_of_a_recovery_changes_no_table() {
    let (name, keys) = ("fakes-recovery", "workers = 2\nbatch_rows = 1");
    let (expected, steps) = unkilled(name, keys).await;
    let first = steps.iter().position(|s| s.starts_with("rows: put _floodmark/rows/rows/")).unwrap();
    let killed_once = async || {
        let world = world(name, keys);
        assert!(!run(&world, &Switch::kill_at(first)).await.unwrap());
        world
    };
    let recovery = finish(&killed_once().await).await;
    for (kill_at, step) in recovery.iter().enumerate() {
        let world = killed_once().await;
        run(&world, &Switch::kill_at(kill_at)).await.unwrap();
        finish(&world).await;
        assert_eq!(world.tables().await, expected, "killed again after step {kill_at}, {step}");
    }
}

#[tokio::test]
async fn a_log_that_grew_is_read_on_from_where_the_last_run_ended() {
    let keys = "workers = 2\nbatch_rows = 1";
    let grown = World::new("fakes-grown", keys);
    grown.feed(0..4);
    finish(&grown).await;
    assert_eq!(grown.rows_of("rows").await.len(), PARTITIONS * 4);
    grown.feed(4..EVENTS);
    finish(&grown).await;
    let (expected, _) = unkilled("fakes-whole", keys).await;
    assert_eq!(grown.tables().await["rows"], expected["rows"]);
}
