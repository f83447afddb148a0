//! `floodmark simulate`: runs the engine in a world of its own from a seed, with everything going wrong that can, and judges what it leaves.
//!
//! Doesn't know: how a simulation works. Keeps: exit code 1 says that an invariant was broken.
use std::process::ExitCode;

use clap::Args;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use crate::simulate::{Report, Scenario, minimise, play};
use crate::status::units::grouped;

#[derive(Args, Debug)]
pub struct SimulateArgs {
    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds, this one and those after it; the trace is printed of one alone
    #[arg(long, default_value_t = 1)]
    runs: u64,
    /// Over the real Iceberg sink and its encoder, on a store in memory
    #[arg(long)]
    encoded: bool,
}

pub fn run(args: &SimulateArgs) -> ExitCode {
    let scenario = if args.encoded { Scenario::encoded } else { Scenario::of };
    if args.runs == 1 {
        return one(&scenario(args.seed));
    }
    let mut sums = Sums::default();
    for seed in args.seed..args.seed.saturating_add(args.runs) {
        let report = play(&scenario(seed));
        if !report.is_right() {
            return failed(&scenario(seed));
        }
        sums.add(&report);
    }
    let speed = sums.a_second().map_or_else(String::new, |runs| format!("; {runs:.0} runs a second of processor time"));
    super::print(&format!("{}{speed}\n", sums.text()))
}

fn one(scenario: &Scenario) -> ExitCode {
    let report = play(scenario);
    if !report.is_right() {
        return failed(scenario);
    }
    let mut sums = Sums::default();
    sums.add(&report);
    let refused = report.refused.map_or_else(String::new, |why| format!("\nrefused, after harm was done: {why}\n"));
    super::print(&format!("{}\n{}\n{refused}\n{}\n", scenario.file, report.trace.join("\n"), sums.text()))
}

/// Prints the smallest scenario that fails alike.
fn failed(scenario: &Scenario) -> ExitCode {
    let Some((small, report)) = minimise(scenario) else { return ExitCode::FAILURE };
    let violations: Vec<_> = report.violations.iter().map(|violation| format!("VIOLATED {violation}")).collect();
    let text = format!(
        "{}\n{}\n\nseed {}, made small: {} faults, {} events\n{:#?}\n{}\n",
        small.file,
        report.trace.join("\n"),
        scenario.seed,
        small.faults.len(),
        small.events.len(),
        small.faults,
        violations.join("\n")
    );
    super::print(&text);
    ExitCode::FAILURE
}

/// What some simulations come to.
#[derive(Default)]
struct Sums {
    runs: u64,
    refused: u64,
    starts: usize,
    checkpoints: usize,
    faults: usize,
    requests: usize,
    rows: usize,
    /// Checkpoints and faults of the run with the fewest of them that wasn't refused.
    fewest: Option<(usize, usize)>,
}

impl Sums {
    fn add(&mut self, report: &Report) {
        self.runs += 1;
        self.refused += u64::from(report.refused.is_some());
        self.starts += report.starts;
        self.checkpoints += report.checkpoints;
        self.faults += report.faults;
        self.requests += report.requests;
        self.rows += report.rows;
        if report.refused.is_none() {
            let (checkpoints, faults) = self.fewest.unwrap_or((usize::MAX, usize::MAX));
            self.fewest = Some((checkpoints.min(report.checkpoints), faults.min(report.faults)));
        }
    }

    /// Runs a second of this process's processor time, in which it did nothing else.
    fn a_second(&self) -> Option<f64> {
        let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
        let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        Some(self.runs as f64 / (seconds(usage.user_time()) + seconds(usage.system_time())))
    }

    fn text(&self) -> String {
        let n = |number: usize| grouped(number as u64);
        let fewest = self.fewest.map_or_else(String::new, |(checkpoints, faults)| {
            format!(", and none of the others with fewer than {checkpoints} checkpoints or {faults} faults")
        });
        format!(
            "{} runs right: {} starts, {} checkpoints, {} faults, {} requests, {} rows; {} refused after harm{fewest}",
            grouped(self.runs),
            n(self.starts),
            n(self.checkpoints),
            n(self.faults),
            n(self.requests),
            n(self.rows),
            self.refused
        )
    }
}
