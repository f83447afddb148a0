//! Puts the workers' parts of one checkpoint together: the sums, the watermarks, each sink's epoch, and the manifest that records them.
//!
//! Pure. Keeps: nothing becomes a manifest whose sums don't close, or whose workers disagree about a watermark.
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use floodmark_pipeline::ids::{Epoch, NodeId};
use floodmark_pipeline::invariants::{Invariant, Violation};
use floodmark_pipeline::mark::{Offsets, ReplayFrom, ReplayPoints};
use floodmark_pipeline::plan::{NodeKind, Plan};
use floodmark_pipeline::stamp::SliceWidth;
use floodmark_pipeline::time::{EventTime, Span};
use floodmark_state::StateDigest;
use xxhash_rust::xxh3::Xxh3;

use super::dir::segment_name;
use super::manifest::{NodeRecord, PartitionRecord};
use crate::runtime::counters::{self, NodeCounters};
use crate::runtime::part::{NodePart, Part};
use crate::sink::{PendingEpoch, SegmentRef};

/// What one cut says of the nodes, in the order of the plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodesAtCut {
    pub watermarks: Vec<Option<EventTime>>,
    pub fired_floors: Vec<Option<EventTime>>,
    pub oldest: Vec<Option<EventTime>>,
    pub counters: Vec<NodeCounters>,
    pub state: Vec<StateDigest>,
}

/// Adds the parts up. `since` are the counters that the run began with.
pub fn nodes_at_cut(plan: &Plan, parts: &[Part], since: &[NodeCounters]) -> Result<NodesAtCut, Violation> {
    let mut nodes = NodesAtCut::default();
    for id in plan.ids() {
        let of_node: Vec<&NodePart> = parts.iter().map(|p| &p.nodes[usize::from(id.0)]).collect();
        let watermark = of_node.first().and_then(|p| p.watermark);
        if let Some(other) = of_node.iter().find(|p| p.watermark != watermark) {
            let what = format!("{}: {watermark:?} and {:?}", plan.node(id).name, other.watermark);
            return Err(Violation::new(Invariant::W2, what));
        }
        nodes.watermarks.push(watermark);
        nodes.fired_floors.push(of_node.iter().filter_map(|p| p.fired_floor).max());
        nodes.oldest.push(of_node.iter().filter_map(|p| p.oldest).min());
        let counted = of_node.iter().fold(since[usize::from(id.0)], |sum, p| sum.plus(p.counters));
        nodes.counters.push(counted);
        let mut state = StateDigest::default();
        of_node.iter().for_each(|p| state += p.state);
        nodes.state.push(state);
    }
    counters::check(plan, &nodes.counters)?;
    Ok(nodes)
}

/// The earliest event time that open windows and live dedup buckets still need; `None`: everything.
pub fn needed(plan: &Plan, nodes: &NodesAtCut) -> Option<EventTime> {
    let needs = plan.ids().filter_map(|id| {
        let watermark = nodes.watermarks[usize::from(id.0)];
        match &plan.node(id).kind {
            NodeKind::Dedup(dedup) => Some(watermark.map(|w| w.minus(dedup.horizon).minus(dedup.bucket))),
            NodeKind::Window(_) => Some(nodes.oldest[usize::from(id.0)].or(watermark)),
            NodeKind::Source(_) | NodeKind::Sink => None,
        }
    });
    needs.min().flatten()
}

/// [`needed`], before the first cut too.
pub fn needed_or_all(plan: &Plan, nodes: &NodesAtCut) -> Option<EventTime> {
    if nodes.watermarks.is_empty() { None } else { needed(plan, nodes) }
}

/// Width of the slices in which replay points are kept: a 24th of what is remembered longest, a second at least.
pub fn slice_width(plan: &Plan) -> SliceWidth {
    use floodmark_pipeline::plan::Assigner;
    let kept = plan.nodes.iter().map(|node| match &node.kind {
        NodeKind::Dedup(dedup) => dedup.horizon.0,
        NodeKind::Window(window) => match window.assigner {
            Assigner::Hopping { size, .. } => size.0,
            Assigner::Session { gap } => gap.0,
        },
        NodeKind::Source(_) | NodeKind::Sink => 0,
    });
    SliceWidth(Span((kept.max().unwrap_or(0) / 24).max(1_000)))
}

/// Where a replay would have to begin in each partition.
pub fn replay_points(table: &mut [PartitionRecord], needed: Option<EventTime>, width: SliceWidth) -> ReplayPoints {
    let of = |p: &mut PartitionRecord| {
        let here = ReplayFrom { offset: p.position.offset, watermark: p.time.watermark.before_next() };
        (p.name.clone(), p.time.replay_from(needed, width).unwrap_or(here))
    };
    Arc::new(table.iter_mut().map(of).collect())
}

/// The object that holds a worker's rows of a checkpoint, in pieces that follow each other.
#[derive(Clone, Debug)]
pub struct SegmentObject {
    pub path: String,
    pub chunks: Vec<Bytes>,
}

impl SegmentObject {
    pub fn length(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.len() as u64).sum()
    }
}

/// A worker's rows as one object, and which part of it belongs to which sink.
pub fn pack_segments(
    epoch: Epoch,
    part: &mut Part,
    into: &mut BTreeMap<NodeId, Vec<SegmentRef>>,
) -> Option<SegmentObject> {
    let path = segment_name(epoch.incarnation, epoch.checkpoint, part.worker);
    let (mut offset, mut chunks) = (0, vec![]);
    for sealed in part.segments.drain(..) {
        let length = sealed.length();
        let mut digest = Xxh3::new();
        sealed.chunks.iter().for_each(|chunk| digest.update(chunk));
        let digest = Some(digest.digest128());
        let segment = SegmentRef { path: path.clone(), offset, length, rows: sealed.rows, digest };
        into.entry(sealed.sink).or_default().push(segment);
        offset += length;
        chunks.extend(sealed.chunks);
    }
    (!chunks.is_empty()).then_some(SegmentObject { path, chunks })
}

/// Chosen at the barrier, before any attempt, and the same after every restart: positive, and different for every epoch and sink.
pub fn commit_id(epoch: Epoch, sink: NodeId) -> i64 {
    let mut bytes = epoch.incarnation.token.to_le_bytes().to_vec();
    bytes.extend(epoch.checkpoint.0.to_le_bytes());
    bytes.extend(sink.0.to_le_bytes());
    (xxhash_rust::xxh3::xxh3_64(&bytes) >> 1) as i64
}

/// The epoch that one sink gets at a cut.
pub fn pending_epoch(
    plan: &Plan,
    sink: NodeId,
    epoch: Epoch,
    commit_id: i64,
    segments: Vec<SegmentRef>,
    at: &CutPositions,
    nodes: &NodesAtCut,
) -> PendingEpoch {
    let above = plan.node(sink).inputs.iter().map(|i| nodes.watermarks[usize::from(i.node.0)]);
    PendingEpoch {
        epoch,
        commit_id,
        segments,
        offsets: at.offsets.clone(),
        event_time_watermark: above.min().flatten(),
        replay_from: at.replay_from.clone(),
    }
}

/// Where the sources stand at a cut.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CutPositions {
    pub offsets: Offsets,
    pub replay_from: ReplayPoints,
}

/// Nodes as the manifest records them.
pub fn node_records(
    plan: &Plan,
    fingerprints: &BTreeMap<String, crate::config::model::Fingerprint>,
    nodes: &NodesAtCut,
) -> Vec<NodeRecord> {
    let record = |id: NodeId| {
        let (at, name) = (usize::from(id.0), plan.node(id).name.clone());
        let fingerprint = fingerprints.get(&name);
        NodeRecord {
            fingerprint: fingerprint.map(|f| f.parts.clone()).unwrap_or_default(),
            line: fingerprint.map_or(0, |f| f.line),
            watermark: nodes.watermarks[at],
            fired_floor: nodes.fired_floors[at],
            counters: nodes.counters[at],
            state: nodes.state[at],
            name,
        }
    };
    plan.ids().map(record).collect()
}
