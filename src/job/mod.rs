//! One run of a pipeline: the order of a start, then the control side until the end.
//!
//! Order of a start (DESIGN.md 7): read marks and manifests and plan, touching nothing → claim an incarnation → fence every sink → plan again on what
//! was read under the fence → publish a manifest of our own → commit what waits → read.
//! Doesn't know: the command line. Keeps: a refused start has changed nothing outside; nothing is read before our first manifest is durable.
pub mod audit;
mod board;
mod claim;
mod control;
mod effects;
mod found;
mod look;
mod machines;
mod patience;
mod retired;
mod savepoints;
mod sinks;
mod start;
mod watch;
pub mod work;
mod workers;

use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch::Sender;

use crate::config::model::Pipeline;
use crate::status::Status;

pub use found::Refused;
pub use savepoints::{Savepoint, SavepointRequest};
pub use sinks::running_digest;
pub use start::{StartError, World};
pub use workers::Turn;

/// What the command line adds to the pipeline file.
#[derive(Clone, Debug)]
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
    /// How long a graceful stop waits for the last checkpoint and the sinks.
    pub stop_within: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            from: None,
            drain: false,
            wait: false,
            accept_gap: vec![],
            forget: vec![],
            reset: vec![],
            stop_within: Duration::from_secs(60),
        }
    }
}

/// What a person or another program asks of a running job.
#[derive(Debug)]
pub enum Request {
    /// Last checkpoint, all commits, then the end.
    Stop,
    /// At once, leaving what waits to the next start.
    Abort,
    Savepoint(SavepointRequest),
}

/// How a run ended, by what its supervisor should do.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Nothing was changed; a person has to choose.
    #[error("refused to start: {0}")]
    Refused(Refused),
    /// Nothing was changed; what the command line names can't be used.
    #[error("{0}")]
    Usage(String),
    /// It can't go on, and neither can the next start: a person has to choose.
    #[error("{0}")]
    Stuck(String),
    /// Another process owns a sink: don't restart this one.
    #[error("{0}")]
    Fenced(String),
    /// Start again: it goes on from the last complete checkpoint.
    #[error("{0}")]
    Failed(String),
}

impl Failure {
    fn of_file(self, pipeline: &Pipeline) -> Self {
        match self {
            Self::Refused(refused) => Self::Refused(refused.of_file(&pipeline.settings.file)),
            other => other,
        }
    }
}

/// Runs until the input ends or a stop is asked for. What it does can be seen in `status` all the while.
pub async fn run(
    pipeline: Pipeline,
    options: Options,
    requests: UnboundedReceiver<Request>,
    status: &Sender<Status>,
) -> Result<(), Failure> {
    run_in(|| World::of(&pipeline), &pipeline, &options, requests, status).await
}

/// The same in a world of its own.
pub async fn run_in(
    world: impl FnOnce() -> Result<World, StartError>,
    pipeline: &Pipeline,
    options: &Options,
    mut requests: UnboundedReceiver<Request>,
    status: &Sender<Status>,
) -> Result<(), Failure> {
    start::check(pipeline, options)?;
    let started = tokio::select! {
        biased;
        started = start::start(world()?, pipeline, options) => started.map_err(|failure| failure.of_file(pipeline))?,
        stopped = stopped_early(&mut requests) => return stopped,
    };
    let (dir, ours) = (started.dir.clone(), started.incarnation);
    claim::unless_fenced(&dir, ours, control::run(pipeline, options, started, requests, status).await).await
}

/// A start may be left at any point, as a crash may leave it.
async fn stopped_early(requests: &mut UnboundedReceiver<Request>) -> Result<(), Failure> {
    loop {
        match requests.recv().await {
            Some(Request::Stop) => {
                tracing::info!("stopped as asked, before anything was read");
                return Ok(());
            }
            Some(Request::Abort) => return Err(aborted()),
            // Who asks and doesn't wait for the answer needs none.
            Some(Request::Savepoint(asked)) => drop(asked.answer.send(Err("the job is still starting".into()))),
            None => std::future::pending().await,
        }
    }
}

fn aborted() -> Failure {
    Failure::Failed("stopped at once, as asked: the next start goes on from the last complete checkpoint".into())
}

fn fenced(by: u64) -> String {
    format!("fenced: incarnation {by} started after this one and owns the sinks; don't restart this process")
}

#[cfg(test)]
mod tests;
