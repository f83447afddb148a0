//! What a sink is to the engine: a place that takes epochs in order, each atomically together with a mark.
//!
//! Doesn't know: how rows came about. Keeps: what is visible in a sink is exactly the epochs up to its mark; whoever is fenced adds nothing.
//! One conformance suite for all sinks.
#[cfg(test)]
pub mod conformance;
pub mod file;
pub mod mark_json;
pub mod ndjson;
pub mod stdout;

use std::sync::Arc;

use arrow_array::RecordBatch;
use async_trait::async_trait;
use floodmark_pipeline::ids::{CheckpointId, Epoch, Incarnation};
use floodmark_pipeline::mark::{Mark, Offsets, ReplayPoints, RunningDigest};
use floodmark_pipeline::time::EventTime;

/// Part of a segment object in the checkpoint directory that holds one worker's rows of one sink and epoch (Arrow IPC stream).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentRef {
    pub path: String,
    pub offset: u64,
    pub length: u64,
    pub rows: u64,
    /// xxh3-128 of its bytes; `None` in manifests of before there was one.
    pub digest: Option<u128>,
}

/// An epoch whose manifest is durable and that a sink may not hold yet.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingEpoch {
    pub epoch: Epoch,
    /// Chosen at the barrier, before any attempt: the snapshot id (positive, and another for each sink).
    pub commit_id: i64,
    pub segments: Vec<SegmentRef>,
    /// Next offset to read of each partition at its cut.
    pub offsets: Offsets,
    pub event_time_watermark: Option<EventTime>,
    pub replay_from: ReplayPoints,
}

impl PendingEpoch {
    pub fn rows(&self) -> u64 {
        self.segments.iter().map(|s| s.rows).sum()
    }
}

/// Reads rows back out of the outbox.
#[async_trait]
pub trait Segments: Send + Sync {
    async fn read(&self, segment: &SegmentRef) -> Result<Vec<RecordBatch>, SinkError>;
}

/// How a commit ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The mark in force now: it names the last epoch given or, where nothing needed to be written, an earlier one or the one they follow.
    Applied(Mark),
    /// A newer start owns the sink.
    Fenced { by: Incarnation },
    /// The sink holds another mark or fence than the one this commit follows: stop; the plan of recovery says what that means.
    Foreign(Mark),
}

/// What a sink was found to hold, before touching it.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// There is no table (or folder) yet.
    Absent,
    /// It is there, and holds this of ours; a sink never written by us has a mark without epoch and fence.
    Here(Mark),
    /// It is there, holds nothing of ours yet, and rows of another pipeline.
    OfAnother { pipeline: String, epoch: Epoch },
}

#[async_trait]
pub trait Sink: Send {
    /// Looks, and changes nothing: the mark of this pipeline and sink.
    async fn look(&mut self) -> Result<Found, SinkError>;

    /// Makes the table if it is missing, checks its schema, and puts the fence of `ours` into it. The mark returned was read under that fence.
    async fn open(&mut self, ours: Incarnation) -> Result<Opened, SinkError>;

    /// Commits `epochs`, which follow `base`, atomically with their mark. Retries conflicts and resolves unknown outcomes itself (DESIGN.md 8):
    /// returns only when it is decided. With no rows in any epoch nothing need be written unless `even_if_empty`.
    async fn commit(
        &mut self,
        base: Option<Epoch>,
        epochs: &[PendingEpoch],
        even_if_empty: bool,
    ) -> Result<Outcome, SinkError>;

    /// Names the state as of `checkpoint`, which must be committed, so that it can be found again (Iceberg: a tag `floodmark-<name>`).
    async fn tag(&mut self, name: &str, checkpoint: CheckpointId) -> Result<(), SinkError>;
}

/// How [`Sink::open`] ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Opened {
    Here(Mark),
    Fenced {
        by: Incarnation,
    },
    /// Another start claimed the same number: claim a higher one and open again.
    ClaimAgain,
}

pub type SharedSegments = Arc<dyn Segments>;

/// Count and digest of a batch's rows, for the running digest in the mark.
pub type RowDigest = fn(&RecordBatch) -> Result<RunningDigest, SinkError>;

/// What can go wrong with a sink, by what the user must do.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// Worth trying again: the catalog or store is away.
    #[error("{what}: not reachable: {why}")]
    Away { what: String, why: String },
    /// The table is not what the pipeline file says; the text shows the difference.
    #[error("{table}: {difference}")]
    Schema { table: String, difference: String },
    #[error(
        "{table}: rolled back under us: the mark was committed with snapshot {expected}, which `main` no longer contains"
    )]
    RolledBack { table: String, expected: i64 },
    #[error("{table}: dropped while running")]
    Dropped { table: String },
    #[error("{table}: refused by the catalog: {why}")]
    Refused { table: String, why: String },
    #[error("{0}")]
    Segment(String),
    #[error("{0}")]
    Setting(String),
}
