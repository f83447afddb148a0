//! Buckets pass by: disk and memory stay as large as what is alive.
mod common;

use common::{CLEAN, admit, bytes_below, id, settings};
use floodmark_pipeline::ids::CheckpointId;
use floodmark_pipeline::state::{Bucket, SeenIds};
use floodmark_state::{BackendKind, KeyedState};

const PER_BUCKET: u64 = 5_000;
const LIVE: i64 = 4;
const BUCKETS: i64 = 120;

#[test]
fn disk_and_memory_stay_flat_while_ids_expire() {
    for backend in [BackendKind::Memory, BackendKind::Rocksdb] {
        let folder = tempfile::tempdir().unwrap();
        let mut state = KeyedState::open(settings(backend, folder.path(), 4 << 20)).unwrap();
        let mut disk = vec![];
        let mut memory = vec![];
        for bucket in 0..BUCKETS {
            for part in 0..5 {
                let first = bucket as u64 * PER_BUCKET + part * 1_000;
                let ids: Vec<_> = (first..first + 1_000).map(id).collect();
                assert_eq!(admit(&mut state, &ids, Bucket(bucket)), 0);
            }
            state.dedup(CLEAN).unwrap().expire(Bucket(bucket - LIVE)).unwrap();
            state.release(CheckpointId(bucket as u64)).unwrap();
            let snapshot = state.snapshot(CheckpointId(bucket as u64 + 1)).unwrap();
            assert_eq!(snapshot.digest.entries, PER_BUCKET * (bucket + 1).min(LIVE) as u64);
            let held = state.memory_used().unwrap();
            let (runs, other) = bytes_below(folder.path());
            assert!(other < 2 << 20, "{backend:?}: {other} bytes beside the state");
            disk.push(runs);
            memory.push(held);
        }
        let most = |values: &[u64]| values.iter().copied().max().unwrap();
        let half = BUCKETS as usize / 2;
        for (what, values) in [("disk", &disk), ("memory", &memory)] {
            let (first, second) = (most(&values[..half]), most(&values[half..]));
            assert!(second <= first * 5 / 4, "{backend:?}: {what} grew from {first} to {second}");
        }
    }
}

#[test]
fn an_expired_id_is_new_again_and_the_others_are_not() {
    for backend in [BackendKind::Memory, BackendKind::Rocksdb] {
        let folder = tempfile::tempdir().unwrap();
        let mut state = KeyedState::open(settings(backend, folder.path(), 4 << 20)).unwrap();
        let (old, young) = ([id(1), id(2)], [id(3)]);
        admit(&mut state, &old, Bucket(1));
        admit(&mut state, &young, Bucket(2));
        state.dedup(CLEAN).unwrap().expire(Bucket(1)).unwrap();
        assert_eq!(admit(&mut state, &[id(1), id(2), id(3)], Bucket(3)), 1);
    }
}

#[test]
fn a_barrier_without_changes_shares_every_file_but_one() {
    for backend in [BackendKind::Memory, BackendKind::Rocksdb] {
        let folder = tempfile::tempdir().unwrap();
        let mut state = KeyedState::open(settings(backend, folder.path(), 64 << 20)).unwrap();
        let ids: Vec<_> = (0..100_000).map(id).collect();
        admit(&mut state, &ids, Bucket(0));
        let first = state.snapshot(CheckpointId(1)).unwrap();
        admit(&mut state, &[id(100_001)], Bucket(0));
        let second = state.snapshot(CheckpointId(2)).unwrap();
        let new: Vec<_> = second.files.iter().filter(|file| !first.files.contains(file)).collect();
        assert_eq!(new.len(), 1, "{new:?}");
        assert!(new[0].length < 1_000, "{new:?}");
        assert!(first.files.iter().any(|file| file.immutable && file.length > 100_000));
    }
}
