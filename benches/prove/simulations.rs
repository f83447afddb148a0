//! Simulations of further seeds, on all cores.
//!
//! Doesn't know: what a simulation is. Keeps: a seed is played once.
use std::time::{Duration, Instant};

use floodmark::simulate::{Report, Scenario, play};

use super::counts::{Count, Proof};

/// Seeds that a core plays before it looks at the time.
const AT_ONCE: u64 = 32;

pub fn plain(count: &mut Count, _: &Proof, budget: Duration) -> Result<(), String> {
    until_over(count, budget, "floodmark simulate --seed", |seed| play(&Scenario::of(seed)))
}

pub fn encoded(count: &mut Count, _: &Proof, budget: Duration) -> Result<(), String> {
    until_over(count, budget, "floodmark simulate --encoded --seed", |seed| play(&Scenario::encoded(seed)))
}

fn until_over(count: &mut Count, budget: Duration, again: &str, play: fn(u64) -> Report) -> Result<(), String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let began = Instant::now();
    while began.elapsed() < budget {
        let first = count.cases;
        let reports: Vec<Report> = std::thread::scope(|scope| {
            let of_core = |core: u64| first + core * AT_ONCE..first + (core + 1) * AT_ONCE;
            let threads: Vec<_> =
                (0..cores).map(|core| scope.spawn(move || of_core(core).map(play).collect::<Vec<_>>())).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| "a simulation panicked".to_owned()))
                .collect::<Result<Vec<_>, _>>()
        })?
        .into_iter()
        .flatten()
        .collect();
        for report in &reports {
            count.cases += 1;
            count.faults += report.faults as u64;
            if let Some(violation) = report.violations.first() {
                count.failures.push(format!("{again} {}: {violation}", report.seed));
            }
        }
    }
    count.played = format!("seeds 0..{}", count.cases);
    Ok(())
}
