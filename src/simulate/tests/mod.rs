//! Seeds that every change must stand.
mod every_request;
mod guards;
mod logs;
mod pages;
mod types;

use super::*;

const SEEDS: u64 = 300;

#[test]
fn what_can_go_wrong_changes_no_table() {
    let mut refused = 0;
    for seed in 0..SEEDS {
        let report = run(seed);
        assert!(report.is_right(), "seed {seed}: {}\n{}", report.violations[0], report.trace.join("\n"));
        let (starts, checkpoints, faults) = (report.starts, report.checkpoints, report.faults);
        let is_whole = starts >= 2 && checkpoints >= 10 && faults >= 3;
        let is_refused = report.refused.is_some();
        assert!(is_whole || is_refused, "seed {seed}: {starts} starts, {checkpoints} checkpoints, {faults} faults");
        refused += usize::from(is_refused);
    }
    assert!(refused > 0, "no harm was noticed");
}

#[test]
fn one_seed_is_one_trace() {
    for seed in [1, 2, 3] {
        assert_eq!(run(seed).trace, run(seed).trace);
    }
}

#[test]
fn what_can_go_wrong_changes_no_table_of_the_real_encoder() {
    for seed in 0..SEEDS / 10 {
        let report = play(&Scenario::encoded(seed));
        assert!(report.is_right(), "seed {seed}: {}\n{}", report.violations[0], report.trace.join("\n"));
        assert!(report.rows > 0, "seed {seed}: no rows");
    }
}
