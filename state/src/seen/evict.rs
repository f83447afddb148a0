//! Keeps the hot ids of a node within its budget: whole buckets leave memory, oldest first, and expired ids are swept out.
//!
//! Keeps: an id leaves the table only when it is written and its bucket's filters know it; the buckets that are `Hot` are the newest ones.
use super::filter::Filter;
use super::slot::{Reading, Residence};
use super::{SeenNode, Sweep};
use crate::backend::{Backend, IdEntry};
use crate::error::StateError;

/// A sweep of the table takes this many ids of traffic.
const IDS_PER_SWEEP: usize = 1 << 20;

impl SeenNode {
    /// Writes runs ahead of the barrier, so that it has little left to write.
    pub(super) fn limit_fresh(&mut self, backend: &mut dyn Backend, changed: &mut bool) -> Result<(), StateError> {
        if (self.fresh * size_of::<IdEntry>()) as u64 > self.limits.fresh {
            self.write_fresh(backend, changed)?;
        }
        Ok(())
    }

    /// Makes room for `ids` more. True if others had to leave for it.
    pub(super) fn make_room(
        &mut self,
        ids: usize,
        backend: &mut dyn Backend,
        changed: &mut bool,
    ) -> Result<bool, StateError> {
        if self.table.len() + ids <= self.table.capacity() {
            return Ok(false);
        }
        self.sweep_all();
        if self.table.len() + ids <= self.table.capacity() {
            return Ok(false);
        }
        if backend.lookup().is_none() {
            let used = self.memory_used() + (ids * 2 * size_of::<IdEntry>()) as u64;
            return Err(StateError::OverBudget { used, budget: self.limits.whole });
        }
        self.write_fresh(backend, changed)?;
        self.choose_victims();
        for shard in 0..self.table.shards() {
            self.evict_shard(shard);
        }
        self.trim_filters();
        Ok(true)
    }

    /// Half of the table becomes free, so that evictions are rare. What is only a copy of ids on disk goes first.
    fn choose_victims(&mut self) {
        let mut left = self.table.len();
        for at in self.by_bucket.values() {
            let slot = &mut self.slots[*at as usize];
            if slot.residence.is_hot() {
                continue;
            }
            left -= slot.hot;
            if matches!(slot.residence, Residence::Reading(Reading { heats: true, .. })) {
                slot.residence = Residence::Unread;
            }
        }
        for at in self.by_bucket.values() {
            let slot = &mut self.slots[*at as usize];
            if left > self.table.capacity() / 2 && slot.residence.is_hot() {
                left -= slot.hot;
                slot.residence = Residence::Cold;
                // All of its ids pass by on their way out.
                slot.filter.get_or_insert_with(|| Filter::for_ids(slot.hot));
            }
        }
    }

    fn evict_shard(&mut self, shard: usize) {
        let slots = &mut self.slots;
        self.table.sweep(shard, |hot| {
            let slot = &mut slots[hot.slot as usize];
            if slot.residence.is_hot() {
                return slot.live;
            }
            slot.cool(hot.id());
            false
        });
    }

    pub(super) fn filter_bytes(&self) -> usize {
        self.by_bucket.values().map(|at| self.slots[*at as usize].filter_bytes()).sum()
    }

    /// A filter of a hot bucket denies nothing that the table doesn't. Of the others, the oldest are asked about least; they do with the backend's own.
    pub fn trim_filters(&mut self) {
        let mut bytes = self.filter_bytes();
        for hot in [true, false] {
            for at in self.by_bucket.values() {
                if bytes as u64 <= self.limits.filters {
                    return;
                }
                let slot = &mut self.slots[*at as usize];
                if slot.residence.is_hot() == hot {
                    bytes -= slot.filter_bytes();
                    slot.drop_filters();
                }
            }
        }
    }

    /// Sweeps a share of the table that fits a batch of `ids`.
    pub(super) fn sweep_some(&mut self, ids: usize) {
        if self.sweep.slots.is_empty() {
            if self.dead.is_empty() {
                return;
            }
            self.sweep = Sweep { next_shard: 0, slots: std::mem::take(&mut self.dead) };
        }
        let shards = (self.table.shards() * ids).div_ceil(IDS_PER_SWEEP).max(1);
        let end = (self.sweep.next_shard + shards).min(self.table.shards());
        for shard in self.sweep.next_shard..end {
            let slots = &self.slots;
            self.table.sweep(shard, |hot| slots[hot.slot as usize].live);
        }
        self.sweep.next_shard = end;
        if end == self.table.shards() {
            self.free.append(&mut self.sweep.slots);
        }
    }

    fn sweep_all(&mut self) {
        while !(self.dead.is_empty() && self.sweep.slots.is_empty()) {
            self.sweep_some(IDS_PER_SWEEP);
        }
    }
}
