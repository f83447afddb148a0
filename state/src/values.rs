//! Keyed values of one window node: the durable side of a table that the operator keeps itself.
//!
//! Changes wait here, sorted, until there are enough for a run. For the digest, the hash of every stored entry is kept beside its key's hash.
//! Doesn't know: what a value means; its first byte is its writer's format version.
//! Keeps: the digest is that of the backend's values with the waiting changes applied.
//! Tested: conformance (against a map).
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::ops::Range;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use xxhash_rust::xxh3::xxh3_128;

use crate::backend::{Backend, Family, ValueScan};
use crate::digest::{NodeSeed, StateDigest};
use crate::error::StateError;
use crate::key_groups::value_key;
use crate::record::ValuesRecord;

pub(crate) struct ValuesNode {
    name: Arc<str>,
    seed: NodeSeed,
    pending: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    pending_bytes: usize,
    digest: StateDigest,
    /// Entry hash of each stored key; `None` after a restore, until it is asked for or everything was scanned.
    hashes: Option<HashMap<u128, u128, FixedState>>,
}

impl ValuesNode {
    pub fn new(name: Arc<str>) -> Self {
        Self {
            seed: NodeSeed::values(&name),
            name,
            pending: BTreeMap::new(),
            pending_bytes: 0,
            digest: StateDigest::default(),
            hashes: Some(HashMap::default()),
        }
    }

    fn family(&self) -> Family {
        Family::Values { node: self.name.clone() }
    }

    pub fn digest(&self) -> StateDigest {
        self.digest
    }

    pub fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    pub fn memory_used(&self) -> u64 {
        let hashes = self.hashes.as_ref().map_or(0, HashMap::allocation_size);
        (self.pending_bytes + hashes) as u64
    }

    pub fn change(
        &mut self,
        key_group: u16,
        key: &[u8],
        value: Option<&[u8]>,
        backend: &dyn Backend,
    ) -> Result<(), StateError> {
        let key = value_key(key_group, key);
        let short = xxh3_128(&key);
        let hash = value.map(|value| self.seed.of_value(&key, value));
        let hashes = self.hashes(backend)?;
        let old = match hash {
            Some(hash) => hashes.insert(short, hash),
            None => hashes.remove(&short),
        };
        if let Some(old) = old {
            self.digest.remove(old);
        }
        if let Some(hash) = hash {
            self.digest.add(hash);
        }
        self.wait(key, value.map(<[u8]>::to_vec));
        Ok(())
    }

    fn wait(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        let size = |key: &[u8], value: &Option<Vec<u8>>| key.len() + value.as_ref().map_or(0, Vec::len) + 64;
        self.pending_bytes += size(&key, &value);
        if let Some((old_key, old)) = self.pending.remove_entry(&key) {
            self.pending_bytes -= size(&old_key, &old);
        }
        self.pending.insert(key, value);
    }

    /// After a restore the hashes are read once.
    fn hashes(&mut self, backend: &dyn Backend) -> Result<&mut HashMap<u128, u128, FixedState>, StateError> {
        let hashes = match self.hashes.take() {
            Some(hashes) => hashes,
            None => {
                let mut hashes = HashMap::default();
                for entry in self.stored(0..u16::MAX, backend)? {
                    let (key, value) = entry?;
                    hashes.insert(xxh3_128(&key), self.seed.of_value(&key, &value));
                }
                hashes
            }
        };
        Ok(self.hashes.insert(hashes))
    }

    /// Shows every value of these key groups, in key order.
    pub fn scan(
        &mut self,
        key_groups: Range<u16>,
        backend: &dyn Backend,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), StateError> {
        let mut hashes = self.hashes.is_none().then(HashMap::default);
        for entry in self.stored(key_groups, backend)? {
            let (key, value) = entry?;
            if let Some(hashes) = &mut hashes {
                hashes.insert(xxh3_128(&key), self.seed.of_value(&key, &value));
            }
            visit(&key[2..], &value);
        }
        // Only a scan of everything has met every key.
        if hashes.as_ref().is_some_and(|hashes| hashes.len() as u64 == self.digest.entries) {
            self.hashes = hashes;
        }
        Ok(())
    }

    /// The backend's values with the waiting changes over them.
    pub fn stored<'a>(&'a self, key_groups: Range<u16>, backend: &'a dyn Backend) -> Result<ValueScan<'a>, StateError> {
        let below = backend.values(&self.family(), key_groups.clone())?;
        let bound = |group: u16| group.to_be_bytes().to_vec();
        let above = self.pending.range(bound(key_groups.start)..bound(key_groups.end));
        Ok(Box::new(Overlay { below: below.peekable(), above: above.peekable() }))
    }

    pub fn write(&mut self, backend: &mut dyn Backend, changed: &mut bool) -> Result<(), StateError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let run: Vec<_> = std::mem::take(&mut self.pending).into_iter().collect();
        self.pending_bytes = 0;
        *changed = true;
        backend.write_values(&self.family(), &run)
    }

    /// Forgets everything; what the backend has of the node is dropped.
    pub fn reset(&mut self, backend: &mut dyn Backend, changed: &mut bool) -> Result<(), StateError> {
        *changed = true;
        backend.drop_family(&self.family())?;
        *self = Self::new(self.name.clone());
        Ok(())
    }

    pub fn record(&self) -> ValuesRecord {
        let pending = self.pending.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        ValuesRecord { node: self.name.to_string(), digest: self.digest, pending }
    }

    /// Takes a snapshot's word for what the family holds.
    pub fn restore(&mut self, record: ValuesRecord) {
        self.digest = record.digest;
        record.pending.into_iter().for_each(|(key, value)| self.wait(key, value));
        self.hashes = None;
    }
}

struct Overlay<'a> {
    below: Peekable<ValueScan<'a>>,
    above: Peekable<std::collections::btree_map::Range<'a, Vec<u8>, Option<Vec<u8>>>>,
}

impl Iterator for Overlay<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>), StateError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some((key, change)) = self.above.peek() else { return self.below.next() };
            if let Some(Ok((stored, _))) = self.below.peek()
                && stored < *key
            {
                return self.below.next();
            }
            if let Some(Err(_)) = self.below.peek() {
                return self.below.next();
            }
            let replaced = matches!(self.below.peek(), Some(Ok((stored, _))) if stored == *key);
            let put = change.as_ref().map(|value| Ok(((*key).clone(), value.clone())));
            self.above.next();
            if replaced {
                self.below.next();
            }
            if put.is_some() {
                return put;
            }
        }
    }
}
