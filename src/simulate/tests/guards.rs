//! Each guard switched off: what it keeps away must come, or it guards nothing, or nothing looks.
use floodmark_pipeline::guard::{Guard, without};
use floodmark_pipeline::invariants::Invariant;

use super::super::{Event, Harm, Report, Scenario, play};

/// Seeds within which a missing guard must show.
const SEEDS: u64 = 400;

/// What comes when a guard is off.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// One of these is broken, as it happens.
    Broken(&'static [Invariant]),
    /// Rows stand in a table more often than they should, at the end.
    Repeated,
    /// Rows are missing at the end.
    Missing,
    /// Rows that nobody expects, or fewer than those: results are wrong.
    Wrong,
    /// The trace says so.
    Said(&'static str),
    /// A start goes on where it should be refused, since this was done to a table.
    NotRefused(fn(Harm) -> bool),
    /// One invariant or another: which, depends on where the next fault falls.
    Any,
}

fn kind_of(guard: Guard) -> Kind {
    use Invariant::{G1, M1, M3, O1, R1};
    match guard {
        Guard::MarkEquality => Kind::Repeated,
        Guard::Fence | Guard::FenceOrder => Kind::Broken(&[M3]),
        // What was never done counts as done, and the next start finds the table behind its state.
        Guard::UnknownOutcome => Kind::Broken(&[R1]),
        Guard::Rollback => Kind::NotRefused(|harm| matches!(harm, Harm::RollBack { .. })),
        Guard::TableIdentity => Kind::NotRefused(|harm| matches!(harm, Harm::Remake { .. })),
        // No start trusts such a store.
        Guard::CreateIfAbsent => Kind::Said("accepts a second create-if-absent"),
        Guard::ManifestFirst => Kind::Broken(&[M1]),
        Guard::OutboxRestore => Kind::Missing,
        Guard::StateRestore | Guard::WatermarkRestore => Kind::Wrong,
        Guard::OwnPartition | Guard::FireAtCut | Guard::JoinFloor => Kind::Broken(&[O1]),
        Guard::CollectUnnamed | Guard::CollectAsNewest => Kind::Broken(&[G1]),
        Guard::PositionRestore | Guard::Horizon => Kind::Any,
    }
}

/// What a seed has shown of the kind, if it has.
fn shown(kind: Kind, seed: u64, guard: Guard) -> Option<String> {
    let scenario = Scenario::of(seed);
    let played = |is_watched: bool| without(guard, || play(&Scenario { is_watched, ..scenario.clone() }));
    let rows = |report: &Report| format!("{:?}", report.differences);
    match kind {
        Kind::Broken(ids) => {
            let report = played(true);
            let found = report.violations.first().filter(|violation| ids.contains(&violation.invariant));
            found.map(|_| told(&report))
        }
        Kind::Any => {
            let report = played(true);
            (!report.is_right()).then(|| told(&report))
        }
        Kind::Said(what) => {
            let report = played(true);
            let said = report.trace.iter().any(|line| line.contains(what));
            (said && !report.is_right()).then(|| format!("{what}; {}", told(&report)))
        }
        Kind::Repeated => Some(played(false)).filter(|r| r.differences.repeated > 0).as_ref().map(rows),
        Kind::Missing => Some(played(false)).filter(|r| r.differences.missing > 0).as_ref().map(rows),
        Kind::Wrong => {
            let is_wrong = |r: &Report| r.differences.strange > 0 || r.differences.missing > 0;
            Some(played(false)).filter(is_wrong).as_ref().map(rows)
        }
        Kind::NotRefused(by) => {
            let harm =
                scenario.events.iter().find_map(|(_, e)| if let Event::Harm(harm) = e { Some(*harm) } else { None });
            let harm = harm.filter(|harm| by(*harm))?;
            play(&scenario).refused?;
            let report = played(true);
            (report.refused.is_none()).then(|| {
                format!("after {harm:?}: {}", if report.is_right() { "nothing".into() } else { told(&report) })
            })
        }
    }
}

#[test]
fn a_guard_that_is_off_breaks_an_invariant() {
    let mut missed = vec![];
    for guard in Guard::ALL {
        let kind = kind_of(*guard);
        match (0..SEEDS).find_map(|seed| Some((seed, shown(kind, seed, *guard)?))) {
            Some((seed, what)) => println!("{:<18} seed {seed:>3}: {what}", guard.name()),
            None => missed.push((guard.name(), kind)),
        }
    }
    assert!(missed.is_empty(), "not seen within {SEEDS} seeds: {missed:?}");
}

#[test]
fn a_store_that_forgets_what_it_answered_for_breaks_an_invariant() {
    let forgetful = |seed| play(&Scenario { is_durable: false, ..Scenario::of(seed) });
    // What was answered for is gone or torn after a power cut: a state that isn't whole, or rows that wait for a sink no more.
    let is_lost = |report: &Report| report.violations.iter().any(|violation| violation.invariant == Invariant::R1);
    let report = (0..SEEDS).map(forgetful).find(is_lost).expect("a loss within these seeds");
    assert!(report.trace.iter().any(|line| line.contains("power cut")), "{}", report.trace.join("\n"));
    assert!(play(&Scenario::of(report.seed)).is_right(), "with durable stores nothing is lost");
    println!("durable stores     seed {:>3}: {}", report.seed, told(&report));
}

fn told(report: &Report) -> String {
    let violation = &report.violations[0];
    let what: String = violation.what.lines().next().unwrap_or_default().chars().take(120).collect();
    format!("{} {what}", violation.invariant.id())
}
