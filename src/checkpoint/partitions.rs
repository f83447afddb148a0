//! The table of partitions, and the decisions that change who is in the minimum: joined, idle, returned, ended.
//!
//! A decision waits for a barrier, takes effect at its cut, and stands in that manifest; so the result is a function of the log and of these.
//! Order at a cut: those that leave are left out, watermarks are set, what is due fires; then those that enter get the watermark as their floor.
//! Doesn't know: workers, stores. Keeps: the table only grows; a source's watermark never goes back.
use std::collections::BTreeMap;

use floodmark_pipeline::guard::{Guard, holds};
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
    /// It has an end: nothing new joins it while it runs.
    pub bounded: bool,
}

/// Floors of partitions that enter at one cut, by source.
type Floors = BTreeMap<String, Option<EventTime>>;

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
    /// What the barrier under way carries: decided, and not in the table before its cut.
    under_way: CutDecisions,
}

impl Partitions {
    /// The table of a manifest, or an empty one.
    pub fn new(mut table: Vec<PartitionRecord>, decisions: Vec<Decision>, sources: Vec<SourceInfo>) -> Self {
        for record in &mut table {
            if let Some(source) = sources.iter().find(|s| s.name == *record.name.source) {
                record.time.watermark.bound = source.bound;
                if !holds(Guard::WatermarkRestore) {
                    record.time.watermark.max_seen = None;
                }
            }
        }
        let watermarks = sources.iter().map(|s| (s.node, s.watermark)).collect();
        let (leaving, joining, returning) = (vec![], vec![], vec![]);
        let under_way = CutDecisions::default();
        let mut partitions = Self { table, decisions, sources, watermarks, leaving, joining, returning, under_way };
        partitions.set_watermarks(&[]);
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

    /// Nothing is left to read, and nothing can come.
    pub fn all_ended(&self) -> bool {
        self.is_over(|_, record| record.status == Status::Ended)
    }

    /// All that are live have been read to their end: the next cut can be the last.
    pub fn all_leaving(&self) -> bool {
        let leaves = |at: usize| self.leaving.iter().any(|l| l.ended && l.partition.0 as usize == at);
        self.is_over(|at, record| record.status == Status::Ended || leaves(at))
    }

    /// A source without partitions is over too, if none can join. One that has left the pipeline file isn't read, and isn't waited for.
    fn is_over(&self, done: impl Fn(usize, &PartitionRecord) -> bool) -> bool {
        let mut read = self.table.iter().enumerate().filter(|(_, p)| self.source_of(&p.name).is_some());
        self.joining.is_empty()
            && self.returning.is_empty()
            && self.sources.iter().all(|s| s.bounded)
            && read.all(|(at, p)| done(at, p))
    }

    pub fn leave(&mut self, leaving: Leaving) {
        let live = self.record_of(leaving.partition).is_some_and(|p| p.status == Status::Live);
        let mut decided = self.leaving.iter().chain(&self.under_way.leaving);
        if live && !decided.any(|l| l.partition == leaving.partition) {
            self.leaving.push(leaving);
        }
    }

    pub fn join(&mut self, found: Found) {
        let mut decided = self.joining.iter().chain(&self.under_way.joining);
        if self.index_of(&found.name).is_none() && !decided.any(|f| f.name == found.name) {
            self.joining.push(found);
        }
    }

    pub fn come_back(&mut self, partition: PartitionIndex, end: Option<i64>) {
        let left = self.record_of(partition).is_some_and(|p| p.status != Status::Live);
        let mut decided = self.returning.iter().chain(&self.under_way.returning);
        if left && !decided.any(|(p, _)| *p == partition) {
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
        self.under_way = CutDecisions {
            leaving: std::mem::take(&mut self.leaving),
            joining: std::mem::take(&mut self.joining),
            returning: std::mem::take(&mut self.returning),
        };
        self.under_way.clone()
    }

    /// Installs what the workers reported of the cut, and carries the decisions out. Returns the partitions to be read from now on.
    pub fn finish_cut(
        &mut self,
        checkpoint: CheckpointId,
        parts: impl IntoIterator<Item = PartitionPart>,
        cut: CutDecisions,
    ) -> Vec<Admission> {
        self.under_way = CutDecisions::default();
        for part in parts {
            if let Some(record) = self.table.get_mut(part.partition.0 as usize) {
                record.position = part.position;
                record.time = part.time;
            }
        }
        let mut going = vec![];
        for left in cut.leaving {
            let kind = if left.ended { DecisionKind::Ended } else { DecisionKind::Idle };
            let Some(record) = self.table.get_mut(left.partition.0 as usize) else { continue };
            record.status = if left.ended { Status::Ended } else { Status::Idle };
            let offset = record.position.offset;
            self.decisions.push(Decision { checkpoint, partition: left.partition, kind, offset, watermark: None });
            if !left.ended {
                going.push(left.partition);
            }
        }
        self.set_watermarks(&going);
        let floors = self.sources.iter().map(|s| (s.name.clone(), self.floor_of(s))).collect();
        let mut admitted: Vec<_> = cut.joining.into_iter().map(|f| self.let_in(checkpoint, f, &floors)).collect();
        admitted.extend(cut.returning.into_iter().filter_map(|(p, end)| self.let_back(checkpoint, p, end, &floors)));
        admitted.into_iter().filter_map(|p| self.admission(p)).collect()
    }

    /// How the owner of a partition is told to read it (or to know it, where it has left).
    pub fn admission(&self, partition: PartitionIndex) -> Option<Admission> {
        let record = self.record_of(partition)?;
        let source = self.sources.iter().find(|s| s.name == *record.name.source)?.node;
        let left = match record.status {
            Status::Live => None,
            status => Some(Leaving { partition, ended: status == Status::Ended }),
        };
        let mut position = record.position.clone();
        if !holds(Guard::PositionRestore) {
            position.offset += 1;
        }
        Some(Admission {
            source,
            partition,
            name: record.name.clone(),
            position,
            time: record.time.clone(),
            end: record.end,
            left,
        })
    }

    pub fn watermark_of(&self, source: NodeId) -> Option<EventTime> {
        self.watermarks.get(&source).copied().flatten()
    }

    /// The watermark that whoever enters now has as its floor. Where all have ended it is that of the furthest: which of them ended last, and how many
    /// cuts came before, is a matter of timing, and the source's own watermark stands where those left it.
    fn floor_of(&self, source: &SourceInfo) -> Option<EventTime> {
        let known = || self.table.iter().filter(|p| *p.name.source == source.name);
        let watermark = self.watermark_of(source.node);
        if known().any(|p| p.status != Status::Ended) {
            return watermark;
        }
        watermark.max(known().filter_map(|p| p.time.watermark.before_next()).max())
    }

    fn let_in(&mut self, checkpoint: CheckpointId, found: Found, floors: &Floors) -> PartitionIndex {
        let watermark = floors.get(&*found.name.source).copied().flatten();
        let floor = watermark.map(|watermark| Floor { watermark, cause: WatermarkCause::Joined });
        let floor = floor.filter(|_| holds(Guard::JoinFloor));
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
        floors: &Floors,
    ) -> Option<PartitionIndex> {
        let watermark = *floors.get(&*self.record_of(partition)?.name.source)?;
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
            begin: found.position.offset,
            position: found.position,
            time: PartitionTime::new(watermark, BTreeMap::new()),
            status: Status::Live,
            end: found.end,
        }
    }

    fn source_of(&self, name: &PartitionName) -> Option<&SourceInfo> {
        self.sources.iter().find(|s| s.name == *name.source)
    }

    /// Those in `going` go idle at this cut.
    fn set_watermarks(&mut self, going: &[PartitionIndex]) {
        for source in &self.sources {
            let of_source = |p: &&PartitionRecord| *p.name.source == source.name;
            let live = self.table.iter().filter(of_source).filter(|p| p.status == Status::Live);
            let going = going.iter().filter_map(|p| self.table.get(p.0 as usize)).filter(of_source);
            let before = self.watermarks.get(&source.node).copied().flatten();
            let stood = |p: &PartitionRecord| p.time.watermark.before_next();
            let now = node_watermark(before, live.map(stood), going.map(stood));
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
        let mut partitions = Partitions::new(vec![], vec![], vec![source(true)]);
        partitions.begin_with(topics.iter().map(|t| found(t)).collect());
        partitions
    }

    fn source(bounded: bool) -> SourceInfo {
        SourceInfo { node: NodeId(0), name: "events".into(), bound: Span(5), watermark: None, bounded }
    }

    /// A barrier at which these are read to their end.
    fn end(partitions: &mut Partitions, parts: &[PartitionPart]) {
        parts.iter().for_each(|p| partitions.leave(Leaving { partition: p.partition, ended: true }));
        let cut = partitions.begin_cut();
        partitions.finish_cut(CheckpointId(1), parts.to_vec(), cut);
    }

    /// Floors of two that are let in by the next barrier.
    fn floors(partitions: &mut Partitions) -> [Option<EventTime>; 2] {
        ["c", "d"].into_iter().for_each(|topic| partitions.join(found(topic)));
        let cut = partitions.begin_cut();
        let admitted = partitions.finish_cut(CheckpointId(2), [], cut);
        [0, 1].map(|at: usize| admitted[at].time.watermark.floor.map(|f| f.watermark))
    }

    #[test]
    fn a_source_without_partitions_is_over_only_if_none_can_join() {
        let over = |bounded| {
            let partitions = Partitions::new(vec![], vec![], vec![source(bounded)]);
            (partitions.all_ended(), partitions.all_leaving())
        };
        assert_eq!((over(true), over(false)), ((true, true), (false, false)));
    }

    #[test]
    fn partitions_of_a_source_that_has_left_the_file_are_kept_and_not_waited_for() {
        let mut kept = partitions(&["a"]).table;
        kept[0].name.source = "gone".into();
        let partitions = Partitions::new(kept, vec![], vec![source(true)]);
        assert!(partitions.all_ended());
        assert_eq!(partitions.table[0].status, Status::Live, "should it come back, it goes on");
        assert!(partitions.admission(PartitionIndex(0)).is_none());
    }

    #[test]
    fn what_comes_after_the_end_finds_the_same_floor_however_the_end_came_about() {
        let (a, b) = (part(0, 3, 100), part(1, 9, 20));
        for ends in [vec![vec![a.clone(), b.clone()]], vec![vec![a.clone()], vec![b.clone()]], vec![vec![b], vec![a]]] {
            let mut partitions = partitions(&["a", "b"]);
            ends.iter().for_each(|parts| end(&mut partitions, parts));
            assert_eq!(floors(&mut partitions), [Some(EventTime(95)); 2], "{ends:?}");
        }
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

    /// A report that comes between a barrier and its cut finds the table as it was before.
    #[test]
    fn what_a_barrier_carries_is_not_decided_a_second_time() {
        let mut partitions = partitions(&["a", "b"]);
        end(&mut partitions, &[part(0, 3, 100)]);
        let decide = |partitions: &mut Partitions| {
            partitions.join(found("c"));
            partitions.come_back(PartitionIndex(0), None);
            partitions.leave(Leaving { partition: PartitionIndex(1), ended: false });
        };
        decide(&mut partitions);
        let cut = partitions.begin_cut();
        decide(&mut partitions);
        let admitted = partitions.finish_cut(CheckpointId(2), [], cut);
        assert_eq!(admitted.len(), 2);
        assert_eq!(partitions.begin_cut(), CutDecisions::default());
    }

    #[test]
    fn all_that_go_idle_at_one_cut_have_counted() {
        let mut partitions = partitions(&["a", "b", "empty"]);
        for partition in [0, 1, 2].map(PartitionIndex) {
            partitions.leave(Leaving { partition, ended: false });
        }
        let cut = partitions.begin_cut();
        partitions.finish_cut(CheckpointId(1), [part(0, 3, 100), part(1, 9, 20)], cut);
        assert_eq!(partitions.watermark_of(NodeId(0)), Some(EventTime(15)), "b's, and the empty one holds nothing");
    }

    #[test]
    fn the_last_to_go_idle_counts_with_what_it_has_read_since_the_cut_before() {
        let mut partitions = partitions(&["a"]);
        let cut = partitions.begin_cut();
        partitions.finish_cut(CheckpointId(1), [part(0, 3, 100)], cut);
        partitions.leave(Leaving { partition: PartitionIndex(0), ended: false });
        let cut = partitions.begin_cut();
        partitions.finish_cut(CheckpointId(2), [part(0, 5, 200)], cut);
        assert_eq!(partitions.watermark_of(NodeId(0)), Some(EventTime(195)));
    }

    /// At the end windows fire by themselves, and a file that grows goes on from its own watermark.
    #[test]
    fn one_that_ends_moves_no_watermark() {
        let mut partitions = partitions(&["a"]);
        partitions.leave(Leaving { partition: PartitionIndex(0), ended: true });
        let cut = partitions.begin_cut();
        partitions.finish_cut(CheckpointId(1), [part(0, 3, 100)], cut);
        assert_eq!(partitions.watermark_of(NodeId(0)), None);
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
