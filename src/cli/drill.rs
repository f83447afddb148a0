//! `floodmark drill`: the program put through what happens to programs. `kills` counts kills and freezes; `parity` compares it with Apache Flink.
//!
//! Exit codes: 0 none failed, or PASS · 1 some did, each named, or FAIL · 2 it couldn't be run. Doesn't know: how a drill goes (`crate::drill`).
//! Tested: tests/drill.rs, tests/flink/main.rs.
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::{print, units};
use crate::drill::DrillError;
use crate::drill::kills::{self, Catalog};
use crate::drill::parity::{self, Class, Fault};

#[derive(Args, Clone, Debug)]
pub struct DrillArgs {
    #[command(subcommand)]
    drill: Drill,
}

#[derive(Subcommand, Clone, Debug)]
enum Drill {
    /// SIGKILL and SIGSTOP at seeded moments, over a Kafka broker of yours; goes on from what the folder has counted
    Kills(KillsArgs),
    /// One pipeline file on floodmark and on Apache Flink, hurt in the same way, and their tables compared; starts all it needs (docs/STACK.md)
    Parity(ParityArgs),
}

#[derive(Args, Clone, Debug)]
struct KillsArgs {
    /// Kills and freezes to count, those counted before in this folder included
    #[arg(long, value_name = "N", default_value = "30", value_parser = units::count)]
    n: u64,
    /// Decides the log and every blow
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Where the broker is; the drill writes a topic of its own
    #[arg(long, value_name = "HOST:PORT")]
    brokers: String,
    /// Rounds take turns between SQLite and this REST catalog
    #[arg(long, value_name = "URI")]
    rest: Option<String>,
    /// Records of the log
    #[arg(long, value_name = "N", default_value = "250k", value_parser = units::count)]
    events: u64,
    /// Where counts, tables and checkpoints go
    #[arg(long, value_name = "DIR", default_value = "data/drill")]
    dir: PathBuf,
}

#[derive(Args, Clone, Debug)]
struct ParityArgs {
    /// Which log and pipeline, and what must be equal
    #[arg(long, value_enum, ignore_case = true, default_value_t = Class::D1)]
    class: Class,
    /// What happens to both
    #[arg(long, value_enum, default_value_t = Fault::Kill)]
    fault: Fault,
    /// Share of the feed at which it happens; may be given again
    #[arg(long, value_name = "SHARE", default_value = "50%", value_parser = units::share)]
    at: Vec<f64>,
    /// Records of the log
    #[arg(long, value_name = "N", default_value = "20k", value_parser = units::count)]
    events: u64,
    /// Partitions of the topic [default: 4, and 1 for D2]
    #[arg(long, value_name = "K")]
    partitions: Option<u32>,
    /// Decides the log
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Each run gets a folder of its own in it: record, report, logs, pipeline file, SQL
    #[arg(long, value_name = "DIR", default_value = "data/parity")]
    dir: PathBuf,
    /// What you expect; written down before the run and kept with it
    #[arg(long, value_name = "TEXT")]
    predict: Option<String>,
}

pub fn run(args: DrillArgs) -> Result<ExitCode, DrillError> {
    match args.drill {
        Drill::Kills(args) => run_kills(args),
        Drill::Parity(args) => run_parity(args),
    }
}

fn run_kills(args: KillsArgs) -> Result<ExitCode, DrillError> {
    let KillsArgs { n, seed, brokers, rest, events, dir } = args;
    let catalogs = std::iter::once(Catalog::Sqlite).chain(rest.map(Catalog::Rest)).collect();
    let settings = kills::Settings { n, seed, events, brokers, catalogs, dir };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(DrillError::Spawn)?;
    let tally = runtime.block_on(kills::run(&settings, &mut |line| super::say(&line)))?;
    print(&format!("{tally}\n"));
    Ok(if tally.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn run_parity(args: ParityArgs) -> Result<ExitCode, DrillError> {
    let ParityArgs { class, fault, at, events, partitions, seed, dir, predict } = args;
    let partitions = partitions.unwrap_or(if class == Class::D2 { 1 } else { 4 });
    let settings = parity::Settings { class, fault, at, events, partitions, seed, dir, prediction: predict };
    let (record, folder) = parity::run(&settings, &mut |line| super::say(&line))?;
    print(&format!("{record}\nthe run is in {}\n{}\n", folder.display(), record.verdict()));
    Ok(if record.failures().is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
