//! Brings ids back from the families: those that a batch asks for at once, and after a restore all of them, a part with each batch.
//!
//! Keeps: buckets are loaded newest first, each after all newer ones are hot, so that a loaded entry is its id's newest.
use floodmark_pipeline::hash::KeyHash;
use floodmark_pipeline::state::Bucket;

use super::SeenNode;
use super::filter::Filter;
use super::slot::{Reading, Residence, Slot};
use super::table::HotId;
use crate::backend::{Backend, IdEntry};
use crate::error::StateError;

/// Ids read for each id of a batch and each bucket without a filter, while one waits to be read. Measured by benches/scale.rs on 10 million ids in 20
/// buckets: reading costs 1 µs an id; looking for an id in a bucket 4 µs while the cache is cold and 0.8 µs after; at 128 read for each, as it once was,
/// reading was most of the 170 µs that a new id took.
const READ_PER_ID: usize = 2;
/// Opening a family's runs costs as much as some hundred ids: not for fewer than this.
const READ_AT_LEAST: usize = 1 << 14;
/// The longest that a batch waits for ids it didn't ask for.
const READ_AT_MOST: usize = 1 << 17;

impl SeenNode {
    /// Those of `ids` that aren't hot.
    pub(super) fn missing(&self, ids: &[KeyHash]) -> Vec<KeyHash> {
        ids.iter().copied().filter(|id| self.table.get(*id).is_none()).collect()
    }

    /// Finds those of `missing` that are on disk, newest bucket first.
    pub(super) fn fetch(&mut self, mut missing: Vec<KeyHash>, backend: &dyn Backend) -> Result<(), StateError> {
        let Some(lookup) = backend.lookup() else { return Ok(()) };
        missing.sort_unstable();
        missing.dedup();
        for (bucket, at) in self.by_bucket.clone().into_iter().rev() {
            let slot = &self.slots[at as usize];
            if slot.residence.is_hot() {
                continue;
            }
            let asked: Vec<KeyHash> = missing.iter().copied().filter(|id| slot.may_hold(*id)).collect();
            if asked.is_empty() {
                continue;
            }
            self.lookups += asked.len() as u64;
            let mut found = vec![];
            lookup.find_ids(&self.family(bucket), &asked, &mut |entry| found.push(entry))?;
            for entry in &found {
                self.heat(*entry, at);
            }
            if !found.is_empty() {
                missing.retain(|id| found.binary_search_by_key(id, |entry| entry.id).is_err());
            }
        }
        Ok(())
    }

    /// Brings everything into memory, for a backend that can't be asked.
    pub fn load_all(&mut self, backend: &dyn Backend) -> Result<(), StateError> {
        let ids: u64 = self.by_bucket.values().map(|at| self.slots[*at as usize].digest.entries).sum();
        if ids > self.table.capacity() as u64 {
            let used = ids * size_of::<HotId>() as u64;
            return Err(StateError::OverBudget { used, budget: self.limits.whole });
        }
        for (bucket, at) in self.by_bucket.clone().into_iter().rev() {
            for entry in backend.ids(&self.family(bucket), KeyHash(0)..=KeyHash(u128::MAX))? {
                self.heat(entry?, at);
            }
            self.slots[at as usize].residence = Residence::Hot;
        }
        Ok(())
    }

    fn heat(&mut self, entry: IdEntry, at: u32) {
        let slot = &mut self.slots[at as usize];
        self.table.update(entry.id, |hot| match hot {
            Some(_) => None,
            None => {
                slot.hot += 1;
                Some(HotId::new(entry.id, entry.partition, entry.offset, at))
            }
        });
    }

    /// Goes on with the newest bucket that still has to be read. The more buckets every unknown id has to be looked for in, the more is read, so that
    /// this time is short.
    pub(super) fn load_some(&mut self, ids: usize, backend: &dyn Backend) -> Result<(), StateError> {
        let Some((bucket, at)) = self.next_to_read() else {
            self.read_due = 0;
            return Ok(());
        };
        let blindly = self.by_bucket.values().filter(|at| self.slots[**at as usize].is_asked_blindly()).count();
        self.read_due += ids * READ_PER_ID * blindly.max(1);
        if self.read_due < READ_AT_LEAST {
            return Ok(());
        }
        let limit = std::mem::take(&mut self.read_due).min(READ_AT_MOST);
        self.read(bucket, at, limit, backend)
    }

    /// A bucket whose ids don't fit is read only if it needs a filter.
    fn next_to_read(&mut self) -> Option<(Bucket, u32)> {
        let mut all_newer_hot = true;
        for (bucket, at) in self.by_bucket.iter().rev() {
            let slot = &mut self.slots[*at as usize];
            if matches!(slot.residence, Residence::Unread) {
                let ids = slot.digest.entries as usize;
                let fits = self.table.len() + ids <= self.table.capacity() / 8 * 7;
                begin(slot, all_newer_hot && fits);
                if slot.filter.is_none() {
                    self.trim_filters();
                    return self.next_to_read();
                }
            }
            match slot.residence {
                Residence::Hot => {}
                Residence::Reading(_) => return Some((*bucket, *at)),
                Residence::Cold | Residence::Unread => all_newer_hot = false,
            }
        }
        None
    }

    fn read(&mut self, bucket: Bucket, at: u32, limit: usize, backend: &dyn Backend) -> Result<(), StateError> {
        let Residence::Reading(reading) = &self.slots[at as usize].residence else { return Ok(()) };
        let (heats, after) = (reading.heats, reading.after);
        let first = after.map_or(Some(0), |after| after.0.checked_add(1));
        let Some(first) = first else {
            finish(&mut self.slots[at as usize]);
            return Ok(());
        };
        let mut count = 0;
        let mut last = None;
        for entry in backend.ids(&self.family(bucket), KeyHash(first)..=KeyHash(u128::MAX))?.take(limit) {
            let entry = entry?;
            (count, last) = (count + 1, Some(entry.id));
            if let Residence::Reading(Reading { filter: Some(filter), .. }) = &mut self.slots[at as usize].residence {
                filter.insert(entry.id);
            }
            if heats {
                self.heat(entry, at);
            }
        }
        let slot = &mut self.slots[at as usize];
        if count < limit {
            finish(slot);
        } else if let Residence::Reading(reading) = &mut slot.residence {
            reading.after = last;
        }
        Ok(())
    }
}

fn begin(slot: &mut Slot, heats: bool) {
    let filter = slot.filter.is_none().then(|| Filter::for_ids(slot.digest.entries as usize));
    slot.residence = match heats || filter.is_some() {
        true => Residence::Reading(Reading { heats, filter, after: None }),
        false => Residence::Cold,
    };
}

fn finish(slot: &mut Slot) {
    if let Residence::Reading(reading) = std::mem::replace(&mut slot.residence, Residence::Hot) {
        slot.filter = slot.filter.take().or(reading.filter);
        if !reading.heats {
            slot.residence = Residence::Cold;
        }
    }
}
