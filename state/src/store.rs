//! The keyed state of one worker, used by that worker's thread alone.
//!
//! ```text
//!   folder/            given by the caller: one for each incarnation and worker, new
//!     db/              the working store: RocksDB, or the memory backend's runs
//!     runs/            runs on their way into RocksDB
//!     filters/         filters of quiet buckets of ids
//!     snapshots/<id>/  STATE of checkpoint <id>
//!     snapshots/base-n links to the working store's files as they were when it last changed
//! ```
//! A barrier writes sorted runs only where much has changed; the rest stands in STATE, so that a quiet barrier costs one small file.
//! Doesn't know: where checkpoints are kept, other workers. Keeps: a snapshot is whole and unaffected by what comes after, until it is released.
//! Tested: conformance.
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use floodmark_pipeline::ids::{CheckpointId, NodeId};
use floodmark_pipeline::state::Bucket;

use crate::backend::{Backend, BackendKind, Family, IdEntry};
use crate::digest::StateDigest;
use crate::error::StateError;
use crate::files::{self, Files, LocalDisk, SharedFiles};
use crate::memory::MemoryBackend;
use crate::record::{Record, STATE_FILE};
use crate::rocks::RocksBackend;
use crate::seen::{FilterFolder, Ids, Limits, SavedFilter, SeenNode};
use crate::snapshot::{Snapshot, StateFile};
use crate::values::ValuesNode;

/// What a worker's store is to hold, and where.
#[derive(Clone, Debug)]
pub struct StateSettings {
    pub backend: BackendKind,
    /// Folder of this incarnation and worker; nothing of another store may be in it.
    pub folder: PathBuf,
    /// This worker's share of `memory`.
    pub budget_bytes: u64,
    /// Nodes by number and name. On disk they go by name, since numbers change when the file is edited.
    pub dedup: Vec<(NodeId, String)>,
    pub windows: Vec<(NodeId, String)>,
    pub key_groups: Range<u16>,
    pub max_parallelism: u16,
}

/// Fresh ids and bytes of waiting values up to which a barrier writes no run.
const WAITING_IDS: usize = 1 << 15;
const WAITING_BYTES: usize = 1 << 20;
/// Bytes of fresh ids at which runs are written ahead of the barrier: 131,072 ids are all that is left for it.
const MOST_FRESH: u64 = 4 << 20;

pub struct KeyedState {
    pub(crate) files: SharedFiles,
    pub(crate) settings: StateSettings,
    pub(crate) backend: Box<dyn Backend>,
    pub(crate) seen: BTreeMap<NodeId, SeenNode>,
    pub(crate) values: BTreeMap<NodeId, ValuesNode>,
    /// The working store has changed since the last base was linked.
    pub(crate) changed: bool,
    pub(crate) old_store: Option<usize>,
    filters: FilterFolder,
    bases: Bases,
}

/// Linked copies of the working store, and which snapshots stand on each.
#[derive(Default)]
struct Bases {
    newest: u64,
    used_by: BTreeMap<u64, BTreeSet<CheckpointId>>,
}

impl KeyedState {
    /// A store without content, on the local disk.
    pub fn open(settings: StateSettings) -> Result<Self, StateError> {
        Self::open_on(Arc::new(LocalDisk), settings)
    }

    pub fn open_on(files: Arc<dyn Files>, settings: StateSettings) -> Result<Self, StateError> {
        files::make_new_folder(&*files, &settings.db_folder())?;
        Ok(Self::over(files, settings)?.0)
    }

    /// A store over what lies in the working folder, and the filters found there.
    pub(crate) fn over(files: SharedFiles, settings: StateSettings) -> Result<(Self, Vec<SavedFilter>), StateError> {
        files::make_folder(&*files, &settings.folder.join("snapshots"))?;
        let backend = settings.open_backend(&files, settings.backend, settings.db_folder())?;
        let limits = settings.limits();
        let named = |(id, name): &(NodeId, String)| (*id, Arc::<str>::from(name.as_str()));
        let seen = settings.dedup.iter().map(named).map(|(id, name)| (id, SeenNode::new(name, limits))).collect();
        let values = settings.windows.iter().map(named).map(|(id, name)| (id, ValuesNode::new(name))).collect();
        let (filters, saved) = FilterFolder::open(files.clone(), settings.filters())?;
        let bases = Bases::default();
        Ok((Self { files, settings, backend, seen, values, changed: true, old_store: None, filters, bases }, saved))
    }

    /// Which of the stores it was restored from it goes on with, so that their immutable files are still the same under the same names.
    /// After a rescale there is none: names begin anew.
    pub fn old_store(&self) -> Option<usize> {
        self.old_store
    }

    /// Forgets what a node remembers, as if it had never got a record.
    pub fn reset(&mut self, node: NodeId) -> Result<(), StateError> {
        let Self { seen, values, backend, changed, .. } = self;
        match (seen.get_mut(&node), values.get_mut(&node)) {
            (Some(ids), _) => ids.reset(backend.as_mut(), changed),
            (None, Some(values)) => values.reset(backend.as_mut(), changed),
            (None, None) => Err(StateError::UnknownNode { node, kind: "keyed" }),
        }
    }

    /// The ids of a dedup node.
    pub fn dedup(&mut self, node: NodeId) -> Result<Ids<'_>, StateError> {
        let seen = self.seen.get_mut(&node).ok_or(StateError::UnknownNode { node, kind: "dedup" })?;
        Ok(Ids { node: seen, backend: self.backend.as_mut(), changed: &mut self.changed })
    }

    /// Stores a value at the next snapshot.
    pub fn put(&mut self, node: NodeId, key_group: u16, key: &[u8], value: &[u8]) -> Result<(), StateError> {
        let values = self.values.get_mut(&node).ok_or(StateError::UnknownNode { node, kind: "window" })?;
        values.change(key_group, key, Some(value), self.backend.as_ref())
    }

    /// Removes a value at the next snapshot.
    pub fn delete(&mut self, node: NodeId, key_group: u16, key: &[u8]) -> Result<(), StateError> {
        let values = self.values.get_mut(&node).ok_or(StateError::UnknownNode { node, kind: "window" })?;
        values.change(key_group, key, None, self.backend.as_ref())
    }

    /// Shows every value of a node in these key groups, in key order. Meant for a restore: it reads from disk.
    pub fn scan(
        &mut self,
        node: NodeId,
        key_groups: Range<u16>,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), StateError> {
        let values = self.values.get_mut(&node).ok_or(StateError::UnknownNode { node, kind: "window" })?;
        values.scan(key_groups, self.backend.as_ref(), &mut visit)
    }

    /// Digest of the content as it is now. Digests of workers add up to the pipeline's.
    pub fn digest(&self) -> StateDigest {
        let mut sum = StateDigest::default();
        self.seen.values().for_each(|node| sum += node.digest());
        self.values.values().for_each(|node| sum += node.digest());
        sum
    }

    /// The same, node by node.
    pub fn digests(&self) -> Vec<(NodeId, StateDigest)> {
        let ids = self.seen.iter().map(|(id, node)| (*id, node.digest()));
        ids.chain(self.values.iter().map(|(id, node)| (*id, node.digest()))).collect()
    }

    /// Ids that were looked for on disk since the store was opened, once for each bucket that might have had them.
    pub fn lookups(&self) -> u64 {
        self.seen.values().map(SeenNode::lookups).sum()
    }

    /// Bytes of memory held: hot ids, filters, fresh ids, waiting values, caches, memtables.
    pub fn memory_used(&self) -> Result<u64, StateError> {
        let seen: u64 = self.seen.values().map(SeenNode::memory_used).sum();
        let values: u64 = self.values.values().map(ValuesNode::memory_used).sum();
        Ok(seen + values + self.backend.memory_used()?)
    }

    /// The synchronous part of a checkpoint.
    pub fn snapshot(&mut self, checkpoint: CheckpointId) -> Result<Snapshot, StateError> {
        self.backend.check()?;
        self.seen.values().try_for_each(SeenNode::check)?;
        self.write_runs()?;
        for node in self.seen.values_mut() {
            self.changed |= node.save_filters(&mut self.filters)?;
        }
        let folder = self.settings.snapshots().join(checkpoint.to_string());
        self.files.make_new_folder(&folder).map_err(|e| match e.kind() {
            ErrorKind::AlreadyExists => StateError::SnapshotTwice(checkpoint),
            _ => StateError::io("making", &folder, e),
        })?;
        let mut files = self.link_base(checkpoint)?;
        let path = folder.join(STATE_FILE);
        let record = self.record(&files).encode();
        files::write(&*self.files, &path, &record)?;
        files.push(StateFile { name: STATE_FILE.into(), path, length: record.len() as u64, immutable: false });
        Ok(Snapshot { checkpoint, files, digest: self.digest() })
    }

    /// Writes the longest runs until what is left may wait in STATE for more.
    fn write_runs(&mut self) -> Result<(), StateError> {
        let Self { seen, values, backend, changed, settings, .. } = self;
        let most = WAITING_IDS.min(settings.limits().fresh as usize / size_of::<IdEntry>() / 2);
        let mut fresh: Vec<(usize, Bucket, NodeId)> = vec![];
        for (id, node) in seen.iter() {
            fresh.extend(node.fresh().into_iter().map(|(ids, bucket)| (ids, bucket, *id)));
        }
        fresh.sort_unstable();
        let mut waiting: usize = fresh.iter().map(|(ids, ..)| ids).sum();
        if waiting > most {
            while waiting > most / 2
                && let Some((ids, bucket, id)) = fresh.pop()
            {
                if let Some(node) = seen.get_mut(&id) {
                    node.write_bucket(bucket, backend.as_mut(), changed)?;
                }
                waiting -= ids;
            }
        }
        let most = WAITING_BYTES.min(settings.budget_bytes as usize / 64);
        if values.values().map(ValuesNode::pending_bytes).sum::<usize>() > most {
            values.values_mut().try_for_each(|node| node.write(backend.as_mut(), changed))?;
        }
        Ok(())
    }

    fn record(&mut self, files: &[StateFile]) -> Record {
        Record {
            files: files.iter().map(|file| (file.name.clone(), file.length)).collect(),
            backend: self.settings.backend,
            key_groups: self.settings.key_groups.clone(),
            max_parallelism: self.settings.max_parallelism,
            ids: self.seen.values_mut().map(SeenNode::record).collect(),
            values: self.values.values().map(ValuesNode::record).collect(),
        }
    }

    /// Files of the working store as it is now: linked anew only if it changed.
    fn link_base(&mut self, checkpoint: CheckpointId) -> Result<Vec<StateFile>, StateError> {
        if self.changed {
            let (old, new) = (self.bases.newest, self.bases.newest + 1);
            let base = self.settings.base(new);
            self.backend.link_into(&base)?;
            let mut filters = BTreeSet::new();
            self.seen.values().for_each(|node| node.saved_filters(&mut filters));
            self.filters.link_into(&base, &filters)?;
            self.bases.newest = new;
            self.changed = false;
            self.remove_unused(old)?;
        }
        let folder = self.settings.base(self.bases.newest);
        self.bases.used_by.entry(self.bases.newest).or_default().insert(checkpoint);
        let listed = files::list(&*self.files, &folder)?;
        let file = |(name, length): (String, u64)| {
            let (path, immutable) = (folder.join(&name), files::is_immutable(&name));
            StateFile { name, path, length, immutable }
        };
        Ok(listed.into_iter().map(file).collect())
    }

    /// Removes the local files of a snapshot that is no longer needed here.
    pub fn release(&mut self, checkpoint: CheckpointId) -> Result<(), StateError> {
        files::remove_folder(&*self.files, &self.settings.snapshots().join(checkpoint.to_string()))?;
        for base in self.bases.used_by.keys().copied().collect::<Vec<_>>() {
            if let Some(users) = self.bases.used_by.get_mut(&base) {
                users.remove(&checkpoint);
            }
            self.remove_unused(base)?;
        }
        Ok(())
    }

    fn remove_unused(&mut self, base: u64) -> Result<(), StateError> {
        let used = self.bases.used_by.get(&base).is_some_and(|users| !users.is_empty());
        if used || base == self.bases.newest {
            return Ok(());
        }
        self.bases.used_by.remove(&base);
        files::remove_folder(&*self.files, &self.settings.base(base))
    }

    /// Takes over what a record says of the families that the working store was opened with.
    pub(crate) fn apply(&mut self, record: Record, mut filters: Vec<SavedFilter>) -> Result<(), StateError> {
        let written = self.backend.families();
        for ids in record.ids {
            let node = self.settings.dedup.iter().find(|(_, name)| *name == ids.node).map(|(id, _)| *id);
            if let Some(node) = node.and_then(|id| self.seen.get_mut(&id)) {
                node.restore(ids, &written, &mut filters);
            }
        }
        for values in record.values {
            let node = self.settings.windows.iter().find(|(_, name)| *name == values.node).map(|(id, _)| *id);
            if let Some(node) = node.and_then(|id| self.values.get_mut(&id)) {
                node.restore(values);
            }
        }
        self.drop_strangers(written)
    }

    /// Families of nodes that the pipeline file has no more.
    fn drop_strangers(&mut self, written: Vec<Family>) -> Result<(), StateError> {
        for family in written {
            let nodes = match family {
                Family::Ids { .. } => &self.settings.dedup,
                Family::Values { .. } => &self.settings.windows,
            };
            if !nodes.iter().any(|(_, name)| name == family.node()) {
                self.backend.drop_family(&family)?;
            }
        }
        Ok(())
    }
}

impl StateSettings {
    pub(crate) fn db_folder(&self) -> PathBuf {
        self.folder.join("db")
    }

    pub(crate) fn filters(&self) -> PathBuf {
        self.folder.join("filters")
    }

    fn snapshots(&self) -> PathBuf {
        self.folder.join("snapshots")
    }

    fn base(&self, number: u64) -> PathBuf {
        self.snapshots().join(format!("base-{number}"))
    }

    pub(crate) fn open_backend(
        &self,
        files: &SharedFiles,
        kind: BackendKind,
        folder: PathBuf,
    ) -> Result<Box<dyn Backend>, StateError> {
        Ok(match kind {
            BackendKind::Memory => Box::new(MemoryBackend::open(files.clone(), folder)?),
            BackendKind::Rocksdb => Box::new(RocksBackend::open(folder, self.folder.join("runs"), self.cache_bytes())?),
        })
    }

    fn cache_bytes(&self) -> u64 {
        self.budget_bytes / 8
    }

    /// Splits the budget: an eighth for RocksDB's cache, the rest evenly over the dedup nodes. Of a node's share the hot table has most;
    /// fresh ids may take twice what is said here, since their lists double.
    pub(crate) fn limits(&self) -> Limits {
        let nodes = self.dedup.len().max(1) as u64;
        match self.backend {
            BackendKind::Memory => {
                let whole = self.budget_bytes / nodes;
                let fresh = (whole / 16).min(MOST_FRESH);
                Limits { whole: self.budget_bytes, table: whole / 8 * 7, fresh, filters: 0 }
            }
            BackendKind::Rocksdb => {
                let whole = (self.budget_bytes - self.cache_bytes()) / nodes;
                let fresh = (whole / 8).min(MOST_FRESH);
                Limits { whole: self.budget_bytes, table: whole / 20 * 9, fresh, filters: whole / 10 * 3 }
            }
        }
    }
}
