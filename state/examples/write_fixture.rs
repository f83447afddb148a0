//! Writes a small store in today's format: `write_fixture memory|rocksdb FOLDER`. Read back by tests/format.rs.
//!
//! Most of its ids and one of its values lie in sorted runs, the others still in STATE.
use std::error::Error;

use floodmark_pipeline::hash::KeyHash;
use floodmark_pipeline::ids::{CheckpointId, NodeId};
use floodmark_pipeline::state::{Bucket, Seen, SeenIds};
use floodmark_state::{BackendKind, KeyedState, StateSettings};
use xxhash_rust::xxh3::xxh3_128;

const CLEAN: NodeId = NodeId(1);
const PER_TYPE: NodeId = NodeId(2);

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let backend = match args.next().as_deref() {
        Some("memory") => BackendKind::Memory,
        Some("rocksdb") => BackendKind::Rocksdb,
        _ => return Err("say memory or rocksdb, then a folder".into()),
    };
    let folder = args.next().ok_or("say a folder")?;
    let work = std::env::temp_dir().join(format!("floodmark-fixture-{}", std::process::id()));
    let settings = StateSettings {
        backend,
        folder: work.clone(),
        // So small that one barrier's ids are written as runs.
        budget_bytes: 192 << 10,
        dedup: vec![(CLEAN, "clean".into())],
        windows: vec![(PER_TYPE, "per_type".into())],
        key_groups: 0..128,
        max_parallelism: 128,
    };
    let mut state = KeyedState::open(settings)?;
    admit(&mut state, 0..2_000)?;
    state.put(PER_TYPE, 3, b"click", &[1; 5_000])?;
    state.snapshot(CheckpointId(1))?;
    admit(&mut state, 2_000..2_100)?;
    state.put(PER_TYPE, 5, b"view", b"\x01two")?;
    let snapshot = state.snapshot(CheckpointId(2))?;
    std::fs::create_dir_all(&folder)?;
    for file in &snapshot.files {
        std::fs::copy(&file.path, std::path::Path::new(&folder).join(&file.name))?;
    }
    println!("{:?}", snapshot.digest);
    drop(state);
    std::fs::remove_dir_all(work)?;
    Ok(())
}

fn admit(state: &mut KeyedState, ids: std::ops::Range<u64>) -> Result<(), Box<dyn Error>> {
    let hashes: Vec<_> = ids.clone().map(|n| KeyHash(xxh3_128(&n.to_le_bytes()))).collect();
    let mut seen = state.dedup(CLEAN)?;
    seen.warm(&hashes)?;
    for (n, id) in ids.zip(hashes) {
        seen.admit(id, |_| Some(Seen { bucket: Bucket(n as i64 % 2), partition: 7, offset: n as i64 }));
    }
    Ok(())
}
