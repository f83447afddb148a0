//! Sinks that have left the pipeline file while rows wait for them: opened by the definition that the manifest keeps, given what waits, and let go.
//!
//! Doesn't know: how the start goes on. Keeps: a sink for which nothing waits isn't touched; rows are given up only for a sink that the user names.
use std::sync::Arc;

use floodmark_pipeline::plan::Plan as Nodes;
use floodmark_pipeline::recovery::{FoundMark, Plan, SinkPlan};

use super::look::{self, Manifests};
use super::patience::Patience;
use super::start::StartError;
use super::{Failure, Options, sinks};
use crate::checkpoint::dir::CheckpointDir;
use crate::checkpoint::manifest::{Manifest, SinkRecord};
use crate::config::definition;
use crate::config::model::{Pipeline, SinkConnector};
use crate::host::Host;
use crate::sink::{Outcome, PendingEpoch, Sink, SinkError};

/// A sink of the manifest that isn't in the file.
pub struct Retired {
    pub name: String,
    way: Way,
}

enum Way {
    Open(Box<dyn Sink>),
    /// It keeps no mark that could be asked for.
    Markless(Box<dyn Sink>),
    Closed(String),
}

/// Those for which rows wait.
pub fn of(
    pipeline: &Pipeline,
    options: &Options,
    found: &Manifests,
    dir: &CheckpointDir,
    host: &Arc<dyn Host>,
) -> Vec<Retired> {
    let manifest = found.chosen.iter().map(|named| &*named.manifest);
    let waited_for = manifest.flat_map(|m| records(&pipeline.plan, m)).filter(|record| waiting_rows(record) > 0);
    let open = |record: &SinkRecord| {
        let given_up = options.forget.contains(&record.name);
        let way = if given_up { Way::Closed("it was given up".into()) } else { Way::to(pipeline, record, dir, host) };
        Retired { name: record.name.clone(), way }
    };
    let retired: Vec<_> = waited_for.map(open).collect();
    for name in options.forget.iter().filter(|name| !retired.iter().any(|r| r.name == **name)) {
        tracing::warn!(sink = name, "--forget: no rows wait for a sink of this name that has left the pipeline file");
    }
    retired
}

/// What the manifest says of sinks that the file doesn't have.
pub fn records<'a>(plan: &'a Nodes, manifest: &'a Manifest) -> impl Iterator<Item = &'a SinkRecord> {
    manifest.sinks.iter().filter(|record| plan.find(&record.name).is_none())
}

fn waiting_rows(record: &SinkRecord) -> u64 {
    record.epochs.iter().map(PendingEpoch::rows).sum()
}

impl Way {
    fn to(pipeline: &Pipeline, record: &SinkRecord, dir: &CheckpointDir, host: &Arc<dyn Host>) -> Self {
        let env = |name: &str| std::env::var(name).ok();
        let defined = match definition::read(&record.name, &record.definition, &env) {
            Ok(defined) => defined,
            Err(why) => return Self::Closed(why),
        };
        let markless = matches!(defined.config.connector, SinkConnector::Stdout);
        match sinks::one(pipeline, &record.name, &defined.config, defined.columns, dir, host) {
            Ok(sink) if markless => Self::Markless(sink),
            Ok(sink) => Self::Open(sink),
            Err(error) => Self::Closed(error.to_string()),
        }
    }
}

impl Retired {
    /// The sink, if it can be opened.
    pub fn sink(&mut self) -> Option<&mut Box<dyn Sink>> {
        match &mut self.way {
            Way::Open(sink) | Way::Markless(sink) => Some(sink),
            Way::Closed(_) => None,
        }
    }

    async fn look(&mut self, wait: bool) -> Result<FoundMark, SinkError> {
        let sink = match &mut self.way {
            Way::Open(sink) => sink,
            Way::Markless(_) => return Ok(FoundMark::NoMark),
            Way::Closed(why) => return Ok(FoundMark::Unreachable(why.clone())),
        };
        match look::look(sink.as_mut()).await {
            Err(error @ SinkError::Away { .. }) if wait => Err(error),
            Err(error) => Ok(FoundMark::Unreachable(error.to_string())),
            found => found,
        }
    }
}

/// The mark of a retired sink, as the plan wants to know it.
pub async fn look_at(record: &SinkRecord, retired: &mut [Retired], wait: bool) -> Result<FoundMark, SinkError> {
    match retired.iter_mut().find(|r| r.name == record.name) {
        Some(retired) => retired.look(wait).await,
        None if waiting_rows(record) == 0 => Ok(FoundMark::NoMark),
        None => Ok(FoundMark::Unreachable("rows came for it while this start was under way: start again".into())),
    }
}

/// Commits what waits for retired sinks. Their next manifest won't name them; should this start end before it, the next one finds the rows by their mark.
pub async fn commit(
    retired: &mut [Retired],
    patience: &Patience,
    decided: &Plan,
    found: &Manifests,
) -> Result<(), Failure> {
    let (Plan::Resume { sinks: planned, .. }, Some(named)) = (decided, &found.chosen) else { return Ok(()) };
    for retired in retired {
        let record = named.manifest.sinks.iter().find(|s| s.name == retired.name);
        let plan = planned.iter().find(|p| p.name == retired.name);
        if let (Some(record), Some(plan)) = (record, plan) {
            commit_one(retired, record, plan, patience).await?;
        }
    }
    Ok(())
}

async fn commit_one(
    retired: &mut Retired,
    record: &SinkRecord,
    plan: &SinkPlan,
    patience: &Patience,
) -> Result<(), Failure> {
    let name = retired.name.clone();
    let Some(sink) = retired.sink() else {
        let rows = waiting_rows(record);
        tracing::warn!(sink = name, rows, "gave up the rows that waited for a sink that has left the pipeline file");
        return Ok(());
    };
    let epochs: Vec<PendingEpoch> = record.epochs.iter().skip(plan.holds).cloned().collect();
    let rows: u64 = epochs.iter().map(PendingEpoch::rows).sum();
    let commit = async || sink.commit(plan.base, &epochs, false).await.map_err(StartError::from);
    match patience.with(commit).await? {
        Outcome::Applied(_) => {
            tracing::info!(sink = name, rows, "committed what waited for a sink that has left the pipeline file");
            Ok(())
        }
        Outcome::Fenced { by } => Err(Failure::Fenced(super::fenced(by.number))),
        Outcome::Foreign(_) => {
            let why = "another mark is in it than a moment ago: start again to see what to do";
            Err(Failure::Failed(format!("{name}, which has left the pipeline file: {why}")))
        }
    }
}
