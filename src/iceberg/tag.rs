//! Names of a table's past: the tag of a savepoint.
//!
//! Doesn't know: how the tag is committed. Keeps: a tag points to the snapshot that holds a sink's epochs up to its checkpoint and no later
//! one, or there is none. Tested: tests.rs beside it.
use floodmark_pipeline::ids::CheckpointId;
use iceberg::TableUpdate;
use iceberg::spec::{Snapshot, SnapshotReference, SnapshotRetention, TableMetadata};

use super::mark::Identity;

/// The newest snapshot on `main` whose mark is `checkpoint`, or an earlier one where what lies between was empty and is not in the table yet.
pub fn snapshot_of(metadata: &TableMetadata, identity: &Identity, checkpoint: CheckpointId) -> Result<i64, String> {
    let mut at = metadata.current_snapshot();
    let mut later = None;
    while let Some(snapshot) = at {
        match committed(snapshot, identity) {
            Some(id) if id == checkpoint.0 || (id < checkpoint.0 && later.is_none()) => return Ok(snapshot.snapshot_id()),
            Some(id) if id < checkpoint.0 => {
                let together = later.unwrap_or_default();
                return Err(format!("checkpoint {checkpoint} was committed in one snapshot with the later {together}: it has no tag"));
            }
            Some(id) => later = Some(id),
            None => {}
        }
        at = snapshot.parent_snapshot_id().and_then(|parent| metadata.snapshot_by_id(parent));
    }
    Err(format!("no snapshot of this sink with checkpoint {checkpoint} is left on `main`: it has no tag"))
}

/// Sets the tag, unless it stands there, or further on, already: two sinks of a savepoint may share the table.
pub fn update(metadata: &TableMetadata, tag: &str, snapshot_id: i64) -> Option<TableUpdate> {
    let sequence = |id| metadata.snapshot_by_id(id).map(|s| s.sequence_number());
    let tagged = metadata.snapshot_for_ref(tag).map(|s| s.sequence_number());
    if tagged.is_some() && tagged >= sequence(snapshot_id) {
        return None;
    }
    let reference = SnapshotReference::new(snapshot_id, SnapshotRetention::Tag { max_ref_age_ms: Some(i64::MAX) });
    Some(TableUpdate::SetSnapshotRef { ref_name: tag.to_owned(), reference })
}

fn committed(snapshot: &Snapshot, identity: &Identity) -> Option<u64> {
    let summary = &snapshot.summary().additional_properties;
    let says = |key: &str| summary.get(&format!("floodmark.{key}"));
    let ours = says("pipeline") == Some(&identity.pipeline) && says("sink") == Some(&identity.sink);
    says("max-committed-checkpoint-id").filter(|_| ours)?.parse().ok()
}
