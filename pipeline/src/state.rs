//! What the operators need of keyed state, in batch form. Implemented by `floodmark-state`, in memory and over RocksDB.
//!
//! Doesn't know: files, checkpoints, budgets. Keeps: between two barriers the answers depend only on what was stored before.
use crate::hash::KeyHash;

/// A bucket of first-seen event time: `floor(t / width)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket(pub i64);

/// The copy of an id that was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub bucket: Bucket,
    pub partition: u32,
    pub offset: i64,
}

/// Ids seen by one dedup node on one worker.
pub trait SeenIds {
    type Error;

    /// Makes sure that [`admit`](Self::admit) of these ids is answered from memory. To be called once for each batch, before its admissions.
    fn warm(&mut self, ids: &[KeyHash]) -> Result<(), Self::Error>;

    /// Shows `decide` the newest entry of `id` (the one with the largest bucket) and stores what it returns, if anything, in its place.
    /// What replaces an entry lies in a later bucket: an id that doesn't count as seen any more comes back later than it was (DESIGN.md 6).
    fn admit(&mut self, id: KeyHash, decide: impl FnOnce(Option<Seen>) -> Option<Seen>);

    /// Drops every bucket up to and including `last`, whole.
    fn expire(&mut self, last: Bucket) -> Result<(), Self::Error>;
}
