//! The data files of epochs that wait to be committed: written once, used by every attempt.
//!
//! Doesn't know: marks, snapshots. Keeps: names are never used twice; a part holds whole epochs, committed together or not at all.
//! Tested: tests.rs beside it (`a_conflict_does_not_write_the_rows_again`).
use std::collections::VecDeque;

use floodmark_pipeline::ids::{Epoch, Incarnation};
use floodmark_pipeline::mark::RunningDigest;
use iceberg::spec::DataFile;

use super::catalog::Loaded;
use super::commit::Table;
use super::manifest::Added;
use super::storage::why;
use super::writer::{DataWriter, delete_files, plain};
use crate::sink::{PendingEpoch, RowDigest, SharedSegments, SinkError};
use crate::steps::{self, Point};

/// Rows are sorted by partition in pieces of about this size.
const PIECE_BYTES: u64 = 64 << 20;

/// Names of files: sink, epoch, incarnation, attempt.
pub struct Names {
    sink: String,
    attempts: u64,
}

impl Names {
    pub fn new(sink: &str) -> Self {
        Self { sink: plain(sink), attempts: 0 }
    }

    /// How the names of the next attempt's files begin.
    pub fn next(&mut self, ours: Incarnation, epoch: Option<Epoch>) -> String {
        self.attempts += 1;
        let checkpoint = epoch.map_or(0, |e| e.checkpoint.0);
        format!("{}-{checkpoint}-{ours}-{}", self.sink, self.attempts)
    }
}

pub struct Parts {
    segments: SharedSegments,
    digest: RowDigest,
    target_size: u64,
    written: VecDeque<Part>,
}

struct Part {
    epochs: Vec<Epoch>,
    added: Added,
    delta: RunningDigest,
}

impl Parts {
    pub fn new(segments: SharedSegments, digest: RowDigest, target_size: u64) -> Self {
        Self { segments, digest, target_size, written: VecDeque::new() }
    }

    /// Makes the parts hold just `epochs`: keeps what is written of them, and writes the rest under names that begin with `prefix`.
    pub async fn cover(
        &mut self,
        table: &Table,
        base: &Loaded,
        epochs: &[PendingEpoch],
        prefix: impl FnOnce() -> String,
    ) -> Result<(), SinkError> {
        let first = epochs.first().map(|e| e.epoch);
        while self.written.front().is_some_and(|part| part.epochs.first().copied() != first) {
            self.written.pop_front();
        }
        let done: usize = self.written.iter().map(|part| part.epochs.len()).sum();
        let same = self.written.iter().flat_map(|part| &part.epochs).eq(epochs.iter().take(done).map(|e| &e.epoch));
        if !same {
            self.written.clear();
        }
        let missing = epochs.get(if same { done } else { 0 }..).unwrap_or_default();
        if !missing.is_empty() {
            let part = self.write(table, base, missing, prefix()).await?;
            self.written.push_back(part);
            steps::reached(Point::DataFiles);
        }
        Ok(())
    }

    pub fn added(&self) -> Vec<Added> {
        self.written.iter().map(|part| part.added.clone()).filter(|added| !added.files.is_empty()).collect()
    }

    pub fn delta(&self) -> RunningDigest {
        self.written.iter().fold(RunningDigest::default(), |sum, part| sum.plus(part.delta))
    }

    /// They are in the table.
    pub fn landed(&mut self) {
        self.written.clear();
    }

    /// They are not in the table and never will be.
    pub async fn discard(&mut self, table: &Table) {
        for part in self.written.drain(..) {
            delete_files(&table.io, part.added.files.iter().map(DataFile::file_path)).await;
        }
    }

    async fn write(
        &self,
        table: &Table,
        base: &Loaded,
        epochs: &[PendingEpoch],
        prefix: String,
    ) -> Result<Part, SinkError> {
        let writer = DataWriter::new(&base.metadata, table.io.clone(), prefix, self.target_size);
        let mut writer = writer.map_err(|e| SinkError::Setting(format!("{}: {e}", table.name())))?;
        match self.fill(&mut writer, table, epochs).await {
            Ok((files, delta)) => {
                let added = Added { spec: writer.spec().clone(), files };
                Ok(Part { epochs: epochs.iter().map(|e| e.epoch).collect(), added, delta })
            }
            Err(e) => {
                writer.abandon().await;
                Err(e)
            }
        }
    }

    async fn fill(
        &self,
        writer: &mut DataWriter,
        table: &Table,
        epochs: &[PendingEpoch],
    ) -> Result<(Vec<DataFile>, RunningDigest), SinkError> {
        let mut delta = RunningDigest::default();
        let mut piece = Vec::new();
        let mut bytes = 0;
        for segment in epochs.iter().flat_map(|epoch| &epoch.segments) {
            for batch in self.segments.read(segment).await? {
                delta = delta.plus((self.digest)(&batch)?);
                piece.push(batch);
            }
            bytes += segment.length;
            if bytes >= PIECE_BYTES {
                writer.write(&std::mem::take(&mut piece)).await.map_err(|e| table.away(why(&e)))?;
                bytes = 0;
            }
        }
        writer.write(&piece).await.map_err(|e| table.away(why(&e)))?;
        Ok((writer.finish().await.map_err(|e| table.away(why(&e)))?, delta))
    }
}
