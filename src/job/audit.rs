//! Is the state that a checkpoint holds the state that its log gives? Reads the log again up to the positions of a manifest, into an empty engine, takes
//! one cut there, and compares.
//!
//! That this can be done at all is promise 2: state is a function of the log up to the cut, and of the recorded decisions.
//! Doesn't know: manifests' state files; only what the manifest says of their content. Keeps: nothing is written but working files, which go at the end.
//! Tested: tests/audit.rs, and after every run of tests/kills.rs.
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use floodmark_pipeline::ids::{CheckpointId, Incarnation, NodeId, PartitionIndex};
use floodmark_pipeline::plan::NodeKind;
use floodmark_pipeline::stamp::PartitionTime;
use floodmark_pipeline::time::{EventTime, Span};
use floodmark_pipeline::watermark::PartitionWatermark;
use floodmark_state::StateDigest;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::look::SourceLog;
use super::start::World;
use super::workers::{Built, Crew};
use super::{Failure, work};
use crate::checkpoint::manifest::{DecisionKind, Manifest, NodeRecord, PartitionRecord, Status};
use crate::config::model::{Pipeline, SourceConnector};
use crate::file::bytes_read;
use crate::runtime::crank::Crank;
use crate::runtime::part::{Admission, FromWorker, Leaving, Part, ToWorker};
use crate::runtime::worker::Step;
use crate::source::names::PartitionNames;
use crate::source::{Log, Position};

/// Rest when nothing has come yet.
const REST: Duration = Duration::from_millis(1);

/// What an audit found.
#[derive(Debug, PartialEq, Eq)]
pub enum Finding {
    /// Positions, watermarks and state are those of the log.
    Right { records: u64, entries: u64 },
    /// What of the manifest isn't what the log gives.
    Differs(Vec<String>),
    /// Why it can't be said.
    Unknown(String),
}

/// What one cut says of a node.
type AtCut = (Option<EventTime>, StateDigest);

pub async fn audit(pipeline: &Pipeline, world: World, manifest: &Manifest) -> Result<Finding, Failure> {
    if let Some(why) = not_told_by_the_log(pipeline, manifest) {
        return Ok(Finding::Unknown(why));
    }
    let mut logs = vec![];
    for (node, log) in &world.logs {
        match is_whole(log.as_ref(), manifest).await {
            Ok(()) => logs.push(SourceLog { node: *node, log: log.clone(), partitions: vec![] }),
            Err(why) => return Ok(Finding::Unknown(why)),
        }
    }
    // Above every start: the working files of a running job are older, and nobody's of this number.
    let incarnation = Incarnation { number: u64::MAX, token: world.host.token() };
    let replayed = replay(pipeline, &world, &logs, incarnation, manifest).await;
    work::leave(&*world.host.files(), pipeline, incarnation);
    let parts = replayed?;
    Ok(judged(pipeline, manifest, &parts))
}

/// State that also rests on when something was decided, of which the manifest keeps no more than what came of it.
fn not_told_by_the_log(pipeline: &Pipeline, manifest: &Manifest) -> Option<String> {
    // Those that have left hold no watermark: how far it has come since rests on when they did.
    if let Some(moved) = manifest.decisions.iter().find(|d| d.kind != DecisionKind::Joined) {
        let name = manifest.partitions.get(moved.partition.0 as usize).map(|p| p.name.to_string());
        return Some(format!("{} has ended, or been idle: when is not in the log", name.unwrap_or_default()));
    }
    // A window that ends right behind the watermark has fired.
    let fired_by = |watermark: EventTime| watermark.plus(Span(1));
    let drained = manifest.nodes.iter().find(|node| node.fired_floor > node.watermark.map(fired_by));
    if let Some(drained) = drained.filter(|_| manifest.partitions.iter().any(|p| p.status == Status::Live)) {
        return Some(format!("{} was drained at a stop", drained.name));
    }
    let crossed = manifest.nodes.iter().find(|node| node.counters.cross_partition_duplicates > 0);
    if let Some(crossed) = crossed {
        return Some(format!("{} has seen copies of an id in several partitions", crossed.name));
    }
    let stands_inside = |record: &&PartitionRecord| {
        let read = record.position.offset > 0 && record.status != Status::Ended;
        read && is_of_files(pipeline, record) && bytes_read(&record.name, &record.position).is_none()
    };
    if let Some(packed) = manifest.partitions.iter().find(stands_inside) {
        return Some(format!("{} is compressed, and was read to somewhere within it", packed.name));
    }
    let changed =
        |node: &&NodeRecord| pipeline.fingerprints.get(&node.name).is_none_or(|now| now.parts != node.fingerprint);
    let is_sink = |node: &&NodeRecord| manifest.sinks.iter().any(|sink| sink.name == node.name);
    let changed = manifest.nodes.iter().filter(|node| !is_sink(node)).find(changed);
    changed.map(|node| format!("{} was another when it was written", node.name))
}

fn is_of_files(pipeline: &Pipeline, record: &PartitionRecord) -> bool {
    let source = pipeline.plan.find(&record.name.source).and_then(|source| pipeline.sources.get(&source));
    source.is_some_and(|source| matches!(source.connector, SourceConnector::File(_)))
}

/// The log still has all that was read.
async fn is_whole(log: &dyn Log, manifest: &Manifest) -> Result<(), String> {
    let partitions = log.partitions().await.map_err(|error| error.to_string())?;
    for record in &manifest.partitions {
        let Some(info) = partitions.iter().find(|info| info.name == record.name) else { continue };
        if info.identity != record.identity {
            return Err(format!("{} is another log now", record.name));
        }
        if info.start > record.begin {
            return Err(format!("{} begins at {} now, and was read from {}", record.name, info.start, record.begin));
        }
    }
    Ok(())
}

/// Workers without a past, stepped here.
struct Replay {
    cranks: Vec<Crank>,
    commands: Vec<Sender<ToWorker>>,
    reports: UnboundedReceiver<FromWorker>,
    cuts: u64,
}

async fn replay(
    pipeline: &Pipeline,
    world: &World,
    logs: &[SourceLog],
    incarnation: Incarnation,
    manifest: &Manifest,
) -> Result<Vec<Part>, Failure> {
    let names = PartitionNames::new(manifest.partitions.iter().map(|p| p.name.clone()).collect());
    let (restored, partitions, reset) = (None, [].as_slice(), [].as_slice());
    let crew =
        Crew { pipeline, host: &world.host, dir: &world.dir, incarnation, restored, logs, partitions, names, reset };
    let mut replay = Replay::of(crew.build(CheckpointId(1)).await?);
    let mut unread = 0;
    for (index, record) in (0..).map(PartitionIndex).zip(&manifest.partitions) {
        let Some(admission) = admission(pipeline, index, record) else { continue };
        replay.tell(index.0 as usize % replay.commands.len(), ToWorker::Admit(Box::new(admission)));
        unread += 1;
    }
    while unread > 0 {
        let mut is_full = false;
        for report in replay.turn()? {
            match report {
                FromWorker::Exhausted(_) => unread -= 1,
                FromWorker::OutboxFull => is_full = true,
                FromWorker::Part(_) | FromWorker::Trouble { .. } | FromWorker::Failed { .. } => {}
            }
        }
        // How many cuts there are on the way changes nothing.
        if is_full {
            replay.cut(vec![])?;
        }
    }
    let leaves = |record: &PartitionRecord| record.status != Status::Live;
    let partitions = (0..).map(PartitionIndex).zip(&manifest.partitions).filter(|(_, record)| leaves(record));
    let leaving = partitions.map(|(partition, record)| Leaving { partition, ended: record.status == Status::Ended });
    replay.cut(leaving.collect())
}

impl Replay {
    fn of(built: Built) -> Self {
        let (sender, reports) = unbounded_channel();
        let (mut cranks, mut commands) = (vec![], vec![]);
        for (worker, bell) in built.workers {
            let (command, receiver) = channel();
            cranks.push(Crank { worker, bell, commands: receiver, reports: sender.clone() });
            commands.push(command);
        }
        Self { cranks, commands, reports, cuts: 0 }
    }

    fn tell(&self, worker: usize, command: ToWorker) {
        // The other side is in our hands.
        let _ = self.commands[worker].send(command);
    }

    /// A step of every worker; what they report.
    fn turn(&mut self) -> Result<Vec<FromWorker>, Failure> {
        let steps: Vec<_> = self.cranks.iter_mut().map(Crank::turn).collect();
        let reports: Vec<_> = std::iter::from_fn(|| self.reports.try_recv().ok()).collect();
        if let Some(FromWorker::Failed { error, .. }) = reports.iter().find(|r| matches!(r, FromWorker::Failed { .. }))
        {
            return Err(Failure::Failed(error.to_string()));
        }
        if reports.is_empty() && steps.iter().all(|step| *step == Step::Idle) {
            std::thread::sleep(REST);
        }
        Ok(reports)
    }

    fn cut(&mut self, leaving: Vec<Leaving>) -> Result<Vec<Part>, Failure> {
        self.cuts += 1;
        let checkpoint = CheckpointId(self.cuts);
        let all = 0..self.cranks.len();
        let barrier = ToWorker::Barrier { checkpoint, leaving, drain: false, needed: None };
        all.clone().for_each(|worker| self.tell(worker, barrier.clone()));
        let mut parts = vec![];
        while parts.len() < self.cranks.len() {
            let reports = self.turn()?.into_iter();
            parts.extend(reports.filter_map(|r| if let FromWorker::Part(part) = r { Some(*part) } else { None }));
        }
        all.for_each(|worker| self.tell(worker, ToWorker::Release(checkpoint)));
        Ok(parts)
    }
}

/// A partition from its beginning up to where the manifest stands. `None`: nothing of it was read.
fn admission(pipeline: &Pipeline, partition: PartitionIndex, record: &PartitionRecord) -> Option<Admission> {
    let source = pipeline.plan.find(&record.name.source)?;
    let end = match &pipeline.sources[&source].connector {
        SourceConnector::File(_) => bytes_read(&record.name, &record.position).or(record.end).unwrap_or_default(),
        _ => record.position.offset,
    };
    let NodeKind::Source(spec) = &pipeline.plan.node(source).kind else { return None };
    let watermark = PartitionWatermark { max_seen: None, bound: spec.bound, ..record.time.watermark };
    Some(Admission {
        source,
        partition,
        name: record.name.clone(),
        position: Position { offset: record.begin, resume: vec![] },
        time: PartitionTime::new(watermark, Default::default()),
        end: Some(end),
        left: None,
    })
}

fn judged(pipeline: &Pipeline, manifest: &Manifest, parts: &[Part]) -> Finding {
    let mut differs = vec![];
    for read in parts.iter().flat_map(|part| &part.partitions) {
        let Some(record) = manifest.partitions.get(read.partition.0 as usize) else { continue };
        let (name, offset) = (&record.name, read.position.offset);
        if offset != record.position.offset {
            differs.push(format!("{name} is at {offset}, and the manifest says {}", record.position.offset));
        }
        let [now, then] = [&read.time, &record.time].map(|time| time.watermark.max_seen);
        if now != then {
            differs.push(format!("{name}: the largest event time is {now:?}, and the manifest says {then:?}"));
        }
    }
    let mut entries = 0;
    for id in pipeline.plan.ids().filter(|id| !pipeline.plan.node(*id).inputs.is_empty()) {
        let name = &pipeline.plan.node(id).name;
        let Some(record) = manifest.nodes.iter().find(|node| node.name == *name) else { continue };
        let (watermark, state) = at_cut(id, parts);
        entries += state.entries;
        if pipeline.sinks.contains_key(&id) {
            continue;
        }
        if watermark != record.watermark {
            differs
                .push(format!("{name}: the watermark is {watermark:?}, and the manifest says {:?}", record.watermark));
        }
        if state != record.state {
            let (now, then) = (state.entries, record.state.entries);
            differs.push(format!("{name}: the log gives {now} entries, and the manifest has {then}, or others"));
        }
    }
    let read = |node: usize| parts.iter().map(|part| part.nodes[node].counters.records_in).sum::<u64>();
    let records = pipeline.sources.keys().map(|source| read(usize::from(source.0))).sum();
    if differs.is_empty() { Finding::Right { records, entries } } else { Finding::Differs(differs) }
}

fn at_cut(id: NodeId, parts: &[Part]) -> AtCut {
    let of_node = parts.iter().map(|part| &part.nodes[usize::from(id.0)]);
    let mut state = StateDigest::default();
    of_node.clone().for_each(|node| state += node.state);
    (of_node.clone().next().and_then(|node| node.watermark), state)
}
