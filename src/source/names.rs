//! The pipeline's table of partitions, as those see it who only have an index.
//!
//! Doesn't know: why a partition is there, or where it is read.
//! Keeps: it only grows, so an index means the same partition for the pipeline's whole life.
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use floodmark_pipeline::ids::{PartitionIndex, PartitionName};

/// Shared by all; a clone is the same table.
#[derive(Clone, Debug, Default)]
pub struct PartitionNames(Arc<RwLock<Vec<PartitionName>>>);

impl PartitionNames {
    pub fn new(names: Vec<PartitionName>) -> Self {
        Self(Arc::new(RwLock::new(names)))
    }

    pub fn push(&self, name: PartitionName) -> PartitionIndex {
        let mut names = self.0.write().unwrap_or_else(PoisonError::into_inner);
        names.push(name);
        PartitionIndex(names.len() as u32 - 1)
    }

    /// The table as it is now, for the time of one batch.
    pub fn read(&self) -> RwLockReadGuard<'_, Vec<PartitionName>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the table by a longer one that begins with it.
    pub fn set(&self, names: Vec<PartitionName>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = names;
    }

    pub fn get(&self, index: PartitionIndex) -> Option<PartitionName> {
        let names = self.0.read().unwrap_or_else(PoisonError::into_inner);
        names.get(index.0 as usize).cloned()
    }

    pub fn indexes(&self) -> impl Iterator<Item = PartitionIndex> + use<> {
        let names = self.0.read().unwrap_or_else(PoisonError::into_inner);
        (0..names.len() as u32).map(PartitionIndex)
    }
}
