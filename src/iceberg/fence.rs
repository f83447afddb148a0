//! The fence: an empty snapshot on `main` that carries the old mark and the new incarnation.
//!
//! From then on no request of an older process can pass its assertion on the head of `main`, however late it lands.
//! Keeps: it changes only the mark's fence; it is put only over a lower number (`pipeline::mark::on_fence`).
//! Tested: tests.rs beside it (`a_zombie_commits_nothing`, `a_request_that_lands_late_finds_the_fence`).
use async_trait::async_trait;
use floodmark_pipeline::ids::Incarnation;
use floodmark_pipeline::mark::{Mark, OnFence, RunningDigest, on_fence};
use xxhash_rust::xxh3::xxh3_64;

use super::catalog::Loaded;
use super::commit::{Intent, Next, Table};
use super::mark::Identity;
use super::parts::Names;
use super::snapshot::Change;
use crate::sink::{Opened, SinkError};
use crate::steps::Point;

pub struct Fence<'a> {
    table: &'a Table,
    identity: &'a Identity,
    names: &'a mut Names,
    ours: Incarnation,
    /// Of the table the fence was put into.
    pub table_uuid: String,
}

impl<'a> Fence<'a> {
    pub fn new(table: &'a Table, identity: &'a Identity, names: &'a mut Names, ours: Incarnation) -> Self {
        Self { table, identity, names, ours, table_uuid: String::new() }
    }

    /// Follows from whose fence it is, so that a repeated request is the same request. Sinks of one start have ids of their own.
    fn snapshot_id(&self) -> i64 {
        let Identity { pipeline, sink } = self.identity;
        let id = xxh3_64(format!("{pipeline}\0{sink}\0{}", self.ours).as_bytes());
        i64::try_from(id >> 1).unwrap_or(i64::MAX).max(1)
    }
}

#[async_trait]
impl Intent for Fence<'_> {
    type End = Opened;
    const POINTS: (Point, Point) = (Point::FenceDue, Point::Fenced);

    async fn judge(&mut self, base: &Loaded) -> Result<Next<Opened>, SinkError> {
        let found = self.identity.read(&base.metadata, &self.table.name())?;
        self.table_uuid = base.metadata.uuid().to_string();
        Ok(match on_fence(found.fence, self.ours) {
            OnFence::Ours => Next::End(Opened::Here(found)),
            OnFence::ClaimAgain => Next::End(Opened::ClaimAgain),
            OnFence::Fenced { by } => Next::End(Opened::Fenced { by }),
            OnFence::Put => Next::Make(Box::new(Change {
                snapshot_id: self.snapshot_id(),
                added: vec![],
                previous: found.epoch,
                mark: Mark { fence: Some(self.ours), ..found },
                delta: RunningDigest::default(),
            })),
        })
    }

    fn applied(&mut self, mark: Mark) -> Opened {
        Opened::Here(mark)
    }

    fn next_prefix(&mut self) -> String {
        self.names.next(self.ours, None)
    }
}
