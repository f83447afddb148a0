//! The record of a complete checkpoint: everything a start needs, and nothing that isn't durable.
//!
//! Doesn't know: stores. Keeps: bytes that were torn or changed don't decode; encode and decode are inverse.
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use floodmark_pipeline::ids::{CheckpointId, Epoch, Incarnation, PartitionIndex, PartitionName};
use floodmark_pipeline::invariants::Cut;
use floodmark_pipeline::mark::ReplayFrom;
use floodmark_pipeline::rows::WatermarkCause;
use floodmark_pipeline::stamp::PartitionTime;
use floodmark_pipeline::time::{EventTime, Span};
use floodmark_pipeline::watermark::{Floor, PartitionWatermark};
use floodmark_state::StateDigest;
use prost::Message;
use xxhash_rust::xxh3::xxh3_128;

use super::cut::CutPositions;
use super::proto;
use crate::runtime::counters::NodeCounters;
use crate::sink::{PendingEpoch, SegmentRef};
use crate::source::Position;

const FORMAT: u32 = 1;
const DIGEST_BYTES: usize = 16;

#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    pub pipeline: String,
    pub incarnation: Incarnation,
    pub checkpoint: CheckpointId,
    pub created_ms: i64,
    pub max_parallelism: u16,
    pub partitions: Vec<PartitionRecord>,
    pub nodes: Vec<NodeRecord>,
    /// One for each worker.
    pub state: Vec<Vec<StateFileRecord>>,
    pub state_digest: u128,
    pub sinks: Vec<SinkRecord>,
    pub decisions: Vec<Decision>,
    pub settings: BTreeMap<String, String>,
    pub restored_from: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PartitionRecord {
    pub name: PartitionName,
    pub identity: String,
    /// Offset of the first record that was to be read.
    pub begin: i64,
    pub position: Position,
    pub time: PartitionTime,
    pub status: Status,
    pub end: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Live,
    Idle,
    Ended,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NodeRecord {
    pub name: String,
    pub fingerprint: Arc<BTreeMap<String, String>>,
    pub line: usize,
    pub watermark: Option<EventTime>,
    pub fired_floor: Option<EventTime>,
    pub counters: NodeCounters,
    /// Of what the node remembers, over all workers.
    pub state: StateDigest,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFileRecord {
    pub name: String,
    pub path: String,
    pub length: u64,
    pub digest: u128,
    pub immutable: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SinkRecord {
    pub name: String,
    pub base: Option<Epoch>,
    pub epochs: Vec<PendingEpoch>,
    pub definition: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    pub checkpoint: CheckpointId,
    pub partition: PartitionIndex,
    pub kind: DecisionKind,
    /// Position of the partition when it took effect.
    pub offset: i64,
    /// The watermark that became its floor.
    pub watermark: Option<EventTime>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionKind {
    Idle,
    Returned,
    Joined,
    Ended,
}

/// Why bytes are no manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error("torn or changed: its digest doesn't match its content")]
    Torn,
    #[error("format {0}, and this build reads up to {FORMAT}: use the build that wrote it, or a newer one")]
    Format(u32),
    #[error("its content makes no sense: {0}")]
    Content(String),
}

impl Manifest {
    /// The next offset of every partition, by name.
    pub fn offsets(&self) -> BTreeMap<PartitionName, i64> {
        self.partitions.iter().map(|p| (p.name.clone(), p.position.offset)).collect()
    }

    pub fn epoch(&self) -> Epoch {
        Epoch { incarnation: self.incarnation, checkpoint: self.checkpoint }
    }

    /// What the invariants know of it.
    pub fn cut(&self) -> Cut {
        let list = |sink: &SinkRecord| (sink.base, sink.epochs.iter().map(|e| e.epoch).collect());
        Cut {
            checkpoint: self.checkpoint,
            offsets: self.offsets(),
            watermarks: self.nodes.iter().map(|node| (node.name.clone(), node.watermark)).collect(),
            sinks: self.sinks.iter().map(|sink| (sink.name.clone(), list(sink))).collect(),
        }
    }

    /// Every object of the checkpoint directory that this manifest needs.
    pub fn objects(&self) -> impl Iterator<Item = &str> {
        let state = self.state.iter().flatten().map(|f| f.path.as_str());
        let epochs = self.sinks.iter().flat_map(|s| &s.epochs);
        state.chain(epochs.flat_map(|e| &e.segments).map(|s| s.path.as_str()))
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.to_proto().encode_to_vec();
        let digest = xxh3_128(&bytes);
        bytes.extend(digest.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
        let split = bytes.len().checked_sub(DIGEST_BYTES).ok_or(Unreadable::Torn)?;
        let (content, digest) = bytes.split_at(split);
        if xxh3_128(content).to_le_bytes() != digest {
            return Err(Unreadable::Torn);
        }
        let proto = proto::Manifest::decode(content).map_err(|e| Unreadable::Content(e.to_string()))?;
        if proto.format > FORMAT {
            return Err(Unreadable::Format(proto.format));
        }
        from_proto(proto).map_err(|what| Unreadable::Content(what.into()))
    }

    fn to_proto(&self) -> proto::Manifest {
        proto::Manifest {
            format: FORMAT,
            pipeline: self.pipeline.clone(),
            incarnation: incarnation_to(self.incarnation),
            checkpoint: self.checkpoint.0,
            created_ms: self.created_ms,
            max_parallelism: u32::from(self.max_parallelism),
            partitions: self.partitions.iter().map(partition_to).collect(),
            nodes: self.nodes.iter().map(node_to).collect(),
            state: self
                .state
                .iter()
                .map(|files| proto::WorkerState { files: files.iter().map(file_to).collect() })
                .collect(),
            state_digest: self.state_digest.to_le_bytes().to_vec(),
            sinks: self.sinks.iter().map(|s| self.sink_to(s)).collect(),
            decisions: self.decisions.iter().map(decision_to).collect(),
            settings: self.settings.clone(),
            restored_from: self.restored_from.clone().unwrap_or_default(),
        }
    }

    fn sink_to(&self, sink: &SinkRecord) -> proto::Sink {
        proto::Sink {
            name: sink.name.clone(),
            base: sink.base.map(epoch_to),
            epochs: sink.epochs.iter().map(|e| self.pending_to(e)).collect(),
            definition: sink.definition.clone(),
        }
    }

    /// Offsets go by the table of partitions: what an epoch didn't know yet stands at the table's end and is left out.
    fn pending_to(&self, pending: &PendingEpoch) -> proto::PendingEpoch {
        let known = self.partitions.iter().map_while(|p| pending.offsets.get(&p.name).copied());
        let replay = self.partitions.iter().enumerate().filter_map(|(at, p)| {
            let from = pending.replay_from.get(&p.name)?;
            let watermark_ms = from.watermark.map(|w| w.0);
            Some(proto::Replay { partition: at as u32, offset: from.offset, watermark_ms })
        });
        proto::PendingEpoch {
            epoch: epoch_to(pending.epoch),
            commit_id: pending.commit_id,
            segments: pending.segments.iter().map(segment_to).collect(),
            offsets: known.collect(),
            watermark_ms: pending.event_time_watermark.map(|w| w.0),
            replay_from: replay.collect(),
        }
    }
}

fn from_proto(m: proto::Manifest) -> Result<Manifest, &'static str> {
    let mut partitions = Vec::with_capacity(m.partitions.len());
    for partition in m.partitions {
        let record = partition_from(partition, partitions.last())?;
        partitions.push(record);
    }
    let mut cuts = Cuts { partitions: &partitions, known: HashMap::new() };
    let sinks = m.sinks.into_iter().map(|s| sink_from(s, &mut cuts)).collect::<Result<Vec<_>, _>>()?;
    Ok(Manifest {
        pipeline: m.pipeline,
        incarnation: incarnation_from(m.incarnation)?,
        checkpoint: CheckpointId(m.checkpoint),
        created_ms: m.created_ms,
        max_parallelism: u16::try_from(m.max_parallelism).map_err(|_| "max_parallelism")?,
        nodes: m.nodes.into_iter().map(node_from).collect(),
        state: m.state.into_iter().map(|w| w.files.into_iter().map(file_from).collect()).collect::<Result<_, _>>()?,
        state_digest: u128_from(&m.state_digest)?,
        sinks,
        decisions: m.decisions.into_iter().map(decision_from).collect::<Result<_, _>>()?,
        settings: m.settings,
        restored_from: (!m.restored_from.is_empty()).then_some(m.restored_from),
        partitions,
    })
}

fn u128_from(bytes: &[u8]) -> Result<u128, &'static str> {
    Ok(u128::from_le_bytes(bytes.try_into().map_err(|_| "a number of 16 bytes")?))
}

fn incarnation_to(i: Incarnation) -> proto::Incarnation {
    proto::Incarnation { number: i.number, token: i.token.to_le_bytes().to_vec() }
}

fn incarnation_from(i: proto::Incarnation) -> Result<Incarnation, &'static str> {
    Ok(Incarnation { number: i.number, token: u128_from(&i.token)? })
}

fn epoch_to(e: Epoch) -> proto::Epoch {
    proto::Epoch { incarnation: incarnation_to(e.incarnation), checkpoint: e.checkpoint.0 }
}

fn epoch_from(e: proto::Epoch) -> Result<Epoch, &'static str> {
    Ok(Epoch { incarnation: incarnation_from(e.incarnation)?, checkpoint: CheckpointId(e.checkpoint) })
}

fn partition_to(p: &PartitionRecord) -> proto::Partition {
    let slice = |(slice, from): (&i64, &ReplayFrom)| proto::Slice {
        slice: *slice,
        offset: from.offset,
        watermark_ms: from.watermark.map(|w| w.0),
    };
    proto::Partition {
        source: p.name.source.to_string(),
        topic: p.name.topic.to_string(),
        partition: p.name.partition,
        identity: p.identity.clone(),
        offset: p.position.offset,
        resume: p.position.resume.clone(),
        max_seen_ms: p.time.watermark.max_seen.map(|t| t.0),
        floor_ms: p.time.watermark.floor.map(|f| f.watermark.0),
        floor_cause: p.time.watermark.floor.map_or(0, |f| if f.cause == WatermarkCause::Joined { 1 } else { 2 }),
        status: match p.status {
            Status::Live => 0,
            Status::Idle => 1,
            Status::Ended => 2,
        },
        end: p.end,
        slices: p.time.slices.iter().map(slice).collect(),
        begin: p.begin,
    }
}

/// The bound isn't stored with a partition: it is the pipeline file's, and set when the source starts. Mostly a partition is of the same topic as the
/// one `before` it, and shares its texts.
fn partition_from(p: proto::Partition, before: Option<&PartitionRecord>) -> Result<PartitionRecord, &'static str> {
    let shared = |text: String, before: Option<&Arc<str>>| match before {
        Some(before) if **before == *text => before.clone(),
        _ => text.into(),
    };
    let (source, topic) = before.map(|p| (&p.name.source, &p.name.topic)).unzip();
    let name =
        PartitionName { source: shared(p.source, source), topic: shared(p.topic, topic), partition: p.partition };
    let cause = if p.floor_cause == 1 { WatermarkCause::Joined } else { WatermarkCause::Returned };
    let watermark = PartitionWatermark {
        max_seen: p.max_seen_ms.map(EventTime),
        bound: Span(0),
        floor: p.floor_ms.map(|ms| Floor { watermark: EventTime(ms), cause }),
    };
    let slice = |s: proto::Slice| (s.slice, ReplayFrom { offset: s.offset, watermark: s.watermark_ms.map(EventTime) });
    Ok(PartitionRecord {
        name,
        identity: p.identity,
        begin: p.begin,
        position: Position { offset: p.offset, resume: p.resume },
        time: PartitionTime::new(watermark, p.slices.into_iter().map(slice).collect()),
        status: match p.status {
            0 => Status::Live,
            1 => Status::Idle,
            2 => Status::Ended,
            _ => return Err("a partition's status"),
        },
        end: p.end,
    })
}

fn node_to(n: &NodeRecord) -> proto::Node {
    proto::Node {
        name: n.name.clone(),
        fingerprint: BTreeMap::clone(&n.fingerprint),
        line: n.line as u32,
        watermark_ms: n.watermark.map(|w| w.0),
        fired_floor_ms: n.fired_floor.map(|w| w.0),
        counters: n.counters.to_list().to_vec(),
        state_entries: n.state.entries,
        state_digest: n.state.sum.to_le_bytes().to_vec(),
    }
}

fn node_from(n: proto::Node) -> NodeRecord {
    let sum = u128_from(&n.state_digest).unwrap_or(0);
    NodeRecord {
        name: n.name,
        fingerprint: n.fingerprint.into(),
        line: n.line as usize,
        watermark: n.watermark_ms.map(EventTime),
        fired_floor: n.fired_floor_ms.map(EventTime),
        counters: NodeCounters::from_list(&n.counters),
        state: StateDigest { entries: n.state_entries, sum },
    }
}

fn file_to(f: &StateFileRecord) -> proto::StateFile {
    let digest = f.digest.to_le_bytes().to_vec();
    proto::StateFile { name: f.name.clone(), path: f.path.clone(), length: f.length, digest, immutable: f.immutable }
}

fn file_from(f: proto::StateFile) -> Result<StateFileRecord, &'static str> {
    let digest = u128_from(&f.digest)?;
    Ok(StateFileRecord { name: f.name, path: f.path, length: f.length, digest, immutable: f.immutable })
}

fn segment_to(s: &SegmentRef) -> proto::Segment {
    let digest = s.digest.map_or_else(Vec::new, |digest| digest.to_le_bytes().to_vec());
    proto::Segment { path: s.path.clone(), offset: s.offset, length: s.length, rows: s.rows, digest }
}

/// Positions of the cuts that sinks wait for. Each sink's list has the same ones, and they are kept once.
struct Cuts<'a> {
    partitions: &'a [PartitionRecord],
    /// By epoch, with the numbers that they were read from.
    known: HashMap<Epoch, (Vec<i64>, Vec<proto::Replay>, CutPositions)>,
}

impl Cuts<'_> {
    fn positions(
        &mut self,
        epoch: Epoch,
        offsets: Vec<i64>,
        replay: Vec<proto::Replay>,
    ) -> Result<CutPositions, &'static str> {
        if let Some((_, _, positions)) = self.known.get(&epoch).filter(|k| k.0 == offsets && k.1 == replay) {
            return Ok(positions.clone());
        }
        let from = |r: &proto::Replay| {
            let partition = self.partitions.get(r.partition as usize).ok_or("a replay point's partition")?;
            let from = ReplayFrom { offset: r.offset, watermark: r.watermark_ms.map(EventTime) };
            Ok::<_, &'static str>((partition.name.clone(), from))
        };
        let named = self.partitions.iter().zip(&offsets).map(|(p, offset)| (p.name.clone(), *offset));
        let positions = CutPositions {
            offsets: Arc::new(named.collect()),
            replay_from: Arc::new(replay.iter().map(from).collect::<Result<_, _>>()?),
        };
        self.known.insert(epoch, (offsets, replay, positions.clone()));
        Ok(positions)
    }
}

fn sink_from(s: proto::Sink, cuts: &mut Cuts<'_>) -> Result<SinkRecord, &'static str> {
    Ok(SinkRecord {
        name: s.name,
        base: s.base.map(epoch_from).transpose()?,
        epochs: s.epochs.into_iter().map(|e| pending_from(e, cuts)).collect::<Result<_, _>>()?,
        definition: s.definition,
    })
}

fn pending_from(e: proto::PendingEpoch, cuts: &mut Cuts<'_>) -> Result<PendingEpoch, &'static str> {
    let segment = |s: proto::Segment| SegmentRef {
        digest: s.digest.as_slice().try_into().ok().map(u128::from_le_bytes),
        path: s.path,
        offset: s.offset,
        length: s.length,
        rows: s.rows,
    };
    let epoch = epoch_from(e.epoch)?;
    let CutPositions { offsets, replay_from } = cuts.positions(epoch, e.offsets, e.replay_from)?;
    Ok(PendingEpoch {
        epoch,
        commit_id: e.commit_id,
        segments: e.segments.into_iter().map(segment).collect(),
        offsets,
        event_time_watermark: e.watermark_ms.map(EventTime),
        replay_from,
    })
}

fn decision_to(d: &Decision) -> proto::Decision {
    proto::Decision {
        checkpoint: d.checkpoint.0,
        partition: d.partition.0,
        kind: match d.kind {
            DecisionKind::Idle => 1,
            DecisionKind::Returned => 2,
            DecisionKind::Joined => 3,
            DecisionKind::Ended => 4,
        },
        offset: d.offset,
        watermark_ms: d.watermark.map(|w| w.0),
    }
}

fn decision_from(d: proto::Decision) -> Result<Decision, &'static str> {
    Ok(Decision {
        checkpoint: CheckpointId(d.checkpoint),
        partition: PartitionIndex(d.partition),
        kind: match d.kind {
            1 => DecisionKind::Idle,
            2 => DecisionKind::Returned,
            3 => DecisionKind::Joined,
            4 => DecisionKind::Ended,
            _ => return Err("a decision's kind"),
        },
        offset: d.offset,
        watermark: d.watermark_ms.map(EventTime),
    })
}

#[cfg(test)]
pub mod tests;
