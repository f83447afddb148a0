//! Where the partitions of one source stand, shared by the workers that read them: who is too far ahead of the others waits.
//!
//! Doesn't know: readers, barriers. Keeps: a partition that has left or ended holds nobody. The decision is [`align`](floodmark_pipeline::align)'s.
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use floodmark_pipeline::align::{Reach, Standing, reach};
use floodmark_pipeline::ids::{NodeId, PartitionIndex};
use floodmark_pipeline::time::Span;

/// Alignments by source, of those that ask for one.
pub type Alignments = BTreeMap<NodeId, Arc<Alignment>>;

#[derive(Debug)]
pub struct Alignment {
    align: Span,
    standings: Mutex<BTreeMap<PartitionIndex, Standing>>,
}

impl Alignment {
    pub fn new(align: Span) -> Self {
        Self { align, standings: Mutex::default() }
    }

    /// Takes in how one worker's partitions stand; answers how far any may be and still be read.
    pub fn meet(&self, own: impl Iterator<Item = (PartitionIndex, Standing)>) -> Reach {
        let mut standings = self.lock();
        standings.extend(own);
        reach(standings.values().copied(), self.align)
    }

    /// A partition isn't read any more, or not for now.
    pub fn leave(&self, partition: PartitionIndex) {
        self.lock().remove(&partition);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PartitionIndex, Standing>> {
        self.standings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
