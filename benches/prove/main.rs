//! `make prove [PART=sim|encoded|kills|matrix|fuzz|mutants] [BUDGET=30m]`: goes on from what was played before, adds to what is counted of this commit, and
//! prints it as one table.
//!
//! Doesn't know: what a simulation, a drill or a test is. Keeps: nothing is counted twice. Tested: by its use.
// It has a budget of real time.
#![allow(clippy::disallowed_methods)]
mod counts;
mod programs;
mod simulations;

use std::process::ExitCode;
use std::time::Duration;

use counts::{Count, Counts, Proof};

/// A kind of case, and what goes on with it for a time.
type Part = (&'static str, fn(&mut Count, &Proof, Duration) -> Result<(), String>);

const PARTS: [Part; 6] = [
    ("sim", simulations::plain),
    ("encoded", simulations::encoded),
    ("kills", programs::kills),
    ("matrix", programs::matrix),
    ("fuzz", programs::fuzz),
    ("mutants", programs::mutants),
];
const BUDGET: Duration = Duration::from_secs(600);

fn main() -> ExitCode {
    match prove() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::from(2)
        }
    }
}

/// Whether nothing that was ever counted of this commit has failed.
fn prove() -> Result<bool, String> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let budget = variable("BUDGET").map_or(Ok(BUDGET), |budget| humantime::parse_duration(&budget));
    let budget = budget.map_err(|error| format!("BUDGET: {error}"))?;
    let wanted = variable("PART");
    let parts: Vec<_> = PARTS.iter().filter(|(name, _)| wanted.as_ref().is_none_or(|wanted| wanted == name)).collect();
    if parts.is_empty() {
        return Err(format!("PART: one of {}", PARTS.map(|(name, _)| name).join(", ")));
    }
    let proof = Proof::of_this_commit()?;
    let mut counts = Counts::read(&proof)?;
    for (name, play) in &parts {
        play(counts.of(name), &proof, budget / parts.len() as u32)?;
        counts.keep(&proof)?;
    }
    print!("{counts}");
    println!("counted in {}", proof.file.display());
    Ok(counts.nothing_failed())
}
