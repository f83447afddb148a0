//! Time per id of admission, and of a barrier, over both backends. Figures at scale: benches/scale.rs.
// It measures.
#![allow(clippy::disallowed_methods)]
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use floodmark_pipeline::hash::KeyHash;
use floodmark_pipeline::ids::{CheckpointId, NodeId};
use floodmark_pipeline::state::{Bucket, Seen, SeenIds};
use floodmark_state::{BackendKind, KeyedState, StateSettings};
use xxhash_rust::xxh3::xxh3_128;

const CLEAN: NodeId = NodeId(1);
const BATCH: usize = 1_000;
const IDS: usize = 1_000_000;

fn ids(from: usize, count: usize) -> Vec<KeyHash> {
    (from..from + count).map(|n| KeyHash(xxh3_128(&n.to_le_bytes()))).collect()
}

struct Store {
    state: KeyedState,
    checkpoint: CheckpointId,
    _folder: tempfile::TempDir,
}

impl Store {
    fn new(backend: BackendKind) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = StateSettings {
            backend,
            folder: folder.path().to_owned(),
            budget_bytes: 1 << 30,
            dedup: vec![(CLEAN, "clean".into())],
            windows: vec![],
            key_groups: 0..128,
            max_parallelism: 128,
        };
        Self { state: KeyedState::open(settings).unwrap(), checkpoint: CheckpointId(0), _folder: folder }
    }

    fn admit(&mut self, ids: &[KeyHash]) {
        let mut seen = self.state.dedup(CLEAN).unwrap();
        for batch in ids.chunks(BATCH) {
            seen.warm(batch).unwrap();
            for (offset, id) in batch.iter().enumerate() {
                let new = Seen { bucket: Bucket(0), partition: 0, offset: offset as i64 };
                seen.admit(*id, |old| old.is_none().then_some(new));
            }
        }
    }

    fn barrier(&mut self) {
        self.checkpoint = self.checkpoint.next();
        self.state.snapshot(self.checkpoint).unwrap();
        self.state.release(self.checkpoint).unwrap();
    }
}

fn dedup(criterion: &mut Criterion) {
    let all = ids(0, IDS);
    for backend in [BackendKind::Memory, BackendKind::Rocksdb] {
        let mut group = criterion.benchmark_group(format!("dedup/{backend:?}"));
        group.sample_size(10);
        group.throughput(Throughput::Elements(IDS as u64));
        group.bench_function("unique", |bench| {
            bench.iter_batched(
                || Store::new(backend),
                |mut store| {
                    store.admit(&all);
                    store
                },
                BatchSize::PerIteration,
            );
        });
        let mut full = Store::new(backend);
        full.admit(&all);
        full.barrier();
        group.bench_function("duplicate", |bench| bench.iter(|| full.admit(&all)));
        group.throughput(Throughput::Elements(1));
        let mut next = IDS;
        for new in [0, 1_000, 100_000] {
            group.bench_function(format!("barrier with {new} new ids"), |bench| {
                bench.iter_custom(|times| {
                    let mut spent = std::time::Duration::ZERO;
                    for _ in 0..times {
                        full.admit(&ids(next, new));
                        next += new;
                        let start = std::time::Instant::now();
                        full.barrier();
                        spent += start.elapsed();
                    }
                    spent
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, dedup);
criterion_main!(benches);
