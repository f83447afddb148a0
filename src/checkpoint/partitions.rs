//! The table of partitions, and the decisions that change who is in the minimum: joined, idle, returned, ended.
//!
//! A decision waits for a barrier, takes effect at its cut, and stands in that manifest; so the result is a function of the log and of these.
//! Order at a cut: those that leave are left out, watermarks are set, what is due fires; then those that enter get the watermark as their floor.
//! Doesn't know: workers, stores. Keeps: the table only grows; a source's watermark never goes back.
use std::collections::BTreeMap;

use floodmark_pipeline::ids::{CheckpointId, NodeId, PartitionIndex, PartitionName};
use floodmark_pipeline::rows::WatermarkCause;
use floodmark_pipeline::stamp::PartitionTime;
use floodmark_pipeline::time::{EventTime, Span};
use floodmark_pipeline::watermark::{Floor, PartitionWatermark, node_watermark};

use super::manifest::{Decision, DecisionKind, PartitionRecord, Status};
use crate::runtime::part::{Admission, Leaving, PartitionPart};
use crate::source::Position;

/// A partition that was found, and where it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    pub name: PartitionName,
    pub identity: String,
    pub position: Position,
    pub end: Option<i64>,
}

#[derive(Clone, Debug)]
pub struct SourceInfo {
    pub node: NodeId,
    pub name: String,
    pub bound: Span,
    /// Where its watermark stood. It may be above what live partitions say: with none live it stays.
    pub watermark: Option<EventTime>,
}

/// The table, and the decisions that wait for the next barrier.
#[derive(Clone, Debug)]
pub struct Partitions {
    pub table: Vec<PartitionRecord>,
    pub decisions: Vec<Decision>,
    sources: Vec<SourceInfo>,
    watermarks: BTreeMap<NodeId, Option<EventTime>>,
    leaving: Vec<Leaving>,
    joining: Vec<Found>,
    /// With the new end, where the log has one.
    returning: Vec<(PartitionIndex, Option<i64>)>,
}

impl Partitions {
    /// The table of a manifest, or an empty one.
    pub fn new(mut table: Vec<PartitionRecord>, decisions: Vec<Decision>, sources: Vec<SourceInfo>) -> Self {
        for record in &mut table {
            if let Some(source) = sources.iter().find(|s| s.name == record.name.source) {
                record.time.watermark.bound = source.bound;
            }
        }
        let watermarks = sources.iter().map(|s| (s.node, s.watermark)).collect();
        let (leaving, joining, returning) = (vec![], vec![], vec![]);
        let mut partitions = Self { table, decisions, sources, watermarks, leaving, joining, returning };
        partitions.set_watermarks();
        partitions
    }

    /// Partitions known at a first start: no floor, nothing to decide.
    pub fn begin_with(&mut self, found: Vec<Found>) {
        let new = found.into_iter().map(|f| self.record(f, None));
        let new: Vec<_> = new.collect();
        self.table.extend(new);
    }

    pub fn index_of(&self, name: &PartitionName) -> Option<PartitionIndex> {
        self.table.iter().position(|p| p.name == *name).map(|at| PartitionIndex(at as u32))
    }

    pub fn record_of(&self, partition: PartitionIndex) -> Option<&PartitionRecord> {
        self.table.get(partition.0 as usize)
    }

    pub fn names(&self) -> Vec<PartitionName> {
        self.table.iter().map(|p| p.name.clone()).collect()
    }

    /// Nothing of this source is left to read, and nothing new waits to join.
    pub fn all_ended(&self) -> bool {
        self.joining.is_empty() && self.returning.is_empty() && self.table.iter().all(|p| p.status == Status::Ended)
    }

    /// All that are live have been read to their end: the next cut can be the last.
    pub fn all_leaving(&self) -> bool {
        let leaves = |at: usize| self.leaving.iter().any(|l| l.ended && l.partition.0 as usize == at);
        self.joining.is_empty()
            && self.returning.is_empty()
            && self.table.iter().enumerate().all(|(at, p)| p.status == Status::Ended || leaves(at))
    }

    pub fn leave(&mut self, leaving: Leaving) {
        let live = self.record_of(leaving.partition).is_some_and(|p| p.status == Status::Live);
        if live && !self.leaving.iter().any(|l| l.partition == leaving.partition) {
            self.leaving.push(leaving);
        }
    }

    pub fn join(&mut self, found: Found) {
        let waits = self.joining.iter().any(|f| f.name == found.name);
        if self.index_of(&found.name).is_none() && !waits {
            self.joining.push(found);
        }
    }

    pub fn come_back(&mut self, partition: PartitionIndex, end: Option<i64>) {
        let left = self.record_of(partition).is_some_and(|p| p.status != Status::Live);
        if left && !self.returning.iter().any(|(p, _)| *p == partition) {
            self.returning.push((partition, end));
        }
    }

    /// A live partition ends elsewhere than it did, or no longer. Only before it is read.
    pub fn end_at(&mut self, partition: PartitionIndex, end: Option<i64>) {
        if let Some(record) = self.table.get_mut(partition.0 as usize) {
            record.end = end;
        }
    }

    pub fn waits_for_barrier(&self) -> bool {
        !(self.leaving.is_empty() && self.joining.is_empty() && self.returning.is_empty())
    }

    /// Takes the decisions that the next barrier carries. What is decided after this waits for the one after.
    pub fn begin_cut(&mut self) -> CutDecisions {
        CutDecisions {
            leaving: std::mem::take(&mut self.leaving),
            joining: std::mem::take(&mut self.joining),
            returning: std::mem::take(&mut self.returning),
        }
    }

    /// Installs what the workers reported of the cut, and carries the decisions out. Returns the partitions to be read from now on.
    pub fn finish_cut(
        &mut self,
        checkpoint: CheckpointId,
        parts: impl IntoIterator<Item = PartitionPart>,
        cut: CutDecisions,
    ) -> Vec<Admission> {
        for part in parts {
            if let Some(record) = self.table.get_mut(part.partition.0 as usize) {
                record.position = part.position;
                record.time = part.time;
            }
        }
        for left in cut.leaving {
            let kind = if left.ended { DecisionKind::Ended } else { DecisionKind::Idle };
            let Some(record) = self.table.get_mut(left.partition.0 as usize) else { continue };
            record.status = if left.ended { Status::Ended } else { Status::Idle };
            let offset = record.position.offset;
            self.decisions.push(Decision { checkpoint, partition: left.partition, kind, offset, watermark: None });
        }
        self.set_watermarks();
        let mut admitted: Vec<_> = cut.joining.into_iter().map(|f| self.let_in(checkpoint, f)).collect();
        admitted.extend(cut.returning.into_iter().filter_map(|(p, end)| self.let_back(checkpoint, p, end)));
        admitted.into_iter().filter_map(|p| self.admission(p)).collect()
    }

    /// How the owner of a partition is told to read it (or to know it, where it has left).
    pub fn admission(&self, partition: PartitionIndex) -> Option<Admission> {
        let record = self.record_of(partition)?;
        let source = self.sources.iter().find(|s| s.name == record.name.source)?.node;
        let left = match record.status {
            Status::Live => None,
            status => Some(Leaving { partition, ended: status == Status::Ended }),
        };
        Some(Admission {
            source,
            partition,
            name: record.name.clone(),
            position: record.position.clone(),
            time: record.time.clone(),
            end: record.end,
            left,
        })
    }

    pub fn watermark_of(&self, source: NodeId) -> Option<EventTime> {
        self.watermarks.get(&source).copied().flatten()
    }

    fn let_in(&mut self, checkpoint: CheckpointId, found: Found) -> PartitionIndex {
        let source = self.source_of(&found.name).map(|s| s.node);
        let watermark = source.and_then(|s| self.watermark_of(s));
        let floor = watermark.map(|watermark| Floor { watermark, cause: WatermarkCause::Joined });
        let partition = PartitionIndex(self.table.len() as u32);
        let record = self.record(found, floor);
        let offset = record.position.offset;
        self.table.push(record);
        self.decisions.push(Decision { checkpoint, partition, kind: DecisionKind::Joined, offset, watermark });
        partition
    }

    fn let_back(
        &mut self,
        checkpoint: CheckpointId,
        partition: PartitionIndex,
        end: Option<i64>,
    ) -> Option<PartitionIndex> {
        let source = self.source_of(&self.record_of(partition)?.name)?.node;
        let watermark = self.watermark_of(source);
        let record = self.table.get_mut(partition.0 as usize)?;
        record.status = Status::Live;
        record.end = end;
        if let Some(watermark) = watermark {
            record.time.watermark.floor = Some(Floor { watermark, cause: WatermarkCause::Returned });
        }
        let offset = record.position.offset;
        self.decisions.push(Decision { checkpoint, partition, kind: DecisionKind::Returned, offset, watermark });
        Some(partition)
    }

    fn record(&self, found: Found, floor: Option<Floor>) -> PartitionRecord {
        let bound = self.source_of(&found.name).map_or(Span(0), |s| s.bound);
        let watermark = PartitionWatermark { max_seen: None, bound, floor };
        PartitionRecord {
            name: found.name,
            identity: found.identity,
            position: found.position,
            time: PartitionTime::new(watermark, BTreeMap::new()),
            status: Status::Live,
            end: found.end,
        }
    }

    fn source_of(&self, name: &PartitionName) -> Option<&SourceInfo> {
        self.sources.iter().find(|s| s.name == name.source)
    }

    fn set_watermarks(&mut self) {
        for source in &self.sources {
            let live = self.table.iter().filter(|p| p.name.source == source.name && p.status == Status::Live);
            let before = self.watermarks.get(&source.node).copied().flatten();
            let now = node_watermark(before, live.map(|p| p.time.watermark.before_next()));
            self.watermarks.insert(source.node, now);
        }
    }
}

/// The decisions that travel with one barrier.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CutDecisions {
    pub leaving: Vec<Leaving>,
    pub joining: Vec<Found>,
    pub returning: Vec<(PartitionIndex, Option<i64>)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(topic: &str) -> PartitionName {
        PartitionName { source: "events".into(), topic: topic.into(), partition: 0 }
    }

    fn found(topic: &str) -> Found {
        Found { name: name(topic), identity: String::new(), position: Position::default(), end: Some(10) }
    }

    fn part(partition: u32, offset: i64, max_seen: i64) -> PartitionPart {
        let mut watermark = PartitionWatermark::new(Span(5));
        watermark.observe(EventTime(max_seen));
        let time = PartitionTime::new(watermark, BTreeMap::new());
        PartitionPart { partition: PartitionIndex(partition), position: Position { offset, resume: vec![] }, time }
    }

    fn partitions(topics: &[&str]) -> Partitions {
        let source = SourceInfo { node: NodeId(0), name: "events".into(), bound: Span(5), watermark: None };
        let mut partitions = Partitions::new(vec![], vec![], vec![source]);
        partitions.begin_with(topics.iter().map(|t| found(t)).collect());
        partitions
    }

    #[test]
    fn one_that_leaves_is_out_of_the_minimum_before_one_that_joins_gets_its_floor() {
        let mut partitions = partitions(&["a", "b"]);
        partitions.leave(Leaving { partition: PartitionIndex(1), ended: false });
        partitions.join(found("c"));
        let cut = partitions.begin_cut();
        let admitted = partitions.finish_cut(CheckpointId(4), [part(0, 3, 100), part(1, 9, 20)], cut);
        assert_eq!(partitions.watermark_of(NodeId(0)), Some(EventTime(95)), "b, at 15, has left");
        assert_eq!(admitted.len(), 1);
        let floor = admitted[0].time.watermark.floor.unwrap();
        assert_eq!((floor.watermark, floor.cause), (EventTime(95), WatermarkCause::Joined));
        let kinds: Vec<_> = partitions.decisions.iter().map(|d| (d.kind, d.offset)).collect();
        assert_eq!(kinds, [(DecisionKind::Idle, 9), (DecisionKind::Joined, 0)]);
    }

    #[test]
    fn one_that_comes_back_goes_on_at_its_offset_above_the_watermark_it_missed() {
        let mut partitions = partitions(&["a", "b"]);
        partitions.leave(Leaving { partition: PartitionIndex(1), ended: false });
        let cut = partitions.begin_cut();
        partitions.finish_cut(CheckpointId(1), [part(0, 3, 100), part(1, 9, 20)], cut);
        partitions.come_back(PartitionIndex(1), None);
        let cut = partitions.begin_cut();
        let admitted = partitions.finish_cut(CheckpointId(2), [part(0, 5, 200)], cut);
        assert_eq!(admitted[0].position.offset, 9);
        assert_eq!(admitted[0].time.watermark.before_next(), Some(EventTime(195)));
        assert_eq!(admitted[0].time.watermark.cause(), WatermarkCause::Returned);
    }

    #[test]
    fn a_source_waits_for_a_partition_without_records_until_it_ends() {
        let mut partitions = partitions(&["a", "empty"]);
        let cut = partitions.begin_cut();
        partitions.finish_cut(CheckpointId(1), [part(0, 3, 100)], cut);
        assert_eq!(partitions.watermark_of(NodeId(0)), None);
        partitions.leave(Leaving { partition: PartitionIndex(1), ended: true });
        assert!(!partitions.all_leaving());
        let cut = partitions.begin_cut();
        partitions.finish_cut(CheckpointId(2), [part(0, 3, 100)], cut);
        assert_eq!(partitions.watermark_of(NodeId(0)), Some(EventTime(95)));
        partitions.leave(Leaving { partition: PartitionIndex(0), ended: true });
        assert!(partitions.all_leaving() && !partitions.all_ended());
    }

    #[test]
    fn a_partition_is_known_once() {
        let mut partitions = partitions(&["a"]);
        partitions.join(found("a"));
        partitions.join(found("b"));
        partitions.join(found("b"));
        let cut = partitions.begin_cut();
        assert_eq!(cut.joining.len(), 1);
    }
}
