//! What a whole pipeline costs: a prepared file of clickstream events through dedup, a tumbling window, sessions and a late output into Iceberg tables.
//!
//! docs/examples/clickstream.toml as a process of its own, on RocksDB with a checkpoint each second; CPU is that of the whole process, user and
//! system, until the last row is committed. `make bench-e2e` (FLOODMARK_EVENTS and FLOODMARK_RUNS for other sizes). The log is kept for a second run.
// It measures.
#![allow(clippy::disallowed_methods)]
use std::error::Error;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use nix::sys::resource::{Usage, UsageWho, getrusage};

const FLOODMARK: &str = env!("CARGO_BIN_EXE_floodmark");
const EXAMPLE: &str = include_str!("../docs/examples/clickstream.toml");
const EVENTS: u64 = 10_000_000;
const RUNS: u64 = 3;

struct Figures {
    wall_s: f64,
    user_s: f64,
    system_s: f64,
    rows: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    // `cargo test` and `cargo bench` hand every harness their own arguments; there is nothing to choose here.
    let events = from_environment("FLOODMARK_EVENTS", EVENTS)?;
    let folder = std::env::temp_dir().join("floodmark-bench-e2e");
    let log = prepare(&folder, events)?;
    println!(
        "{:>4} {:>12} {:>14} {:>8} {:>8} {:>14}",
        "run", "events/s", "CPU-s/million", "user", "system", "rows out"
    );
    let mut costs = vec![];
    for run in 1..=from_environment("FLOODMARK_RUNS", RUNS)? {
        let figures = measure(&folder.join("run"), &log)?;
        let million = events as f64 / 1e6;
        let cost = (figures.user_s + figures.system_s) / million;
        println!(
            "{run:>4} {:>12.0} {cost:>14.2} {:>8.2} {:>8.2} {:>14}",
            events as f64 / figures.wall_s,
            figures.user_s / million,
            figures.system_s / million,
            figures.rows
        );
        costs.push(cost);
    }
    costs.sort_by(f64::total_cmp);
    println!("median: {:.2} CPU-seconds per million events", costs[costs.len() / 2]);
    println!("peak memory of all runs: {} MiB", getrusage(UsageWho::RUSAGE_CHILDREN)?.max_rss() / 1024);
    std::fs::remove_dir_all(folder.join("run"))?;
    Ok(())
}

fn from_environment(name: &str, default: u64) -> Result<u64, Box<dyn Error>> {
    std::env::var(name).map_or(Ok(default), |text| text.parse().map_err(|e| format!("{name}: {e}").into()))
}

/// The log, written once for each size.
fn prepare(folder: &Path, events: u64) -> Result<PathBuf, Box<dyn Error>> {
    let log = folder.join(format!("events-{events}"));
    if !log.exists() {
        println!("writing {events} events to {} …", log.display());
        let unfinished = folder.join("unfinished");
        let _ = std::fs::remove_dir_all(&unfinished);
        std::fs::create_dir_all(folder)?;
        let to = format!("file:{}", unfinished.display());
        let generate = Command::new(FLOODMARK)
            .args(["generate", "clickstream", "--events", &events.to_string(), "--to", &to])
            .stderr(Stdio::null())
            .status()?;
        if !generate.success() {
            return Err(format!("`floodmark generate` ended with {generate}").into());
        }
        std::fs::rename(&unfinished, &log)?;
    }
    Ok(log)
}

fn measure(folder: &Path, log: &Path) -> Result<Figures, Box<dyn Error>> {
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder)?;
    let file = folder.join("pipeline.toml");
    let text = EXAMPLE
        .replace("\"data/events\"", &format!("\"{}\"", log.display()))
        .replace("file:data/", &format!("file:{}/", folder.display()))
        .replace("sqlite:data/", &format!("sqlite:{}/", folder.display()));
    std::fs::write(&file, text)?;
    let before = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let begun = Instant::now();
    let run = Command::new(FLOODMARK).arg("run").arg(&file).stderr(Stdio::piped()).output()?;
    let wall_s = begun.elapsed().as_secs_f64();
    let after = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let said = String::from_utf8_lossy(&run.stderr);
    if !run.status.success() {
        return Err(format!("the run ended with {} (signal {:?}):\n{said}", run.status, run.status.signal()).into());
    }
    let seconds = |of: fn(&Usage) -> nix::sys::time::TimeVal| {
        let at = |usage: &Usage| of(usage).tv_sec() as f64 + of(usage).tv_usec() as f64 / 1e6;
        at(&after) - at(&before)
    };
    let (user_s, system_s) = (seconds(Usage::user_time), seconds(Usage::system_time));
    Ok(Figures { wall_s, user_s, system_s, rows: rows_out(&said) })
}

/// Rows of all sinks, as the run's summary tells them.
fn rows_out(said: &str) -> u64 {
    let of_sink = |line: &str| -> Option<u64> {
        let (_, counted) = line.trim().strip_prefix("sink")?.split_once(':')?;
        counted.trim().split(' ').next()?.replace(',', "").parse().ok()
    };
    said.lines().filter_map(of_sink).sum()
}
