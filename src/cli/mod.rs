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
use std::io::{self, Write};
use std::process::ExitCode;

use crate::config::Diagnostics;
use crate::digest::CompareError;

/// The file or an argument can't be used.
pub const EXIT_USAGE: u8 = 2;

/// Prints what a command has to say; `text` ends with a newline.
pub fn print(text: &str) -> ExitCode {
    write_out(text).map_or_else(|error| fail(&error), |()| ExitCode::SUCCESS)
}

/// Who reads it may have seen enough: `| head`.
fn write_out(text: &str) -> io::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Says a line to whoever runs the program, if anyone still listens: with stderr closed or its disk full the work goes on, and ends with its own code.
pub fn say(line: &dyn std::fmt::Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Prints what is wrong with a pipeline file.
pub fn refuse(diagnostics: &Diagnostics) -> ExitCode {
    say(diagnostics);
    ExitCode::from(EXIT_USAGE)
}

/// Prints what a command failed of. Not 1, which says "they differ" where a command compares.
pub fn fail(error: &dyn std::error::Error) -> ExitCode {
    say(&format_args!("error: {error}"));
    ExitCode::from(EXIT_USAGE)
}

/// Runs a command that only reads, on this thread.
fn block_on<T>(command: impl Future<Output = Result<T, CompareError>>) -> Result<T, CompareError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CompareError::Runtime)?;
    runtime.block_on(command)
}
