//! One run of a pipeline: the order of a start, then the control side until the end.
//!
//! Order of a start (DESIGN.md 7): read marks and manifests and plan, touching nothing → claim an incarnation → fence every sink → plan again on what
//! was read under the fence → publish a manifest of our own → commit what waits → read.
//! Doesn't know: the command line. Keeps: a refused start has changed nothing outside; nothing is read before our first manifest is durable.
mod control;
mod effects;
mod found;
mod look;
mod sinks;
mod start;
mod watch;
mod workers;

use std::time::Instant;

use tokio::sync::mpsc::UnboundedReceiver;

use crate::config::model::Pipeline;

pub use found::Refused;
pub use start::StartError;

/// What the command line adds to the pipeline file.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Go on from this checkpoint or savepoint instead of the newest.
    pub from: Option<String>,
    /// At the end, windows fire whatever the watermark says.
    pub drain: bool,
    /// Wait for sinks and logs that are away at the start.
    pub wait: bool,
    pub accept_gap: Vec<String>,
    pub forget: Vec<String>,
    pub reset: Vec<String>,
}

/// What a person or another program asks of a running job.
#[derive(Clone, Debug)]
pub enum Request {
    /// Last checkpoint, all commits, then the end.
    Stop,
    /// At once, leaving what waits to the next start.
    Abort,
    Savepoint(String),
}

/// How a run ended, by what its supervisor should do.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Nothing was changed; a person has to choose.
    #[error("refused to start: {0}")]
    Refused(Refused),
    /// Another process owns a sink: don't restart this one.
    #[error("{0}")]
    Fenced(String),
    /// Start again: it goes on from the last complete checkpoint.
    #[error("{0}")]
    Failed(String),
}

/// Runs until the input ends or a stop is asked for.
pub async fn run(pipeline: Pipeline, options: Options, requests: UnboundedReceiver<Request>) -> Result<(), Failure> {
    let clock = Instant::now();
    let started = start::start(&pipeline, &options).await?;
    control::Control::new(&pipeline, &options, started, clock).run(requests).await
}

fn fenced(by: u64) -> String {
    format!("fenced: incarnation {by} started after this one and owns the sinks; don't restart this process")
}

/// Milliseconds since 1970.
pub fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}
