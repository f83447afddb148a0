//! One time bucket of a dedup node: what it holds in sum, what isn't written yet, and where its ids are.
//!
//! Keeps: `digest` is over the ids whose newest entry lies here; `fresh` has every id that came since the last written run, in order of arrival.
use floodmark_pipeline::hash::KeyHash;
use floodmark_pipeline::state::Bucket;
use hashbrown::HashSet;

use super::filter::Filter;
use crate::backend::IdEntry;
use crate::digest::StateDigest;

pub(super) struct Slot {
    pub bucket: Bucket,
    /// False once the bucket has expired; its ids may still stand in the hot table.
    pub live: bool,
    pub digest: StateDigest,
    /// Ids of this bucket in the hot table.
    pub hot: usize,
    pub fresh: Vec<IdEntry>,
    /// Fresh ids that got an entry in a newer bucket before they were written.
    pub superseded: HashSet<KeyHash>,
    /// Some of its ids are in the backend.
    pub written: bool,
    pub residence: Residence,
}

/// Where the written ids of a bucket can be found. Fresh ones are in the hot table, always.
pub(super) enum Residence {
    /// All in the hot table.
    Hot,
    /// On their way into the hot table; those up to `after` are there.
    Loading { after: Option<KeyHash> },
    /// On disk. The filter is being made; it knows those up to `after`.
    Filtering { filter: Filter, after: Option<KeyHash> },
    /// On disk, behind a filter that knows them all.
    Filtered(Filter),
    /// On disk; nothing was read of them yet.
    Unread,
    /// On disk, and their filter had no room: the backend has its own.
    Bare,
}

impl Slot {
    pub fn new(bucket: Bucket) -> Self {
        Self {
            bucket,
            live: true,
            digest: StateDigest::default(),
            hot: 0,
            fresh: vec![],
            superseded: HashSet::new(),
            written: false,
            residence: Residence::Hot,
        }
    }

    /// Sorts what is fresh by id, without the ids that moved on.
    pub fn sort_fresh(&mut self) {
        if !self.superseded.is_empty() {
            self.fresh.retain(|entry| !self.superseded.contains(&entry.id));
            self.superseded.clear();
        }
        self.fresh.sort_unstable_by_key(|entry| entry.id);
    }
}

impl Residence {
    pub fn is_hot(&self) -> bool {
        matches!(self, Self::Hot)
    }

    /// Whether the bucket's ids on disk must be asked about `id`.
    pub fn may_hold(&self, id: KeyHash) -> bool {
        match self {
            Self::Hot => false,
            Self::Filtered(filter) => filter.may_hold(id),
            Self::Loading { .. } | Self::Filtering { .. } | Self::Unread | Self::Bare => true,
        }
    }

    pub fn filter_bytes(&self) -> usize {
        match self {
            Self::Filtered(filter) | Self::Filtering { filter, .. } => filter.bytes(),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: u128, offset: i64) -> IdEntry {
        IdEntry { id: KeyHash(id), partition: 0, offset }
    }

    #[test]
    fn a_sorted_run_has_no_id_that_moved_on() {
        let mut slot = Slot::new(Bucket(0));
        slot.fresh = vec![entry(5, 1), entry(3, 2), entry(9, 4)];
        slot.superseded.insert(KeyHash(9));
        slot.sort_fresh();
        assert_eq!(slot.fresh, [entry(3, 2), entry(5, 1)]);
    }
}
