//! Epochs (a, b] appended to a table whose mark is exactly a and whose fence is ours.
//!
//! Keeps: rows are written once, however often the commit is tried; epochs found in the table are not written again; a table altered so
//! that a column would be lost is refused.
//! Tested: tests.rs beside it.
use async_trait::async_trait;
use floodmark_pipeline::guard::{Guard, holds};
use floodmark_pipeline::ids::{Epoch, Incarnation};
use floodmark_pipeline::mark::{Mark, OnBase, on_base};
use floodmark_pipeline::schema::Schema;

use super::catalog::Loaded;
use super::commit::{Intent, Next, Table};
use super::mark::Identity;
use super::parts::{Names, Parts};
use super::sink::Claim;
use super::snapshot::Change;
use super::table::check;
use crate::config::model::IcebergConfig;
use crate::sink::{Outcome, PendingEpoch, SinkError};
use crate::steps::Point;

pub struct Append<'a> {
    pub table: &'a Table,
    pub identity: &'a Identity,
    pub config: &'a IcebergConfig,
    pub schema: &'a Schema,
    pub parts: &'a mut Parts,
    pub names: &'a mut Names,
    pub claim: &'a mut Claim,
    pub base: Option<Epoch>,
    pub epochs: &'a [PendingEpoch],
    pub even_if_empty: bool,
}

impl Append<'_> {
    fn landed(&mut self, mark: Mark) -> Outcome {
        self.parts.landed();
        self.claim.mark = mark.clone();
        Outcome::Applied(mark)
    }

    async fn fenced(&mut self, found: &Mark, by: Incarnation) -> Outcome {
        // The mark still stands where it stood before our first epoch, and the head has moved: nothing of ours is there or can still land.
        if found.epoch == self.base {
            self.parts.discard(self.table).await;
        }
        Outcome::Fenced { by }
    }

    /// The rows of `epochs` as a change that follows `found`.
    async fn change(
        &mut self,
        base: &Loaded,
        found: Mark,
        epochs: &[PendingEpoch],
    ) -> Result<Next<Outcome>, SinkError> {
        let Some(last) = epochs.last().filter(|_| self.even_if_empty || epochs.iter().any(|e| e.rows() > 0)) else {
            return Ok(Next::End(self.landed(found)));
        };
        self.check_columns(base)?;
        let (names, ours) = (&mut *self.names, self.claim.ours);
        self.parts.cover(self.table, base, epochs, || names.next(ours, Some(last.epoch))).await?;
        let delta = self.parts.delta();
        let mark = Mark {
            epoch: Some(last.epoch),
            offsets: last.offsets.clone(),
            event_time_watermark: last.event_time_watermark,
            replay_from: last.replay_from.clone(),
            digest: found.digest.plus(delta),
            ..found.clone()
        };
        let added = self.parts.added();
        Ok(Next::Make(Box::new(Change { snapshot_id: last.commit_id, added, mark, previous: found.epoch, delta })))
    }

    /// A table may be altered while we run.
    fn check_columns(&self, base: &Loaded) -> Result<(), SinkError> {
        let differs = |difference| SinkError::Schema { table: self.table.name(), difference };
        let missing = check(&base.metadata, self.config, self.schema).map_err(differs)?;
        match missing.first() {
            None => Ok(()),
            Some(column) => Err(differs(format!("column `{}` is no longer in the table", column.name))),
        }
    }
}

#[async_trait]
impl Intent for Append<'_> {
    type End = Outcome;
    const POINTS: (Point, Point) = (Point::CommitDue, Point::Committed);

    async fn judge(&mut self, base: &Loaded) -> Result<Next<Outcome>, SinkError> {
        let found = self.identity.read(&base.metadata, &self.table.name())?;
        let uuid = base.metadata.uuid().to_string();
        if uuid != self.claim.table_uuid && holds(Guard::TableIdentity) {
            return Ok(Next::End(Outcome::Foreign(found)));
        }
        let list: Vec<_> = self.epochs.iter().map(|e| e.epoch).collect();
        Ok(match on_base(&found, self.claim.ours, self.base, &list) {
            OnBase::Done => Next::End(self.landed(found)),
            OnBase::Fenced { by } => Next::End(self.fenced(&found, by).await),
            OnBase::FenceLost | OnBase::Foreign => Next::End(Outcome::Foreign(found)),
            OnBase::CommitFrom(first) => {
                let epochs = &self.epochs[first..];
                self.change(base, found, epochs).await?
            }
        })
    }

    fn applied(&mut self, mark: Mark) -> Outcome {
        self.landed(mark)
    }

    fn next_prefix(&mut self) -> String {
        self.names.next(self.claim.ours, self.epochs.last().map(|e| e.epoch))
    }
}
