//! A digest split by the first bits of the row hash, so that two tables can be bisected.
//!
//! Rows that are equal fall into the same bucket of both tables; a bucket whose digests are equal need not be looked at again.
//! Doesn't know: rows; it sees hashes only. Tested: digest/tests.rs.
use super::{Digest, RowHash};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buckets {
    bits: u32,
    digests: Vec<Digest>,
}

impl Buckets {
    /// 2^`bits` buckets, 32 bytes each; at most 2^20.
    pub fn new(bits: u32) -> Self {
        let bits = bits.clamp(1, 20);
        Buckets { bits, digests: vec![Digest::default(); 1 << bits] }
    }

    pub fn bucket_of(&self, hash: RowHash) -> usize {
        (hash >> (128 - self.bits)) as usize
    }

    pub fn add_row(&mut self, hash: RowHash) {
        let bucket = self.bucket_of(hash);
        self.digests[bucket].add_row(hash);
    }

    pub fn total(&self) -> Digest {
        let mut total = Digest::default();
        self.digests.iter().for_each(|digest| total.merge(*digest));
        total
    }

    /// Buckets in which the two differ, with the rows that both hold there. Both must have the same number of buckets.
    pub fn differing<'a>(&'a self, other: &'a Buckets) -> impl Iterator<Item = (usize, u64)> + 'a {
        debug_assert_eq!(self.bits, other.bits);
        let pairs = self.digests.iter().zip(&other.digests).enumerate();
        pairs
            .filter(|(_, (ours, theirs))| ours != theirs)
            .map(|(bucket, (ours, theirs))| (bucket, ours.rows + theirs.rows))
    }
}
