//! A filter over the ids of a bucket that is not in memory: says "certainly not" for 998 of 1,000 ids that aren't there.
//!
//! Split-block bloom filter as in the Parquet format: one cache line an id, eight bits in it. A filter that is full gets a second, twice as large.
//! Keeps: an id that was put in is never denied, also after it was written to a file and read back.
use floodmark_pipeline::hash::KeyHash;

use crate::record::{Reader, put_len};

/// A wrong "perhaps" costs a read from disk, a thousand times what a bit more costs.
const BITS_PER_ID: usize = 16;
const SALTS: [u32; 8] =
    [0x47b6_137b, 0x4497_4d91, 0x8824_ad5b, 0xa2b7_289d, 0x7054_95c7, 0x2df1_424b, 0x9efc_4947, 0x5c6b_fb31];

pub(super) struct Filter {
    parts: Vec<Part>,
}

struct Part {
    blocks: Vec<Block>,
    ids: usize,
}

#[derive(Clone, Copy)]
#[repr(align(32))]
struct Block([u32; 8]);

impl Filter {
    pub fn for_ids(ids: usize) -> Self {
        Self { parts: vec![Part::new(ids)] }
    }

    pub fn may_hold(&self, id: KeyHash) -> bool {
        self.parts.iter().any(|part| part.blocks[part.block_of(id)].holds(id))
    }

    pub fn insert(&mut self, id: KeyHash) {
        if self.may_hold(id) {
            return;
        }
        let full = self.parts.last().map_or(0, |last| if last.is_full() { last.ids * 2 } else { 0 });
        if full > 0 {
            self.parts.push(Part::new(full));
        }
        if let Some(last) = self.parts.last_mut() {
            let block = last.block_of(id);
            last.blocks[block].insert(id);
            last.ids += 1;
        }
    }

    pub fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.blocks.len() * size_of::<Block>()).sum()
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        put_len(out, self.parts.len());
        for part in &self.parts {
            put_len(out, part.ids);
            put_len(out, part.blocks.len());
            out.reserve(part.blocks.len() * size_of::<Block>());
            part.blocks.iter().flat_map(|block| block.0).for_each(|word| out.extend(word.to_le_bytes()));
        }
    }

    pub fn decode(from: &mut Reader<'_>) -> Option<Self> {
        let parts = from.list(|from| {
            let ids = usize::try_from(from.u64()?).ok()?;
            let blocks = from.list(|from| Block::decode(from))?;
            (!blocks.is_empty()).then_some(Part { blocks, ids })
        })?;
        Some(Self { parts })
    }
}

impl Part {
    fn new(ids: usize) -> Self {
        let blocks = (ids * BITS_PER_ID).div_ceil(256).max(4);
        Self { blocks: vec![Block([0; 8]); blocks], ids: 0 }
    }

    fn is_full(&self) -> bool {
        self.ids * BITS_PER_ID >= self.blocks.len() * 256
    }

    fn block_of(&self, id: KeyHash) -> usize {
        let bits = u64::from((id.0 >> 64) as u32);
        ((bits * self.blocks.len() as u64) >> 32) as usize
    }
}

impl Block {
    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        let mut words = [0; 8];
        for word in &mut words {
            *word = from.u32()?;
        }
        Some(Self(words))
    }

    fn mask(id: KeyHash) -> [u32; 8] {
        SALTS.map(|salt| 1 << ((id.0 as u32).wrapping_mul(salt) >> 27))
    }

    fn holds(&self, id: KeyHash) -> bool {
        let mask = Self::mask(id);
        (0..8).all(|i| self.0[i] & mask[i] != 0)
    }

    fn insert(&mut self, id: KeyHash) {
        let mask = Self::mask(id);
        (0..8).for_each(|i| self.0[i] |= mask[i]);
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
    fn it_denies_no_id_that_was_put_in_and_most_others_even_after_growing() {
        let mut filter = Filter::for_ids(1_000);
        (0..20_000).for_each(|n| filter.insert(id(n)));
        assert!((0..20_000).all(|n| filter.may_hold(id(n))));
        let wrong = (20_000..120_000).filter(|n| filter.may_hold(id(*n))).count();
        assert!(wrong < 5_000, "{wrong} of 100,000");
    }

    #[test]
    fn what_is_read_back_answers_and_grows_as_what_was_written() {
        let mut filter = Filter::for_ids(100);
        (0..1_000).for_each(|n| filter.insert(id(n)));
        let mut bytes = vec![];
        filter.encode(&mut bytes);
        let mut read = Filter::decode(&mut Reader(&bytes)).unwrap();
        assert!((0..5_000).all(|n| read.may_hold(id(n)) == filter.may_hold(id(n))));
        (1_000..3_000).for_each(|n| read.insert(id(n)));
        assert!((0..3_000).all(|n| read.may_hold(id(n))));
        assert!(Filter::decode(&mut Reader(&bytes[..bytes.len() - 1])).is_none());
    }
}
