//! The mark in a table: one property `floodmark.<pipeline>.<sink>` that holds it as JSON.
//!
//! A property, so that snapshot expiry can't lose it and several writers can share a table. It also says with which snapshot it was
//! committed, so that a table rolled back under us is seen: properties aren't rolled back, `main` is.
//! Doesn't know: how a commit is made. Keeps: a mark is given out only if `main` is whole.
//! Tested: sink/mark_json.rs (its form), tests.rs beside it (rollback, expiry, replacement).
use floodmark_pipeline::guard::{Guard, holds};
use floodmark_pipeline::ids::Epoch;
use floodmark_pipeline::mark::Mark;
use iceberg::spec::TableMetadata;
use serde::{Deserialize, Serialize};

use crate::sink::SinkError;
use crate::sink::mark_json::{MarkJson, unmarked};

/// Whose mark it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub pipeline: String,
    pub sink: String,
}

/// The mark and the snapshot it was committed with.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Stamped {
    #[serde(flatten)]
    mark: MarkJson,
    snapshot_id: i64,
    sequence_number: i64,
}

impl Stamped {
    pub fn new(mark: &Mark, snapshot_id: i64, sequence_number: i64) -> Self {
        Self { mark: mark.into(), snapshot_id, sequence_number }
    }
}

impl Identity {
    pub fn of(mark: &Mark) -> Self {
        Self { pipeline: mark.pipeline.clone(), sink: mark.sink.clone() }
    }

    pub fn property(&self) -> String {
        format!("floodmark.{}.{}", self.pipeline, self.sink)
    }

    /// Another pipeline that has committed rows to the table, and how far it came.
    pub fn another(&self, metadata: &TableMetadata) -> Option<(String, Epoch)> {
        let properties = metadata.properties().iter().filter(|(key, _)| key.starts_with("floodmark."));
        let marks =
            properties.filter_map(|(_, text)| Mark::try_from(serde_json::from_str::<Stamped>(text).ok()?.mark).ok());
        let here = metadata.uuid().to_string();
        let others = marks.filter(|mark| mark.pipeline != self.pipeline && mark.table_uuid == here);
        others.filter_map(|mark| Some((mark.pipeline, mark.epoch?))).min_by(|(a, _), (b, _)| a.cmp(b))
    }

    /// The snapshot that the mark in force was committed with.
    pub fn stamped_with(&self, metadata: &TableMetadata) -> Option<i64> {
        let text = metadata.properties().get(&self.property())?;
        serde_json::from_str::<Stamped>(text).ok().map(|stamped| stamped.snapshot_id)
    }

    /// The mark of a table, whose `main` must still hold the snapshot it was committed with.
    pub fn read(&self, metadata: &TableMetadata, table: &str) -> Result<Mark, SinkError> {
        let table_uuid = metadata.uuid().to_string();
        let property = self.property();
        let Some(text) = metadata.properties().get(&property) else {
            return Ok(unmarked(&table_uuid, &self.pipeline, &self.sink));
        };
        let unreadable = |why: &dyn std::fmt::Display| {
            SinkError::Setting(format!("{table}: its property {property} can't be read: {why}"))
        };
        let stamped: Stamped = serde_json::from_str(text).map_err(|e| unreadable(&e))?;
        let main = main_of(metadata, &stamped);
        let expected = stamped.snapshot_id;
        let mark: Mark = stamped.mark.try_into().map_err(|e| unreadable(&e))?;
        // One that came with a copy of another table's properties says nothing about this table.
        let is_of_this_table = mark.table_uuid == table_uuid;
        if !is_of_this_table && holds(Guard::TableIdentity) {
            return Ok(unmarked(&table_uuid, &self.pipeline, &self.sink));
        }
        if main == Main::RolledBack && is_of_this_table && holds(Guard::Rollback) {
            return Err(SinkError::RolledBack { table: table.to_owned(), expected });
        }
        Ok(mark)
    }
}

/// Whether `main` still holds the snapshot that the mark was committed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Main {
    Whole,
    RolledBack,
}

/// Walks `main` from its head to its parents. A chain cut off above the mark (by expiry) counts as whole; one that never had a
/// parent there doesn't: `main` was begun anew.
fn main_of(metadata: &TableMetadata, stamped: &Stamped) -> Main {
    let Some(mut snapshot) = metadata.current_snapshot() else {
        return Main::RolledBack;
    };
    loop {
        if snapshot.snapshot_id() == stamped.snapshot_id {
            return Main::Whole;
        }
        if snapshot.sequence_number() <= stamped.sequence_number {
            return Main::RolledBack;
        }
        let Some(parent) = snapshot.parent_snapshot_id() else {
            return Main::RolledBack;
        };
        match metadata.snapshot_by_id(parent) {
            Some(next) => snapshot = next,
            None => return Main::Whole,
        }
    }
}
