//! `make prove [PART=sim|encoded] [BUDGET=30m]`: goes on from the seeds that were played before, and adds to what is counted of this commit.
//!
//! The counts lie in one file a commit, outside the checkout. Doesn't know: what a simulation is. Keeps: a seed is counted once.
// It has a budget of real time.
#![allow(clippy::disallowed_methods)]
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use floodmark::simulate::{Report, Scenario, play};
use serde::{Deserialize, Serialize};

/// A kind of case, and how one is played.
type Part = (&'static str, fn(u64) -> Report);

const PARTS: [Part; 2] =
    [("sim", |seed| play(&Scenario::of(seed))), ("encoded", |seed| play(&Scenario::encoded(seed)))];

#[derive(Default, Serialize, Deserialize)]
struct Counts {
    cases: u64,
    faults: u64,
    starts: u64,
    checkpoints: u64,
    refused: u64,
    /// Seeds that broke an invariant.
    failures: Vec<u64>,
}

impl Counts {
    fn add(&mut self, report: &Report) {
        self.cases += 1;
        self.faults += report.faults as u64;
        self.starts += report.starts as u64;
        self.checkpoints += report.checkpoints as u64;
        self.refused += u64::from(report.refused.is_some());
        if !report.is_right() {
            println!("seed {}: {}", report.seed, report.violations[0]);
            self.failures.push(report.seed);
        }
    }
}

fn main() -> ExitCode {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let budget = variable("BUDGET").map_or(Ok(Duration::from_secs(60)), |budget| humantime::parse_duration(&budget));
    let (wanted, budget) = match budget {
        Ok(budget) => (variable("PART"), budget),
        Err(error) => return refuse(&format!("BUDGET: {error}")),
    };
    let parts: Vec<_> = PARTS.iter().filter(|(name, _)| wanted.as_ref().is_none_or(|wanted| wanted == name)).collect();
    if parts.is_empty() {
        return refuse("PART: sim or encoded");
    }
    let file = counts_file();
    let mut all: BTreeMap<String, Counts> =
        std::fs::read(&file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    for (name, play) in &parts {
        let counts = all.entry((*name).to_owned()).or_default();
        let (began, share) = (Instant::now(), budget / parts.len() as u32);
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        while began.elapsed() < share {
            let from = counts.cases;
            let reports: Vec<Report> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..cores * 8)
                    .map(|n| from + n)
                    .collect::<Vec<_>>()
                    .chunks(8)
                    .map(|seeds| {
                        let seeds = seeds.to_vec();
                        scope.spawn(move || seeds.into_iter().map(play).collect::<Vec<_>>())
                    })
                    .collect();
                threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
            });
            reports.iter().for_each(|report| counts.add(report));
        }
    }
    let text = serde_json::to_string_pretty(&all).unwrap_or_default();
    let kept = file.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&file, text));
    if let Err(error) = kept {
        return refuse(&format!("{}: {error}", file.display()));
    }
    table(&all, &file)
}

fn refuse(why: &str) -> ExitCode {
    eprintln!("error: {why}");
    ExitCode::from(2)
}

fn counts_file() -> PathBuf {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok();
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
    };
    let changed = if git(&["status", "--porcelain"]).is_empty() { "" } else { "-changed" };
    let cache = std::env::var_os("FLOODMARK_CACHE").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cache = cache.unwrap_or_else(|| home.join(".cache/floodmark"));
    cache.join("proof").join(format!("{}{changed}.json", git(&["rev-parse", "HEAD"])))
}

/// With the 95 % upper bound of the share that fails: 3/n where none of n did.
fn table(all: &BTreeMap<String, Counts>, file: &std::path::Path) -> ExitCode {
    println!(
        "{:<10} {:>9} {:>9} {:>8} {:>11} {:>8} {:>9} {:>10}",
        "part", "cases", "faults", "starts", "checkpoints", "refused", "failures", "bound"
    );
    for (name, c) in all {
        let bound = if c.failures.is_empty() { format!("{:.1e}", 3.0 / c.cases as f64) } else { "-".into() };
        println!(
            "{name:<10} {:>9} {:>9} {:>8} {:>11} {:>8} {:>9} {bound:>10}",
            c.cases,
            c.faults,
            c.starts,
            c.checkpoints,
            c.refused,
            c.failures.len()
        );
    }
    println!("counted in {}", file.display());
    if all.values().all(|counts| counts.failures.is_empty()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
