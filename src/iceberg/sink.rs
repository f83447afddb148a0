//! The Iceberg sink: epochs in, snapshots out, each with its mark.
//!
//! Doesn't know: checkpoints beyond the epochs it is given. Keeps: whatever it puts into the table goes through [`settle`], which reads
//! mark and fence on the base that the commit asserts.
//! Tested: tests.rs beside it, and sink/conformance.rs.
use async_trait::async_trait;
use floodmark_pipeline::ids::{CheckpointId, Epoch, Incarnation};
use floodmark_pipeline::mark::Mark;
use floodmark_pipeline::schema::Schema;
use iceberg::TableRequirement;

use super::append::Append;
use super::catalog::Answer;
use super::commit::{Table, settle};
use super::fence::Fence;
use super::mark::Identity;
use super::parts::{Names, Parts};
use super::table::{add_columns, check, creation};
use super::tag;
use crate::config::model::IcebergConfig;
use crate::sink::{Found, Opened, Outcome, PendingEpoch, RowDigest, SharedSegments, Sink, SinkError};

/// Rounds of making, adding columns, or tagging, before the table is called away.
const ROUNDS: usize = 10;

pub struct IcebergSink {
    table: Table,
    identity: Identity,
    config: IcebergConfig,
    schema: Schema,
    parts: Parts,
    names: Names,
    claim: Option<Claim>,
}

/// What opening it has found and put.
#[derive(Clone)]
pub struct Claim {
    pub ours: Incarnation,
    /// The table itself; a mark may name another where a table was copied with its properties.
    pub table_uuid: String,
    /// The mark in force as far as we know.
    pub mark: Mark,
}

impl IcebergSink {
    pub fn new(
        table: Table,
        identity: Identity,
        config: IcebergConfig,
        schema: Schema,
        segments: SharedSegments,
        digest: RowDigest,
    ) -> Self {
        let parts = Parts::new(segments, digest, config.target_file_size_bytes);
        Self { table, names: Names::new(&identity.sink), identity, config, schema, parts, claim: None }
    }

    /// Makes the table if it is missing and adds the nullable columns that it lacks. Every step may be repeated.
    async fn make(&self) -> Result<(), SinkError> {
        let differs = |difference| SinkError::Schema { table: self.table.name(), difference };
        let mut unknown = None;
        for _ in 0..ROUNDS {
            let answer = match self.table.load().await? {
                None => {
                    let wanted = creation(&self.config, &self.schema).map_err(differs)?;
                    self.table.catalog.create(&self.table.ident, wanted).await?
                }
                Some(found) => {
                    let missing = check(&found.metadata, &self.config, &self.schema).map_err(differs)?;
                    if missing.is_empty() {
                        return Ok(());
                    }
                    let (requirements, updates) = add_columns(&found.metadata, &missing).map_err(differs)?;
                    self.table.catalog.commit(&self.table.ident, &found, requirements, updates).await?
                }
            };
            match answer {
                Answer::Applied | Answer::Conflict => {}
                Answer::Refused(why) => return Err(SinkError::Refused { table: self.table.name(), why }),
                Answer::Unknown(why) => unknown = Some(why),
            }
        }
        Err(self.table.away(unknown.unwrap_or_else(|| "it changes faster than it can be opened".to_owned())))
    }
}

#[async_trait]
impl Sink for IcebergSink {
    async fn look(&mut self) -> Result<Found, SinkError> {
        let Some(found) = self.table.load().await? else { return Ok(Found::Absent) };
        let mark = self.identity.read(&found.metadata, &self.table.name())?;
        let differs = |difference| SinkError::Schema { table: self.table.name(), difference };
        check(&found.metadata, &self.config, &self.schema).map_err(differs)?;
        let another = if mark.fence.is_none() { self.identity.another(&found.metadata) } else { None };
        Ok(another.map_or(Found::Here(mark), |(pipeline, epoch)| Found::OfAnother { pipeline, epoch }))
    }

    async fn open(&mut self, ours: Incarnation) -> Result<Opened, SinkError> {
        self.make().await?;
        let table = self.table.clone();
        let mut fence = Fence::new(&table, &self.identity, &mut self.names, ours);
        let opened = settle(&table, &mut fence).await?;
        if let Opened::Here(mark) = &opened {
            let table_uuid = fence.table_uuid;
            self.claim = Some(Claim { ours, table_uuid, mark: mark.clone() });
        }
        Ok(opened)
    }

    async fn commit(
        &mut self,
        base: Option<Epoch>,
        epochs: &[PendingEpoch],
        even_if_empty: bool,
    ) -> Result<Outcome, SinkError> {
        let Some(claim) = self.claim.as_mut() else {
            return Err(SinkError::Setting(format!("{}: committed to before it was opened", self.table.name())));
        };
        if epochs.is_empty() || (!even_if_empty && epochs.iter().all(|e| e.rows() == 0)) {
            return Ok(Outcome::Applied(claim.mark.clone()));
        }
        let mut append = Append {
            table: &self.table,
            identity: &self.identity,
            config: &self.config,
            schema: &self.schema,
            parts: &mut self.parts,
            names: &mut self.names,
            claim,
            base,
            epochs,
            even_if_empty,
        };
        settle(&self.table, &mut append).await
    }

    async fn tag(&mut self, name: &str, checkpoint: CheckpointId) -> Result<(), SinkError> {
        let tag = format!("floodmark-{name}");
        let mut unknown = None;
        for _ in 0..ROUNDS {
            let base = self.table.load_present().await?;
            // Refuses a table that was rolled back: what would be tagged is not what was committed.
            self.identity.read(&base.metadata, &self.table.name())?;
            let snapshot = tag::snapshot_of(&base.metadata, &self.identity, checkpoint)
                .map_err(|why| SinkError::Setting(format!("{}: {why}", self.table.name())))?;
            let Some(update) = tag::update(&base.metadata, &tag, snapshot) else {
                return Ok(());
            };
            let before = base.metadata.snapshot_for_ref(&tag).map(|s| s.snapshot_id());
            let requirements = vec![
                TableRequirement::UuidMatch { uuid: base.metadata.uuid() },
                TableRequirement::RefSnapshotIdMatch { r#ref: tag.clone(), snapshot_id: before },
            ];
            match self.table.catalog.commit(&self.table.ident, &base, requirements, vec![update]).await? {
                Answer::Applied => return Ok(()),
                Answer::Conflict => {}
                Answer::Refused(why) => return Err(SinkError::Refused { table: self.table.name(), why }),
                Answer::Unknown(why) => unknown = Some(why),
            }
        }
        Err(self.table.away(unknown.unwrap_or_else(|| "it changes faster than it can be tagged".to_owned())))
    }
}
