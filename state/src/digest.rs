//! Digest of a store's logical content: how many entries, and the sum (mod 2¹²⁸) of one xxh3-128 for each.
//!
//! A sum has no order, so it doesn't depend on worker count, backend, batch size or file layout, and workers' digests add up. It is kept as entries
//! come and go, never computed by a scan.
//! Doesn't know: where entries lie. Nodes count by name, since a node's number changes when the file is edited.
//! Tested: here, conformance (equal between backends and after a rescale).
use std::ops::{AddAssign, SubAssign};

use floodmark_pipeline::state::Seen;
use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_128_with_seed};

use floodmark_pipeline::hash::KeyHash;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateDigest {
    pub entries: u64,
    pub sum: u128,
}

impl StateDigest {
    pub(crate) fn add(&mut self, entry: u128) {
        self.entries += 1;
        self.sum = self.sum.wrapping_add(entry);
    }

    pub(crate) fn remove(&mut self, entry: u128) {
        self.entries -= 1;
        self.sum = self.sum.wrapping_sub(entry);
    }
}

impl AddAssign for StateDigest {
    fn add_assign(&mut self, other: Self) {
        self.entries += other.entries;
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

impl SubAssign for StateDigest {
    fn sub_assign(&mut self, other: Self) {
        self.entries -= other.entries;
        self.sum = self.sum.wrapping_sub(other.sum);
    }
}

/// Sets the entries of one node apart from the same entries of another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeSeed(u64);

impl NodeSeed {
    pub fn ids(node: &str) -> Self {
        Self(xxh3_64(format!("ids/{node}").as_bytes()))
    }

    pub fn values(node: &str) -> Self {
        Self(xxh3_64(format!("values/{node}").as_bytes()))
    }

    /// Bucket, partition and offset are part of the entry: two stores that kept other copies of an id are not equal.
    pub fn of_id(self, id: KeyHash, seen: Seen) -> u128 {
        let mut bytes = [0u8; 36];
        bytes[..16].copy_from_slice(&id.0.to_le_bytes());
        bytes[16..24].copy_from_slice(&seen.bucket.0.to_le_bytes());
        bytes[24..28].copy_from_slice(&seen.partition.to_le_bytes());
        bytes[28..].copy_from_slice(&seen.offset.to_le_bytes());
        xxh3_128_with_seed(&bytes, self.0)
    }

    /// `key` has its key group in front. Its length goes in, so that key and value can't run into each other.
    pub fn of_value(self, key: &[u8], value: &[u8]) -> u128 {
        let mut hash = Xxh3::with_seed(self.0);
        hash.update(&(key.len() as u64).to_le_bytes());
        hash.update(key);
        hash.update(value);
        hash.digest128()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_and_value_do_not_run_into_each_other() {
        let seed = NodeSeed::values("w");
        assert_ne!(seed.of_value(b"ab", b"c"), seed.of_value(b"a", b"bc"));
        assert_ne!(seed.of_value(b"ab", b"c"), NodeSeed::values("v").of_value(b"ab", b"c"));
    }

    #[test]
    fn what_is_added_and_removed_leaves_nothing() {
        let (mut digest, before) = (StateDigest::default(), StateDigest::default());
        digest.add(u128::MAX);
        digest.add(7);
        digest.remove(u128::MAX);
        digest.remove(7);
        assert_eq!(digest, before);
    }
}
