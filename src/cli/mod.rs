//! The command line: one file a command, each with its arguments and a `run`.
//!
//! Doesn't know: how the engine works; a command turns arguments into calls.
//! Tested: with each command.
pub mod diff;
pub mod digest;
pub mod generate;
pub mod preview;
mod rows_argument;
pub mod units;

use std::future::Future;

use crate::digest::CompareError;

/// Runs a command that only reads, on this thread.
fn block_on<T>(command: impl Future<Output = Result<T, CompareError>>) -> Result<T, CompareError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CompareError::Runtime)?;
    runtime.block_on(command)
}
