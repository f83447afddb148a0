//! What a worker reports of a checkpoint, what it tells in between, and what it is told.
use floodmark_pipeline::ids::{CheckpointId, NodeId, PartitionIndex, PartitionName, WorkerId};
use floodmark_pipeline::stamp::PartitionTime;
use floodmark_pipeline::time::EventTime;
use floodmark_state::{Snapshot, StateDigest};

use super::counters::NodeCounters;
use super::outbox::Sealed;
use crate::source::Position;

/// A worker's part of a checkpoint: everything as of its own cut.
#[derive(Debug)]
pub struct Part {
    pub worker: WorkerId,
    pub checkpoint: CheckpointId,
    /// The partitions this worker reads.
    pub partitions: Vec<PartitionPart>,
    /// In the order of the plan.
    pub nodes: Vec<NodePart>,
    pub segments: Vec<Sealed>,
    pub state: Snapshot,
    /// Bytes of memory that the worker's keyed state holds.
    pub state_memory: u64,
}

#[derive(Clone, Debug)]
pub struct PartitionPart {
    pub partition: PartitionIndex,
    pub position: Position,
    pub time: PartitionTime,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct NodePart {
    pub watermark: Option<EventTime>,
    pub fired_floor: Option<EventTime>,
    pub counters: NodeCounters,
    /// Earliest event time that this worker's open windows hold.
    pub oldest: Option<EventTime>,
    /// Of what this worker's share of the node remembers.
    pub state: StateDigest,
}

/// Tells the coordinator what can't wait for a barrier.
#[derive(Debug)]
pub enum FromWorker {
    Part(Box<Part>),
    /// A partition has handed out its last record.
    Exhausted(PartitionIndex),
    /// Why a source gets nothing though there may be something to read; `None`: it has passed.
    Trouble {
        worker: WorkerId,
        node: NodeId,
        why: Option<String>,
    },
    /// So much waits for a barrier that the worker has paused its sources.
    OutboxFull,
    Failed {
        worker: WorkerId,
        error: WorkerError,
    },
}

/// What the coordinator asks of a worker.
#[derive(Clone, Debug)]
pub enum ToWorker {
    /// Put a barrier into every stream now. `leaving` are the partitions that this cut leaves out of the minimum.
    /// Replay points before `needed` may be forgotten.
    Barrier {
        checkpoint: CheckpointId,
        leaving: Vec<Leaving>,
        drain: bool,
        needed: Option<EventTime>,
    },
    /// Read a partition from here on.
    Admit(Box<Admission>),
    /// Raise the fired floor of window nodes (the largest over workers).
    FiredFloors(Vec<(NodeId, EventTime)>),
    /// Take nothing from the sources until told otherwise.
    Pause(bool),
    /// The files of a checkpoint have been taken over.
    Release(CheckpointId),
    Stop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaving {
    pub partition: PartitionIndex,
    pub ended: bool,
}

/// A partition and where it goes on.
#[derive(Clone, Debug)]
pub struct Admission {
    pub source: NodeId,
    pub partition: PartitionIndex,
    pub name: PartitionName,
    pub position: Position,
    pub time: PartitionTime,
    pub end: Option<i64>,
    /// Left out of the minimum (idle or ended): known, and not read.
    pub left: Option<Leaving>,
}

/// What stops a worker.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    #[error("source {node}: {error}")]
    Source { node: String, error: crate::source::SourceError },
    #[error("state of {node}: {error}")]
    State { node: String, error: floodmark_state::StateError },
    #[error("{node}: {error}")]
    Rows { node: String, error: arrow_schema::ArrowError },
    #[error("{node}: {error}")]
    Damaged { node: String, error: floodmark_pipeline::bytes::Damaged },
}
