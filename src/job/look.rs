//! Looks at everything a start depends on, and changes nothing: manifests, each sink's mark, each source's log.
use std::sync::Arc;

use floodmark_pipeline::ids::NodeId;
use floodmark_pipeline::recovery::{FoundMark, Observed, SinkState};

use super::Options;
use super::found::{edits, recorded, summary};
use super::retired::{self, Retired};
use super::start::StartError;
use crate::checkpoint::dir::{CheckpointDir, DirError};
use crate::checkpoint::manifest::{Manifest, Status};
use crate::checkpoint::savepoint;
use crate::config::model::{Pipeline, SinkConnector, SourceConnector};
use crate::sink::{Found, Sink, SinkError};
use crate::source::check::check;
use crate::source::{Log, PartitionInfo};

/// A manifest and the name it has.
#[derive(Clone, Debug)]
pub struct Named {
    pub name: String,
    pub manifest: Manifest,
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
        found.chosen = Some(Named { name, manifest });
    }
    for listed in dir.manifests().await? {
        match dir.read_manifest(&listed.name).await {
            Ok(manifest) => {
                let named = Named { name: listed.name, manifest };
                if found.chosen.is_none() {
                    found.chosen = Some(named);
                } else {
                    found.older.push(named);
                }
            }
            Err(DirError::Unreadable { path, error }) => found.unreadable.push((path, error.to_string())),
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
    manifests: &Manifests,
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
        let in_manifest = manifest.and_then(|m| Some((m, m.manifest.sinks.iter().find(|s| s.name == name)?)));
        let recorded = in_manifest.map(|(m, record)| recorded(record, &m.manifest));
        states.push(SinkState { name, found, recorded, in_file: true });
    }
    if let Some(named) = manifest {
        for record in retired::records(&pipeline.plan, &named.manifest) {
            let found = retired::look_at(record, retired, options.wait).await?;
            let recorded = Some(recorded(record, &named.manifest));
            states.push(SinkState { name: record.name.clone(), found, recorded, in_file: false });
        }
    }
    Ok(Observed {
        pipeline: pipeline.plan.pipeline.clone(),
        manifest: manifest.map(|m| summary(&m.name, &m.manifest)),
        unreadable: manifests.unreadable.iter().map(|(name, _)| name.clone()).collect(),
        sinks: states,
        edits: manifest.map_or_else(Vec::new, |m| edits(pipeline, &m.manifest, options)),
        log_problems: manifest.map_or_else(Vec::new, |m| log_problems(pipeline, &m.manifest, logs)),
        accept_gap: options.accept_gap.clone(),
        forget: options.forget.clone(),
    })
}

pub async fn look(sink: &mut dyn Sink) -> Result<FoundMark, SinkError> {
    match sink.look().await {
        Ok(Found::Absent) => Ok(FoundMark::Absent),
        Ok(Found::Here(mark)) => Ok(FoundMark::Here(Box::new(mark))),
        Err(error @ SinkError::RolledBack { .. }) => Ok(FoundMark::RolledBack(error.to_string())),
        Err(error) => Err(error),
    }
}

/// Positions that the log no longer has, or that mean other records now.
fn log_problems(pipeline: &Pipeline, manifest: &Manifest, logs: &[SourceLog]) -> Vec<String> {
    let mut problems = vec![];
    for log in logs {
        if !matches!(pipeline.sources[&log.node].connector, SourceConnector::Kafka(_)) {
            continue;
        }
        let name = &pipeline.plan.node(log.node).name;
        for record in manifest.partitions.iter().filter(|p| p.name.source == *name) {
            match log.partitions.iter().find(|p| p.name == record.name) {
                Some(info) => {
                    problems.extend(check(record.position.offset, &record.identity, info).err().map(|e| e.to_string()));
                }
                None if record.status != Status::Ended => {
                    problems.push(format!("{}: the partition is gone: its topic was deleted", record.name));
                }
                None => {}
            }
        }
    }
    problems
}
