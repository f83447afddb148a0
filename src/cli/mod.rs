//! The command line: one file a command, each with its `Args` and a `run`.
//!
//! Doesn't know: how the engine works; a command turns arguments into calls.
//! Keeps: exit code 0 is success, 2 a file or an argument of the user's that can't be used. Tested: with each command.
pub mod check;
pub mod explain;
pub mod generate;
pub mod preview;
pub mod run;
pub mod units;

use std::process::ExitCode;

use crate::config::Diagnostics;

/// The file or an argument can't be used.
pub const EXIT_USAGE: u8 = 2;

/// Prints what is wrong with a pipeline file.
pub fn refuse(diagnostics: &Diagnostics) -> ExitCode {
    eprintln!("{diagnostics}");
    ExitCode::from(EXIT_USAGE)
}

/// Prints what a command failed of.
pub fn fail(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::FAILURE
}
