//! Brings ids back from the families: those that a batch asks for at once, and after a restore all of them, a part with each batch.
//!
//! Keeps: buckets are loaded newest first, each after all newer ones are hot, so that a loaded entry is its id's newest.
use floodmark_pipeline::hash::KeyHash;
use floodmark_pipeline::state::Bucket;

use super::SeenNode;
use super::filter::Filter;
use super::slot::Residence;
use super::table::HotId;
use crate::backend::{Backend, IdEntry};
use crate::error::StateError;

/// Ids loaded for each id of a batch while a bucket waits: more of them end the time sooner in which every bucket has to be asked for an id that is
/// nowhere. What that asking costs, and so the best number, hasn't been measured apart.
const LOADED_PER_ID: usize = 128;
const LOADED_AT_LEAST: usize = 4_096;

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
            let residence = &self.slots[at as usize].residence;
            if residence.is_hot() {
                continue;
            }
            let asked: Vec<KeyHash> = missing.iter().copied().filter(|id| residence.may_hold(*id)).collect();
            if asked.is_empty() {
                continue;
            }
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

    /// Goes on with the newest bucket that still has to be read.
    pub(super) fn load_some(&mut self, ids: usize, backend: &dyn Backend) -> Result<(), StateError> {
        let mut all_newer_hot = true;
        let mut next = None;
        for (bucket, at) in self.by_bucket.iter().rev() {
            match self.slots[*at as usize].residence {
                Residence::Hot => continue,
                Residence::Unread | Residence::Loading { .. } | Residence::Filtering { .. } => {
                    next = Some((*bucket, *at));
                    break;
                }
                Residence::Filtered(_) | Residence::Bare => all_newer_hot = false,
            }
        }
        let Some((bucket, at)) = next else { return Ok(()) };
        if matches!(self.slots[at as usize].residence, Residence::Unread) {
            self.begin(at, all_newer_hot);
        }
        self.read(bucket, at, (ids * LOADED_PER_ID).max(LOADED_AT_LEAST), backend)
    }

    fn begin(&mut self, at: u32, all_newer_hot: bool) {
        let ids = self.slots[at as usize].digest.entries as usize;
        let fits = self.table.len() + ids <= self.table.capacity() / 8 * 7;
        self.slots[at as usize].residence = if all_newer_hot && fits {
            Residence::Loading { after: None }
        } else {
            Residence::Filtering { filter: Filter::for_ids(ids), after: None }
        };
        self.trim_filters();
    }

    fn read(&mut self, bucket: Bucket, at: u32, limit: usize, backend: &dyn Backend) -> Result<(), StateError> {
        let residence = &mut self.slots[at as usize].residence;
        let after = match residence {
            Residence::Loading { after } | Residence::Filtering { after, .. } => *after,
            _ => return Ok(()),
        };
        let first = after.map_or(Some(0), |after| after.0.checked_add(1));
        let Some(first) = first else {
            self.finish(at);
            return Ok(());
        };
        let mut count = 0;
        let mut last = None;
        for entry in backend.ids(&self.family(bucket), KeyHash(first)..=KeyHash(u128::MAX))?.take(limit) {
            let entry = entry?;
            (count, last) = (count + 1, Some(entry.id));
            match &mut self.slots[at as usize].residence {
                Residence::Filtering { filter, .. } => filter.insert(entry.id),
                _ => self.heat(entry, at),
            }
        }
        if count < limit {
            self.finish(at);
            return Ok(());
        }
        if let Residence::Loading { after } | Residence::Filtering { after, .. } =
            &mut self.slots[at as usize].residence
        {
            *after = last;
        }
        Ok(())
    }

    fn finish(&mut self, at: u32) {
        let residence = &mut self.slots[at as usize].residence;
        *residence = match std::mem::replace(residence, Residence::Hot) {
            Residence::Filtering { filter, .. } => Residence::Filtered(filter),
            _ => Residence::Hot,
        };
    }
}
