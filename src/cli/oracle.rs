//! `floodmark oracle FILE`: what the outputs of a pipeline must hold, by a program that shares no code with the engine (pipeline/oracle).
//!
//! Reads every source from its start to where it ends now, all of it into memory, and takes from the newest checkpoint the decisions that the engine
//! has recorded. Doesn't know: the rules. Keeps: nothing is written anywhere. Tested: tests/oracle.rs.
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use floodmark_oracle::{Floor, Outputs, Record};

use crate::checkpoint::dir::{CheckpointDir, DirError};
use crate::config;
use crate::config::model::{Pipeline, Settings, SourceConfig};
use crate::simulate::floor;
use crate::source::connect::{log_for, reader_to_now};
use crate::source::names::PartitionNames;
use crate::source::{RawBatch, SourceError};
use crate::status::units::grouped;
use crate::store;

/// Rest when nothing has come yet.
const REST: Duration = Duration::from_millis(20);
const BATCH: usize = 10_000;

#[derive(Args, Debug)]
pub struct OracleArgs {
    /// Pipeline file
    file: PathBuf,
    /// Print the rows of this output (`clean`, `clean.late`), sorted, one JSON object a line; without it, how many rows each output has
    output: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum OracleError {
    #[error("{0}")]
    File(String),
    #[error("source {0}: {1}")]
    Source(String, SourceError),
    #[error(transparent)]
    Store(#[from] store::StoreError),
    #[error(transparent)]
    Dir(#[from] DirError),
    #[error("can't start: {0}")]
    Runtime(#[from] std::io::Error),
    #[error("no output {0}; there are {1}")]
    Output(String, String),
}

pub fn run(args: &OracleArgs) -> ExitCode {
    let pipeline = match config::load(&args.file) {
        Ok(pipeline) => pipeline,
        Err(diagnostics) => return super::refuse(&diagnostics),
    };
    match expected(&args.file, &pipeline).and_then(|outputs| shown(&outputs, args.output.as_deref())) {
        Ok(text) => super::print(&text),
        Err(error) => super::fail(&error),
    }
}

/// By output, the rows that it must hold.
pub fn expected(file: &Path, pipeline: &Pipeline) -> Result<Outputs, OracleError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let text = std::fs::read_to_string(file)?;
    let mut log = vec![];
    for (id, config) in &pipeline.sources {
        let name = &pipeline.plan.node(*id).name;
        let read = runtime.block_on(records(name, config, &mut log));
        read.map_err(|error| OracleError::Source(name.clone(), error))?;
    }
    let floors = runtime.block_on(floors(&pipeline.settings))?;
    floodmark_oracle::expected(&text, &log, &floors).map_err(OracleError::File)
}

/// All records of a source.
async fn records(source: &str, config: &SourceConfig, to: &mut Vec<Record>) -> Result<(), SourceError> {
    let (log, names) = (log_for("oracle", source, config)?, PartitionNames::default());
    let mut reader = reader_to_now(log.as_ref(), config, &names).await?;
    loop {
        let read = reader.poll(BATCH, &mut |batch| take(&batch, &names, to))?;
        if read == 0 {
            if names.indexes().all(|index| reader.progress(index).is_none_or(|progress| progress.ended)) {
                return Ok(());
            }
            std::thread::sleep(REST);
        }
    }
}

fn take(batch: &RawBatch<'_>, names: &PartitionNames, to: &mut Vec<Record>) {
    let Some(name) = names.get(batch.partition) else { return };
    to.extend(batch.records.iter().map(|raw| Record {
        source: name.source.to_string(),
        topic: name.topic.to_string(),
        partition: name.partition,
        offset: raw.offset,
        timestamp_ms: raw.timestamp_ms,
        key: raw.key.map(<[u8]>::to_vec),
        headers:
            raw.headers.iter().filter_map(|(name, value)| Some(((*name).to_owned(), (*value)?.to_vec()))).collect(),
        value: raw.payload.map(<[u8]>::to_vec),
    }));
}

/// Decisions of the newest checkpoint that can be read; none where there is none.
async fn floors(settings: &Settings) -> Result<Vec<Floor>, OracleError> {
    let store = store::open(&settings.checkpoint_dir, &settings.s3)?;
    let dir = CheckpointDir::new(store, settings.checkpoint_dir.to_string());
    for listed in dir.manifests().await? {
        let Ok(manifest) = dir.read_manifest(&listed.name).await else { continue };
        let decided = |d: &crate::checkpoint::manifest::Decision| {
            floor(&manifest.partitions.get(d.partition.0 as usize)?.name, d)
        };
        return Ok(manifest.decisions.iter().filter_map(decided).collect());
    }
    Ok(vec![])
}

fn shown(outputs: &Outputs, wanted: Option<&str>) -> Result<String, OracleError> {
    let Some(wanted) = wanted else {
        let line =
            |(name, rows): (&String, &Vec<String>)| format!("{name:<32} {:>14} rows\n", grouped(rows.len() as u64));
        return Ok(outputs.iter().map(line).collect());
    };
    let names = || outputs.keys().cloned().collect::<Vec<_>>().join(", ");
    let rows = outputs.get(wanted).ok_or_else(|| OracleError::Output(wanted.to_owned(), names()))?;
    Ok(rows.iter().map(|row| format!("{row}\n")).collect())
}
