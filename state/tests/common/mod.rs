//! A store in a folder of its own, and what it costs on disk.
#![allow(dead_code)]
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use floodmark_pipeline::hash::KeyHash;
use floodmark_pipeline::ids::NodeId;
use floodmark_pipeline::state::{Bucket, Seen, SeenIds};
use floodmark_state::{BackendKind, KeyedState, OldFile, OldStore, Snapshot, StateSettings};
use xxhash_rust::xxh3::xxh3_128;

pub const CLEAN: NodeId = NodeId(1);
pub const PER_TYPE: NodeId = NodeId(2);

pub fn settings(backend: BackendKind, folder: &Path, budget_bytes: u64) -> StateSettings {
    StateSettings {
        backend,
        folder: folder.to_owned(),
        budget_bytes,
        dedup: vec![(CLEAN, "clean".into())],
        windows: vec![(PER_TYPE, "per_type".into())],
        key_groups: 0..128,
        max_parallelism: 128,
    }
}

pub fn id(n: u64) -> KeyHash {
    KeyHash(xxh3_128(&n.to_le_bytes()))
}

/// Admits a batch as new first ones where they aren't seen; answers how many were.
pub fn admit(state: &mut KeyedState, batch: &[KeyHash], bucket: Bucket) -> usize {
    let mut ids = state.dedup(CLEAN).unwrap();
    ids.warm(batch).unwrap();
    let mut duplicates = 0;
    for (offset, id) in batch.iter().enumerate() {
        ids.admit(*id, |seen| match seen {
            Some(_) => {
                duplicates += 1;
                None
            }
            None => Some(Seen { bucket, partition: 0, offset: offset as i64 }),
        });
    }
    duplicates
}

pub fn old_store(snapshot: &Snapshot) -> OldStore {
    let file = |file: &floodmark_state::StateFile| OldFile { name: file.name.clone(), path: file.path.clone() };
    OldStore { files: snapshot.files.iter().map(file).collect() }
}

/// Bytes of state, and of everything else, in all files below a folder; one that has several names counts once.
pub fn bytes_below(folder: &Path) -> (u64, u64) {
    fn walk(folder: &Path, files: &mut HashMap<u64, (bool, u64)>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            // Merging in the background removes files while we look.
            let entry = entry.unwrap();
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => walk(&entry.path(), files),
                Ok(meta) => {
                    let is_state = entry.path().extension().is_some_and(|kind| kind == "sst" || kind == "run");
                    files.insert(meta.ino(), (is_state, meta.len()));
                }
                Err(_) => {}
            }
        }
    }
    let mut files = HashMap::new();
    walk(folder, &mut files);
    let bytes = |of_state| files.values().filter(|(is_state, _)| *is_state == of_state).map(|(_, bytes)| bytes).sum();
    (bytes(true), bytes(false))
}
