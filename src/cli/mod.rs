//! The command line: one file a command, each with its arguments and a `run`.
//!
//! Doesn't know: how the engine works; a command turns arguments into calls.
//! Tested: with each command.
pub mod generate;
pub mod preview;
pub mod units;
