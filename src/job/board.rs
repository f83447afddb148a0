//! Keeps what a status needs and the coordinator doesn't know: when things happened, and how fast.
//!
//! Fed by the control loop with what it does and hears. Doesn't know: clocks (time comes in), who looks at a status.
//! Keeps: positions, counters and watermarks of one status are those of one cut. Tested: tests.rs beside it.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use floodmark_pipeline::ids::{CheckpointId, NodeId, PartitionIndex, WorkerId};
use floodmark_pipeline::invariants;
use floodmark_pipeline::mark::Mark;
use floodmark_pipeline::plan::{NodeKind, Plan};
use floodmark_pipeline::time::EventTime;

use super::watch::Watch;
use crate::checkpoint::book::SinkBook;
use crate::checkpoint::coordinator::{Coordinator, Effect, Terms};
use crate::checkpoint::manifest::{PartitionRecord, Status as Standing};
use crate::config::model::{Pipeline, SourceConnector};
use crate::file::prefix::StoredPrefix;
use crate::runtime::counters::NodeCounters;
use crate::runtime::part::ToWorker;
use crate::status::{
    CheckpointStatus, NodeStatus, OutboxStatus, PartitionState, PartitionStatus, Phase, SinkStatus, StateStatus,
    Status, Unit, notices,
};

/// A rate over less says nothing.
const RATE_OVER_MS: u64 = 100;
/// How long a rate is told after its cut, at least.
const RATE_KNOWN_FOR_MS: u64 = 5_000;

pub struct Board {
    plan: Arc<Plan>,
    /// Of this run, in every status the same.
    frame: Status,
    /// Sources that are told when a partition is idle.
    with_idle: BTreeSet<String>,
    /// Sources whose ends are sizes.
    in_bytes: BTreeSet<String>,
    phase: Phase,
    /// When the barriers of checkpoints under way were sent.
    barriers: BTreeMap<CheckpointId, u64>,
    last: Option<Complete>,
    completed: u64,
    rate: Rate,
    /// Records that were counted before this run.
    begun: u64,
    /// Why workers get nothing from a source.
    troubles: BTreeMap<(NodeId, WorkerId), String>,
    sinks: BTreeMap<NodeId, SinkSeen>,
}

struct Complete {
    id: CheckpointId,
    at_ms: u64,
    duration_ms: Option<u64>,
}

/// Records between two cuts.
#[derive(Default)]
struct Rate {
    at_ms: u64,
    read: u64,
    per_second: Option<u64>,
}

#[derive(Default)]
struct SinkSeen {
    commit_interval_ms: u64,
    committed_ms: Option<u64>,
    rows: Option<u64>,
    waiting_since_ms: Option<u64>,
    away: Option<String>,
}

impl Board {
    pub fn new(pipeline: &Pipeline, terms: &Terms, coordinator: &Coordinator, now_ms: u64) -> Self {
        let name = |id: &NodeId| pipeline.plan.node(*id).name.clone();
        let files = pipeline.sources.iter().filter(|(_, s)| matches!(s.connector, SourceConnector::File(_)));
        let seen = |(id, config): (&NodeId, &crate::config::model::SinkConfig)| {
            let commit_interval_ms = config.commit_interval.as_millis() as u64;
            (*id, SinkSeen { commit_interval_ms, ..SinkSeen::default() })
        };
        let frame = Status {
            incarnation: terms.incarnation.number,
            restored_from: terms.restored_from.clone(),
            settings: terms.settings.clone(),
            checkpoint: CheckpointStatus { interval_ms: terms.interval_ms, ..CheckpointStatus::default() },
            state: StateStatus { memory_bytes: 0, limit_bytes: pipeline.settings.memory_bytes },
            outbox: OutboxStatus { limit_bytes: terms.outbox_bytes, ..OutboxStatus::default() },
            ..Status::starting(&pipeline.plan.pipeline)
        };
        let begun = read(&terms.plan, &coordinator.nodes().counters);
        Self {
            plan: terms.plan.clone(),
            frame,
            with_idle: pipeline.sources.iter().filter(|(_, s)| s.idle.is_some()).map(|(id, _)| name(id)).collect(),
            in_bytes: files.map(|(id, _)| name(id)).collect(),
            phase: Phase::Running,
            barriers: BTreeMap::new(),
            last: None,
            completed: 0,
            rate: Rate { at_ms: now_ms, read: begun, per_second: None },
            begun,
            troubles: BTreeMap::new(),
            sinks: pipeline.sinks.iter().map(seen).collect(),
        }
    }

    /// Why a worker gets nothing from a source; `None`: it does again.
    pub fn trouble(&mut self, worker: WorkerId, node: NodeId, why: Option<String>) {
        match why {
            Some(why) => drop(self.troubles.insert((node, worker), why)),
            None => drop(self.troubles.remove(&(node, worker))),
        }
    }

    /// What the coordinator decided.
    pub fn saw(&mut self, effect: &Effect, coordinator: &Coordinator, now_ms: u64) {
        match effect {
            Effect::AllWorkers(ToWorker::Barrier { checkpoint, .. }) => drop(self.barriers.insert(*checkpoint, now_ms)),
            Effect::Publish(_) => self.rate.cut(now_ms, read(&self.plan, &coordinator.nodes().counters)),
            _ => {}
        }
    }

    pub fn published(&mut self, id: CheckpointId, now_ms: u64) {
        let begun = self.barriers.remove(&id);
        self.last = Some(Complete { id, at_ms: now_ms, duration_ms: begun.map(|at| now_ms.saturating_sub(at)) });
        self.completed += 1;
    }

    pub fn committed(&mut self, sink: NodeId, mark: &Mark, now_ms: u64) {
        let Some(seen) = self.sinks.get_mut(&sink) else { return };
        seen.committed_ms = Some(now_ms);
        seen.rows = Some(mark.digest.rows);
        seen.waiting_since_ms = None;
        seen.away = None;
    }

    /// True if it was not known.
    pub fn away(&mut self, sink: NodeId, why: &str) -> bool {
        let Some(seen) = self.sinks.get_mut(&sink) else { return false };
        seen.away.replace(why.to_owned()).as_deref() != Some(why)
    }

    /// A tag has been set, so the sink is there.
    pub fn reached(&mut self, sink: NodeId) {
        if let Some(seen) = self.sinks.get_mut(&sink) {
            seen.away = None;
        }
    }

    pub fn phase(&mut self, phase: Phase) {
        self.phase = phase;
    }

    pub fn status(&mut self, now_ms: u64, wall_ms: i64, coordinator: &Coordinator, watch: &Watch) -> Status {
        let table = &coordinator.partitions().table;
        let partitions: Vec<_> =
            (0..).map(PartitionIndex).zip(table).map(|(at, p)| self.partition(at, p, now_ms, watch)).collect();
        let mut status = Status {
            phase: self.phase,
            now_ms: wall_ms,
            uptime_ms: now_ms,
            records_read: read(&self.plan, &coordinator.nodes().counters).saturating_sub(self.begun),
            records_per_second: self.rate.now(now_ms, self.frame.checkpoint.interval_ms),
            progress: progress(table, &partitions),
            checkpoint: self.checkpoint(now_ms),
            nodes: self.plan.ids().map(|id| self.node(id, coordinator, &partitions)).collect(),
            sinks: coordinator.sinks().iter().map(|(id, book)| self.sink(*id, book, now_ms)).collect(),
            partitions,
            ..self.frame.clone()
        };
        status.invariant_violations = invariants::violations();
        status.state.memory_bytes = coordinator.state_memory();
        status.outbox.bytes = coordinator.outbox_bytes();
        status.outbox.sources_paused = coordinator.sources_paused();
        status.notices = notices::of(&status, |source| self.with_idle.contains(source));
        status
    }

    fn checkpoint(&self, now_ms: u64) -> CheckpointStatus {
        let since = |at: u64| now_ms.saturating_sub(at);
        CheckpointStatus {
            id: self.last.as_ref().map(|c| c.id.0),
            age_ms: self.last.as_ref().map(|c| since(c.at_ms)),
            duration_ms: self.last.as_ref().and_then(|c| c.duration_ms),
            under_way_ms: self.barriers.values().min().map(|at| since(*at)),
            completed: self.completed,
            interval_ms: self.frame.checkpoint.interval_ms,
        }
    }

    fn partition(&self, at: PartitionIndex, record: &PartitionRecord, now_ms: u64, watch: &Watch) -> PartitionStatus {
        let in_bytes = self.in_bytes.contains(&*record.name.source);
        let offset = record.position.offset;
        let end = record.end.or_else(|| watch.end_of(&record.name));
        let reached =
            if in_bytes { StoredPrefix::decode(&record.position.resume).map_or(0, |p| p.bytes as i64) } else { offset };
        let position = match end {
            Some(end) if record.status == Standing::Ended => end,
            // A compressed file holds more than its size.
            Some(end) if in_bytes => reached.min(end),
            _ => reached,
        };
        PartitionStatus {
            source: record.name.source.to_string(),
            name: record.name.to_string(),
            state: match record.status {
                Standing::Live => PartitionState::Live,
                Standing::Idle => PartitionState::Idle,
                Standing::Ended => PartitionState::Ended,
            },
            offset,
            position,
            end,
            unit: if in_bytes { Unit::Bytes } else { Unit::Records },
            lag: end.map(|end| (end - position).max(0)),
            watermark_ms: record.time.watermark.before_next().map(|w| w.0),
            quiet_ms: watch.quiet_since(at).map(|since| now_ms.saturating_sub(since)),
        }
    }

    fn node(&self, id: NodeId, coordinator: &Coordinator, partitions: &[PartitionStatus]) -> NodeStatus {
        let (node, cut) = (self.plan.node(id), coordinator.nodes());
        let timed =
            |source: &NodeId| matches!(&self.plan.node(*source).kind, NodeKind::Source(s) if s.event_time.is_some());
        let sources: Vec<_> = self.plan.sources_of(id).into_iter().filter(timed).collect();
        let above = |p: &&PartitionStatus| {
            p.state == PartitionState::Live && sources.iter().any(|s| self.plan.node(*s).name == p.source)
        };
        let holder = partitions.iter().filter(above).min_by_key(|p| p.watermark_ms);
        let at_cut: Option<EventTime> = cut.watermarks.get(usize::from(id.0)).copied().flatten();
        let counters = cut.counters.get(usize::from(id.0)).copied().unwrap_or_default();
        let (kind, watermark) = match &node.kind {
            NodeKind::Source(_) => ("source", coordinator.partitions().watermark_of(id)),
            NodeKind::Dedup(_) => ("dedup", at_cut),
            NodeKind::Window(_) => ("window", at_cut),
            NodeKind::Sink => ("sink", None),
        };
        NodeStatus {
            name: node.name.clone(),
            kind,
            watermark_ms: watermark.map(|w| w.0),
            has_event_time: kind != "sink" && !sources.is_empty(),
            trouble: self.troubles.iter().find(|((node, _), _)| *node == id).map(|(_, why)| why.clone()),
            held_by: holder.filter(|_| kind != "sink").map(|p| p.name.clone()),
            counters: counted(&node.kind, &counters),
            state_entries: cut.state.get(usize::from(id.0)).map_or(0, |s| s.entries),
        }
    }

    fn sink(&mut self, id: NodeId, book: &SinkBook, now_ms: u64) -> SinkStatus {
        let rows: u64 = book.epochs.iter().map(|e| e.rows()).sum();
        let seen = self.sinks.entry(id).or_default();
        seen.waiting_since_ms = (rows > 0).then(|| seen.waiting_since_ms.unwrap_or(now_ms));
        SinkStatus {
            name: self.plan.node(id).name.clone(),
            committed: book.base.map(|b| b.checkpoint.0),
            committed_age_ms: seen.committed_ms.map(|at| now_ms.saturating_sub(at)),
            rows: seen.rows,
            commit_interval_ms: seen.commit_interval_ms,
            waiting_epochs: book.epochs.len() as u64,
            waiting_rows: rows,
            waiting_bytes: book.epochs.iter().flat_map(|e| &e.segments).map(|s| s.length).sum(),
            waiting_ms: seen.waiting_since_ms.map(|at| now_ms.saturating_sub(at)),
            away: seen.away.clone(),
        }
    }
}

impl Rate {
    fn cut(&mut self, now_ms: u64, read: u64) {
        let passed_ms = now_ms.saturating_sub(self.at_ms);
        if passed_ms >= RATE_OVER_MS {
            let per_second = Some(read.saturating_sub(self.read) * 1_000 / passed_ms);
            *self = Self { at_ms: now_ms, read, per_second };
        }
    }

    /// `None` while cuts don't come: what is read since isn't known.
    fn now(&self, now_ms: u64, interval_ms: u64) -> Option<u64> {
        let known_for_ms = (3 * interval_ms).max(RATE_KNOWN_FOR_MS);
        self.per_second.filter(|_| now_ms.saturating_sub(self.at_ms) <= known_for_ms)
    }
}

fn read(plan: &Plan, counters: &[NodeCounters]) -> u64 {
    let sources = plan.ids().filter(|id| matches!(plan.node(*id).kind, NodeKind::Source(_)));
    sources.filter_map(|id| counters.get(usize::from(id.0))).map(|c| c.records_in).sum()
}

/// Only where every log has an end that is fixed.
fn progress(table: &[PartitionRecord], partitions: &[PartitionStatus]) -> Option<f64> {
    if table.is_empty() || table.iter().any(|p| p.end.is_none()) {
        return None;
    }
    let (mut done, mut all) = (0, 0);
    for (record, partition) in table.iter().zip(partitions) {
        let begin = if partition.unit == Unit::Bytes { 0 } else { record.begin };
        done += partition.position - begin;
        all += partition.end.unwrap_or(begin) - begin;
    }
    Some(if all > 0 { (done as f64 / all as f64).clamp(0.0, 1.0) } else { 1.0 })
}

/// The counters that move in a node of this kind, under the names of the sums in DESIGN.md 1.
fn counted(kind: &NodeKind, c: &NodeCounters) -> BTreeMap<&'static str, u64> {
    let list: &[(&'static str, u64)] = match kind {
        NodeKind::Source(_) => &[
            ("read", c.records_in),
            ("decoded", c.records_out),
            ("errors", c.errors),
            ("unknown_fields", c.unknown_fields),
        ],
        NodeKind::Dedup(_) => &[
            ("in", c.records_in),
            ("unique", c.records_out),
            ("duplicates", c.duplicates),
            ("cross_partition_duplicates", c.cross_partition_duplicates),
            ("late", c.late),
        ],
        NodeKind::Window(_) => &[
            ("in", c.records_in),
            ("counted", c.counted),
            ("late", c.late),
            ("fired", c.records_out),
            ("errors", c.errors),
        ],
        NodeKind::Sink => &[("in", c.records_in), ("rows", c.records_out)],
    };
    list.iter().copied().collect()
}

#[cfg(test)]
mod tests;
