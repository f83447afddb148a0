//! Buckets pass by: disk and memory stay as large as what is alive.
mod common;

use common::{CLEAN, PER_TYPE, admit, bytes_below, files_below, id, settings};
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

/// Rounds of sessions: in each so many open, and stay open for a few rounds, in which each is counted on once a round.
const SESSIONS: u64 = 1_000;
const OPEN: u64 = 4;
const ROUNDS: u64 = 400;

/// A session's key group, its key, and what it has counted by a round.
fn session(number: u64, round: u64) -> (u16, [u8; 24], [u8; 32]) {
    let mut key = [0; 24];
    key[..16].copy_from_slice(&id(number).0.to_be_bytes());
    key[16..].copy_from_slice(&number.to_be_bytes());
    ((number % 128) as u16, key, [round as u8; 32])
}

#[test]
fn disk_memory_and_files_stay_flat_while_sessions_open_and_close() {
    for backend in [BackendKind::Memory, BackendKind::Rocksdb] {
        let folder = tempfile::tempdir().unwrap();
        let mut state = KeyedState::open(settings(backend, folder.path(), 4 << 20)).unwrap();
        let mut held = vec![];
        for round in 0..ROUNDS {
            let first_open = (round + 1).saturating_sub(OPEN) * SESSIONS;
            for number in first_open..(round + 1) * SESSIONS {
                let (group, key, value) = session(number, round);
                state.put(PER_TYPE, group, &key, &value).unwrap();
            }
            for number in first_open.saturating_sub(SESSIONS)..first_open {
                let (group, key, _) = session(number, round);
                state.delete(PER_TYPE, group, &key).unwrap();
            }
            state.release(CheckpointId(round)).unwrap();
            let snapshot = state.snapshot(CheckpointId(round + 1)).unwrap();
            assert_eq!(snapshot.digest.entries, SESSIONS * (round + 1).min(OPEN));
            let (runs, other) = bytes_below(folder.path());
            held.push([runs + other, state.memory_used().unwrap(), files_below(folder.path())]);
        }
        let (first, second) = held.split_at(ROUNDS as usize / 2);
        for (at, what) in ["disk", "memory", "files"].iter().enumerate() {
            let [first, second] = [first, second].map(|half| half.iter().map(|held| held[at]).max().unwrap());
            assert!(second * 10 <= first * 11, "{backend:?}: {what} grew from {first} to {second}");
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
