//! The order of a start, up to the moment before the first record is read.
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use floodmark_pipeline::guard::{self, Guard};
use floodmark_pipeline::ids::{CheckpointId, Incarnation, NodeId};
use floodmark_pipeline::mark::Mark;
use floodmark_pipeline::plan::NodeKind;
use floodmark_pipeline::recovery::{Observed, Plan, Refusal, SinkPlan, plan};
use floodmark_state::{StateDigest, StateError};

use super::claim::{claim_and_fence, unless_fenced};
use super::found::{Refused, is_keyed};
use super::look::{Manifests, Named, SourceLog, manifests, observe};
use super::patience::Patience;
use super::retired::{self, Retired};
use super::sinks::OpenSink;
use super::workers::Turn;
use super::{Failure, Options, sinks};
use crate::checkpoint::book::SinkBook;
use crate::checkpoint::coordinator::Beginning;
use crate::checkpoint::cut::NodesAtCut;
use crate::checkpoint::dir::{CheckpointDir, DirError};
use crate::checkpoint::manifest::{Manifest, Status};
use crate::checkpoint::partitions::{Found as FoundPartition, Partitions, SourceInfo};
use crate::config::model::{End, Pipeline, SourceConnector};
use crate::host::{Computer, Host};
use crate::runtime::counters::NodeCounters;
use crate::runtime::crank;
use crate::sink::{PendingEpoch, SinkError};
use crate::source::connect::log_for;
use crate::source::{Log, PartitionInfo, Position, SourceError};
use crate::steps::{self, Point};
use crate::store;

/// A job that runs can't always be faster.
const MOST_LOOKS: usize = 20;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Dir(#[from] DirError),
    #[error(transparent)]
    Store(#[from] store::StoreError),
    #[error(transparent)]
    Sink(#[from] SinkError),
    #[error("source {node}: {error}")]
    Source { node: String, error: SourceError },
    #[error("--from {path}: {reason}; nothing was started")]
    From { path: String, reason: String },
    #[error(transparent)]
    State(#[from] StateError),
    #[error("{0}")]
    Worker(String),
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match error {
            StartError::From { .. } => Self::Usage(error.to_string()),
            StartError::State(state) if needs_a_choice(&state) => {
                Self::Refused(Refused::new(vec![Refusal::State(state.to_string())]))
            }
            StartError::Source { error: ref source, .. } if source.needs_a_person() => Self::Stuck(error.to_string()),
            StartError::Sink(SinkError::Away { .. }) => Self::Failed(error.to_string()),
            StartError::Store(_) | StartError::Sink(_) => Self::Stuck(error.to_string()),
            error => Self::Failed(error.to_string()),
        }
    }
}

/// Starting again would find the same.
fn needs_a_choice(error: &StateError) -> bool {
    use StateError::{Damaged, Format, MaxParallelism, Missing, OverBudget, Uncovered};
    matches!(
        error,
        Damaged { .. } | Format { .. } | MaxParallelism { .. } | Missing { .. } | OverBudget { .. } | Uncovered { .. }
    )
}

/// What a run begins with.
pub struct Started {
    pub dir: CheckpointDir,
    pub host: Arc<dyn Host>,
    pub turn: Turn,
    pub incarnation: Incarnation,
    pub sinks: Vec<OpenSink>,
    pub logs: Vec<SourceLog>,
    pub beginning: Beginning,
    /// Nodes that begin anew, without what they remember.
    pub reset: Vec<NodeId>,
    /// The manifest that state is restored from.
    pub restored: Option<Named>,
    /// All readable manifests, newest first.
    pub known: Vec<Named>,
}

/// What a start stands on: opened, and not asked anything yet.
pub struct World {
    pub dir: CheckpointDir,
    pub sinks: Vec<OpenSink>,
    pub logs: Vec<(NodeId, Arc<dyn Log>)>,
    pub host: Arc<dyn Host>,
    pub turn: Turn,
}

impl World {
    pub fn of(pipeline: &Pipeline) -> Result<Self, StartError> {
        let settings = &pipeline.settings;
        let store = store::open(&settings.checkpoint_dir, &settings.s3)?;
        let dir = CheckpointDir::at(store, &settings.checkpoint_dir);
        let host: Arc<dyn Host> = Arc::new(Computer::default());
        let sinks = sinks::all(pipeline, &dir, &host)?;
        let mut logs = vec![];
        for (node, config) in &pipeline.sources {
            let name = pipeline.plan.node(*node).name.as_str();
            let log = log_for(&pipeline.plan.pipeline, name, config);
            logs.push((*node, log.map_err(|error| StartError::Source { node: name.to_owned(), error })?));
        }
        Ok(Self { dir, sinks, logs, host, turn: crank::on_thread })
    }
}

/// Refuses what the pipeline file can't have, before anything is looked at.
pub fn check(pipeline: &Pipeline, options: &Options) -> Result<(), Failure> {
    can_be_reset(pipeline, options)?;
    can_have_a_gap(pipeline, options)
}

pub async fn start(world: World, pipeline: &Pipeline, options: &Options) -> Result<Started, Failure> {
    let World { dir, mut sinks, logs, host, turn } = world;
    let patience = Patience { host: host.clone(), waits: options.wait };
    let ground = Ground { pipeline, options, dir: &dir, logs: &logs, patience: &patience };

    // First look: a refusal ends here and has changed nothing.
    let mut retired = vec![];
    let Seen { found, observed, logs: seen, .. } = ground.look(&mut sinks, &mut retired, None).await?;
    say_empty(pipeline, &seen);
    steps::reached(Point::Looked);

    dir.probe(host.token()).await.map_err(StartError::Dir)?;
    let incarnation = claim_and_fence(&patience, &dir, &found, &observed, &mut sinks, &mut retired).await?;

    let planned = under_the_fence(&ground, incarnation, &mut sinks, &mut retired).await;
    let (seen, beginning) = unless_fenced(&dir, incarnation, planned).await?;
    let reset = reset(pipeline, &seen.decided);
    let Seen { found: Manifests { chosen, older, .. }, logs, .. } = seen;
    let known = chosen.iter().cloned().chain(older).collect();
    Ok(Started { dir, host, turn, incarnation, sinks, logs, beginning, reset, restored: chosen, known })
}

/// Second look, under the fence: what an older process did in between is in here, and it can do no more.
async fn under_the_fence(
    ground: &Ground<'_>,
    incarnation: Incarnation,
    sinks: &mut [OpenSink],
    retired: &mut Vec<Retired>,
) -> Result<(Seen, Beginning), Failure> {
    let Ground { pipeline, dir, patience, .. } = ground;
    let seen = ground.look(sinks, retired, Some(incarnation)).await?;
    let Seen { found, observed, logs, decided } = &seen;
    steps::reached(Point::Planned);
    say(decided, found);
    say_new(pipeline, decided, found);
    for (name, why) in &found.unreadable {
        let aside = dir.put_aside(name).await.map_err(StartError::Dir)?;
        tracing::warn!(manifest = name, "unreadable ({why}): put aside as {aside}");
    }
    retired::commit(retired, patience, decided, found).await?;
    let beginning = begin(pipeline, decided, found, observed, logs).await?;
    Ok((seen, beginning))
}

/// What a start looks at.
struct Ground<'a> {
    pipeline: &'a Pipeline,
    options: &'a Options,
    dir: &'a CheckpointDir,
    logs: &'a [(NodeId, Arc<dyn Log>)],
    patience: &'a Patience,
}

/// What it saw, and how to go on.
struct Seen {
    found: Manifests,
    observed: Observed,
    logs: Vec<SourceLog>,
    decided: Plan,
}

impl Ground<'_> {
    /// Looks and decides; `claimed` is ours on the second look. Logs after manifests: a job that runs may have read what wasn't there a moment ago. Beside
    /// one, what we look at may also be gone before we have seen it whole: nobody is refused for that.
    async fn look(
        &self,
        sinks: &mut [OpenSink],
        retired: &mut Vec<Retired>,
        claimed: Option<Incarnation>,
    ) -> Result<Seen, Failure> {
        let Self { pipeline, options, dir, logs, patience } = self;
        for _ in 0..MOST_LOOKS {
            let found = manifests(dir, options).await?;
            let logs = look_at_logs(pipeline, patience, logs).await?;
            if claimed.is_none() {
                *retired = retired::of(pipeline, options, &found, dir, &patience.host);
            }
            let look = async || observe(pipeline, options, (dir, &found), sinks, retired, &logs).await;
            let observed = patience.with(look).await?;
            let decided = plan(&observed);
            let Plan::Refuse(refusals) = decided else { return Ok(Seen { found, observed, logs, decided }) };
            if !is_outdated(dir, options, &found).await? {
                return Err(Failure::Refused(Refused::new(refusals)));
            }
        }
        Err(Failure::Failed("another process takes checkpoints faster than they can be looked at".into()))
    }
}

/// A newer manifest is there by now than the one to go on from.
async fn is_outdated(dir: &CheckpointDir, options: &Options, found: &Manifests) -> Result<bool, StartError> {
    let is_unreadable = |name: &str| found.unreadable.iter().any(|(unreadable, _)| unreadable == name);
    let newest = dir.manifests().await?.into_iter().map(|listed| listed.name).find(|name| !is_unreadable(name));
    Ok(options.from.is_none() && newest.as_deref() != found.chosen.as_ref().map(|named| named.name.as_str()))
}

fn reset(pipeline: &Pipeline, decided: &Plan) -> Vec<NodeId> {
    match decided {
        Plan::Resume { reset, .. } => reset.iter().filter_map(|name| pipeline.plan.find(name)).collect(),
        Plan::StartFresh { .. } | Plan::Refuse(_) => vec![],
    }
}

/// What can't be done is never taken in silence.
fn can_be_reset(pipeline: &Pipeline, options: &Options) -> Result<(), Failure> {
    let plan = &pipeline.plan;
    for name in &options.reset {
        let why = match plan.find(name).map(|id| is_keyed(&plan.node(id).kind)) {
            Some(true) => continue,
            Some(false) => "only dedup and window nodes remember something that can be left behind",
            None => "the pipeline file has no such node",
        };
        return Err(Failure::Usage(format!("--reset {name}: {why}; nothing was started")));
    }
    Ok(())
}

fn can_have_a_gap(pipeline: &Pipeline, options: &Options) -> Result<(), Failure> {
    let is_sink = |name: &&String| pipeline.plan.find(name).is_some_and(|id| pipeline.sinks.contains_key(&id));
    match options.accept_gap.iter().find(|name| !is_sink(name)) {
        Some(name) => {
            Err(Failure::Usage(format!("--accept-gap {name}: the pipeline file has no such sink; nothing was started")))
        }
        None => Ok(()),
    }
}

/// One line: what was found and what will be done.
fn say(decided: &Plan, found: &Manifests) {
    match (decided, &found.chosen) {
        (Plan::Resume { from, sinks, added, retire, reset }, Some(named)) => {
            let waiting: Vec<_> = sinks
                .iter()
                .filter_map(|s| {
                    let list = &named.manifest.sinks.iter().find(|r| r.name == s.name)?.epochs;
                    let rows: u64 = list.iter().skip(s.holds).map(PendingEpoch::rows).sum();
                    (rows > 0).then(|| format!("{rows} rows to commit to {}", s.name))
                })
                .collect();
            tracing::info!(
                checkpoint = from.0,
                incarnation = named.manifest.incarnation.number,
                ?added,
                ?retire,
                ?reset,
                "found a checkpoint: going on from it; {}",
                if waiting.is_empty() { "every sink has all of it".to_owned() } else { waiting.join(", ") }
            );
        }
        _ => tracing::info!("found neither checkpoint nor marks: starting fresh"),
    }
}

/// A node that is new begins at the cut that was found, not at the beginning of the log: from which offsets is said.
fn say_new(pipeline: &Pipeline, decided: &Plan, found: &Manifests) {
    let (Plan::Resume { added, .. }, Some(named)) = (decided, &found.chosen) else { return };
    let plan = &pipeline.plan;
    for (id, name) in added.iter().filter_map(|name| Some((plan.find(name)?, name))) {
        let sources: Vec<_> = plan.sources_of(id).into_iter().map(|s| plan.node(s).name.as_str()).collect();
        let known = named.manifest.partitions.iter().filter(|p| sources.contains(&&*p.name.source));
        let from: Vec<_> = known.map(|p| format!("{} from {}", p.name, p.position.offset)).collect();
        let from = if from.is_empty() { "everything, nothing was read yet".to_owned() } else { from.join(", ") };
        tracing::info!("{name} is new: it gets {from}");
    }
}

async fn look_at_logs(
    pipeline: &Pipeline,
    patience: &Patience,
    logs: &[(NodeId, Arc<dyn Log>)],
) -> Result<Vec<SourceLog>, StartError> {
    let mut seen = vec![];
    for (node, log) in logs {
        let name = pipeline.plan.node(*node).name.as_str();
        let failed = |error| StartError::Source { node: name.to_owned(), error };
        let partitions = patience.with(async || log.partitions().await.map_err(failed)).await?;
        seen.push(SourceLog { node: *node, log: log.clone(), partitions });
    }
    Ok(seen)
}

fn say_empty(pipeline: &Pipeline, logs: &[SourceLog]) {
    for log in logs.iter().filter(|log| log.partitions.is_empty() && pipeline.sources[&log.node].end != End::Never) {
        let source = &pipeline.plan.node(log.node).name;
        tracing::warn!(source, "there is nothing to read: no file is there yet, and the source ends with what is");
    }
}

pub fn marks(observed: &Observed) -> impl Iterator<Item = &Mark> {
    observed.sinks.iter().filter_map(|s| match &s.found {
        floodmark_pipeline::recovery::FoundMark::Here(mark) => Some(mark.as_ref()),
        _ => None,
    })
}

/// Turns the plan into what the coordinator begins with.
async fn begin(
    pipeline: &Pipeline,
    decided: &Plan,
    found: &Manifests,
    observed: &Observed,
    logs: &[SourceLog],
) -> Result<Beginning, StartError> {
    let manifest = found.chosen.as_ref().map(|named| &*named.manifest);
    let sources = source_infos(pipeline, manifest);
    let (table, decisions) = manifest.map_or_else(Default::default, |m| (m.partitions.clone(), m.decisions.clone()));
    let mut partitions = Partitions::new(table, decisions, sources);
    for log in logs {
        enter(pipeline, log, &mut partitions, manifest.is_none()).await?;
    }
    let manifests = found.chosen.iter().chain(&found.older).map(|m| m.manifest.checkpoint);
    let marked = marks(observed).filter_map(|m| m.epoch).map(|e| e.checkpoint);
    let last_id = manifests.chain(marked).max().unwrap_or(CheckpointId(0));
    let (Plan::StartFresh { sinks: planned } | Plan::Resume { sinks: planned, .. }) = decided else {
        return Err(StartError::Worker("a refused plan has no beginning".into()));
    };
    let sinks = pipeline.sinks.keys().map(|id| (*id, book(pipeline, *id, planned, manifest))).collect();
    let counters = counters(pipeline, decided, manifest);
    let mut nodes = nodes(pipeline, manifest, counters.clone());
    for id in reset(pipeline, decided) {
        nodes.state[usize::from(id.0)] = StateDigest::default();
    }
    let state_digest = manifest.map_or(0, |m| m.state_digest);
    Ok(Beginning { partitions, counters, last_id, sinks, nodes, state_digest })
}

fn source_infos(pipeline: &Pipeline, manifest: Option<&Manifest>) -> Vec<SourceInfo> {
    let info = |id: NodeId| {
        let node = pipeline.plan.node(id);
        let NodeKind::Source(source) = &node.kind else { return None };
        let record = manifest.and_then(|m| m.nodes.iter().find(|n| n.name == node.name));
        let (name, watermark) = (node.name.clone(), record.and_then(|r| r.watermark));
        let bounded = pipeline.sources.get(&id).is_some_and(|config| config.end != End::Never);
        Some(SourceInfo { node: id, name, bound: source.bound, watermark, bounded })
    };
    pipeline.plan.ids().filter_map(info).collect()
}

/// Partitions of a log that the table doesn't know join it; ended ones that have grown come back.
async fn enter(
    pipeline: &Pipeline,
    log: &SourceLog,
    partitions: &mut Partitions,
    fresh: bool,
) -> Result<(), StartError> {
    let config = &pipeline.sources[&log.node];
    let failed = |error| StartError::Source { node: pipeline.plan.node(log.node).name.clone(), error };
    let ends = log.log.resolve_end(&config.end, &log.partitions).await.map_err(failed)?;
    let is_file = matches!(config.connector, SourceConnector::File(_));
    let (mut new, mut new_ends) = (vec![], vec![]);
    for (info, end) in log.partitions.iter().zip(ends) {
        let known = partitions.index_of(&info.name);
        match known.and_then(|p| Some((p, partitions.record_of(p)?))) {
            None => {
                new.push(info.clone());
                new_ends.push(end);
            }
            Some((at, record)) if record.status != Status::Live && end != record.end => partitions.come_back(at, end),
            // An end once resolved stays; one that the file has begun or ceased to ask for is in force from now on. A file's end is where it ends now:
            // it may have been in the middle of a line when it was looked at.
            Some((at, record)) if end.is_none() != record.end.is_none() || is_file && end != record.end => {
                partitions.end_at(at, end);
            }
            Some(_) => {}
        }
    }
    let starts = match fresh {
        true => log.log.resolve_start(&config.start, &new).await.map_err(failed)?,
        false => new.iter().map(earliest).collect(),
    };
    let found = new.into_iter().zip(new_ends).zip(starts);
    let found =
        found.map(|((info, end), position)| FoundPartition { name: info.name, identity: info.identity, position, end });
    if fresh {
        partitions.begin_with(found.collect());
    } else {
        found.for_each(|f| partitions.join(f));
    }
    Ok(())
}

/// One that is found later starts at its earliest offset, whatever `start` says.
pub fn earliest(info: &PartitionInfo) -> Position {
    Position { offset: info.start, resume: vec![] }
}

/// What a sink still waits for: the manifest's list, less what it holds.
fn book(pipeline: &Pipeline, id: NodeId, planned: &[SinkPlan], manifest: Option<&Manifest>) -> SinkBook {
    let name = &pipeline.plan.node(id).name;
    let plan = planned.iter().find(|p| p.name == *name);
    let record = manifest.and_then(|m| m.sinks.iter().find(|s| s.name == *name));
    let holds = plan.map_or(0, |p| p.holds);
    let waiting = record.into_iter().flat_map(|r| r.epochs.iter().skip(holds).cloned());
    let given_up = |epoch| plan.is_some_and(|p| p.without.contains(&epoch));
    let waiting = waiting.map(|e| if given_up(e.epoch) { PendingEpoch { segments: vec![], ..e } } else { e });
    let epochs: VecDeque<_> = waiting.filter(|_| guard::holds(Guard::OutboxRestore)).collect();
    let definition = pipeline.definitions.get(&id).cloned().unwrap_or_default();
    SinkBook { base: plan.and_then(|p| p.base), epochs, definition }
}

/// Counters go on where all nodes do; where one is new or begins anew, all begin at 0, so that their sums still close.
fn counters(pipeline: &Pipeline, decided: &Plan, manifest: Option<&Manifest>) -> Vec<NodeCounters> {
    let as_before = matches!(decided, Plan::Resume { added, retire, reset, .. } if added.is_empty() && retire.is_empty() && reset.is_empty());
    let before: BTreeMap<&str, NodeCounters> =
        manifest.iter().flat_map(|m| &m.nodes).map(|n| (n.name.as_str(), n.counters)).collect();
    let of =
        |name: &str| if as_before { before.get(name).copied().unwrap_or_default() } else { NodeCounters::default() };
    pipeline.plan.nodes.iter().map(|n| of(&n.name)).collect()
}

/// Watermarks and fired floors to go on from, by name. A node that begins anew keeps its watermark: it never goes back.
fn nodes(pipeline: &Pipeline, manifest: Option<&Manifest>, counters: Vec<NodeCounters>) -> NodesAtCut {
    let record = |name: &str| manifest.and_then(|m| m.nodes.iter().find(|n| n.name == name));
    let records: Vec<_> = pipeline.plan.nodes.iter().map(|n| record(&n.name)).collect();
    NodesAtCut {
        watermarks: records.iter().map(|r| r.and_then(|r| r.watermark)).collect(),
        fired_floors: records.iter().map(|r| r.and_then(|r| r.fired_floor)).collect(),
        oldest: vec![None; records.len()],
        state: records.iter().map(|r| r.map_or_else(StateDigest::default, |r| r.state)).collect(),
        counters,
    }
}
