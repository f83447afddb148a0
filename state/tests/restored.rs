//! A store that was just restored: what it still knows without asking the disk, and which files it goes on with.
mod common;

use common::{CLEAN, admit, id, old_store, settings};
use floodmark_pipeline::ids::CheckpointId;
use floodmark_pipeline::state::{Bucket, SeenIds};
use floodmark_state::{BackendKind, KeyedState, Snapshot};

const BUCKETS: u64 = 24;
const PER_BUCKET: u64 = 20_000;
const BATCH: u64 = 1_000;

/// A store with 24 buckets, each filled between two snapshots.
fn filled(state: &mut KeyedState) -> Snapshot {
    let mut last = None;
    for bucket in 0..BUCKETS {
        for from in (bucket * PER_BUCKET..(bucket + 1) * PER_BUCKET).step_by(BATCH as usize) {
            let ids: Vec<_> = (from..from + BATCH).map(id).collect();
            admit(state, &ids, Bucket(bucket as i64));
        }
        last = Some(state.snapshot(CheckpointId(bucket + 1)).unwrap());
    }
    last.unwrap()
}

#[test]
fn a_new_id_is_not_looked_for_in_every_bucket_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let small = |name| settings(BackendKind::Rocksdb, &folder.path().join(name), 6 << 20);
    let mut state = KeyedState::open(small("old")).unwrap();
    filled(&mut state);
    state.snapshot(CheckpointId(100)).unwrap();
    let saved = state.snapshot(CheckpointId(101)).unwrap();

    let mut restored = KeyedState::restore(small("new"), &[old_store(&saved)]).unwrap();
    let new: Vec<_> = (1_000_000..1_000_000 + BATCH).map(id).collect();
    assert_eq!(admit(&mut restored, &new, Bucket(24)), 0);
    let all_buckets = BATCH * BUCKETS;
    assert!(restored.lookups() < all_buckets / 5, "{} of {all_buckets}", restored.lookups());
    assert!(restored.memory_used().unwrap() <= 6 << 20);
    let known: Vec<_> = (0..BUCKETS).map(|bucket| id(bucket * PER_BUCKET + 7)).collect();
    assert_eq!(admit(&mut restored, &known, Bucket(24)), known.len());
}

#[test]
fn a_filter_goes_with_its_bucket() {
    let folder = tempfile::tempdir().unwrap();
    let mut state = KeyedState::open(settings(BackendKind::Rocksdb, folder.path(), 6 << 20)).unwrap();
    let filters = |snapshot: &Snapshot| snapshot.files.iter().filter(|file| file.name.ends_with(".filter")).count();
    filled(&mut state);
    let before = state.snapshot(CheckpointId(100)).unwrap();
    assert!(filters(&before) > 10, "{}", filters(&before));
    state.dedup(CLEAN).unwrap().expire(Bucket(20)).unwrap();
    let after = state.snapshot(CheckpointId(101)).unwrap();
    assert!(filters(&after) <= 3, "{}", filters(&after));
}

#[test]
fn a_store_says_with_which_of_the_old_ones_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let half = |name: &str, backend, groups| {
        let mut settings = settings(backend, &folder.path().join(name), 6 << 20);
        settings.key_groups = groups;
        settings
    };
    let saved: Vec<_> = [("a", 0..64), ("b", 64..128)]
        .into_iter()
        .map(|(name, groups)| {
            let mut state = KeyedState::open(half(name, BackendKind::Rocksdb, groups)).unwrap();
            assert_eq!(state.old_store(), None);
            old_store(&state.snapshot(CheckpointId(1)).unwrap())
        })
        .collect();
    let restored =
        |name, backend, groups| KeyedState::restore(half(name, backend, groups), &saved).unwrap().old_store();
    assert_eq!(restored("same", BackendKind::Rocksdb, 64..128), Some(1));
    assert_eq!(restored("rescaled", BackendKind::Rocksdb, 0..128), None, "names begin anew");
    assert_eq!(restored("elsewhere", BackendKind::Memory, 0..64), None, "names begin anew");
}
