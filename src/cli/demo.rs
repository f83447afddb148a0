//! `floodmark demo`: shows that nothing is lost or doubled, on this machine.
//!
//! Exit codes: 0 PASS · 1 FAIL, with what differs · 2 it couldn't be run. Doesn't know: what is checked (`crate::demo`). Tested: tests/demo.rs.
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::units;
use crate::demo::{self, DemoError, Settings};

#[derive(Args, Clone, Debug)]
pub struct DemoArgs {
    /// Records of the log, copies and poison included
    #[arg(long, value_name = "N", default_value = "2000000", value_parser = units::count)]
    events: u64,
    /// How often the run is killed
    #[arg(long, value_name = "K", default_value_t = 5)]
    kills: u32,
    /// Where log, tables and checkpoints go; what an earlier demo left there is removed
    #[arg(long, value_name = "DIR", default_value = "data/demo")]
    dir: PathBuf,
    /// Decides the log and where the kills are aimed
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
}

pub fn run(args: DemoArgs) -> Result<ExitCode, DemoError> {
    let settings = Settings { events: args.events, kills: args.kills, dir: args.dir, seed: args.seed };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(DemoError::Spawn)?;
    let report = runtime.block_on(demo::run(&settings, &mut |line| super::say(&line)))?;
    writeln!(io::stdout(), "{report}").map_err(DemoError::Terminal)?;
    Ok(if report.differences().is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
