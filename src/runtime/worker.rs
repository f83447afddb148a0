//! One worker: its sources, its share of every operator, its side of the outbox. A state machine that is stepped; it never waits.
//!
//! Each step serves the queue nearest the sinks first. While something is kept that didn't fit a queue, nothing is taken from upstream of it.
//! Doesn't know: threads, other workers' state, checkpoints beyond its own part. Keeps: one barrier at a time; rows before it are in the part, rows after it are not.
use std::sync::Arc;

use arrow_array::RecordBatch;
use floodmark_pipeline::ids::{CheckpointId, NodeId, WorkerId};
use floodmark_pipeline::plan::{OutputId, OutputRef};
use floodmark_pipeline::rows::Rows;
use floodmark_state::KeyedState;

use super::counters::NodeCounters;
use super::element::{CheckpointBarrier, Element, SignalMessage, TaskInfo};
use super::exchange::{Exchanges, Sender};
use super::operator::{Emitted, OperatorTask, route};
use super::outbox::{Generation, Outbox};
use super::part::{FromWorker, Leaving, NodePart, Part, PartitionPart, ToWorker, WorkerError};
use super::source_task::{Polled, SourceTask};
use super::topology::{EdgeId, Topology};
use crate::decode::errors;
use crate::source::names::PartitionNames;

/// How large a worker's part of the outbox may grow before a barrier must seal it.
const UNSEALED_LIMIT_BYTES: u64 = 128 * 1024 * 1024;

/// Whether a step found something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Busy,
    Idle,
    Stopped,
}

pub struct Worker {
    info: TaskInfo,
    topology: Arc<Topology>,
    exchanges: Arc<Exchanges>,
    sender: Sender,
    sources: Vec<SourceTask>,
    operators: Vec<Operator>,
    /// Rows sealed for each sink (in the order of the plan; other nodes' places stay 0).
    into_sinks: Vec<u64>,
    /// Barriers passed, by node.
    generations: Vec<Generation>,
    outbox: Outbox,
    store: KeyedState,
    names: PartitionNames,
    batch_rows: usize,
    paused: bool,
    asked_for_barrier: bool,
    /// The checkpoint whose barrier is under way on this worker.
    building: Option<Building>,
    next_source: usize,
    reports: Vec<FromWorker>,
    stopped: bool,
}

/// What a worker works on, and with.
pub struct Duties {
    pub sources: Vec<SourceTask>,
    pub operators: Vec<OperatorTask>,
    pub store: KeyedState,
    pub names: PartitionNames,
    /// Most records of one poll.
    pub batch_rows: usize,
}

/// An operator and the queues that lead into it.
struct Operator {
    task: OperatorTask,
    /// (edge, sender), in the order in which the task numbers them.
    queues: Vec<(EdgeId, usize)>,
    next: usize,
}

struct Building {
    checkpoint: CheckpointId,
    partitions: Vec<PartitionPart>,
    nodes: Vec<NodePart>,
    /// Nodes (sources and operators) that haven't passed the barrier.
    open: usize,
}

impl Worker {
    pub fn new(info: TaskInfo, topology: Arc<Topology>, exchanges: Arc<Exchanges>, duties: Duties) -> Self {
        let Duties { sources, operators: tasks, store, names, batch_rows } = duties;
        let senders = usize::from(info.workers);
        let queues = |node| topology.edges_into(node).flat_map(|e| (0..senders).map(move |s| (e, s))).collect();
        let operators = tasks.into_iter().map(|task| Operator { queues: queues(task.node), task, next: 0 }).collect();
        let nodes = topology.plan.nodes.len();
        Self {
            info,
            sender: Sender::new(info.worker, topology.edges.len(), exchanges.clone()),
            topology,
            exchanges,
            sources,
            operators,
            into_sinks: vec![0; nodes],
            generations: vec![Generation::default(); nodes],
            outbox: Outbox::default(),
            store,
            names,
            batch_rows,
            paused: false,
            asked_for_barrier: false,
            building: None,
            next_source: 0,
            reports: vec![],
            stopped: false,
        }
    }

    pub fn id(&self) -> WorkerId {
        self.info.worker
    }

    /// What it has to tell, in order.
    pub fn reports(&mut self) -> std::vec::Drain<'_, FromWorker> {
        self.reports.drain(..)
    }

    pub fn command(&mut self, command: ToWorker) -> Result<(), WorkerError> {
        match command {
            ToWorker::Barrier { checkpoint, leaving, drain, needed } => {
                self.sources.iter_mut().for_each(|s| s.forget_before(needed));
                self.start_barrier(checkpoint, &leaving, drain)?;
            }
            ToWorker::Admit(admission) => {
                let source = admission.source;
                let task = self.sources.iter_mut().find(|s| s.node() == source);
                if let Some(task) = task {
                    task.admit(*admission).map_err(|error| self.source_error(source, error))?;
                }
            }
            ToWorker::FiredFloors(floors) => {
                for (node, floor) in floors {
                    let operator = self.operators.iter_mut().find(|o| o.task.node == node);
                    operator.into_iter().for_each(|o| o.task.raise_fired_floor(floor));
                }
            }
            ToWorker::Pause(paused) => self.paused = paused,
            ToWorker::Release(checkpoint) => {
                let released = self.store.release(checkpoint);
                released.map_err(|error| WorkerError::State { node: "checkpoint".into(), error })?;
            }
            ToWorker::Stop => self.stopped = true,
        }
        Ok(())
    }

    pub fn step(&mut self) -> Result<Step, WorkerError> {
        if self.stopped {
            return Ok(Step::Stopped);
        }
        // While an edge is kept, its producer and what lies upstream of it takes nothing.
        let kept = self.sender.flush().map(|edge| self.topology.edge(edge).from.node);
        for place in (0..self.operators.len()).rev() {
            if kept.is_some_and(|node| self.operators[place].task.node <= node) {
                return Ok(Step::Idle);
            }
            if self.serve(place)? {
                return Ok(Step::Busy);
            }
        }
        if kept.is_some() || self.paused || self.outbox_full() {
            return Ok(Step::Idle);
        }
        self.poll_sources()
    }

    /// Takes one element for an operator, if one of its queues has any.
    fn serve(&mut self, place: usize) -> Result<bool, WorkerError> {
        let operator = &mut self.operators[place];
        let n = operator.queues.len();
        for step in 0..n {
            let queue = (operator.next + step) % n;
            if !operator.task.reads(queue) {
                continue;
            }
            let (edge, sender) = operator.queues[queue];
            let Some(element) = self.exchanges.pop(edge, sender, self.info.worker) else { continue };
            operator.next = (queue + 1) % n;
            match element {
                Element::Rows(rows) => {
                    let emitted = operator.task.process(rows, &self.names.read(), &mut self.store)?;
                    let node = operator.task.node;
                    self.emit(node, emitted)?;
                }
                Element::Signal(SignalMessage::Barrier(barrier)) => {
                    if operator.task.barrier(queue, &barrier) {
                        self.cut_operator(place, &barrier)?;
                    }
                }
            }
            return Ok(true);
        }
        Ok(false)
    }

    fn cut_operator(&mut self, place: usize, barrier: &CheckpointBarrier) -> Result<(), WorkerError> {
        let operator = &mut self.operators[place];
        let node = operator.task.node;
        let (emitted, partitions) = operator.task.cut(barrier.drain, &mut self.store)?;
        let part = operator.task.part();
        self.emit(node, emitted)?;
        self.pass(node, part, &CheckpointBarrier { partitions, ..barrier.clone() })
    }

    fn start_barrier(&mut self, checkpoint: CheckpointId, leaving: &[Leaving], drain: bool) -> Result<(), WorkerError> {
        let nodes = vec![NodePart::default(); self.topology.plan.nodes.len()];
        let open = self.sources.len() + self.operators.len();
        self.building = Some(Building { checkpoint, partitions: vec![], nodes, open });
        for place in 0..self.sources.len() {
            let node = self.sources[place].node();
            let cut = self.sources[place].cut(leaving);
            let (at_cut, partitions) = cut.map_err(|error| self.source_error(node, error))?;
            let counters = self.sources[place].counters;
            if let Some(building) = &mut self.building {
                building.partitions.extend(partitions);
            }
            let barrier = CheckpointBarrier { checkpoint, drain, partitions: Arc::new(at_cut) };
            self.pass(node, NodePart { counters, ..NodePart::default() }, &barrier)?;
        }
        Ok(())
    }

    /// A node has passed the barrier: it goes on behind the node's rows, and the checkpoint is complete here once all nodes have.
    fn pass(&mut self, node: NodeId, part: NodePart, barrier: &CheckpointBarrier) -> Result<(), WorkerError> {
        for edge in self.topology.clone().edges_out_of(node) {
            for receiver in 0..self.sender.receivers() {
                self.sender.send(edge, receiver, Element::Signal(SignalMessage::Barrier(barrier.clone())));
            }
        }
        let place = usize::from(node.0);
        self.generations[place] = self.generations[place].next();
        let Some(building) = &mut self.building else { return Ok(()) };
        building.nodes[place] = part;
        building.open -= 1;
        if building.open == 0 { self.finish_part() } else { Ok(()) }
    }

    fn finish_part(&mut self) -> Result<(), WorkerError> {
        let Some(mut building) = self.building.take() else { return Ok(()) };
        let generation = Generation(self.generations.iter().map(|g| g.0).max().unwrap_or(1) - 1);
        let segments = self.outbox.seal(generation).map_err(|error| rows_error("outbox", error))?;
        for segment in &segments {
            self.into_sinks[usize::from(segment.sink.0)] += segment.rows;
        }
        for sink in self.topology.sinks() {
            let rows = self.into_sinks[usize::from(sink.0)];
            let counters = NodeCounters { records_in: rows, records_out: rows, ..NodeCounters::default() };
            building.nodes[usize::from(sink.0)] = NodePart { counters, ..NodePart::default() };
        }
        let state = self.store.snapshot(building.checkpoint);
        let state = state.map_err(|error| WorkerError::State { node: "checkpoint".into(), error })?;
        let memory = self.store.memory_used();
        let state_memory = memory.map_err(|error| WorkerError::State { node: "checkpoint".into(), error })?;
        for (node, digest) in self.store.digests() {
            building.nodes[usize::from(node.0)].state = digest;
        }
        self.asked_for_barrier = false;
        self.operators.iter_mut().for_each(|o| o.task.resume());
        let Building { checkpoint, partitions, nodes, .. } = building;
        let part = Part { worker: self.info.worker, checkpoint, partitions, nodes, segments, state, state_memory };
        self.reports.push(FromWorker::Part(Box::new(part)));
        Ok(())
    }

    fn poll_sources(&mut self) -> Result<Step, WorkerError> {
        for _ in 0..self.sources.len() {
            let place = self.next_source % self.sources.len();
            self.next_source += 1;
            let source = &mut self.sources[place];
            let node = source.node();
            let polled = source.poll(self.batch_rows);
            let exhausted = source.exhausted();
            self.reports.extend(exhausted.into_iter().map(FromWorker::Exhausted));
            let polled = polled.map_err(|error| self.source_error(node, error))?;
            let trouble = self.sources[place].news_of_trouble(polled.read);
            self.reports.extend(trouble.map(|why| FromWorker::Trouble { worker: self.info.worker, node, why }));
            if polled.read > 0 {
                self.emit_polled(node, polled)?;
                return Ok(Step::Busy);
            }
        }
        Ok(Step::Idle)
    }

    fn emit_polled(&mut self, node: NodeId, polled: Polled) -> Result<(), WorkerError> {
        for rows in polled.rows {
            self.emit_rows(OutputRef { node, output: OutputId::MAIN }, &rows)?;
        }
        if !polled.errors.is_empty() {
            let errors = errors::rows(&polled.errors, &self.names).map_err(|error| rows_error("errors", error))?;
            self.emit_batch(OutputRef { node, output: OutputId::SOURCE_ERRORS }, &errors)?;
        }
        Ok(())
    }

    fn emit(&mut self, node: NodeId, emitted: Vec<Emitted>) -> Result<(), WorkerError> {
        for emitted in emitted {
            match emitted {
                Emitted::Rows(rows) => self.emit_rows(OutputRef { node, output: OutputId::MAIN }, &rows)?,
                Emitted::Batch(output, batch) => self.emit_batch(OutputRef { node, output }, &batch)?,
            }
        }
        Ok(())
    }

    /// Into sinks and, by the hash of each reader's key, through its exchange.
    fn emit_rows(&mut self, output: OutputRef, rows: &Rows) -> Result<(), WorkerError> {
        if self.topology.sinks_of(output).next().is_some() {
            let batch = rows.to_batch().map_err(|error| rows_error("outbox", error))?;
            self.emit_batch(output, &batch)?;
        }
        let topology = self.topology.clone();
        for edge in topology.edges_from(output) {
            let rows = rows.keyed_by(&topology.edge(edge).key);
            if self.sender.receivers() == 1 {
                self.sender.send(edge, 0, Element::Rows(rows));
                continue;
            }
            let routed = route(rows.keys(), self.sender.receivers(), self.info.max_parallelism);
            for (receiver, numbers) in routed.into_iter().enumerate() {
                if !numbers.is_empty() {
                    self.sender.send(edge, receiver, Element::Rows(rows.choose(&numbers)));
                }
            }
        }
        Ok(())
    }

    fn emit_batch(&mut self, output: OutputRef, batch: &RecordBatch) -> Result<(), WorkerError> {
        let generation = self.generations[usize::from(output.node.0)];
        for sink in self.topology.sinks_of(output) {
            self.outbox.append(generation, sink, batch).map_err(|error| rows_error("outbox", error))?;
        }
        Ok(())
    }

    fn outbox_full(&mut self) -> bool {
        let full = self.outbox.unsealed_bytes() > UNSEALED_LIMIT_BYTES;
        if full && !self.asked_for_barrier {
            self.asked_for_barrier = true;
            self.reports.push(FromWorker::OutboxFull);
        }
        full
    }

    fn source_error(&self, node: NodeId, error: crate::source::SourceError) -> WorkerError {
        WorkerError::Source { node: self.topology.plan.node(node).name.clone(), error }
    }
}

fn rows_error(node: &str, error: arrow_schema::ArrowError) -> WorkerError {
    WorkerError::Rows { node: node.into(), error }
}
