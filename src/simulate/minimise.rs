//! Makes a scenario that fails small: what can be left out without the same invariant holding again is left out.
//!
//! Doesn't know: why it fails. Keeps: what is given back violates what the first one violated. Tested: here.
use floodmark_pipeline::invariants::Invariant;

use super::scenario::{Event, Scenario};
use super::simulation::{Report, play};

/// Simulations that may be spent on it.
const BUDGET: usize = 600;

/// The smallest scenario found that violates what this one does, with its report. `None`: this one violates nothing.
pub fn minimise(scenario: &Scenario) -> Option<(Scenario, Report)> {
    let report = play(scenario);
    let wanted = report.violations.first()?.invariant;
    let mut search = Search { wanted, left: BUDGET, best: (scenario.clone(), report) };
    while search.left > 0 && (search.without_faults() | search.without_events() | search.with_shorter_portions()) {}
    Some(search.best)
}

struct Search {
    wanted: Invariant,
    left: usize,
    best: (Scenario, Report),
}

impl Search {
    /// True: it still fails, and is the best from now on.
    fn takes(&mut self, smaller: Scenario) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        let report = play(&smaller);
        let fails = report.violations.first().is_some_and(|violation| violation.invariant == self.wanted);
        if fails {
            self.best = (smaller, report);
        }
        fails
    }

    fn without_faults(&mut self) -> bool {
        let mut any = false;
        for at in (0..self.best.0.faults.len()).rev() {
            let mut smaller = self.best.0.clone();
            smaller.faults.remove(at);
            any |= self.takes(smaller);
        }
        any
    }

    /// A portion of the log may be left out, partitions and what opens a transaction may not.
    fn without_events(&mut self) -> bool {
        let mut any = false;
        for at in (0..self.best.0.events.len()).rev() {
            let mut smaller = self.best.0.clone();
            match smaller.events[at].1 {
                Event::AddPartition | Event::Begin { .. } | Event::Close { .. } => continue,
                _ => drop(smaller.events.remove(at)),
            }
            any |= self.takes(smaller);
        }
        any
    }

    fn with_shorter_portions(&mut self) -> bool {
        let mut any = false;
        for at in 0..self.best.0.events.len() {
            for half in [0, 1] {
                let mut smaller = self.best.0.clone();
                let (Event::Append { entries, .. } | Event::Begin { entries, .. }) = &mut smaller.events[at].1 else {
                    continue;
                };
                if entries.len() < 2 {
                    continue;
                }
                let second = entries.split_off(entries.len() / 2);
                if half == 1 {
                    *entries = second;
                }
                any |= self.takes(smaller);
            }
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_right_is_not_made_small() {
        assert!(minimise(&Scenario::of(1)).is_none());
    }
}
