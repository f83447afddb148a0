//! A keyed operator on one worker: takes rows, aligns barriers, and at the cut sets its watermark, fires and expires.
//!
//! Barriers of checkpoint N hold back only the queue they came by; when the last has come, the node is at its cut. It then has every partition's
//! watermark as of the cut, so that what it fires depends on positions alone. Doesn't know: which worker it is on, where rows go.
//! Keeps: the node's watermark never goes back; state at the cut holds exactly the rows before the barrier.
use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use floodmark_pipeline::dedup::{Rule, Verdict, judge};
use floodmark_pipeline::guard::{Guard, holds};
use floodmark_pipeline::hash::KeyHash;
use floodmark_pipeline::ids::{NodeId, PartitionIndex, PartitionName};
use floodmark_pipeline::late::{LateRow, duplicates_batch, late_batch};
use floodmark_pipeline::plan::{NodeKind, OutputId, Plan};
use floodmark_pipeline::rows::Rows;
use floodmark_pipeline::schema::Schema;
use floodmark_pipeline::state::{Seen, SeenIds};
use floodmark_pipeline::time::EventTime;
use floodmark_pipeline::watermark::node_watermark;
use floodmark_pipeline::window::{Change, Fired, WindowState};
use floodmark_state::KeyedState;

use super::counters::NodeCounters;
use super::element::{CheckpointBarrier, PartitionAtCut, Watermark};
use super::part::{NodePart, WorkerError};

pub struct OperatorTask {
    pub node: NodeId,
    name: String,
    input: Schema,
    max_parallelism: u16,
    kind: Kind,
    /// It is past a barrier that the worker's other nodes haven't all passed: what it does now would belong to the next checkpoint.
    waits: bool,
    /// One for each (edge, sender): the barrier has come by it.
    aligned: Vec<bool>,
    gathered: BTreeMap<PartitionIndex, PartitionAtCut>,
    watermark: Option<EventTime>,
    counters: NodeCounters,
}

enum Kind {
    Dedup(Rule),
    Window(Box<WindowState>),
}

/// Rows that leave an operator.
#[derive(Debug)]
pub enum Emitted {
    /// Of the main output of a dedup: source records with their side columns.
    Rows(Rows),
    /// Of any other output.
    Batch(OutputId, RecordBatch),
}

impl OperatorTask {
    /// `queues` is the number of (edge, sender) pairs it reads.
    pub fn new(plan: &Plan, node: NodeId, late_by_event: bool, queues: usize) -> Option<Self> {
        let input = plan.input_schema(node)?.clone();
        let kind = match &plan.node(node).kind {
            NodeKind::Dedup(dedup) => Kind::Dedup(Rule::of(dedup)),
            NodeKind::Window(window) => {
                Kind::Window(Box::new(WindowState::new(window.clone(), input.clone(), late_by_event)))
            }
            NodeKind::Source(_) | NodeKind::Sink => return None,
        };
        Some(Self {
            node,
            name: plan.node(node).name.clone(),
            input,
            max_parallelism: plan.max_parallelism,
            kind,
            waits: false,
            aligned: vec![false; queues],
            gathered: BTreeMap::new(),
            watermark: None,
            counters: NodeCounters::default(),
        })
    }

    /// Whether the queue may be read: its barrier hasn't come yet.
    pub fn reads(&self, queue: usize) -> bool {
        !self.waits && !self.aligned[queue]
    }

    /// The worker's part of the checkpoint is taken: rows behind the barrier may come.
    pub fn resume(&mut self) {
        self.waits = false;
    }

    pub fn process(
        &mut self,
        rows: Rows,
        names: &[PartitionName],
        store: &mut KeyedState,
    ) -> Result<Vec<Emitted>, WorkerError> {
        self.counters.records_in += rows.len() as u64;
        match &mut self.kind {
            Kind::Dedup(rule) => {
                let rule = *rule;
                let judged = store.dedup(self.node).and_then(|mut seen| judge(rule, &rows, &mut seen));
                let verdicts = judged.map_err(|error| self.state_error(error))?;
                self.split(rows, &verdicts, names)
            }
            Kind::Window(state) => {
                let assigned = state.assign(&rows);
                self.counters.counted += assigned.counted;
                self.counters.late += assigned.late.len() as u64;
                self.counters.windows += assigned.windows;
                let newest = || rows.side().watermark.iter().copied().max();
                let newest = if holds(Guard::FireAtCut) { None } else { newest() };
                let fired = newest.map_or_else(Fired::default, |watermark| state.fire(EventTime(watermark)));
                let mut emitted = self.emit_fired(fired)?;
                if !assigned.late.is_empty() {
                    let late = late_batch(&self.input, &rows, &assigned.late, &self.name, names);
                    let late = late.map_err(|error| self.rows_error(error))?;
                    emitted.push(Emitted::Batch(OutputId::WINDOW_LATE, late));
                }
                Ok(emitted)
            }
        }
    }

    /// Takes a barrier that came by `queue`. True when it was the last one: the node is at its cut.
    pub fn barrier(&mut self, queue: usize, barrier: &CheckpointBarrier) -> bool {
        self.aligned[queue] = true;
        self.gathered.extend(barrier.partitions.iter().map(|p| (p.partition, *p)));
        self.aligned.iter().all(|a| *a)
    }

    /// The cut: watermark, firing, expiry, and state handed to the store. Returns what fired, and the partitions for the barrier that goes on.
    pub fn cut(
        &mut self,
        drain: bool,
        store: &mut KeyedState,
    ) -> Result<(Vec<Emitted>, Arc<Vec<PartitionAtCut>>), WorkerError> {
        self.aligned.fill(false);
        self.waits = true;
        let partitions: Vec<_> = std::mem::take(&mut self.gathered).into_values().collect();
        let live = partitions.iter().filter_map(|p| match p.watermark {
            Some(Watermark::Idle) => None,
            Some(Watermark::EventTime(t)) => Some(Some(t)),
            None => Some(None),
        });
        self.watermark = node_watermark(self.watermark, live, partitions.iter().map(|p| p.going));
        let over = drain || (!partitions.is_empty() && partitions.iter().all(|p| p.ended));
        let emitted = match &mut self.kind {
            Kind::Dedup(rule) => {
                if let Some(last) = self.watermark.map(|w| rule.expired_through(w)) {
                    let expired = store.dedup(self.node).and_then(|mut seen| seen.expire(last));
                    expired.map_err(|error| self.state_error(error))?;
                }
                vec![]
            }
            Kind::Window(state) => {
                let fired = match self.watermark {
                    _ if over => state.drain(),
                    Some(watermark) => state.fire(watermark),
                    None => Fired::default(),
                };
                let emitted = self.emit_fired(fired)?;
                self.write_changes(store)?;
                emitted
            }
        };
        Ok((emitted, Arc::new(partitions)))
    }

    pub fn part(&self) -> NodePart {
        let (fired_floor, oldest) = match &self.kind {
            Kind::Dedup(_) => (None, None),
            Kind::Window(state) => (state.fired_floor(), state.oldest()),
        };
        NodePart { watermark: self.watermark, fired_floor, counters: self.counters, oldest, ..NodePart::default() }
    }

    /// Installs what a manifest says of the node, and its open windows. Called before the first record.
    pub fn restore(
        &mut self,
        watermark: Option<EventTime>,
        fired_floor: Option<EventTime>,
        store: &mut KeyedState,
    ) -> Result<(), WorkerError> {
        self.watermark = watermark;
        let Kind::Window(state) = &mut self.kind else { return Ok(()) };
        state.set_fired_floor(fired_floor);
        let mut damaged = None;
        let scanned = store.scan(self.node, 0..self.max_parallelism, |key, value| {
            if let Err(error) = state.load(key, value) {
                damaged = Some(error);
            }
        });
        scanned.map_err(|error| WorkerError::State { node: self.name.clone(), error })?;
        match damaged {
            Some(error) => Err(WorkerError::Damaged { node: self.name.clone(), error }),
            None => Ok(()),
        }
    }

    pub fn raise_fired_floor(&mut self, floor: EventTime) {
        if let Kind::Window(state) = &mut self.kind {
            state.set_fired_floor(state.fired_floor().max(Some(floor)));
        }
    }

    /// First copies go on; duplicates and what can't be judged leave by their outputs.
    fn split(
        &mut self,
        rows: Rows,
        verdicts: &[Verdict],
        names: &[PartitionName],
    ) -> Result<Vec<Emitted>, WorkerError> {
        let (mut first, mut duplicates, mut late) = (Vec::with_capacity(verdicts.len()), vec![], vec![]);
        for ((number, row), verdict) in (0..).zip(rows.places()).zip(verdicts) {
            match verdict {
                Verdict::First => first.push(number),
                Verdict::Duplicate(seen) => duplicates.push((row as u32, *seen)),
                Verdict::BeyondHorizon => late.push(LateRow {
                    row: row as u32,
                    watermark: rows.side().watermark(row),
                    window: None,
                    reason: "beyond_horizon",
                }),
            }
        }
        let crossed = |d: &&(u32, Seen)| d.1.partition != rows.side().partition[d.0 as usize];
        self.counters.cross_partition_duplicates += duplicates.iter().filter(crossed).count() as u64;
        self.counters.records_out += first.len() as u64;
        self.counters.duplicates += duplicates.len() as u64;
        self.counters.late += late.len() as u64;
        let mut emitted = vec![];
        if !duplicates.is_empty() {
            let batch = duplicates_batch(&self.input, &rows, &duplicates, names);
            emitted.push(Emitted::Batch(OutputId::DEDUP_DUPLICATES, batch.map_err(|e| self.rows_error(e))?));
        }
        if !late.is_empty() {
            let batch = late_batch(&self.input, &rows, &late, &self.name, names);
            emitted.push(Emitted::Batch(OutputId::DEDUP_LATE, batch.map_err(|e| self.rows_error(e))?));
        }
        if first.len() == rows.len() {
            emitted.push(Emitted::Rows(rows));
        } else if !first.is_empty() {
            emitted.push(Emitted::Rows(rows.choose(&first)));
        }
        Ok(emitted)
    }

    fn emit_fired(&mut self, fired: Fired) -> Result<Vec<Emitted>, WorkerError> {
        let Kind::Window(state) = &self.kind else { return Ok(vec![]) };
        if fired.is_empty() {
            return Ok(vec![]);
        }
        let out = state.rows(fired, &self.name).map_err(|error| self.rows_error(error))?;
        self.counters.records_out += out.rows.num_rows() as u64;
        self.counters.errors += out.errors.as_ref().map_or(0, |e| e.num_rows() as u64);
        let errors = out.errors.map(|errors| Emitted::Batch(OutputId::WINDOW_ERRORS, errors));
        Ok([Emitted::Batch(OutputId::MAIN, out.rows)].into_iter().chain(errors).collect())
    }

    fn write_changes(&mut self, store: &mut KeyedState) -> Result<(), WorkerError> {
        let Kind::Window(state) = &mut self.kind else { return Ok(()) };
        for Change { hash, key, value } in state.changes() {
            let group = hash.key_group(self.max_parallelism);
            let written = match value {
                Some(value) => store.put(self.node, group, &key, &value),
                None => store.delete(self.node, group, &key),
            };
            written.map_err(|error| WorkerError::State { node: self.name.clone(), error })?;
        }
        Ok(())
    }

    fn state_error(&self, error: floodmark_state::StateError) -> WorkerError {
        WorkerError::State { node: self.name.clone(), error }
    }

    fn rows_error(&self, error: arrow_schema::ArrowError) -> WorkerError {
        WorkerError::Rows { node: self.name.clone(), error }
    }
}

/// Which worker gets each row, by the key group of its hash: one list of rows for each worker.
pub fn route(keys: &[KeyHash], workers: usize, max_parallelism: u16) -> Vec<Vec<u32>> {
    let mut rows = vec![Vec::with_capacity(keys.len() / workers + 16); workers];
    for (row, key) in keys.iter().enumerate() {
        let group = key.key_group(max_parallelism);
        let owner = floodmark_pipeline::hash::owner_of(group, workers as u16, max_parallelism);
        rows[usize::from(owner)].push(row as u32);
    }
    rows
}
