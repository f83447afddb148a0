//! The `floodmark` program: parses the command line and calls the command.
#![deny(clippy::print_stderr, clippy::print_stdout)]
use std::process::ExitCode;

use clap::Parser;
use floodmark::cli::{
    audit, check, checkpoints, demo, diff, digest, drill, explain, fail, flink_sql, generate, oracle, preview, run,
    savepoint, simulate,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(
    version,
    about = "A stream processor for Kafka → check → dedup → windows → Iceberg on one machine, exactly once, counted"
)]
enum Command {
    /// Run a pipeline until its input ends or it is stopped
    Run(run::RunArgs),
    /// Say what is wrong with a pipeline file
    Check(check::Args),
    /// Say what a pipeline file does: nodes, columns, state, guarantees
    Explain(explain::Args),
    /// Print a pipeline file as a SQL job of Apache Flink 1.20, for when one machine is too small
    FlinkSql(Box<flink_sql::FlinkSqlArgs>),
    /// Show the first records of each source as the pipeline would see them
    Preview(preview::Args),
    /// List the checkpoints and savepoints of a pipeline, the newest first
    Checkpoints(checkpoints::CheckpointsArgs),
    /// Have the running job take a checkpoint under a name, whole and never removed
    Savepoint(savepoint::SavepointArgs),
    /// Print what a table holds as one line, to compare with another table's
    Digest(digest::DigestArgs),
    /// Print the rows in which two tables differ; exits with 1 if they do
    Diff(diff::DiffArgs),
    /// Show on this machine that killing a run loses and doubles nothing; exits with 1 if it does
    Demo(demo::DemoArgs),
    /// Put the program through kills and freezes over services of yours, and count; exits with 1 if any of them changed a table
    Drill(drill::DrillArgs),
    /// Read the log again up to each checkpoint, and say whether it gives the state that is stored; exits with 1 if not
    Audit(audit::AuditArgs),
    /// Say what the outputs of a pipeline must hold, by a second, plain program
    Oracle(oracle::OracleArgs),
    /// Run the engine in a world of its own from a seed, with everything going wrong that can; exits with 1 if an invariant is broken
    Simulate(simulate::SimulateArgs),
    /// Write a workload whose every record is known: clickstream, roster or orders
    Generate(Box<generate::GenerateArgs>),
}

fn main() -> ExitCode {
    match Command::parse() {
        Command::Run(args) => run::run(args),
        Command::Check(args) => check::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::FlinkSql(args) => flink_sql::run(*args),
        Command::Preview(args) => preview::run(&args),
        Command::Checkpoints(args) => checkpoints::run(&args),
        Command::Savepoint(args) => savepoint::run(&args),
        Command::Digest(args) => done(digest::run(args)),
        Command::Diff(args) => diff::run(args).unwrap_or_else(|error| fail(&error)),
        Command::Demo(args) => demo::run(args).unwrap_or_else(|error| fail(&error)),
        Command::Drill(args) => drill::run(args).unwrap_or_else(|error| fail(&error)),
        Command::Audit(args) => audit::run(&args),
        Command::Oracle(args) => oracle::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Generate(args) => done(generate::run(*args)),
    }
}

fn done<E: std::error::Error>(result: Result<(), E>) -> ExitCode {
    result.map_or_else(|error| fail(&error), |()| ExitCode::SUCCESS)
}
