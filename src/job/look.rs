//! Looks at everything a start depends on, and changes nothing: manifests, each sink's mark, each source's log.
use std::sync::Arc;

use floodmark_pipeline::ids::{NodeId, PartitionName};
use floodmark_pipeline::recovery::{FoundMark, Observed, SinkState};
use futures::{StreamExt, TryStreamExt};

use super::Options;
use super::found::{edits, recorded, summary};
use super::retired::{self, Retired};
use super::start::StartError;
use crate::checkpoint::dir::{CheckpointDir, DirError};
use crate::checkpoint::manifest::{Manifest, PartitionRecord, SinkRecord, StateFileRecord, Status};
use crate::checkpoint::savepoint;
use crate::config::model::{Pipeline, SinkConnector, SourceConnector};
use crate::file::content::Compression;
use crate::file::prefix::StoredPrefix;
use crate::sink::{Found, Sink, SinkError};
use crate::source::check::check;
use crate::source::{Log, PartitionInfo};

/// State files that are asked for at once.
const STATE_FILES_AT_ONCE: usize = 16;

/// A manifest and the name it has.
#[derive(Clone, Debug)]
pub struct Named {
    pub name: String,
    pub manifest: Arc<Manifest>,
}

/// Manifests found: the one to go on from, the older readable ones, and those that can't be read.
#[derive(Debug, Default)]
pub struct Manifests {
    pub chosen: Option<Named>,
    pub older: Vec<Named>,
    pub unreadable: Vec<(String, String)>,
}

/// Reads manifests, newest first. With `--from` the named one is the only choice.
pub async fn manifests(dir: &CheckpointDir, options: &Options) -> Result<Manifests, StartError> {
    let mut found = Manifests::default();
    if let Some(from) = &options.from {
        let name = savepoint::manifest_of(dir.location(), from);
        let manifest = dir.read_manifest(&name).await;
        let manifest =
            manifest.map_err(|error| StartError::From { path: from.clone(), reason: unusable(dir, error) })?;
        found.chosen = Some(Named { name, manifest: manifest.into() });
    }
    for listed in dir.manifests().await? {
        match dir.read_manifest(&listed.name).await {
            Ok(manifest) => {
                let named = Named { name: listed.name, manifest: manifest.into() };
                if found.chosen.is_none() {
                    found.chosen = Some(named);
                } else {
                    found.older.push(named);
                }
            }
            Err(DirError::Unreadable { path, error }) => found.unreadable.push((path, error.to_string())),
            // A job that runs has removed it since.
            Err(DirError::Store { error: object_store::Error::NotFound { .. }, .. }) => {}
            Err(other) => return Err(other.into()),
        }
    }
    Ok(found)
}

fn unusable(dir: &CheckpointDir, error: DirError) -> String {
    match error {
        DirError::Store { error: object_store::Error::NotFound { .. }, .. } => {
            format!("not found in {}; `floodmark checkpoints FILE` lists what is there", dir.location())
        }
        other => other.to_string(),
    }
}

/// The state of every source's log.
pub struct SourceLog {
    pub node: NodeId,
    pub log: Arc<dyn Log>,
    pub partitions: Vec<PartitionInfo>,
}

/// Everything the plan is made from.
pub async fn observe(
    pipeline: &Pipeline,
    options: &Options,
    (dir, manifests): (&CheckpointDir, &Manifests),
    sinks: &mut [(NodeId, Box<dyn Sink>)],
    retired: &mut [Retired],
    logs: &[SourceLog],
) -> Result<Observed, StartError> {
    let manifest = manifests.chosen.as_ref();
    let mut states = vec![];
    for (id, sink) in sinks {
        let name = pipeline.plan.node(*id).name.clone();
        let found = match pipeline.sinks[id].connector {
            SinkConnector::Stdout => FoundMark::NoMark,
            _ => look(sink.as_mut()).await?,
        };
        let record = manifest.and_then(|m| m.manifest.sinks.iter().find(|s| s.name == name));
        states.push(state(dir, manifest, name, found, record, true).await?);
    }
    if let Some(named) = manifest {
        for record in retired::records(&pipeline.plan, &named.manifest) {
            let found = retired::look_at(record, retired, options.wait).await?;
            states.push(state(dir, manifest, record.name.clone(), found, Some(record), false).await?);
        }
    }
    Ok(Observed {
        pipeline: pipeline.plan.pipeline.clone(),
        manifest: manifest.map(|m| summary(&m.name, &m.manifest)),
        unreadable: manifests.unreadable.iter().map(|(name, _)| name.clone()).collect(),
        sinks: states,
        edits: manifest.map_or_else(Vec::new, |m| edits(pipeline, &m.manifest, options)),
        log_problems: manifest.map_or_else(Vec::new, |m| log_problems(pipeline, &m.manifest, logs)),
        state_problems: match manifest {
            Some(named) => state_problems(dir, named).await?,
            None => vec![],
        },
        accept_gap: options.accept_gap.clone(),
        forget: options.forget.clone(),
    })
}

/// One sink, and whether what waits for it can be read.
async fn state(
    dir: &CheckpointDir,
    manifest: Option<&Named>,
    name: String,
    found: FoundMark,
    record: Option<&SinkRecord>,
    in_file: bool,
) -> Result<SinkState, SinkError> {
    let (Some(named), Some(record)) = (manifest, record) else {
        return Ok(SinkState { name, found, recorded: None, in_file, lost: vec![] });
    };
    let recorded = recorded(record, &named.manifest);
    let is_given_up = matches!(found, FoundMark::Unreachable(_));
    let held = if is_given_up { record.epochs.len() } else { recorded.held(&found).unwrap_or(0) };
    let mut lost = vec![];
    for pending in record.epochs.iter().skip(held) {
        for segment in &pending.segments {
            let problem = dir.segment_problem(segment).await?;
            lost.extend(problem.map(|problem| (pending.epoch, problem)));
        }
    }
    Ok(SinkState { name, found, recorded: Some(recorded), in_file, lost })
}

pub async fn look(sink: &mut dyn Sink) -> Result<FoundMark, SinkError> {
    match sink.look().await {
        Ok(Found::Absent) => Ok(FoundMark::Absent),
        Ok(Found::Here(mark)) => Ok(FoundMark::Here(Box::new(mark))),
        Ok(Found::OfAnother { pipeline, epoch }) => Ok(FoundMark::OfAnother { pipeline, epoch }),
        Err(error @ SinkError::RolledBack { .. }) => Ok(FoundMark::RolledBack(error.to_string())),
        Err(error @ SinkError::Schema { .. }) => Ok(FoundMark::Differs(error.to_string())),
        Err(error) => Err(error),
    }
}

/// Positions that the log no longer has, or that mean other records now.
fn log_problems(pipeline: &Pipeline, manifest: &Manifest, logs: &[SourceLog]) -> Vec<String> {
    let mut problems = vec![];
    for log in logs {
        let name = &pipeline.plan.node(log.node).name;
        for record in manifest.partitions.iter().filter(|p| *p.name.source == **name) {
            let found = log.partitions.iter().find(|p| p.name == record.name);
            problems.extend(match &pipeline.sources[&log.node].connector {
                SourceConnector::Kafka(_) => topic_problem(record, found),
                SourceConnector::File(_) => file_problem(record, found),
                SourceConnector::Generator(_) => None,
            });
        }
    }
    problems
}

fn topic_problem(record: &PartitionRecord, found: Option<&PartitionInfo>) -> Option<String> {
    match found {
        Some(info) => check(record.position.offset, &record.identity, info).err().map(|e| e.to_string()),
        None if record.status == Status::Ended => None,
        None => Some(format!("{}: the partition is gone: its topic was deleted", record.name)),
    }
}

/// What a look at sizes can tell. That a file begins with what was read of it is checked when it is opened to go on.
fn file_problem(record: &PartitionRecord, found: Option<&PartitionInfo>) -> Option<String> {
    let stored = StoredPrefix::decode(&record.position.resume).unwrap_or_default();
    let read = stored.bytes;
    match found {
        // Of a compressed file more was read than it has.
        Some(info) if is_plain(&record.name) && (info.end.max(0) as u64) < read => {
            Some(format!("{}: {} bytes of the file were read, and it has {}", record.name, read, info.end))
        }
        None if record.status != Status::Ended && read > 0 && !stored.is_all => {
            Some(format!("{}: the file is gone, of which {read} bytes were read and not all", record.name))
        }
        _ => None,
    }
}

fn is_plain(name: &PartitionName) -> bool {
    Compression::of(std::path::Path::new(&*name.topic)) == Compression::None
}

/// State files that aren't there, or have another length. What is in them is checked when they are loaded.
async fn state_problems(dir: &CheckpointDir, named: &Named) -> Result<Vec<String>, DirError> {
    let files = named.manifest.state.iter().flatten();
    let asked = futures::stream::iter(files)
        .map(|file| async move { Ok::<_, DirError>((file, dir.length(&file.path).await?)) });
    let lengths: Vec<_> = asked.buffered(STATE_FILES_AT_ONCE).try_collect().await?;
    let problem = |(file, length): (&StateFileRecord, Option<u64>)| {
        let place = format!("{}/{}", dir.location(), file.path);
        match length {
            None => Some(format!("{place}: the file is missing, which {} names", named.name)),
            Some(length) if length != file.length => {
                Some(format!("{place}: the file has {length} bytes, and had {} for {}", file.length, named.name))
            }
            Some(_) => None,
        }
    };
    Ok(lengths.into_iter().filter_map(problem).collect())
}
