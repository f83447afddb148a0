//! Brings a store back from a checkpoint's files: opened as they are where the key groups are the same, else entry by entry.
//!
//! A rescale merges the old stores' families in id order, so that of an id's entries only the newest is taken, with memory for one run of each bucket.
//! Keeps: what is restored has the digest that was saved, over all workers; the old files are not changed.
//! Tested: conformance.
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use floodmark_pipeline::hash::KeyHash;
use floodmark_pipeline::ids::NodeId;
use floodmark_pipeline::state::Bucket;

use crate::backend::{Backend, Family, IdEntry, IdScan};
use crate::error::StateError;
use crate::files::{self, Files, LocalDisk};
use crate::key_groups::hashes;
use crate::record::{Record, STATE_FILE};
use crate::seen::{FILTER_ENDING, SeenNode};
use crate::snapshot::OldStore;
use crate::store::{KeyedState, StateSettings};
use crate::values::ValuesNode;

impl KeyedState {
    /// A store with the content that `from`, the stores of all workers at one checkpoint, has for the key groups of `settings`.
    pub fn restore(settings: StateSettings, from: &[OldStore]) -> Result<Self, StateError> {
        Self::restore_on(Arc::new(LocalDisk), settings, from)
    }

    pub fn restore_on(files: Arc<dyn Files>, settings: StateSettings, from: &[OldStore]) -> Result<Self, StateError> {
        let mut records = vec![];
        for store in from {
            let state = store.files.iter().find(|file| file.name == STATE_FILE);
            let state = state.ok_or_else(|| StateError::Missing { name: STATE_FILE.into() })?;
            let record = Record::read(&*files, &state.path)?;
            if record.max_parallelism != settings.max_parallelism {
                let (found, asked) = (record.max_parallelism, settings.max_parallelism);
                return Err(StateError::MaxParallelism { found, asked });
            }
            whole(&*files, store, &record)?;
            records.push(record);
        }
        covered(&settings.key_groups, &records)?;
        files::make_new_folder(&*files, &settings.db_folder())?;
        let same = records
            .iter()
            .position(|record| record.key_groups == settings.key_groups && record.backend == settings.backend);
        let mut state = match same {
            Some(at) => {
                bring_store(&*files, &from[at], &settings.db_folder())?;
                bring_filters(&*files, &from[at], &settings.filters())?;
                let (mut state, filters) = Self::over(files, settings)?;
                state.apply(records.swap_remove(at), filters)?;
                state.old_store = Some(at);
                state
            }
            None => {
                let (mut state, _) = Self::over(files, settings)?;
                state.import(from, records)?;
                state
            }
        };
        let Self { seen, backend, .. } = &mut state;
        if backend.lookup().is_none() {
            seen.values_mut().try_for_each(|node| node.load_all(backend.as_ref()))?;
        }
        Ok(state)
    }

    fn import(&mut self, from: &[OldStore], records: Vec<Record>) -> Result<(), StateError> {
        let folder = self.settings.folder.join("import");
        let mut sources = vec![];
        for (at, (store, record)) in from.iter().zip(records).enumerate() {
            let (ours, theirs) = (&self.settings.key_groups, &record.key_groups);
            let both = ours.start.max(theirs.start)..ours.end.min(theirs.end);
            if both.is_empty() {
                continue;
            }
            let folder = folder.join(at.to_string());
            files::make_folder(&*self.files, &folder)?;
            bring_store(&*self.files, store, &folder)?;
            let backend = self.settings.open_backend(&self.files, record.backend, folder)?;
            sources.push(Source { backend, record, key_groups: both });
        }
        let room = (self.settings.budget_bytes / 8) as usize / size_of::<IdEntry>();
        for (id, name) in self.settings.dedup.clone() {
            self.import_ids(id, &name, &sources, room.max(1_024))?;
        }
        for (id, name) in self.settings.windows.clone() {
            self.import_values(id, &name, &sources)?;
        }
        drop(sources);
        files::remove_folder(&*self.files, &folder)
    }

    fn import_ids(&mut self, id: NodeId, name: &str, sources: &[Source], room: usize) -> Result<(), StateError> {
        let Self { seen, backend, settings, .. } = self;
        let Some(node) = seen.get_mut(&id) else { return Ok(()) };
        let mut merge = Merge::default();
        for source in sources {
            if let Some(ids) = source.record.ids.iter().find(|ids| ids.node == name) {
                node.set_expired(ids.expired);
            }
            source.add_to(&mut merge, name, settings.max_parallelism)?;
        }
        let expected = expected(sources, name);
        let mut out = Runs { node, name, runs: BTreeMap::new(), entries: 0, expected, backend: backend.as_mut() };
        let mut last = None;
        while let Some((entry, bucket)) = merge.next()? {
            // Entries of one id come newest first; the others were replaced long ago.
            if last.replace(entry.id) != Some(entry.id) {
                out.push(bucket, entry);
                if out.entries >= room {
                    out.write()?;
                }
            }
        }
        out.write()
    }

    fn import_values(&mut self, id: NodeId, name: &str, sources: &[Source]) -> Result<(), StateError> {
        let Self { values, backend, changed, .. } = self;
        let Some(node) = values.get_mut(&id) else { return Ok(()) };
        for source in sources {
            let Some(record) = source.record.values.iter().find(|values| values.node == name) else { continue };
            let mut old = ValuesNode::new(name.into());
            old.restore(record.clone());
            for entry in old.stored(source.key_groups.clone(), source.backend.as_ref())? {
                let (key, value) = entry?;
                let Some((group, key)) = key.split_first_chunk::<2>() else { continue };
                node.change(u16::from_be_bytes(*group), key, Some(&value), backend.as_ref())?;
                if node.pending_bytes() > 8 << 20 {
                    node.write(backend.as_mut(), changed)?;
                }
            }
        }
        node.write(backend.as_mut(), changed)
    }
}

/// An old store, opened, and the key groups of it that are ours now.
struct Source {
    backend: Box<dyn Backend>,
    record: Record,
    key_groups: Range<u16>,
}

impl Source {
    fn add_to<'a>(&'a self, merge: &mut Merge<'a>, name: &str, max_parallelism: u16) -> Result<(), StateError> {
        let Some(range) = hashes(&self.key_groups, max_parallelism) else { return Ok(()) };
        let Some(ids) = self.record.ids.iter().find(|ids| ids.node == name) else { return Ok(()) };
        for from in &ids.buckets {
            let family = Family::Ids { node: name.into(), bucket: from.bucket };
            merge.add(from.bucket, self.backend.ids(&family, range.clone())?)?;
            let ours = range.clone();
            let fresh = from.fresh.iter().copied().filter(move |entry| ours.contains(&entry.id));
            merge.add(from.bucket, Box::new(fresh.map(Ok)))?;
        }
        Ok(())
    }
}

/// Several sorted scans as one: by id, of one id the newest bucket first.
#[derive(Default)]
struct Merge<'a> {
    scans: Vec<IdScan<'a>>,
    heads: BinaryHeap<Head>,
}

/// Ordered by id, then newest bucket, then scan; the rest is carried along.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Head(Reverse<(u128, Reverse<Bucket>, usize, u32, i64)>);

impl<'a> Merge<'a> {
    fn add(&mut self, bucket: Bucket, scan: IdScan<'a>) -> Result<(), StateError> {
        self.scans.push(scan);
        self.advance(self.scans.len() - 1, bucket)
    }

    fn advance(&mut self, scan: usize, bucket: Bucket) -> Result<(), StateError> {
        if let Some(entry) = self.scans[scan].next() {
            let entry = entry?;
            self.heads.push(Head(Reverse((entry.id.0, Reverse(bucket), scan, entry.partition, entry.offset))));
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Option<(IdEntry, Bucket)>, StateError> {
        let Some(Head(Reverse((id, Reverse(bucket), scan, partition, offset)))) = self.heads.pop() else {
            return Ok(None);
        };
        self.advance(scan, bucket)?;
        Ok(Some((IdEntry { id: KeyHash(id), partition, offset }, bucket)))
    }
}

/// Entries on their way into the new store: a run of each bucket.
struct Runs<'a> {
    node: &'a mut SeenNode,
    name: &'a str,
    runs: BTreeMap<Bucket, Vec<IdEntry>>,
    entries: usize,
    /// Most ids that each bucket may get.
    expected: BTreeMap<Bucket, usize>,
    backend: &'a mut dyn Backend,
}

/// All that the sources hold of each bucket.
fn expected(sources: &[Source], name: &str) -> BTreeMap<Bucket, usize> {
    let mut expected = BTreeMap::new();
    let nodes = sources.iter().flat_map(|source| source.record.ids.iter().filter(|ids| ids.node == name));
    for bucket in nodes.flat_map(|ids| &ids.buckets) {
        *expected.entry(bucket.bucket).or_default() += bucket.digest.entries as usize;
    }
    expected
}

impl Runs<'_> {
    fn push(&mut self, bucket: Bucket, entry: IdEntry) {
        let expected = self.expected.get(&bucket).copied().unwrap_or(0);
        self.node.count_written(bucket, entry, expected);
        self.runs.entry(bucket).or_default().push(entry);
        self.entries += 1;
    }

    fn write(&mut self) -> Result<(), StateError> {
        self.entries = 0;
        self.node.trim_filters();
        for (bucket, run) in std::mem::take(&mut self.runs) {
            self.backend.write_ids(&Family::Ids { node: self.name.into(), bucket }, &run)?;
        }
        Ok(())
    }
}

fn bring_store(files: &dyn Files, store: &OldStore, folder: &Path) -> Result<(), StateError> {
    bring(files, store, folder, |name| name != STATE_FILE && !name.ends_with(FILTER_ENDING))
}

fn bring_filters(files: &dyn Files, store: &OldStore, folder: &Path) -> Result<(), StateError> {
    files::make_folder(files, folder)?;
    bring(files, store, folder, |name| name.ends_with(FILTER_ENDING))
}

fn bring(files: &dyn Files, store: &OldStore, folder: &Path, wanted: impl Fn(&str) -> bool) -> Result<(), StateError> {
    let mut wanted = store.files.iter().filter(|file| wanted(&file.name));
    wanted.try_for_each(|file| files::bring(files, &file.name, &file.path, &folder.join(&file.name)))
}

/// Every file that STATE names must be there at its length.
fn whole(files: &dyn Files, store: &OldStore, record: &Record) -> Result<(), StateError> {
    for (name, length) in &record.files {
        let missing = || StateError::Missing { name: name.clone() };
        let file = store.files.iter().find(|file| file.name == *name).ok_or_else(missing)?;
        let found = files.length(&file.path).map_err(|e| StateError::io("looking at", &file.path, e))?;
        if found != *length {
            return Err(StateError::damaged(&file.path, format!("it has {found} bytes of {length}")));
        }
    }
    Ok(())
}

/// Every key group that is asked for must be in an old store: a lost one would make duplicates unseen.
fn covered(asked: &Range<u16>, records: &[Record]) -> Result<(), StateError> {
    let mut ranges: Vec<&Range<u16>> = records.iter().map(|record| &record.key_groups).collect();
    ranges.sort_by_key(|range| range.start);
    let mut reached = asked.start;
    for range in ranges {
        if range.start <= reached {
            reached = reached.max(range.end);
        }
    }
    if reached < asked.end {
        return Err(StateError::Uncovered { from: reached, to: asked.end });
    }
    Ok(())
}
