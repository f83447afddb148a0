//! Each guard switched off: something must fail, or it guards nothing, or nothing looks.
use floodmark_pipeline::guard::{Guard, without};

use super::super::{Report, Scenario, play};

/// Seeds within which a missing guard must show.
const SEEDS: u64 = 400;

fn first_failure(play: impl Fn(u64) -> Report) -> Option<Report> {
    (0..SEEDS).map(play).find(|report| !report.is_right())
}

#[test]
fn a_guard_that_is_off_breaks_an_invariant() {
    let mut missed = vec![];
    for guard in Guard::ALL {
        match first_failure(|seed| without(*guard, || play(&Scenario::of(seed)))) {
            Some(report) => println!("{:<18} seed {:>3}: {}", guard.name(), report.seed, told(&report)),
            None => missed.push(guard.name()),
        }
    }
    assert!(missed.is_empty(), "nothing failed within {SEEDS} seeds without {missed:?}");
}

#[test]
fn a_store_that_forgets_what_it_answered_for_breaks_an_invariant() {
    let forgetful = |seed| play(&Scenario { is_durable: false, ..Scenario::of(seed) });
    let report = first_failure(forgetful).expect("a loss within these seeds");
    println!("durable stores     seed {:>3}: {}", report.seed, told(&report));
}

fn told(report: &Report) -> String {
    let violation = &report.violations[0];
    let what: String = violation.what.lines().next().unwrap_or_default().chars().take(120).collect();
    format!("{} {what}", violation.invariant.id())
}
