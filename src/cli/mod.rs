//! The commands, one file each: arguments in, exit code out.
//!
//! Doesn't know: how the work is done. Keeps: 0 is success; 2 is a file or an argument of the user's that can't be used.
pub mod check;
pub mod explain;

use std::process::ExitCode;

use crate::config::Diagnostics;

/// The file or an argument can't be used.
pub const EXIT_USAGE: u8 = 2;

/// Prints what is wrong with a pipeline file.
pub fn refuse(diagnostics: &Diagnostics) -> ExitCode {
    eprintln!("{diagnostics}");
    ExitCode::from(EXIT_USAGE)
}
