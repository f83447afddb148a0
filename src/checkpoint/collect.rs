//! Removes what no checkpoint needs any more: old manifests first, then objects that no manifest names.
//!
//! Doesn't know: when to run. Keeps: nothing is deleted that a manifest names; objects of an incarnation newer than our own are never touched. Deleting a manifest before its objects means that a crash in between leaves rubbish, never a manifest with holes.
use std::collections::BTreeSet;
use std::sync::Arc;

use floodmark_pipeline::ids::{CheckpointId, Incarnation};

use super::dir::{CheckpointDir, DirError, incarnation_name};
use super::manifest::Manifest;

/// A manifest as retention sees it.
#[derive(Clone, Debug)]
pub struct Retained {
    pub name: String,
    pub manifest: Arc<Manifest>,
}

/// Which of `manifests` (newest first) may go: not among the newest `retain`, not what this incarnation restored from while it has none of its own
/// that is complete, and with every epoch that it closed committed in all sinks. `oldest_waiting` is the first checkpoint that a sink still waits for.
pub fn expendable(
    manifests: &[Retained],
    ours: Incarnation,
    retain: usize,
    oldest_waiting: Option<CheckpointId>,
) -> Vec<&Retained> {
    let ours_complete = manifests.iter().any(|m| m.manifest.incarnation == ours);
    let may_go = |m: &&Retained| {
        let committed = oldest_waiting.is_none_or(|first| m.manifest.checkpoint < first);
        committed && (m.manifest.incarnation == ours || ours_complete)
    };
    manifests.iter().skip(retain.max(1)).filter(may_go).collect()
}

/// Deletes what a start left that didn't get to its end: manifests of older incarnations that it published when we had looked already, then objects of
/// theirs that no manifest names.
pub async fn sweep(dir: &CheckpointDir, ours: Incarnation, kept: &[Retained]) -> Result<usize, DirError> {
    let named: BTreeSet<&str> = kept.iter().flat_map(|m| m.manifest.objects()).collect();
    let own = incarnation_name(ours);
    let mut deleted = 0;
    for listed in dir.manifests().await? {
        if listed.incarnation.number < ours.number && !kept.iter().any(|m| m.name == listed.name) {
            dir.delete(&listed.name).await?;
            deleted += 1;
        }
    }
    for folder in ["segments", "state"] {
        for path in dir.list(folder).await? {
            let older = path.split('/').nth(1).is_some_and(|incarnation| incarnation < own.as_str());
            if older && !named.contains(path.as_str()) {
                dir.delete(&path).await?;
                deleted += 1;
            }
        }
    }
    Ok(deleted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::manifest::tests::manifest;

    fn retained(number: u64, checkpoint: u64) -> Retained {
        Retained { name: format!("{number}-{checkpoint}"), manifest: manifest(number, checkpoint).into() }
    }

    fn names(gone: Vec<&Retained>) -> Vec<&str> {
        gone.into_iter().map(|m| m.name.as_str()).collect()
    }

    #[test]
    fn what_a_sink_waits_for_is_kept_however_old() {
        let all: Vec<_> = [6, 5, 4, 3].map(|id| retained(2, id)).into();
        let ours = all[0].manifest.incarnation;
        assert_eq!(names(expendable(&all, ours, 2, None)), ["2-4", "2-3"]);
        assert_eq!(names(expendable(&all, ours, 2, Some(CheckpointId(4)))), ["2-3"]);
        assert_eq!(names(expendable(&all, ours, 0, Some(CheckpointId(9)))), ["2-5", "2-4", "2-3"], "the newest stays");
    }

    #[test]
    fn what_a_start_went_on_from_is_kept_until_it_has_a_checkpoint_of_its_own() {
        let all: Vec<_> = [6, 5].map(|id| retained(2, id)).into();
        let ours = manifest(3, 1).incarnation;
        assert_eq!(names(expendable(&all, ours, 1, None)), Vec::<&str>::new());
    }
}
