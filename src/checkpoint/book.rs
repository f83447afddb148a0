//! What is known of the epochs of each sink, between a cut and the sink's word that it has them.
//!
//! Doesn't know: who commits. Keeps: epochs in order; `base` is the one before the first of them.
use std::collections::{BTreeMap, VecDeque};

use floodmark_pipeline::ids::{CheckpointId, Epoch, NodeId};

use crate::sink::PendingEpoch;

/// What is known of one sink's epochs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SinkBook {
    /// Last epoch known committed.
    pub base: Option<Epoch>,
    pub epochs: VecDeque<PendingEpoch>,
    pub definition: String,
}

/// What the outbox holds from before a start, by checkpoint.
pub fn waiting_bytes(sinks: &BTreeMap<NodeId, SinkBook>) -> BTreeMap<CheckpointId, u64> {
    let mut bytes = BTreeMap::new();
    for epoch in sinks.values().flat_map(|book| &book.epochs).filter(|epoch| epoch.rows() > 0) {
        *bytes.entry(epoch.epoch.checkpoint).or_default() += epoch.segments.iter().map(|s| s.length).sum::<u64>();
    }
    bytes
}
