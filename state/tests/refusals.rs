//! A restore that can't be right is refused, and says what is missing.
mod common;

use common::{CLEAN, admit, id, old_store, settings};
use floodmark_pipeline::ids::{CheckpointId, NodeId};
use floodmark_pipeline::state::{Bucket, Seen, SeenIds};
use floodmark_state::{BackendKind, KeyedState, OldStore, StateError};

const BACKENDS: [BackendKind; 2] = [BackendKind::Memory, BackendKind::Rocksdb];

struct Saved {
    backend: BackendKind,
    folder: tempfile::TempDir,
    store: OldStore,
    _state: KeyedState,
}

/// A store with ids in runs and a few in STATE.
fn saved(backend: BackendKind) -> Saved {
    let folder = tempfile::tempdir().unwrap();
    let mut state = KeyedState::open(settings(backend, &folder.path().join("old"), 16 << 20)).unwrap();
    for part in 0..50 {
        let ids: Vec<_> = (part * 1_000..(part + 1) * 1_000).map(id).collect();
        admit(&mut state, &ids, Bucket(1));
    }
    state.snapshot(CheckpointId(1)).unwrap();
    admit(&mut state, &[id(1_000_000)], Bucket(1));
    let store = old_store(&state.snapshot(CheckpointId(2)).unwrap());
    Saved { backend, folder, store, _state: state }
}

fn restore(saved: &Saved, change: impl FnOnce(&mut floodmark_state::StateSettings)) -> Option<StateError> {
    let name = std::fs::read_dir(saved.folder.path()).unwrap().count().to_string();
    let mut settings = settings(saved.backend, &saved.folder.path().join(name), 16 << 20);
    change(&mut settings);
    KeyedState::restore(settings, std::slice::from_ref(&saved.store)).err()
}

#[test]
fn a_whole_store_is_taken() {
    for backend in BACKENDS {
        assert!(restore(&saved(backend), |_| {}).is_none());
    }
}

#[test]
fn each_missing_file_is_noticed() {
    for backend in BACKENDS {
        let whole = saved(backend);
        for at in 0..whole.store.files.len() {
            let mut files = whole.store.files.clone();
            let gone = files.remove(at);
            let refused = KeyedState::restore(
                settings(backend, &whole.folder.path().join(format!("without-{at}")), 16 << 20),
                &[OldStore { files }],
            );
            let Some(StateError::Missing { name }) = refused.err() else { panic!("{}", gone.name) };
            assert_eq!(name, gone.name);
        }
    }
}

#[test]
fn a_file_that_was_cut_short_is_noticed() {
    let whole = saved(BackendKind::Rocksdb);
    let table = whole.store.files.iter().find(|file| file.name.ends_with(".sst")).unwrap();
    let cut = whole.folder.path().join("cut.sst");
    std::fs::write(&cut, &std::fs::read(&table.path).unwrap()[1..]).unwrap();
    let mut files = whole.store.files.clone();
    files.iter_mut().filter(|file| file.path == table.path).for_each(|file| file.path = cut.clone());
    let again = settings(BackendKind::Rocksdb, &whole.folder.path().join("again"), 16 << 20);
    assert!(matches!(KeyedState::restore(again, &[OldStore { files }]).err(), Some(StateError::Damaged { .. })));
}

#[test]
fn other_key_groups_than_the_old_stores_hold_are_refused() {
    let saved = saved(BackendKind::Memory);
    let refused = restore(&saved, |settings| {
        settings.max_parallelism = 256;
        settings.key_groups = 0..256;
    });
    assert!(matches!(refused, Some(StateError::MaxParallelism { found: 128, asked: 256 })));
    let refused = restore(&saved, |settings| settings.key_groups = 100..129);
    assert!(matches!(refused, Some(StateError::Uncovered { from: 128, to: 129 })));
}

#[test]
fn a_node_that_is_not_declared_has_no_state() {
    let folder = tempfile::tempdir().unwrap();
    let mut state = KeyedState::open(settings(BackendKind::Memory, folder.path(), 1 << 20)).unwrap();
    assert!(matches!(state.dedup(NodeId(9)).err(), Some(StateError::UnknownNode { .. })));
    assert!(matches!(state.put(CLEAN, 0, b"k", b"v"), Err(StateError::UnknownNode { .. })));
}

#[test]
fn an_id_that_would_go_back_in_time_stops_the_job() {
    let folder = tempfile::tempdir().unwrap();
    let mut state = KeyedState::open(settings(BackendKind::Memory, folder.path(), 1 << 20)).unwrap();
    admit(&mut state, &[id(1)], Bucket(5));
    let back = Seen { bucket: Bucket(5), partition: 0, offset: 9 };
    state.dedup(CLEAN).unwrap().admit(id(1), |_| Some(back));
    assert!(matches!(state.snapshot(CheckpointId(1)), Err(StateError::Contract { .. })));
}

#[test]
fn two_stores_never_share_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let _first = KeyedState::open(settings(BackendKind::Memory, folder.path(), 1 << 20)).unwrap();
    assert!(matches!(
        KeyedState::open(settings(BackendKind::Memory, folder.path(), 1 << 20)).err(),
        Some(StateError::Io { doing: "making", .. })
    ));
}

#[test]
fn a_node_that_left_the_file_leaves_nothing_behind() {
    for backend in BACKENDS {
        let saved = saved(backend);
        let mut changed = settings(backend, &saved.folder.path().join("without"), 16 << 20);
        changed.dedup = vec![(CLEAN, "other".into())];
        let mut state = KeyedState::restore(changed, std::slice::from_ref(&saved.store)).unwrap();
        assert_eq!(state.digest().entries, 0);
        assert_eq!(admit(&mut state, &[id(1)], Bucket(1)), 0);
        let kept: u64 = state.snapshot(CheckpointId(3)).unwrap().files.iter().filter(|f| f.immutable).count() as u64;
        assert_eq!(kept, 0);
    }
}
