//! What a source is to the engine: a log of partitions, read by position.
//!
//! Two sides: [`Log`] is asked by the control side what partitions there are and where they end; a [`Reader`] is owned by one worker and hands it records.
//! Doesn't know: schemas, event time, checkpoints. Keeps: a record is handed out once for each assignment, in offset order within its partition.
pub mod check;
pub mod connect;
pub mod names;

use std::io::ErrorKind;

use async_trait::async_trait;
use floodmark_pipeline::ids::{PartitionIndex, PartitionName};

use crate::config::model::{End, Start};

/// Where reading of a partition goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Next offset to read. Kafka: the offset. Files: the line, 0-based.
    pub offset: i64,
    /// The connector's own token that belongs to `offset` (files: bytes read and their digest); empty where the offset says it all.
    pub resume: Vec<u8>,
}

/// A record as the log holds it. A null payload is a tombstone and is the decoder's to judge.
#[derive(Clone, Copy, Debug, Default)]
pub struct RawRecord<'a> {
    pub offset: i64,
    pub payload: Option<&'a [u8]>,
    pub key: Option<&'a [u8]>,
    /// Milliseconds; `None` where the log keeps none.
    pub timestamp_ms: Option<i64>,
    /// Filled only if the reader was told that headers are wanted.
    pub headers: &'a [(&'a str, Option<&'a [u8]>)],
}

/// Consecutive records of one partition.
#[derive(Clone, Copy, Debug)]
pub struct RawBatch<'a> {
    pub partition: PartitionIndex,
    pub records: &'a [RawRecord<'a>],
}

/// A partition as the log reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionInfo {
    pub name: PartitionName,
    /// Identity behind the name: Kafka's topic id. Another one under the same name is another log. Empty where there is none (files check their content).
    pub identity: String,
    /// First position that can still be read.
    pub start: i64,
    /// First position that is not there yet (Kafka: the last stable offset; files: size in bytes).
    pub end: i64,
}

/// What a reader knows of one of its partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Position behind the last record handed out (Kafka: control records and compaction gaps skipped over).
    pub position: Position,
    /// Nothing more will come: the end it was assigned with is reached.
    pub ended: bool,
}

/// The control side of a source.
#[async_trait]
pub trait Log: Send + Sync {
    /// All partitions there are now, sorted by name.
    async fn partitions(&self) -> Result<Vec<PartitionInfo>, SourceError>;

    /// First positions of partitions that have none stored, in the order given.
    async fn resolve_start(&self, start: &Start, of: &[PartitionInfo]) -> Result<Vec<Position>, SourceError>;

    /// Positions to stop before (in the unit of [`PartitionInfo::end`]), or `None`s for a log that is read for ever.
    async fn resolve_end(&self, end: &End, of: &[PartitionInfo]) -> Result<Vec<Option<i64>>, SourceError>;

    /// A reader for one worker.
    fn reader(&self) -> Result<Box<dyn Reader>, SourceError>;

    /// Tells the outside how far a complete checkpoint got, for people's lag tools only; never read back.
    async fn report(&self, positions: &[(PartitionName, i64)]) -> Result<(), SourceError>;
}

/// The data side of a source: owned by one worker, never waits longer than a few milliseconds.
pub trait Reader: Send {
    /// From now on it is read from `from`, also one that was read before and paused.
    fn assign(
        &mut self,
        partition: PartitionIndex,
        name: &PartitionName,
        from: &Position,
        end: Option<i64>,
    ) -> Result<(), SourceError>;

    /// A paused partition hands out nothing until it is resumed.
    fn pause(&mut self, partition: PartitionIndex, paused: bool) -> Result<(), SourceError>;

    /// Hands out at most `max_records` records in batches, each of one partition. Returns how many; 0 when nothing is there now.
    fn poll(&mut self, max_records: usize, take: &mut dyn FnMut(RawBatch<'_>)) -> Result<usize, SourceError>;

    /// Where each assigned partition stands after the last [`poll`](Self::poll).
    fn progress(&self, partition: PartitionIndex) -> Option<Progress>;

    /// Nothing is there to read: all that the log was seen to hold has been handed out, or the end is reached. False where it isn't known yet.
    fn drained(&self, partition: PartitionIndex) -> bool;

    /// Why nothing may come though there is something to read; it passes by itself. For people: what is wrong, without since when.
    fn trouble(&self) -> Option<String> {
        None
    }
}

/// What can go wrong with a log, by what the user must do.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error("{0}: not reachable: {1}")]
    Away(String, String),
    #[error("topic {topic} does not exist on {brokers}: create it, or correct `topic`")]
    UnknownTopic { topic: String, brokers: String },
    #[error("{partition}: offset {offset} is no longer in the log, which begins at {start}: {} records are gone", start - offset)]
    BelowStart { partition: PartitionName, offset: i64, start: i64 },
    #[error("{partition}: offset {offset} is beyond the log's end {end}: this is not the log that was read before")]
    AboveEnd { partition: PartitionName, offset: i64, end: i64 },
    #[error(
        "{partition}: the topic was deleted and made again (id {found}, was {expected}): its offsets mean other records"
    )]
    Recreated { partition: PartitionName, expected: String, found: String },
    #[error("{path}: changed in place: what was read of it before is no longer what it begins with")]
    FileChanged { path: String },
    #[error("{path}: {error}")]
    File { path: String, error: std::io::Error },
    #[error("{0}")]
    Setting(String),
    #[error("{partition} at offset {offset}: {message}")]
    Record { partition: PartitionName, offset: i64, message: String },
}

impl SourceError {
    /// Another start would find the same.
    pub fn needs_a_person(&self) -> bool {
        match self {
            Self::Away(..) => false,
            Self::File { error, .. } => {
                self.is_content() || matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied)
            }
            _ => true,
        }
    }

    /// A file is there, and isn't what its name says.
    pub fn is_content(&self) -> bool {
        matches!(self, Self::File { error, .. } if matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::InvalidInput))
    }

    /// A file ends in the middle: of a compressed one, perhaps, more is still to come.
    pub fn is_cut_short(&self) -> bool {
        matches!(self, Self::File { error, .. } if error.kind() == ErrorKind::UnexpectedEof)
    }
}
