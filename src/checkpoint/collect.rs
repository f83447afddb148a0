//! Removes what no checkpoint needs any more: old manifests first, then objects that no manifest names.
//!
//! Doesn't know: when to run. Keeps: nothing is deleted that a manifest, a savepoint or a checkpoint on its way names; objects of an incarnation newer
//! than our own are never touched. Deleting a manifest before its objects means that a crash in between leaves rubbish, never a manifest with holes.
use std::collections::BTreeSet;

use floodmark_pipeline::ids::Incarnation;

use super::dir::{CheckpointDir, DirError, incarnation_name};
use super::manifest::Manifest;

/// A manifest as retention sees it.
#[derive(Clone, Debug)]
pub struct Retained {
    pub name: String,
    pub manifest: Manifest,
}

/// Which of `manifests` (newest first) may go: not among the newest `retain`, not what this incarnation restored from while it has none of its own
/// that is complete, and with every epoch that it closed committed in all sinks. `waiting` are the ids of checkpoints that a sink still waits for.
pub fn expendable<'a>(manifests: &'a [Retained], ours: Incarnation, retain: usize, oldest_waiting: Option<u64>) -> Vec<&'a Retained> {
    let ours_complete = manifests.iter().any(|m| m.manifest.incarnation == ours);
    let may_go = |m: &&Retained| {
        let committed = oldest_waiting.is_none_or(|first| m.manifest.checkpoint.0 < first);
        committed && (m.manifest.incarnation == ours || ours_complete)
    };
    manifests.iter().skip(retain.max(1)).filter(may_go).collect()
}

/// Deletes objects of this and older incarnations that nothing names. `in_flight` are paths of a checkpoint that isn't complete yet.
pub async fn sweep(
    dir: &CheckpointDir,
    ours: Incarnation,
    kept: &[Retained],
    in_flight: &BTreeSet<String>,
) -> Result<usize, DirError> {
    let named: BTreeSet<&str> = kept.iter().flat_map(|m| m.manifest.objects()).collect();
    let newest = incarnation_name(ours);
    let mut deleted = 0;
    for folder in ["segments", "state"] {
        for path in dir.list(folder).await? {
            let of_incarnation = path.split('/').nth(1).unwrap_or_default();
            if of_incarnation > newest.as_str() || named.contains(path.as_str()) || in_flight.contains(&path) {
                continue;
            }
            dir.delete(&path).await?;
            deleted += 1;
        }
    }
    Ok(deleted)
}
