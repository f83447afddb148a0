//! Ids that need four times the memory they may take: right all the same, and the budget is held.
mod common;

use common::{CLEAN, admit, id, old_store, settings};
use floodmark_pipeline::ids::CheckpointId;
use floodmark_pipeline::state::{Bucket, SeenIds};
use floodmark_state::{BackendKind, KeyedState, StateError};

const BUDGET: u64 = 8 << 20;
/// At the 33 bytes that an id takes in memory: four times the budget.
const IDS: u64 = 4 * BUDGET / 33;
const BATCH: u64 = 1_000;
const PER_BUCKET: u64 = IDS / 12;

/// Every batch is half new ids, half ids drawn from all that came before.
fn batch(from: u64) -> Vec<u64> {
    let new = from..(from + BATCH).min(IDS);
    let old = (0..BATCH).map(|n| n.wrapping_mul(0x9E37_79B9) % from.max(1)).filter(|_| from > 0);
    new.chain(old).collect()
}

fn feed(state: &mut KeyedState, from: u64) -> usize {
    let ids: Vec<_> = batch(from).into_iter().map(id).collect();
    admit(state, &ids, Bucket((from / PER_BUCKET) as i64))
}

#[test]
fn four_times_the_budget_is_answered_right_within_the_budget() {
    let folder = tempfile::tempdir().unwrap();
    let mut state = KeyedState::open(settings(BackendKind::Rocksdb, &folder.path().join("1"), BUDGET)).unwrap();
    let mut checkpoint = CheckpointId(0);
    let mut files = None;
    for from in (0..IDS).step_by(BATCH as usize) {
        assert_eq!(feed(&mut state, from) as u64, if from == 0 { 0 } else { BATCH }, "at id {from}");
        if from % (50 * BATCH) == 0 {
            let used = state.memory_used().unwrap();
            assert!(used <= BUDGET, "{used} of {BUDGET} bytes at id {from}");
            state.release(checkpoint).unwrap();
            checkpoint = checkpoint.next();
            files = Some(state.snapshot(checkpoint).unwrap());
        }
    }
    assert_eq!(state.digest().entries, IDS);

    let saved = files.unwrap();
    let again = settings(BackendKind::Rocksdb, &folder.path().join("2"), BUDGET);
    let mut restored = KeyedState::restore(again, &[old_store(&saved)]).unwrap();
    assert_eq!(restored.digest(), saved.digest);
    let known = saved.digest.entries;
    for from in (0..known).step_by(97_000) {
        let ids: Vec<_> = (from..(from + 2_000).min(known)).map(id).collect();
        assert_eq!(admit(&mut restored, &ids, Bucket(50)), ids.len(), "at id {from} after the restore");
        assert!(restored.memory_used().unwrap() <= BUDGET);
    }
    let strangers: Vec<_> = (IDS..IDS + 5_000).map(id).collect();
    assert_eq!(admit(&mut restored, &strangers, Bucket(50)), 0);
}

#[test]
fn memory_beyond_the_budget_is_refused_with_the_way_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut state = KeyedState::open(settings(BackendKind::Memory, folder.path(), 1 << 20)).unwrap();
    let refused = (0..100).find_map(|n| {
        let ids: Vec<_> = (n * 1_000..(n + 1) * 1_000).map(id).collect();
        let mut seen = state.dedup(CLEAN).unwrap();
        seen.warm(&ids).err().or_else(|| {
            admit(&mut state, &ids, Bucket(0));
            None
        })
    });
    let refused = refused.unwrap();
    assert!(matches!(refused, StateError::OverBudget { budget: 1_048_576, .. }));
    assert!(refused.to_string().contains("set `state = \"rocksdb\"` or raise `memory`"), "{refused}");
    assert!(state.memory_used().unwrap() <= 1 << 20);
}
