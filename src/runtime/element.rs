//! What moves between workers: rows, and the barriers that cut them. Names as in arroyo-types, which isn't published.
use std::sync::Arc;

use floodmark_pipeline::ids::{CheckpointId, NodeId, PartitionIndex, WorkerId};
use floodmark_pipeline::rows::Rows;
use floodmark_pipeline::time::EventTime;

/// Where a worker stands among the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskInfo {
    pub worker: WorkerId,
    pub workers: u16,
    pub max_parallelism: u16,
}

/// An element of a queue.
#[derive(Clone, Debug)]
pub enum Element {
    Rows(Rows),
    Signal(SignalMessage),
}

#[derive(Clone, Debug)]
pub enum SignalMessage {
    Barrier(CheckpointBarrier),
}

/// Cuts every stream between the records before checkpoint N and those after.
#[derive(Clone, Debug)]
pub struct CheckpointBarrier {
    pub checkpoint: CheckpointId,
    /// Windows fire whatever the watermark says, since nothing more is to come.
    pub drain: bool,
    /// Partitions at the cut, as far as the sender knows them: a source's own ones, or behind an operator all that are above it.
    pub partitions: Arc<Vec<PartitionAtCut>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionAtCut {
    pub partition: PartitionIndex,
    pub source: NodeId,
    /// `None`: live, and no record yet, so it holds everything.
    pub watermark: Option<Watermark>,
    /// Of one that goes idle at this very cut: where it stood. It counts once more where nobody stays live.
    pub going: Option<EventTime>,
    pub ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watermark {
    EventTime(EventTime),
    /// Left out of the minimum: idle or ended, by a recorded decision.
    Idle,
}
