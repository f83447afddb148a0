//! The `floodmark` program: parses the command line and calls the command.
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use floodmark::cli::generate::{self, GenerateArgs};

/// A stream processor for Kafka, dedup, windows and Iceberg on one machine: exactly once, counted.
#[derive(Parser)]
#[command(version)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write a workload whose every record is known: clickstream, roster or orders
    Generate(Box<GenerateArgs>),
}

fn main() -> ExitCode {
    let done = match CommandLine::parse().command {
        Command::Generate(args) => generate::run(*args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
