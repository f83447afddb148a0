//! Drills: the program put through what happens to programs, again and again, and counted.
//!
//! Engine and generator are child processes of the same program, so what is killed is what users run.
//! Doesn't know: how the engine works; it sees pipeline files, tables, exit codes. Tested: tests/drill.rs, tests/flink/main.rs.
// It measures the real machine.
#![allow(clippy::disallowed_methods)]
pub mod kills;
pub mod parity;
mod process;

use std::io;
use std::path::PathBuf;

use crate::digest::CompareError;
use crate::sink::SinkError;

#[derive(Debug, thiserror::Error)]
pub enum DrillError {
    #[error("{path}: {source}", path = path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("can't start a process of our own: {0}")]
    Spawn(io::Error),
    #[error("`floodmark {what}` ended with {how}; its messages are in {log}", log = log.display())]
    ChildFailed { what: &'static str, how: String, log: PathBuf },
    #[error("the drill's own pipeline file is refused:\n{0}")]
    Pipeline(String),
    #[error("{file} counts the kills of other settings ({theirs}, not {ours}): give this drill a folder of its own with --dir", file = file.display())]
    OtherDrill { file: PathBuf, theirs: String, ours: String },
    #[error("{file} doesn't hold what a drill has counted: {error}", file = file.display())]
    Tally { file: PathBuf, error: serde_json::Error },
    #[error(transparent)]
    Table(#[from] SinkError),
    #[error(transparent)]
    Compare(#[from] CompareError),
    #[error(transparent)]
    Parity(#[from] parity::ParityError),
}

impl DrillError {
    fn at(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> DrillError {
        let path = path.into();
        move |source| DrillError::File { path, source }
    }
}
