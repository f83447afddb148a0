//! The command line: one file a command, each with its `Args` and a `run`.
//!
//! Doesn't know: how the engine works; a command turns arguments into calls.
//! Keeps: exit code 0 is success, 2 a file or an argument of the user's that can't be used. Tested: with each command.
// Commands run on the real machine.
#![allow(clippy::disallowed_methods)]
pub mod audit;
pub mod check;
pub mod checkpoints;
pub mod demo;
pub mod diff;
pub mod digest;
pub mod drill;
pub mod explain;
pub mod flink_sql;
pub mod generate;
pub mod oracle;
pub mod preview;
mod rows_argument;
pub mod run;
pub mod savepoint;
pub mod simulate;
mod table_argument;
pub mod units;

use std::future::Future;
use std::process::ExitCode;

use crate::config::Diagnostics;
use crate::digest::CompareError;

/// The file or an argument can't be used.
pub const EXIT_USAGE: u8 = 2;

/// Prints what a command has to say; `text` ends with a newline.
pub fn print(text: &str) -> ExitCode {
    use std::io::{ErrorKind, Write};
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        // Who reads it has seen enough: `| head`.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

/// Prints what is wrong with a pipeline file.
pub fn refuse(diagnostics: &Diagnostics) -> ExitCode {
    eprintln!("{diagnostics}");
    ExitCode::from(EXIT_USAGE)
}

/// Prints what a command failed of. Not 1, which says "they differ" where a command compares.
pub fn fail(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::from(EXIT_USAGE)
}

/// Runs a command that only reads, on this thread.
fn block_on<T>(command: impl Future<Output = Result<T, CompareError>>) -> Result<T, CompareError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CompareError::Runtime)?;
    runtime.block_on(command)
}
