//! Figures at scale, printed as a table: `cargo bench -p floodmark-state --bench scale [-- ids in millions]`.
//!
//! 24 live buckets, a barrier each half million ids. Then: restore of the whole, and the same ids in a quarter of the memory they need.
// It measures.
#![allow(clippy::disallowed_methods)]
use std::path::Path;
use std::time::{Duration, Instant};

use floodmark_pipeline::hash::KeyHash;
use floodmark_pipeline::ids::{CheckpointId, NodeId};
use floodmark_pipeline::state::{Bucket, Seen, SeenIds};
use floodmark_state::{BackendKind, KeyedState, OldFile, OldStore, Snapshot, StateSettings};
use xxhash_rust::xxh3::xxh3_128;

const CLEAN: NodeId = NodeId(1);
const BATCH: u64 = 1_000;
const BARRIER: u64 = 500_000;
const ID_BYTES: u64 = 33;

fn ids(from: u64, count: u64) -> Vec<KeyHash> {
    (from..from + count).map(|n| KeyHash(xxh3_128(&n.to_le_bytes()))).collect()
}

fn settings(folder: &Path, budget_bytes: u64) -> StateSettings {
    StateSettings {
        backend: BackendKind::Rocksdb,
        folder: folder.to_owned(),
        budget_bytes,
        dedup: vec![(CLEAN, "clean".into())],
        windows: vec![],
        key_groups: 0..128,
        max_parallelism: 128,
    }
}

fn admit(state: &mut KeyedState, ids: &[KeyHash], bucket: i64) -> Duration {
    let mut seen = state.dedup(CLEAN).unwrap();
    let start = Instant::now();
    for batch in ids.chunks(BATCH as usize) {
        seen.warm(batch).unwrap();
        for (offset, id) in batch.iter().enumerate() {
            let new = Seen { bucket: Bucket(bucket), partition: 0, offset: offset as i64 };
            seen.admit(*id, |old| old.is_none().then_some(new));
        }
    }
    start.elapsed()
}

/// Admits `total` unique ids and says what an id and a barrier cost; answers the last snapshot.
fn fill(name: &str, state: &mut KeyedState, total: u64, budget: u64) -> Snapshot {
    let (mut spent, mut barriers, mut longest) = (Duration::ZERO, vec![], Duration::ZERO);
    let mut last = None;
    let mut most = 0;
    for (at, from) in (0..total).step_by(BARRIER as usize).enumerate() {
        let took = admit(state, &ids(from, BARRIER), (from * 24 / total) as i64);
        spent += took;
        longest = longest.max(took);
        let start = Instant::now();
        state.release(CheckpointId(at as u64)).unwrap();
        last = Some(state.snapshot(CheckpointId(at as u64 + 1)).unwrap());
        barriers.push(start.elapsed());
        most = most.max(state.memory_used().unwrap());
    }
    barriers.sort();
    let (half, max) = (barriers[barriers.len() / 2], barriers[barriers.len() - 1]);
    let each = spent.as_nanos() as u64 / total;
    let worst = longest.as_nanos() as u64 / BARRIER;
    println!(
        "{name}: {each} ns an id (worst half million {worst}), barrier of {BARRIER} new ids median {half:?}, max {max:?}"
    );
    println!("{name}: {} MiB of memory at most, budget {} MiB", most >> 20, budget >> 20);
    last.unwrap()
}

fn duplicates(name: &str, state: &mut KeyedState, total: u64, from: u64) {
    let ids = ids(from, total.min(1_000_000));
    let each = admit(state, &ids, 23).as_nanos() as u64 / ids.len() as u64;
    println!("{name}: {each} ns a duplicate");
}

fn main() {
    let millions = std::env::args().filter_map(|arg| arg.parse::<u64>().ok()).next().unwrap_or(10);
    let total = millions * 1_000_000;
    let folder = tempfile::tempdir().unwrap();

    let roomy = total * ID_BYTES * 4;
    let mut state = KeyedState::open(settings(&folder.path().join("roomy"), roomy)).unwrap();
    let saved = fill("in memory", &mut state, total, roomy);
    duplicates("in memory", &mut state, total, 0);
    let start = Instant::now();
    state.release(CheckpointId(u64::MAX)).unwrap();
    let quiet = state.snapshot(CheckpointId(u64::MAX - 1)).unwrap();
    println!("in memory: barrier with nothing new {:?}", start.elapsed());
    let bytes: u64 = quiet.files.iter().map(|file| file.length).sum();
    println!("on disk: {} MiB in {} files", bytes >> 20, quiet.files.len());
    drop(state);

    let files = saved.files.iter().map(|file| OldFile { name: file.name.clone(), path: file.path.clone() });
    let old = [OldStore { files: files.collect() }];
    let start = Instant::now();
    let mut state = KeyedState::restore(settings(&folder.path().join("again"), roomy), &old).unwrap();
    println!("restore: {:?} for {} ids", start.elapsed(), state.digest().entries);
    let (mut from, mut lookups) = (total, 0);
    for count in [1_000, 9_000, 90_000, 400_000, 500_000, 1_000_000, 1_000_000] {
        let each = admit(&mut state, &ids(from, count), 24).as_nanos() as u64 / count;
        from += count;
        let asked = state.lookups() - lookups;
        lookups += asked;
        let each_asked = asked as f64 / count as f64;
        let memory = state.memory_used().unwrap() >> 20;
        println!(
            "restore: {each} ns a new id, up to id {} after it; {each_asked:.2} looked for on disk; {memory} MiB of memory",
            from - total
        );
    }
    drop(state);

    let tight = total * ID_BYTES / 4;
    let mut state = KeyedState::open(settings(&folder.path().join("tight"), tight)).unwrap();
    fill("four times the budget", &mut state, total, tight);
    duplicates("four times the budget, oldest ids", &mut state, total, 0);
    duplicates("four times the budget, newest ids", &mut state, total, total - 1_000_000);
}
