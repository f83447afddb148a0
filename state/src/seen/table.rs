//! The hot ids of one dedup node: an exact hash table in many small shards.
//!
//! Small shards, so that growing, sweeping and evicting never stop the worker for longer than one shard takes, and so that full shards fill the budget
//! exactly (a single table doubles, and spends up to half of its memory on nothing).
//! Doesn't know: buckets other than by their slot, files, what is on disk.
//! Keeps: an id stands in the table at most once.
use floodmark_pipeline::hash::KeyHash;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Place;

/// A hot id. 32 bytes, so that two fill a cache line and none straddles it.
#[derive(Clone, Copy, Debug)]
pub(super) struct HotId {
    upper: u64,
    lower: u64,
    pub offset: i64,
    pub partition: u32,
    pub slot: u32,
}

impl HotId {
    pub fn new(id: KeyHash, partition: u32, offset: i64, slot: u32) -> Self {
        Self { upper: (id.0 >> 64) as u64, lower: id.0 as u64, offset, partition, slot }
    }

    pub fn id(&self) -> KeyHash {
        KeyHash(u128::from(self.upper) << 64 | u128::from(self.lower))
    }
}

/// Slots of a full shard; a table smaller than that is one shard.
const SHARD_SLOTS: usize = 8_192;
const FEWEST_SLOTS: usize = 64;
/// An id and its control byte.
const SLOT_BYTES: usize = size_of::<HotId>() + 1;

pub(super) struct HotTable {
    shards: Vec<HashTable<HotId>>,
    shard_slots: usize,
    len: usize,
    bytes: usize,
    /// Survivors of the shard being swept.
    kept: Vec<HotId>,
}

impl HotTable {
    /// A table that stays within `budget` bytes as long as it holds no more than [`capacity`](Self::capacity) ids.
    pub fn new(budget: u64) -> Self {
        let slots = (budget as usize / SLOT_BYTES).max(FEWEST_SLOTS);
        let shard_slots = SHARD_SLOTS.min(1 << slots.ilog2());
        let shards = (0..slots / shard_slots).map(|_| HashTable::new()).collect();
        Self { shards, shard_slots, len: 0, bytes: 0, kept: vec![] }
    }

    /// Shards fill unevenly; 6 % of room below hashbrown's load limit of 7/8 keeps the fullest from doubling.
    pub fn capacity(&self) -> usize {
        self.shards.len() * (self.shard_slots / 8 * 7) * 94 / 100
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes that a sweep left behind.
    pub fn scratch_bytes(&self) -> usize {
        self.kept.capacity() * size_of::<HotId>()
    }

    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// The upper half's low bits: its high bits name the key group, so a worker's ids share them; the lower half places an id in its shard.
    fn shard_of(&self, id: KeyHash) -> usize {
        let bits = u64::from((id.0 >> 64) as u32);
        ((bits * self.shards.len() as u64) >> 32) as usize
    }

    pub fn get(&self, id: KeyHash) -> Option<&HotId> {
        self.shards[self.shard_of(id)].find(id.0 as u64, |hot| hot.id() == id)
    }

    /// Finds or makes the place of `id`. `f` sees what is there and returns what shall be.
    pub fn update(&mut self, id: KeyHash, f: impl FnOnce(Option<&HotId>) -> Option<HotId>) {
        let at = self.shard_of(id);
        let shard = &mut self.shards[at];
        let slots_before = shard.num_buckets();
        match shard.entry(id.0 as u64, |hot| hot.id() == id, |hot| hot.lower) {
            Place::Occupied(mut place) => {
                if let Some(new) = f(Some(place.get())) {
                    *place.get_mut() = new;
                }
            }
            Place::Vacant(place) => {
                if let Some(new) = f(None) {
                    place.insert(new);
                    self.len += 1;
                }
            }
        }
        let slots = self.shards[at].num_buckets();
        if slots != slots_before {
            self.bytes += (slots - slots_before) * SLOT_BYTES;
        }
    }

    /// Keeps of one shard what `keep` says. The survivors are put in anew: marks of deleted places would make the shard double before it is full.
    pub fn sweep(&mut self, shard: usize, mut keep: impl FnMut(&HotId) -> bool) {
        let table = &mut self.shards[shard];
        let before = table.len();
        self.kept.clear();
        self.kept.extend(table.iter().filter(|hot| keep(hot)));
        if self.kept.len() == before {
            return;
        }
        table.clear();
        for hot in &self.kept {
            table.insert_unique(hot.lower, *hot, |hot| hot.lower);
        }
        self.len = self.len + self.kept.len() - before;
    }
}

#[cfg(test)]
mod tests {
    use xxhash_rust::xxh3::xxh3_128;

    use super::*;

    fn id(n: u64) -> KeyHash {
        KeyHash(xxh3_128(&n.to_le_bytes()))
    }

    #[test]
    fn a_table_at_its_capacity_is_within_its_budget_and_stays_there_when_swept() {
        let budget = 8 << 20;
        let mut table = HotTable::new(budget);
        let full = table.capacity() as u64;
        let mut next = 0;
        for _ in 0..6 {
            while (table.len() as u64) < full {
                table.update(id(next), |_| Some(HotId::new(id(next), 0, next as i64, 0)));
                next += 1;
            }
            assert!(table.bytes() as u64 <= budget, "{}", table.bytes());
            for shard in 0..table.shards() {
                table.sweep(shard, |hot| hot.offset % 3 != 0);
            }
            assert!((table.len() as u64) < full);
        }
        assert!(table.bytes() as u64 > budget * 8 / 10, "the budget is used: {}", table.bytes());
    }
}
