//! Where state lies once it is out of the hot tables: sorted families of ids and of values, in files that a snapshot can link.
//!
//! Doesn't know: hot tables, budgets, digests, checkpoints. Everything comes in batches, already sorted.
//! Keeps: a file under a name that ends in `.sst` or `.run` never changes; what a write has answered for is found by the next read.
//! Implemented by `memory` (own sorted runs; can't look single ids up) and `rocks`. Tested: conformance.
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use std::sync::Arc;

use floodmark_pipeline::hash::KeyHash;
use floodmark_pipeline::state::{Bucket, Seen};

use crate::error::StateError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendKind {
    /// All ids in memory; a budget that is exceeded is an error.
    Memory,
    /// Ids beyond the budget are answered from RocksDB.
    Rocksdb,
}

/// An id and the place of the copy that was kept. Its bucket is that of its family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdEntry {
    pub id: KeyHash,
    pub partition: u32,
    pub offset: i64,
}

impl IdEntry {
    pub fn seen(self, bucket: Bucket) -> Seen {
        Seen { bucket, partition: self.partition, offset: self.offset }
    }
}

/// A put, or with `None` a delete. Keys have their key group in front, so a worker's keys are one range.
pub type ValueChange = (Vec<u8>, Option<Vec<u8>>);

/// What is written and dropped as one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    Ids { node: Arc<str>, bucket: Bucket },
    Values { node: Arc<str> },
}

impl Family {
    pub fn node(&self) -> &str {
        match self {
            Self::Ids { node, .. } | Self::Values { node } => node,
        }
    }
}

pub type IdScan<'a> = Box<dyn Iterator<Item = Result<IdEntry, StateError>> + 'a>;
pub type ValueScan<'a> = Box<dyn Iterator<Item = Result<(Vec<u8>, Vec<u8>), StateError>> + 'a>;

pub trait Backend: Send {
    /// Families that hold something, in no order.
    fn families(&self) -> Vec<Family>;

    /// Adds one run, not empty, sorted by id. No id comes to a family twice.
    fn write_ids(&mut self, family: &Family, run: &[IdEntry]) -> Result<(), StateError>;

    /// How single ids are found; `None` if all of them must stay in memory.
    fn lookup(&self) -> Option<&dyn Lookup>;

    /// The ids of a family in order.
    fn ids(&self, family: &Family, range: RangeInclusive<KeyHash>) -> Result<IdScan<'_>, StateError>;

    /// Adds one run of changes, not empty, sorted by key, no key twice. The last change of a key holds.
    fn write_values(&mut self, family: &Family, run: &[ValueChange]) -> Result<(), StateError>;

    /// The values of these key groups in key order.
    fn values(&self, family: &Family, key_groups: Range<u16>) -> Result<ValueScan<'_>, StateError>;

    /// Drops a family whole and frees its files.
    fn drop_family(&mut self, family: &Family) -> Result<(), StateError>;

    /// Makes `folder` a copy of everything written so far, by hard links.
    fn link_into(&mut self, folder: &Path) -> Result<(), StateError>;

    /// Bytes of memory that caches, filters and buffers hold.
    fn memory_used(&self) -> Result<u64, StateError>;

    /// A failure in the background that no call has answered for yet.
    fn check(&self) -> Result<(), StateError>;
}

/// Finds ids that were left out of memory.
pub trait Lookup {
    /// Calls `found` for those of the sorted `ids` that the family holds, in their order.
    fn find_ids(&self, family: &Family, ids: &[KeyHash], found: &mut dyn FnMut(IdEntry)) -> Result<(), StateError>;
}
