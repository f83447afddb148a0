//! One time bucket of a dedup node: what it holds in sum, what isn't written yet, and where its ids are.
//!
//! Keeps: `digest` is over the ids whose newest entry lies here; `fresh` has every id that came since the last written run, in order of arrival;
//! `filter` denies no written id whose newest entry lies here.
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
    /// Over all written ids. `None`: it hasn't been made, or there was no room for it.
    pub filter: Option<Filter>,
    /// Number of the file that holds the filter as it is now.
    pub saved: Option<u64>,
    /// Runs were written since the last snapshot.
    pub busy: bool,
}

/// Where the written ids of a bucket can be found. Fresh ones are in the hot table, always.
pub(super) enum Residence {
    /// All in the hot table.
    Hot,
    /// On disk; nothing was read of them yet.
    Unread,
    /// Being read in order of id; those up to `after` have been.
    Reading(Reading),
    /// On disk, and left there: the table has no room for them.
    Cold,
}

pub(super) struct Reading {
    /// What is read goes to the hot table.
    pub heats: bool,
    /// What is read goes into this filter, unless the bucket has one.
    pub filter: Option<Filter>,
    pub after: Option<KeyHash>,
}

impl Reading {
    fn has_passed(&self, id: KeyHash) -> bool {
        self.after.is_some_and(|after| id <= after)
    }
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
            filter: None,
            saved: None,
            busy: false,
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

    /// A run is about to be written: filters must know its ids.
    pub fn note_written(&mut self, run: &[IdEntry]) {
        (self.written, self.busy, self.saved) = (true, true, None);
        for filter in self.filters() {
            run.iter().for_each(|entry| filter.insert(entry.id));
        }
    }

    fn filters(&mut self) -> impl Iterator<Item = &mut Filter> {
        let being_made = match &mut self.residence {
            Residence::Reading(reading) => reading.filter.as_mut(),
            Residence::Hot | Residence::Unread | Residence::Cold => None,
        };
        self.filter.as_mut().into_iter().chain(being_made)
    }

    /// An id leaves the hot table while its bucket lives.
    pub fn cool(&mut self, id: KeyHash) {
        self.hot -= 1;
        self.filters().for_each(|filter| filter.insert(id));
    }

    /// Whether the bucket's ids on disk must be asked about an id that isn't hot.
    pub fn may_hold(&self, id: KeyHash) -> bool {
        match &self.residence {
            Residence::Hot => return false,
            Residence::Reading(reading) if reading.has_passed(id) => {
                if reading.heats {
                    return false;
                }
                if let Some(filter) = &reading.filter {
                    return filter.may_hold(id);
                }
            }
            Residence::Reading(_) | Residence::Unread | Residence::Cold => {}
        }
        self.filter.as_ref().is_none_or(|filter| filter.may_hold(id))
    }

    /// Every id that isn't hot must be looked for on disk.
    pub fn is_asked_blindly(&self) -> bool {
        !self.residence.is_hot() && self.filter.is_none()
    }

    pub fn filter_bytes(&self) -> usize {
        let being_made = match &self.residence {
            Residence::Reading(reading) => reading.filter.as_ref(),
            Residence::Hot | Residence::Unread | Residence::Cold => None,
        };
        self.filter.iter().chain(being_made).map(Filter::bytes).sum()
    }

    /// Gives up its filters: the backend has its own.
    pub fn drop_filters(&mut self) {
        self.filter = None;
        if let Residence::Reading(reading) = &mut self.residence {
            reading.filter = None;
            if !reading.heats {
                self.residence = Residence::Cold;
            }
        }
    }
}

impl Residence {
    pub fn is_hot(&self) -> bool {
        matches!(self, Self::Hot)
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

    #[test]
    fn a_run_that_is_written_while_a_filter_is_made_is_in_it_too() {
        let reading = Reading { heats: false, filter: Some(Filter::for_ids(10)), after: Some(KeyHash(100)) };
        let mut slot = Slot { residence: Residence::Reading(reading), saved: Some(3), ..Slot::new(Bucket(0)) };
        slot.note_written(&[entry(50, 1)]);
        assert!(slot.may_hold(KeyHash(50)), "behind what was read");
        assert!(slot.may_hold(KeyHash(101)), "not read yet");
        assert!(!slot.may_hold(KeyHash(51)));
        assert_eq!(slot.saved, None, "the file doesn't know the run");
    }
}
