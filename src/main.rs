//! The `floodmark` program: parses the command line and calls the command.
use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use floodmark::cli::diff::{self, DiffArgs};
use floodmark::cli::digest::{self, DigestArgs};
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
    /// Print what a table holds as one line, to compare with another table's
    Digest(DigestArgs),
    /// Print the rows in which two tables differ; exits with 1 if they do
    Diff(DiffArgs),
}

fn main() -> ExitCode {
    run(CommandLine::parse().command).unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::from(2)
    })
}

fn run(command: Command) -> Result<ExitCode, Box<dyn Error>> {
    match command {
        Command::Generate(args) => generate::run(*args)?,
        Command::Digest(args) => digest::run(args)?,
        Command::Diff(args) => return Ok(diff::run(args)?),
    }
    Ok(ExitCode::SUCCESS)
}
