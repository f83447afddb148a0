//! The demo: a log with every fault, a run that is killed again and again, and a count of every row against what the log holds.
//!
//! ```text
//! generate ──> log ──┬─> run without a kill ──> tables ─┐
//!                    └─> run, SIGKILL, run, … > tables ─┴─> compare: sets of rows, sums of the last manifest, digests
//! dials ───────────────> expected rows (made again, no file read) ──────┘
//! ```
//! Engine and generator are child processes of the same program, so what is killed is what users run.
//! Doesn't know: how the engine works; it sees the pipeline file, the tables, the last manifest and exit codes.
//! Keeps: a verdict is PASS only if nothing differs and every kill hit a run that had shown some rows and not all.
//! Tested: each file here; tests/demo.rs runs a small one.
// It measures the real machine.
#![allow(clippy::disallowed_methods)]
mod expected;
mod figures;
mod folder;
mod found;
mod job;
mod kills;
mod reconcile;
pub mod report;
mod sums;

use std::io;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use floodmark_pipeline::digest::{Digest, Options};

use crate::checkpoint::dir::DirError;
use crate::digest::{CompareError, digest};
use crate::sink::SinkError;
use crate::store::StoreError;
use crate::workload::dials::{Dials, WorkloadError};
use expected::Expected;
use figures::cpu_of_children;
use folder::Folder;
use job::Job;
use reconcile::Reconciled;
use report::{Figures, Report, TableDigests};

/// Partitions of the log; one file each.
const PARTITIONS: u32 = 4;
/// Kills need rows to become visible in small steps, on a fast machine too: as many checkpoints in a run, or more.
const CHECKPOINTS: u32 = 40;
const INTERVAL: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_millis(250);

#[derive(Clone, Debug)]
pub struct Settings {
    pub events: u64,
    pub kills: u32,
    pub dir: PathBuf,
    pub seed: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    #[error("{dir} is in use by something else, and the demo clears its folder; name another with --dir", dir = dir.display())]
    FolderInUse { dir: PathBuf },
    #[error("{path}: {source}", path = path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("can't start a process of our own: {0}")]
    Spawn(io::Error),
    #[error("`floodmark {what}` ended with {status}; its messages are in {log}", log = log.display())]
    ChildFailed { what: &'static str, status: std::process::ExitStatus, log: PathBuf },
    #[error("the demo's own pipeline file is refused:\n{0}")]
    Pipeline(String),
    #[error(
        "the run ended before kill {kill} could be made; a longer log (--events) or fewer --kills leave time for it"
    )]
    EndedEarly { kill: u32 },
    #[error("nothing new became visible for {seconds} s; the run's messages are in {log}", log = log.display())]
    Stalled { seconds: u64, log: PathBuf },
    #[error("record {index} of the log can't be read back: {error}")]
    Record { index: u64, error: serde_json::Error },
    #[error("table {table} has no column `{column}` of the expected type")]
    Column { table: &'static str, column: &'static str },
    #[error("table {table}: {error}")]
    Cell { table: &'static str, error: arrow::error::ArrowError },
    #[error("{0} is no event id of this log")]
    EventId(String),
    #[error("{dir}: no checkpoint there")]
    NoCheckpoint { dir: String },
    #[error("can't read the processor time used: {0}")]
    ProcessorTime(io::Error),
    #[error("can't write to the terminal: {0}")]
    Terminal(io::Error),
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    #[error(transparent)]
    Table(#[from] SinkError),
    #[error(transparent)]
    Compare(#[from] CompareError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Checkpoint(#[from] DirError),
}

impl DemoError {
    fn at(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> DemoError {
        let path = path.into();
        move |source| DemoError::File { path, source }
    }
}

/// Runs the whole demo; `say` gets a line for each step.
pub async fn run(settings: &Settings, say: &mut dyn FnMut(&str)) -> Result<Report, DemoError> {
    let folder = Folder::clear(&settings.dir)?;
    let dials = Dials { events: settings.events, seed: settings.seed, partitions: PARTITIONS, ..Dials::default() };

    say(&format!("writing {} records with every fault (seed {}) …", settings.events, settings.seed));
    write_log(&folder, &dials)?;
    say("making again, from the seed alone, what the tables must hold …");
    let expected = Expected::derive(&dials)?;

    say("running the pipeline without a kill …");
    let unkilled = Job::create(folder.job("unkilled")?, &folder.log(), *INTERVAL.end())?;
    let cpu_before = cpu_of_children()?;
    let begun = Instant::now();
    kills::run_through(&unkilled, expected.events.len() as u64).await?;
    let (unkilled_took, unkilled_cpu_s) = (begun.elapsed(), cpu_of_children()? - cpu_before);

    say(&format!("running it again, killed {} times …", settings.kills));
    let interval = (unkilled_took / CHECKPOINTS).clamp(*INTERVAL.start(), *INTERVAL.end());
    let killed = Job::create(folder.job("killed")?, &folder.log(), interval)?;
    let cpu_before = cpu_of_children()?;
    let kills = kills::run_killed(&killed, settings, expected.events.len() as u64, say).await?;
    let killed_cpu_s = cpu_of_children()? - cpu_before;

    say("counting …");
    let manifest = killed.last_manifest().await?;
    let counts = expected.counts.clone();
    let layers = layers(&killed, expected).await?;
    let sums = sums::sums(&killed.pipeline, &manifest, &counts, &layers);
    let digests = digests(&unkilled, &killed).await?;
    Ok(Report {
        layers,
        sums,
        digests,
        kills,
        figures: Figures {
            records: settings.events,
            unkilled_s: unkilled_took.as_secs_f64(),
            unkilled_cpu_s,
            killed_cpu_s,
        },
        folder: killed.folder.clone(),
        tables: killed.table_locations().await?,
    })
}

/// The generator as users call it; the demo itself writes no record.
fn write_log(folder: &Folder, dials: &Dials) -> Result<(), DemoError> {
    let log = folder.messages("generate");
    let out = std::fs::File::create(&log).map_err(DemoError::at(&log))?;
    let mut command = Command::new(std::env::current_exe().map_err(DemoError::Spawn)?);
    command.args(["generate", "clickstream", "--events", &dials.events.to_string()]);
    command.args(["--seed", &dials.seed.to_string(), "--partitions", &dials.partitions.to_string()]);
    command.arg("--to").arg(format!("file:{}", folder.log().display())).stderr(out);
    let status = command.status().map_err(DemoError::Spawn)?;
    if status.success() { Ok(()) } else { Err(DemoError::ChildFailed { what: "generate", status, log }) }
}

async fn layers(killed: &Job, expected: Expected) -> Result<Vec<Reconciled>, DemoError> {
    let events = found::events(&killed.rows_of("lake").await?).await?;
    let mut layers = vec![reconcile::reconcile("events", expected.events, events)];
    for (layer, expected) in [
        (&found::PER_TYPE, expected.per_type),
        (&found::SESSIONS, expected.sessions),
        (&found::LATE, expected.late),
        (&found::ERRORS, expected.errors),
    ] {
        let rows = found::rows(layer, &killed.rows_of(layer.sink).await?).await?;
        layers.push(reconcile::reconcile(layer.name, expected, rows));
    }
    Ok(layers)
}

async fn digests(unkilled: &Job, killed: &Job) -> Result<Vec<TableDigests>, DemoError> {
    let mut digests = Vec::new();
    for sink in job::SINKS {
        let of = async |job: &Job| -> Result<Digest, DemoError> {
            Ok(digest(&job.rows_of(sink).await?, Options::default()).await?)
        };
        let mark = killed.running_digest(sink).await?;
        digests.push(TableDigests { sink, unkilled: of(unkilled).await?, killed: of(killed).await?, mark });
    }
    Ok(digests)
}
