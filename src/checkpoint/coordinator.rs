//! Decides when a checkpoint is taken, what it records, and when a job is over. A state machine: inputs in, effects out, no I/O.
//!
//! ```text
//!           due          all parts in            durable             committed in every sink
//!  idle ---------> aligning --------> publishing --------> complete ----------------------> may be collected
//!                  (one at a time)    (two at most)
//! ```
//! Doesn't know: threads, tokio, stores, clocks (time comes in). Keeps: checkpoint ids rise and are never used twice; manifests are handed out in
//! id order; a sink hears of an epoch only when its manifest is durable; nothing is collected that a manifest still names.
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use floodmark_pipeline::guard::{Guard, holds};
use floodmark_pipeline::ids::{CheckpointId, Epoch, Incarnation, NodeId, PartitionIndex, PartitionName, WorkerId};
use floodmark_pipeline::invariants::{Cut, Violation, cut_follows};
use floodmark_pipeline::plan::Plan;

use super::book::{SinkBook, waiting_bytes};
use super::cut::{self, CutPositions, NodesAtCut};
use super::manifest::{Manifest, NodeRecord, SinkRecord};
use super::partitions::{CutDecisions, Found, Partitions};
use crate::config::model::Fingerprint;
use crate::runtime::counters::NodeCounters;
use crate::runtime::part::{FromWorker, Leaving, Part, ToWorker, WorkerError};
use crate::sink::PendingEpoch;

/// Checkpoints whose manifests may be on their way at once.
const MAX_PUBLISHING: usize = 2;

/// What doesn't change during a run.
#[derive(Clone, Debug)]
pub struct Terms {
    pub plan: Arc<Plan>,
    pub fingerprints: BTreeMap<String, Fingerprint>,
    pub settings: BTreeMap<String, String>,
    pub incarnation: Incarnation,
    pub workers: u16,
    pub interval_ms: u64,
    pub outbox_bytes: u64,
    pub restored_from: Option<String>,
}

/// Something that happened.
#[derive(Debug)]
pub enum Input {
    /// Time goes on; comes several times an interval.
    Tick,
    Worker(FromWorker),
    /// The manifest of this checkpoint is durable.
    Published(CheckpointId, String),
    /// A sink holds everything up to this epoch.
    Committed(NodeId, Epoch),
    /// Partitions that a source has and the table may not know.
    Discovered(Vec<Found>),
    /// An idle or ended partition has something to read again.
    CameBack(PartitionIndex, Option<i64>),
    /// A partition has been quiet at the log's end for as long as the pipeline file asks.
    Quiet(PartitionIndex),
    /// Last checkpoint, all commits, then the end. With `drain` all windows fire at it.
    Stop {
        drain: bool,
    },
    /// A checkpoint under a name.
    Savepoint(String),
}

/// Something to be done.
#[derive(Debug)]
pub enum Effect {
    /// The table of partitions, whole.
    Names(Vec<PartitionName>),
    Worker(WorkerId, ToWorker),
    AllWorkers(ToWorker),
    Publish(Box<Publication>),
    /// Hand a durable epoch to a sink's committer.
    Epoch(NodeId, PendingEpoch),
    /// No epoch will follow: commit what there is without waiting for the interval.
    CommitNow,
    Finished,
    Failed(JobError),
}

/// A manifest without its state files, and all that must be durable before it.
#[derive(Debug)]
pub struct Publication {
    pub manifest: Manifest,
    pub segments: Vec<cut::SegmentObject>,
    /// One for each worker; none where the state is still that of the manifest before.
    pub state: Vec<(WorkerId, floodmark_state::Snapshot)>,
    /// The first checkpoint with rows that some sink still waits for, this one included.
    pub oldest_waiting: Option<CheckpointId>,
    pub savepoint: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum JobError {
    #[error(transparent)]
    Worker(WorkerError),
    #[error("{0}\n  this is a bug in floodmark: the job stops before anything more is committed")]
    Violated(Violation),
}

impl From<Violation> for JobError {
    fn from(violation: Violation) -> Self {
        Self::Violated(violation.counted())
    }
}

/// What a run begins with: from a manifest, or nothing.
#[derive(Clone, Debug)]
pub struct Beginning {
    pub partitions: Partitions,
    /// Counters to go on from, in the order of the plan.
    pub counters: Vec<NodeCounters>,
    /// Every id used so far is at most this.
    pub last_id: CheckpointId,
    pub sinks: BTreeMap<NodeId, SinkBook>,
    /// What the restored manifest says of the nodes.
    pub nodes: NodesAtCut,
    pub state_digest: u128,
}

pub struct Coordinator {
    terms: Terms,
    partitions: Partitions,
    since: Vec<NodeCounters>,
    sinks: BTreeMap<NodeId, SinkBook>,
    state_digest: u128,
    /// Bytes of memory that the workers' keyed state held at the last cut.
    state_memory: u64,
    last_id: CheckpointId,
    aligning: Option<Aligning>,
    publishing: VecDeque<CheckpointId>,
    last_barrier_ms: u64,
    barrier_wanted: bool,
    savepoint: Option<String>,
    /// Bytes of segments by checkpoint, for the outbox's limit.
    segment_bytes: BTreeMap<CheckpointId, u64>,
    paused: bool,
    ending: Option<Ending>,
    /// A sink holds more than the last manifest says.
    unrecorded: bool,
    /// The last cut that is durable or on its way.
    nodes: NodesAtCut,
    /// The same as its manifest has it.
    last_cut: Option<Cut>,
}

struct Aligning {
    id: CheckpointId,
    parts: Vec<Part>,
    decisions: CutDecisions,
    savepoint: Option<String>,
}

/// How far a job's end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ending {
    drain: bool,
    /// The last checkpoint, once its barrier is on its way.
    last: Option<CheckpointId>,
}

impl Coordinator {
    pub fn new(terms: Terms, beginning: Beginning, now_ms: u64) -> Self {
        let Beginning { partitions, counters, last_id, sinks, nodes, state_digest } = beginning;
        Self {
            terms,
            // What joins or comes back at the start is read behind a barrier, and need not wait for an interval to pass.
            barrier_wanted: partitions.waits_for_barrier(),
            segment_bytes: waiting_bytes(&sinks),
            partitions,
            since: counters,
            sinks,
            state_digest,
            state_memory: 0,
            last_id,
            aligning: None,
            publishing: VecDeque::new(),
            last_barrier_ms: now_ms,
            savepoint: None,
            paused: false,
            ending: None,
            unrecorded: false,
            nodes,
            last_cut: None,
        }
    }

    pub fn partitions(&self) -> &Partitions {
        &self.partitions
    }

    pub fn nodes(&self) -> &NodesAtCut {
        &self.nodes
    }

    pub fn state_memory(&self) -> u64 {
        self.state_memory
    }

    pub fn sinks(&self) -> &BTreeMap<NodeId, SinkBook> {
        &self.sinks
    }

    /// The restored cut as a manifest of our own: durable before the first record is read, it carries start positions and what sinks wait for.
    /// Its state files are those that were restored.
    pub fn first_manifest(&mut self, now_ms: i64) -> Manifest {
        self.last_id = self.last_id.next();
        let manifest = Manifest { created_ms: now_ms, ..self.manifest(self.last_id, self.state_digest) };
        self.last_cut = Some(manifest.cut());
        manifest
    }

    /// First effects of a run: the table, and who reads what.
    pub fn begin(&mut self) -> Vec<Effect> {
        let mut effects = vec![Effect::Names(self.partitions.names())];
        let all = (0..self.partitions.table.len() as u32).map(PartitionIndex);
        effects.extend(all.filter_map(|p| self.admit(p)));
        if self.partitions.all_ended() {
            self.ending = Some(Ending { drain: false, last: Some(self.last_id) });
            effects.push(Effect::CommitNow);
        }
        effects.extend(self.finish());
        effects
    }

    pub fn step(&mut self, now_ms: u64, input: Input) -> Vec<Effect> {
        let mut effects = vec![];
        match input {
            Input::Tick => {}
            Input::Worker(FromWorker::Part(part)) => match self.take_part(*part) {
                Ok(more) => effects.extend(more),
                Err(error) => return vec![Effect::Failed(error)],
            },
            Input::Worker(FromWorker::Exhausted(partition)) => {
                self.partitions.leave(Leaving { partition, ended: true });
            }
            Input::Worker(FromWorker::Trouble { .. }) => {}
            Input::Worker(FromWorker::OutboxFull) => self.barrier_wanted = true,
            Input::Worker(FromWorker::Failed { error, .. }) => return vec![Effect::Failed(JobError::Worker(error))],
            Input::Published(id, _) => effects.extend(self.published(id)),
            Input::Committed(sink, epoch) => self.committed(sink, epoch),
            Input::Discovered(found) => found.into_iter().for_each(|f| self.partitions.join(f)),
            Input::CameBack(partition, end) => self.partitions.come_back(partition, end),
            Input::Quiet(partition) => self.partitions.leave(Leaving { partition, ended: false }),
            Input::Stop { drain } => effects.extend(self.stop(drain)),
            Input::Savepoint(name) => self.savepoint = Some(name),
        }
        effects.extend(self.pause_or_resume());
        effects.extend(self.barrier_if_due(now_ms));
        effects.extend(self.finish());
        effects
    }

    fn stop(&mut self, drain: bool) -> Option<Effect> {
        if self.ending.is_some() {
            return None;
        }
        self.ending = Some(Ending { drain, last: None });
        Some(Effect::AllWorkers(ToWorker::Pause(true)))
    }

    /// Waiting segments over the limit pause the sources, and only them: barriers pass, and what fires is taken.
    fn pause_or_resume(&mut self) -> Option<Effect> {
        let over = self.outbox_bytes() > self.terms.outbox_bytes;
        if over == self.paused || self.ending.is_some() {
            return None;
        }
        self.paused = over;
        Some(Effect::AllWorkers(ToWorker::Pause(over)))
    }

    pub fn outbox_bytes(&self) -> u64 {
        self.segment_bytes.values().sum()
    }

    pub fn sources_paused(&self) -> bool {
        self.paused
    }

    /// The last checkpoint of a job that stops is durable: only sinks are waited for.
    pub fn waits_only_for_sinks(&self) -> bool {
        let last = self.ending.and_then(|ending| ending.last);
        last.is_some_and(|last| self.aligning.is_none() && self.publishing.iter().all(|id| *id > last))
    }

    fn barrier_if_due(&mut self, now_ms: u64) -> Vec<Effect> {
        if self.aligning.is_some() || self.publishing.len() >= MAX_PUBLISHING {
            return vec![];
        }
        let ending = self.ending.is_some_and(|e| e.last.is_none());
        let over = self.ending.is_none() && self.partitions.all_leaving();
        let due = now_ms >= self.last_barrier_ms + self.terms.interval_ms;
        let done = self.ending.is_some_and(|e| e.last.is_some());
        if done || !(ending || over || due || self.barrier_wanted || self.savepoint.is_some()) {
            return vec![];
        }
        self.last_id = self.last_id.next();
        let (id, decisions) = (self.last_id, self.partitions.begin_cut());
        if over && self.ending.is_none() {
            self.ending = Some(Ending { drain: false, last: None });
        }
        if let Some(ending) = &mut self.ending {
            ending.last = Some(id);
        }
        let drain = self.ending.is_some_and(|e| e.drain);
        let needed = cut::needed_or_all(&self.terms.plan, &self.nodes);
        let barrier = ToWorker::Barrier { checkpoint: id, leaving: decisions.leaving.clone(), drain, needed };
        self.last_barrier_ms = now_ms;
        self.barrier_wanted = false;
        let savepoint = self.savepoint.take();
        self.aligning = Some(Aligning { id, parts: vec![], decisions, savepoint });
        vec![Effect::AllWorkers(barrier)]
    }

    fn take_part(&mut self, part: Part) -> Result<Vec<Effect>, JobError> {
        let Some(aligning) = &mut self.aligning else { return Ok(vec![]) };
        if part.checkpoint != aligning.id {
            return Ok(vec![]);
        }
        aligning.parts.push(part);
        if aligning.parts.len() < usize::from(self.terms.workers) {
            return Ok(vec![]);
        }
        match self.aligning.take() {
            Some(aligned) => self.complete_cut(aligned),
            None => Ok(vec![]),
        }
    }

    fn complete_cut(&mut self, aligned: Aligning) -> Result<Vec<Effect>, JobError> {
        let Aligning { id, mut parts, decisions, savepoint } = aligned;
        parts.sort_by_key(|p| p.worker);
        self.state_memory = parts.iter().map(|p| p.state_memory).sum();
        self.nodes = cut::nodes_at_cut(&self.terms.plan, &parts, &self.since)?;
        let read = parts.iter_mut().flat_map(|p| std::mem::take(&mut p.partitions)).collect::<Vec<_>>();
        let joined = !decisions.joining.is_empty();
        let admitted = self.partitions.finish_cut(id, read, decisions);
        let mut effects = vec![];
        if joined {
            effects.push(Effect::Names(self.partitions.names()));
        }
        let floors = self.terms.plan.ids().zip(&self.nodes.fired_floors);
        let floors: Vec<_> = floors.filter_map(|(id, floor)| Some((id, (*floor)?))).collect();
        if !floors.is_empty() {
            effects.push(Effect::AllWorkers(ToWorker::FiredFloors(floors)));
        }
        effects.extend(admitted.into_iter().map(|a| self.to_owner(a)));
        effects.push(Effect::Publish(Box::new(self.publication(id, parts, savepoint)?)));
        if !holds(Guard::ManifestFirst) {
            effects.extend(self.epochs_of(id));
        }
        self.publishing.push_back(id);
        Ok(effects)
    }

    fn publication(
        &mut self,
        id: CheckpointId,
        mut parts: Vec<Part>,
        savepoint: Option<String>,
    ) -> Result<Publication, Violation> {
        let epoch = Epoch { incarnation: self.terms.incarnation, checkpoint: id };
        let mut refs = BTreeMap::new();
        let segments: Vec<_> = parts.iter_mut().filter_map(|p| cut::pack_segments(epoch, p, &mut refs)).collect();
        self.segment_bytes.insert(id, segments.iter().map(cut::SegmentObject::length).sum());
        let plan = self.terms.plan.clone();
        let needed = cut::needed(&plan, &self.nodes);
        let replay_from = cut::replay_points(&mut self.partitions.table, needed, cut::slice_width(&plan));
        let offsets = self.partitions.table.iter().map(|p| (p.name.clone(), p.position.offset));
        let at = CutPositions { offsets: Arc::new(offsets.collect()), replay_from };
        for (sink, book) in &mut self.sinks {
            let segments = refs.remove(sink).unwrap_or_default();
            let commit_id = cut::commit_id(epoch, *sink);
            book.epochs.push_back(cut::pending_epoch(&plan, *sink, epoch, commit_id, segments, &at, &self.nodes));
        }
        self.unrecorded = false;
        let digest = parts.iter().fold(0u128, |sum, p| sum.wrapping_add(p.state.digest.sum));
        let manifest = self.manifest(id, digest);
        let now = manifest.cut();
        let then = self.last_cut.replace(now.clone());
        then.map_or(Ok(()), |then| cut_follows(&then, &now, false))?;
        let state = parts.into_iter().map(|p| (p.worker, p.state)).collect();
        Ok(Publication { manifest, segments, state, oldest_waiting: self.oldest_waiting(), savepoint })
    }

    /// The manifest of what is known now; state files are added when they have been taken over.
    pub fn manifest(&self, checkpoint: CheckpointId, state_digest: u128) -> Manifest {
        let plan = &self.terms.plan;
        let record = |(sink, book): (&NodeId, &SinkBook)| SinkRecord {
            name: plan.node(*sink).name.clone(),
            base: book.base,
            epochs: book.epochs.iter().cloned().collect(),
            definition: book.definition.clone(),
        };
        Manifest {
            pipeline: plan.pipeline.clone(),
            incarnation: self.terms.incarnation,
            checkpoint,
            created_ms: 0,
            max_parallelism: plan.max_parallelism,
            partitions: self.partitions.table.clone(),
            nodes: self.node_records(),
            state: vec![],
            state_digest,
            sinks: self.sinks.iter().map(record).collect(),
            decisions: self.partitions.decisions.clone(),
            settings: self.terms.settings.clone(),
            restored_from: self.terms.restored_from.clone(),
        }
    }

    /// A source's own watermark stands with its node.
    fn node_records(&self) -> Vec<NodeRecord> {
        let mut records = cut::node_records(&self.terms.plan, &self.terms.fingerprints, &self.nodes);
        for id in self.terms.plan.ids() {
            if let Some(watermark) = self.partitions.watermark_of(id) {
                records[usize::from(id.0)].watermark = Some(watermark);
            }
        }
        records
    }

    fn published(&mut self, id: CheckpointId) -> Vec<Effect> {
        self.publishing.retain(|p| *p != id);
        let mut effects = if holds(Guard::ManifestFirst) { self.epochs_of(id) } else { vec![] };
        effects.push(Effect::AllWorkers(ToWorker::Release(id)));
        if self.ending.is_some_and(|e| e.last == Some(id)) {
            effects.push(Effect::CommitNow);
        }
        effects
    }

    fn epochs_of(&self, id: CheckpointId) -> Vec<Effect> {
        let epoch = Epoch { incarnation: self.terms.incarnation, checkpoint: id };
        let of_sink = |(sink, book): (&NodeId, &SinkBook)| {
            book.epochs.iter().find(|e| e.epoch == epoch).map(|e| Effect::Epoch(*sink, e.clone()))
        };
        self.sinks.iter().filter_map(of_sink).collect()
    }

    fn committed(&mut self, sink: NodeId, epoch: Epoch) {
        if let Some(book) = self.sinks.get_mut(&sink)
            && let Some(at) = book.epochs.iter().position(|e| e.epoch == epoch)
        {
            book.epochs.drain(..=at);
            book.base = Some(epoch);
            self.unrecorded = true;
        }
        match self.oldest_waiting() {
            Some(first) => self.segment_bytes = self.segment_bytes.split_off(&first),
            None => self.segment_bytes.clear(),
        }
    }

    /// An epoch without rows waits for nothing.
    fn oldest_waiting(&self) -> Option<CheckpointId> {
        let first = |book: &SinkBook| book.epochs.iter().find(|e| e.rows() > 0).map(|e| e.epoch.checkpoint);
        self.sinks.values().filter_map(first).min()
    }

    /// The end, once all is durable and committed. One more manifest comes before it, which says so: a sink that keeps no mark (standard output)
    /// would get its last epochs again.
    fn finish(&mut self) -> Option<Effect> {
        self.ending?.last?;
        let durable = self.aligning.is_none() && self.publishing.is_empty();
        let committed = self.sinks.values().all(|book| book.epochs.is_empty());
        if !(durable && committed) {
            return None;
        }
        if !std::mem::take(&mut self.unrecorded) {
            return Some(Effect::Finished);
        }
        self.last_id = self.last_id.next();
        self.publishing.push_back(self.last_id);
        let manifest = self.manifest(self.last_id, self.state_digest);
        let (segments, state) = (vec![], vec![]);
        Some(Effect::Publish(Box::new(Publication {
            manifest,
            segments,
            state,
            oldest_waiting: None,
            savepoint: None,
        })))
    }

    fn admit(&self, partition: PartitionIndex) -> Option<Effect> {
        self.partitions.admission(partition).map(|a| self.to_owner(a))
    }

    fn to_owner(&self, admission: crate::runtime::part::Admission) -> Effect {
        let owner = WorkerId((admission.partition.0 % u32::from(self.terms.workers)) as u16);
        Effect::Worker(owner, ToWorker::Admit(Box::new(admission)))
    }
}

#[cfg(test)]
mod tests;
