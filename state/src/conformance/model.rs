//! What a store should do, in the plainest way: maps, and digests summed anew.
use std::collections::BTreeMap;

use floodmark_pipeline::hash::KeyHash;
use floodmark_pipeline::state::{Bucket, Seen};
use xxhash_rust::xxh3::xxh3_128;

use crate::digest::{NodeSeed, StateDigest};
use crate::key_groups::value_key;

pub const MAX_PARALLELISM: u16 = 16;
/// An id counts as seen for this many buckets.
const HORIZON: i64 = 4;

#[derive(Clone)]
pub struct Model {
    ids: BTreeMap<KeyHash, Seen>,
    values: BTreeMap<Vec<u8>, Vec<u8>>,
    pub expired: Bucket,
}

impl Default for Model {
    fn default() -> Self {
        Self { ids: BTreeMap::new(), values: BTreeMap::new(), expired: Bucket(-3) }
    }
}

pub fn id(n: u16) -> KeyHash {
    KeyHash(xxh3_128(&n.to_le_bytes()))
}

pub fn key(n: u8) -> (u16, Vec<u8>) {
    (id(u16::from(n)).key_group(MAX_PARALLELISM), vec![b'k', n])
}

/// Values of several lengths, one of them empty.
pub fn value(n: u8) -> Vec<u8> {
    vec![n; usize::from(n % 7) * 9]
}

/// The rule of the tests: keep the first, until the horizon has passed.
pub fn decide(old: Option<Seen>, bucket: Bucket, offset: i64) -> Option<Seen> {
    let new = Seen { bucket, partition: 1 + offset as u32 % 3, offset };
    old.is_none_or(|old| old.bucket.0 + HORIZON <= bucket.0).then_some(new)
}

impl Model {
    pub fn admit(&mut self, ids: &[(u16, i64)]) -> Vec<Option<Seen>> {
        let mut answers = vec![];
        for (at, (n, ahead)) in ids.iter().enumerate() {
            let old = self.ids.get(&id(*n)).copied();
            answers.push(old);
            if let Some(new) = decide(old, Bucket(self.expired.0 + ahead), at as i64) {
                self.ids.insert(id(*n), new);
            }
        }
        answers
    }

    pub fn expire(&mut self, last: Bucket) {
        self.expired = last;
        self.ids.retain(|_, seen| seen.bucket > last);
    }

    pub fn put(&mut self, n: u8, content: u8) {
        let (group, key) = key(n);
        self.values.insert(value_key(group, &key), value(content));
    }

    pub fn delete(&mut self, n: u8) {
        let (group, key) = key(n);
        self.values.remove(&value_key(group, &key));
    }

    pub fn reset_ids(&mut self) {
        self.ids.clear();
    }

    pub fn reset_values(&mut self) {
        self.values.clear();
    }

    pub fn values(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.values.iter().map(|(key, value)| (key[2..].to_vec(), value.clone())).collect()
    }

    pub fn digest(&self) -> StateDigest {
        let mut sum = StateDigest::default();
        let (ids, values) = (NodeSeed::ids("clean"), NodeSeed::values("per_type"));
        self.ids.iter().for_each(|(id, seen)| sum.add(ids.of_id(*id, *seen)));
        self.values.iter().for_each(|(key, value)| sum.add(values.of_value(key, value)));
        sum
    }
}
