//! The stores of all workers over one backend, driven as the runtime does.
use floodmark_pipeline::hash::{KeyHash, key_groups_of, owner_of};
use floodmark_pipeline::ids::{CheckpointId, NodeId};
use floodmark_pipeline::state::{Bucket, Seen, SeenIds};

use super::model::{MAX_PARALLELISM, decide, id, key, value};
use crate::backend::BackendKind;
use crate::digest::StateDigest;
use crate::snapshot::{OldFile, OldStore, Snapshot};
use crate::store::{KeyedState, StateSettings};

const CLEAN: NodeId = NodeId(1);
const PER_TYPE: NodeId = NodeId(2);

pub struct World {
    pub kind: BackendKind,
    budget: u64,
    folder: tempfile::TempDir,
    workers: Vec<KeyedState>,
    incarnation: u64,
    checkpoint: CheckpointId,
    /// Files of the last snapshot.
    saved: Vec<OldStore>,
}

impl World {
    pub fn new(kind: BackendKind, budget: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut world =
            Self { kind, budget, folder, workers: vec![], incarnation: 0, checkpoint: CheckpointId(0), saved: vec![] };
        world.workers = vec![KeyedState::open(world.settings(0, 1)).unwrap()];
        world.snapshot();
        world
    }

    fn settings(&self, worker: u16, workers: u16) -> StateSettings {
        StateSettings {
            backend: self.kind,
            folder: self.folder.path().join(format!("{}/{worker}", self.incarnation)),
            budget_bytes: self.budget,
            dedup: vec![(CLEAN, "clean".into())],
            windows: vec![(PER_TYPE, "per_type".into())],
            key_groups: key_groups_of(worker, workers, MAX_PARALLELISM),
            max_parallelism: MAX_PARALLELISM,
        }
    }

    fn owner(&mut self, key_group: u16) -> &mut KeyedState {
        let workers = self.workers.len() as u16;
        &mut self.workers[usize::from(owner_of(key_group, workers, MAX_PARALLELISM))]
    }

    /// What each admission was shown, in batches of other sizes for each backend.
    pub fn admit(&mut self, ids: &[(u16, i64)], expired: Bucket) -> Vec<Option<Seen>> {
        let size = if self.kind == BackendKind::Memory { 64 } else { 23 };
        let mut answers = vec![];
        for batch in ids.chunks(size) {
            let hashes: Vec<KeyHash> = batch.iter().map(|(n, _)| id(*n)).collect();
            for worker in &mut self.workers {
                worker.dedup(CLEAN).unwrap().warm(&hashes).unwrap();
            }
            for (n, ahead) in batch {
                let id = id(*n);
                let (bucket, offset) = (Bucket(expired.0 + ahead), answers.len() as i64);
                let mut shown = None;
                self.owner(id.key_group(MAX_PARALLELISM)).dedup(CLEAN).unwrap().admit(id, |old| {
                    shown = old;
                    decide(old, bucket, offset)
                });
                answers.push(shown);
            }
        }
        answers
    }

    pub fn expire(&mut self, last: Bucket) {
        self.workers.iter_mut().for_each(|worker| worker.dedup(CLEAN).unwrap().expire(last).unwrap());
    }

    pub fn put(&mut self, entries: &[(u8, u8)]) {
        for (n, content) in entries {
            let (group, key) = key(*n);
            self.owner(group).put(PER_TYPE, group, &key, &value(*content)).unwrap();
        }
    }

    pub fn delete(&mut self, keys: &[u8]) {
        for n in keys {
            let (group, key) = key(*n);
            self.owner(group).delete(PER_TYPE, group, &key).unwrap();
        }
    }

    pub fn reset_ids(&mut self) {
        self.workers.iter_mut().for_each(|worker| worker.reset(CLEAN).unwrap());
    }

    pub fn reset_values(&mut self) {
        self.workers.iter_mut().for_each(|worker| worker.reset(PER_TYPE).unwrap());
    }

    pub fn snapshot(&mut self) -> StateDigest {
        let (last, next) = (self.checkpoint, self.checkpoint.next());
        self.checkpoint = next;
        let mut sum = StateDigest::default();
        self.saved.clear();
        for worker in &mut self.workers {
            let snapshot = worker.snapshot(next).unwrap();
            sum += snapshot.digest;
            self.saved.push(old_store(&snapshot));
            worker.release(last).unwrap();
        }
        sum
    }

    /// A snapshot of a checkpoint that is abandoned.
    pub fn snapshot_and_lose(&mut self) {
        self.checkpoint = self.checkpoint.next();
        let lost = self.checkpoint;
        for worker in &mut self.workers {
            worker.snapshot(lost).unwrap();
            worker.release(lost).unwrap();
        }
    }

    /// All workers die without a word and come back from the last snapshot.
    pub fn crash(&mut self, workers: u16) {
        self.workers.clear();
        self.incarnation += 1;
        let restored = (0..workers).map(|w| KeyedState::restore(self.settings(w, workers), &self.saved).unwrap());
        self.workers = restored.collect();
    }

    pub fn digest(&self) -> StateDigest {
        let mut sum = StateDigest::default();
        self.workers.iter().for_each(|worker| sum += worker.digest());
        sum
    }

    pub fn values(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut all = vec![];
        for worker in &mut self.workers {
            worker.scan(PER_TYPE, 0..MAX_PARALLELISM, |key, value| all.push((key.to_vec(), value.to_vec()))).unwrap();
        }
        all
    }
}

fn old_store(snapshot: &Snapshot) -> OldStore {
    for file in &snapshot.files {
        assert_eq!(std::fs::metadata(&file.path).unwrap().len(), file.length, "{}", file.name);
    }
    let file = |file: &crate::snapshot::StateFile| OldFile { name: file.name.clone(), path: file.path.clone() };
    OldStore { files: snapshot.files.iter().map(file).collect() }
}
