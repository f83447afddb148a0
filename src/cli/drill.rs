//! `floodmark drill kills`: kills and freezes of the real program, counted.
//!
//! Exit codes: 0 none failed · 1 some did, each named · 2 it couldn't be run. Doesn't know: how a drill goes (`crate::drill`). Tested: tests/drill.rs.
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::{print, units};
use crate::drill::DrillError;
use crate::drill::kills::{self, Catalog, Settings};

#[derive(Args, Clone, Debug)]
pub struct DrillArgs {
    #[command(subcommand)]
    drill: Drill,
}

#[derive(Subcommand, Clone, Debug)]
enum Drill {
    /// SIGKILL and SIGSTOP at seeded moments, over a Kafka broker of yours; goes on from what the folder has counted
    Kills(KillsArgs),
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

pub fn run(args: DrillArgs) -> Result<ExitCode, DrillError> {
    let Drill::Kills(KillsArgs { n, seed, brokers, rest, events, dir }) = args.drill;
    let catalogs = std::iter::once(Catalog::Sqlite).chain(rest.map(Catalog::Rest)).collect();
    let settings = Settings { n, seed, events, brokers, catalogs, dir };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(DrillError::Spawn)?;
    let tally = runtime.block_on(kills::run(&settings, &mut |line| super::say(&line)))?;
    print(&format!("{tally}\n"));
    Ok(if tally.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
