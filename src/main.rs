//! The `floodmark` program: parses the command line and calls the command.
use std::process::ExitCode;

use clap::Parser;
use floodmark::cli::{check, explain};

#[derive(Parser)]
#[command(
    version,
    about = "A stream processor for Kafka → check → dedup → windows → Iceberg on one machine, exactly once, counted"
)]
enum Command {
    /// Say what is wrong with a pipeline file
    Check(check::Args),
    /// Say what a pipeline file does: nodes, columns, state, guarantees
    Explain(explain::Args),
}

fn main() -> ExitCode {
    match Command::parse() {
        Command::Check(args) => check::run(&args),
        Command::Explain(args) => explain::run(&args),
    }
}
