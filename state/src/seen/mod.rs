//! Ids seen by one dedup node: hot ones in an exact table, all of them in sorted runs, one family for each time bucket.
//!
//! ```text
//!            admit                       barrier (or too many)               budget exceeded
//!   id  ───────────►  hot table + fresh  ─────────────────────►  family  ◄───────────────────  hot table forgets whole buckets, oldest first
//!                         ▲                                        │
//!                         └────────────── warm: hits ◄── filter ◄──┘
//! ```
//! Doesn't know: event time, horizons, checkpoints.
//! Keeps: an id in the hot table has its newest entry there; an id that is not has none in a bucket that is `Hot`; the digest is that of the newest entries.
//! Tested: conformance (against a map), tests/{budget,restored}.rs.
mod evict;
mod filter;
mod load;
mod saved;
mod slot;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use floodmark_pipeline::hash::KeyHash;
use floodmark_pipeline::state::{Bucket, Seen, SeenIds};

pub(crate) use self::saved::{ENDING as FILTER_ENDING, FilterFolder, SavedFilter};

use self::filter::Filter;
use self::slot::{Residence, Slot};
use self::table::{HotId, HotTable};
use crate::backend::{Backend, Family, IdEntry};
use crate::digest::{NodeSeed, StateDigest};
use crate::error::StateError;
use crate::record::{BucketRecord, IdsRecord};

/// Bytes that the parts of one node may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub whole: u64,
    pub table: u64,
    pub fresh: u64,
    /// 0: there are none, since the backend can't be asked for an id anyway.
    pub filters: u64,
}

/// Buckets with fewer ids are read again sooner than a file for their filter would be worth.
const SAVED_FROM_IDS: u64 = 1 << 14;
/// Bytes of filters after which a snapshot leaves the others to the next one.
const SAVED_AT_ONCE: usize = 8 << 20;

pub(crate) struct SeenNode {
    name: Arc<str>,
    seed: NodeSeed,
    limits: Limits,
    table: HotTable,
    slots: Vec<Slot>,
    by_bucket: BTreeMap<Bucket, u32>,
    /// Slots whose ids are all swept out of the table.
    free: Vec<u32>,
    /// Slots that expired since the sweep under way began.
    dead: Vec<u32>,
    sweep: Sweep,
    expired: Option<Bucket>,
    /// The bucket that the last id went to: nearly always that of the next one.
    last: Option<(Bucket, u32)>,
    fresh: usize,
    /// Ids to be read from disk once they are worth it.
    read_due: usize,
    /// Ids that the backend was asked for.
    lookups: u64,
    fault: Option<String>,
}

/// Expired ids leave the table a few shards at a time.
#[derive(Default)]
struct Sweep {
    next_shard: usize,
    slots: Vec<u32>,
}

/// A node's ids for the time of one batch.
pub struct Ids<'a> {
    pub(crate) node: &'a mut SeenNode,
    pub(crate) backend: &'a mut dyn Backend,
    pub(crate) changed: &'a mut bool,
}

impl SeenIds for Ids<'_> {
    type Error = StateError;

    fn warm(&mut self, ids: &[KeyHash]) -> Result<(), StateError> {
        let Self { node, backend, changed } = self;
        node.check()?;
        node.limit_fresh(*backend, changed)?;
        // Asking for all of them first also brings their places into the processor's cache, many at a time.
        let mut missing = node.missing(ids);
        if node.make_room(missing.len(), *backend, changed)? {
            missing = node.missing(ids);
        }
        node.sweep_some(ids.len());
        if node.by_bucket.values().any(|at| !node.slots[*at as usize].residence.is_hot()) {
            node.fetch(missing, *backend)?;
            node.load_some(ids.len(), *backend)?;
        }
        Ok(())
    }

    fn admit(&mut self, id: KeyHash, decide: impl FnOnce(Option<Seen>) -> Option<Seen>) {
        self.node.admit(id, decide);
    }

    fn expire(&mut self, last: Bucket) -> Result<(), StateError> {
        self.node.check()?;
        self.node.expire(last, self.backend, self.changed)
    }
}

impl SeenNode {
    pub fn new(name: Arc<str>, limits: Limits) -> Self {
        Self {
            seed: NodeSeed::ids(&name),
            name,
            limits,
            table: HotTable::new(limits.table),
            slots: vec![],
            by_bucket: BTreeMap::new(),
            free: vec![],
            dead: vec![],
            sweep: Sweep::default(),
            expired: None,
            last: None,
            fresh: 0,
            read_due: 0,
            lookups: 0,
            fault: None,
        }
    }

    fn family(&self, bucket: Bucket) -> Family {
        Family::Ids { node: self.name.clone(), bucket }
    }

    pub fn check(&self) -> Result<(), StateError> {
        match &self.fault {
            None => Ok(()),
            Some(reason) => Err(StateError::Contract { node: self.name.to_string(), reason: reason.clone() }),
        }
    }

    pub fn memory_used(&self) -> u64 {
        let fresh: usize = self.slots.iter().map(|slot| slot.fresh.capacity() * size_of::<IdEntry>()).sum();
        (self.table.bytes() + self.table.scratch_bytes() + fresh + self.filter_bytes()) as u64
    }

    /// Forgets everything; what the backend has of the node is dropped.
    pub fn reset(&mut self, backend: &mut dyn Backend, changed: &mut bool) -> Result<(), StateError> {
        for (bucket, at) in &self.by_bucket {
            if self.slots[*at as usize].written {
                *changed = true;
                backend.drop_family(&self.family(*bucket))?;
            }
        }
        *self = Self::new(self.name.clone(), self.limits);
        Ok(())
    }

    /// Ids that were looked for on disk since the store was opened, once for each bucket.
    pub fn lookups(&self) -> u64 {
        self.lookups
    }

    pub fn digest(&self) -> StateDigest {
        let mut sum = StateDigest::default();
        self.by_bucket.values().for_each(|slot| sum += self.slots[*slot as usize].digest);
        sum
    }

    fn admit(&mut self, id: KeyHash, decide: impl FnOnce(Option<Seen>) -> Option<Seen>) {
        let Self { table, slots, by_bucket, free, last, expired, fault, seed, fresh, .. } = self;
        table.update(id, |hot| {
            let old = hot.filter(|hot| slots[hot.slot as usize].live).map(|hot| {
                let bucket = slots[hot.slot as usize].bucket;
                Seen { bucket, partition: hot.partition, offset: hot.offset }
            });
            let new = decide(old)?;
            if old.is_some_and(|old| old.bucket >= new.bucket) || expired.is_some_and(|expired| new.bucket <= expired) {
                *fault = Some(format!("an id of bucket {old:?} was to go back to {new:?}; expired up to {expired:?}"));
                return None;
            }
            if let Some(hot) = hot {
                slots[hot.slot as usize].forget(id, old.map(|old| seed.of_id(id, old)));
            }
            let slot = match *last {
                Some((bucket, slot)) if bucket == new.bucket => slot,
                _ => slot_for(new.bucket, slots, by_bucket, free),
            };
            *last = Some((new.bucket, slot));
            *fresh += 1;
            slots[slot as usize]
                .take(IdEntry { id, partition: new.partition, offset: new.offset }, seed.of_id(id, new));
            Some(HotId::new(id, new.partition, new.offset, slot))
        });
    }

    fn expire(&mut self, last: Bucket, backend: &mut dyn Backend, changed: &mut bool) -> Result<(), StateError> {
        self.expired = self.expired.max(Some(last));
        self.last = None;
        while let Some(first) = self.by_bucket.first_entry().filter(|first| *first.key() <= last) {
            let (bucket, at) = first.remove_entry();
            let slot = &mut self.slots[at as usize];
            slot.live = false;
            self.fresh -= slot.fresh.len();
            slot.fresh = vec![];
            slot.superseded.clear();
            slot.residence = Residence::Hot;
            slot.filter = None;
            self.dead.push(at);
            if self.slots[at as usize].written {
                *changed = true;
                backend.drop_family(&self.family(bucket))?;
            }
        }
        Ok(())
    }

    /// One run for each bucket that has fresh ids.
    pub fn write_fresh(&mut self, backend: &mut dyn Backend, changed: &mut bool) -> Result<(), StateError> {
        self.fresh().into_iter().try_for_each(|(_, bucket)| self.write_bucket(bucket, backend, changed))
    }

    pub fn write_bucket(
        &mut self,
        bucket: Bucket,
        backend: &mut dyn Backend,
        changed: &mut bool,
    ) -> Result<(), StateError> {
        let Some(at) = self.by_bucket.get(&bucket).copied() else { return Ok(()) };
        let slot = &mut self.slots[at as usize];
        self.fresh -= slot.fresh.len();
        slot.sort_fresh();
        let run = std::mem::take(&mut slot.fresh);
        if run.is_empty() {
            return Ok(());
        }
        if !slot.written {
            self.begin_filter(bucket, at, run.len());
        }
        self.slots[at as usize].note_written(&run);
        self.trim_filters();
        *changed = true;
        backend.write_ids(&self.family(bucket), &run)
    }

    /// A filter that is large enough at once answers with one look: a bucket is taken to become as large as those before it.
    fn begin_filter(&mut self, bucket: Bucket, at: u32, ids: usize) {
        if self.limits.filters > 0 {
            let before =
                self.by_bucket.range(..bucket).rev().take(2).map(|(_, at)| self.slots[*at as usize].digest.entries);
            let expected = before.max().unwrap_or(0) as usize;
            self.slots[at as usize].filter = Some(Filter::for_ids(ids.max(expected)));
        }
    }

    /// Writes filters of buckets that got no run since the last snapshot; the newest bucket will get more. True if there were any.
    pub fn save_filters(&mut self, folder: &mut FilterFolder) -> Result<bool, StateError> {
        let (mut saved, least) = (0, SAVED_FROM_IDS.min(self.limits.fresh / 32));
        for (bucket, at) in self.by_bucket.iter().rev().skip(1) {
            let slot = &mut self.slots[*at as usize];
            if std::mem::take(&mut slot.busy) || slot.saved.is_some() || slot.digest.entries < least {
                continue;
            }
            if let Some(filter) = slot.filter.as_ref().filter(|_| saved < SAVED_AT_ONCE) {
                slot.saved = Some(folder.write(&self.name, *bucket, filter)?);
                saved += filter.bytes();
            }
        }
        Ok(saved > 0)
    }

    /// Adds the numbers of the filters that hold.
    pub fn saved_filters(&self, numbers: &mut BTreeSet<u64>) {
        numbers.extend(self.by_bucket.values().filter_map(|at| self.slots[*at as usize].saved));
    }

    /// How many fresh ids each bucket has that has any.
    pub fn fresh(&self) -> Vec<(usize, Bucket)> {
        let fresh = self.by_bucket.iter().map(|(bucket, at)| (self.slots[*at as usize].fresh.len(), *bucket));
        fresh.filter(|(ids, _)| *ids > 0).collect()
    }

    /// What a snapshot must say beside the families: fresh ids and sums.
    pub fn record(&mut self) -> IdsRecord {
        let mut buckets = vec![];
        for (bucket, at) in &self.by_bucket {
            let slot = &mut self.slots[*at as usize];
            let before = slot.fresh.len();
            slot.sort_fresh();
            self.fresh -= before - slot.fresh.len();
            buckets.push(BucketRecord { bucket: *bucket, digest: slot.digest, fresh: slot.fresh.clone() });
        }
        IdsRecord { node: self.name.to_string(), expired: self.expired, buckets }
    }

    /// Takes a snapshot's word for what the families hold. No family is read: ids come as they are asked for.
    pub fn restore(&mut self, record: IdsRecord, written: &[Family], saved: &mut Vec<SavedFilter>) {
        self.expired = record.expired;
        for from in record.buckets {
            let at = slot_for(from.bucket, &mut self.slots, &mut self.by_bucket, &mut self.free);
            let written = written.contains(&self.family(from.bucket));
            let slot = &mut self.slots[at as usize];
            slot.digest = from.digest;
            slot.written = written;
            if written {
                slot.residence = Residence::Unread;
            }
            for entry in &from.fresh {
                slot.hot += 1;
                self.table.update(entry.id, |_| Some(HotId::new(entry.id, entry.partition, entry.offset, at)));
            }
            self.fresh += from.fresh.len();
            slot.fresh = from.fresh;
        }
        for saved in saved.extract_if(.., |saved| *saved.node == *self.name) {
            if let Some(at) = self.by_bucket.get(&saved.bucket) {
                let slot = &mut self.slots[*at as usize];
                if slot.written {
                    (slot.filter, slot.saved) = (Some(saved.filter), Some(saved.number));
                }
            }
        }
        self.trim_filters();
    }

    /// Takes an entry that is about to be written to its family during a rescale; the bucket may get `expected` ids.
    pub fn count_written(&mut self, bucket: Bucket, entry: IdEntry, expected: usize) {
        let at = slot_for(bucket, &mut self.slots, &mut self.by_bucket, &mut self.free);
        let slot = &mut self.slots[at as usize];
        slot.digest.add(self.seed.of_id(entry.id, entry.seen(bucket)));
        if !slot.written && self.limits.filters > 0 {
            slot.filter = Some(Filter::for_ids(expected));
        }
        slot.written = true;
        slot.residence = Residence::Unread;
        if let Some(filter) = &mut slot.filter {
            filter.insert(entry.id);
        }
    }

    pub fn set_expired(&mut self, expired: Option<Bucket>) {
        self.expired = self.expired.max(expired);
    }
}

impl Slot {
    fn take(&mut self, entry: IdEntry, hash: u128) {
        self.digest.add(hash);
        self.hot += 1;
        self.fresh.push(entry);
    }

    /// Its id has a newer entry. `hash` is that of the old one, if the bucket still counts.
    fn forget(&mut self, id: KeyHash, hash: Option<u128>) {
        self.hot -= 1;
        if let Some(hash) = hash {
            self.digest.remove(hash);
            if !self.fresh.is_empty() {
                self.superseded.insert(id);
            }
        }
    }
}

fn slot_for(bucket: Bucket, slots: &mut Vec<Slot>, by_bucket: &mut BTreeMap<Bucket, u32>, free: &mut Vec<u32>) -> u32 {
    *by_bucket.entry(bucket).or_insert_with(|| match free.pop() {
        Some(at) => {
            slots[at as usize] = Slot::new(bucket);
            at
        }
        None => {
            slots.push(Slot::new(bucket));
            slots.len() as u32 - 1
        }
    })
}
