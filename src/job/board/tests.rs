//! What a status says of positions, holders and sinks, from a coordinator at a cut.
use std::collections::VecDeque;

use floodmark_pipeline::ids::{Epoch, Incarnation, PartitionName};
use floodmark_pipeline::stamp::PartitionTime;
use floodmark_pipeline::time::Span;
use floodmark_pipeline::watermark::PartitionWatermark;

use super::*;
use crate::checkpoint::coordinator::Beginning;
use crate::checkpoint::cut::NodesAtCut;
use crate::checkpoint::partitions::{Partitions, SourceInfo};
use crate::host::{Computer, Host};
use crate::sink::{PendingEpoch, SegmentRef};
use crate::source::Position;

const FILE: &str = r#"
[pipeline]
id = "clicks"
[source.events]
type = "file"
path = "events"
event_time = { field = "time" }
watermark = { bound = "5s" }
discard = ["errors"]
schema = { id = "string", time = "timestamp_ms" }
[dedup.clean]
from = "events"
key = ["id"]
horizon = "1h"
discard = ["duplicates", "late"]
[sink.out]
from = "clean"
type = "stdout"
"#;
const OURS: Incarnation = Incarnation { number: 3, token: 9 };
const OUT: NodeId = NodeId(2);

fn partition(topic: &str, read_bytes: u64, max_seen: i64, status: Standing) -> PartitionRecord {
    let mut watermark = PartitionWatermark::new(Span(5_000));
    watermark.observe(EventTime(max_seen));
    PartitionRecord {
        name: PartitionName { source: "events".into(), topic: topic.into(), partition: 0 },
        identity: String::new(),
        begin: 0,
        position: Position { offset: 7, resume: StoredPrefix { bytes: read_bytes, ..Default::default() }.encode() },
        time: PartitionTime::new(watermark, BTreeMap::new()),
        status,
        end: Some(100),
    }
}

struct World {
    board: Board,
    coordinator: Coordinator,
    watch: Watch,
}

impl World {
    fn with(table: Vec<PartitionRecord>, epochs: VecDeque<PendingEpoch>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clicks.toml");
        std::fs::write(&path, FILE).unwrap();
        let pipeline = crate::config::load(&path).map_err(|e| e.to_string()).unwrap();
        let terms = Terms {
            plan: Arc::new(pipeline.plan.clone()),
            fingerprints: BTreeMap::new(),
            settings: BTreeMap::new(),
            incarnation: OURS,
            workers: 1,
            interval_ms: 1_000,
            outbox_bytes: 1 << 20,
            restored_from: None,
        };
        let source =
            SourceInfo { node: NodeId(0), name: "events".into(), bound: Span(5_000), watermark: None, bounded: true };
        let nodes = pipeline.plan.nodes.len();
        let beginning = Beginning {
            partitions: Partitions::new(table, vec![], vec![source]),
            counters: vec![NodeCounters::default(); nodes],
            last_id: CheckpointId(4),
            sinks: BTreeMap::from([(OUT, SinkBook { epochs, ..SinkBook::default() })]),
            nodes: NodesAtCut { watermarks: vec![None; nodes], ..NodesAtCut::default() },
            state_digest: 0,
        };
        let coordinator = Coordinator::new(terms.clone(), beginning, 0);
        let host: Arc<dyn Host> = Arc::new(Computer::default());
        let board = Board::new(&pipeline, &terms, &coordinator, 0);
        Self { board, coordinator, watch: Watch::start(&pipeline, &[], &host) }
    }

    fn status(&mut self, now_ms: u64) -> Status {
        self.board.status(now_ms, 0, &self.coordinator, &self.watch)
    }
}

#[test]
fn files_are_measured_in_bytes_and_an_ended_one_is_read_whole() {
    // A compressed file holds more than its size.
    let table = vec![partition("a", 50, 0, Standing::Live), partition("b", 900, 0, Standing::Ended)];
    let status = World::with(table, VecDeque::new()).status(0);
    assert_eq!(status.progress, Some(0.75));
    assert_eq!(
        status.partitions.iter().map(|p| (p.unit, p.lag)).collect::<Vec<_>>(),
        [(Unit::Bytes, Some(50)), (Unit::Bytes, Some(0))]
    );
}

#[test]
fn a_read_from_the_middle_of_a_log_is_measured_from_where_it_began() {
    let table = [60, 100].map(|begin| PartitionRecord { begin, ..partition("a", 0, 0, Standing::Live) });
    let read_to = |position| PartitionStatus { position, end: Some(100), ..PartitionStatus::default() };
    assert_eq!(progress(&table, &[read_to(60), read_to(100)]), Some(0.0));
    assert_eq!(progress(&table, &[read_to(70), read_to(100)]), Some(0.25));
    assert_eq!(progress(&table[1..], &[read_to(100)]), Some(1.0), "nothing to read");
}

#[test]
fn the_lowest_live_partition_holds_every_node_behind_it() {
    let table = vec![
        partition("a", 1, 100_000, Standing::Live),
        partition("b", 1, 20_000, Standing::Live),
        partition("c", 1, 6_000, Standing::Ended),
    ];
    let status = World::with(table, VecDeque::new()).status(0);
    let held: Vec<_> = status.nodes.iter().map(|n| n.held_by.as_deref()).collect();
    assert_eq!(held, [Some("events:b-0"), Some("events:b-0"), None]);
    assert_eq!(status.nodes[0].watermark_ms, Some(15_000));
}

#[test]
fn rows_wait_from_when_they_are_seen() {
    let epoch = PendingEpoch {
        epoch: Epoch { incarnation: OURS, checkpoint: CheckpointId(4) },
        commit_id: 1,
        segments: vec![SegmentRef { path: "s".into(), offset: 0, length: 640, rows: 8, digest: None }],
        offsets: Default::default(),
        event_time_watermark: None,
        replay_from: Default::default(),
    };
    let mut world = World::with(vec![], VecDeque::from([epoch]));
    assert_eq!(world.status(1_000).outbox.bytes, 640, "rows from before the start fill the outbox too");
    assert!(world.board.away(OUT, "refused") && !world.board.away(OUT, "refused"), "said once");
    let sink = world.status(4_500).sinks.remove(0);
    assert_eq!((sink.waiting_rows, sink.waiting_bytes, sink.waiting_ms), (8, 640, Some(3_500)));
    assert_eq!(sink.away.as_deref(), Some("refused"));
}

#[test]
fn a_source_in_trouble_is_named_until_every_worker_reads_again() {
    let mut world = World::with(vec![], VecDeque::new());
    let (source, why) = (NodeId(0), "b1: connection refused".to_owned());
    let notices = |world: &mut World| world.status(0).notices.into_iter().map(|n| n.text).collect::<Vec<_>>();
    world.board.trouble(WorkerId(0), source, Some(why.clone()));
    world.board.trouble(WorkerId(1), source, Some(why));
    let text = "events gets nothing to read: b1: connection refused. Reading goes on by itself once that has passed.";
    assert_eq!(notices(&mut world), [text]);
    world.board.trouble(WorkerId(0), source, None);
    assert_eq!(notices(&mut world), [text]);
    world.board.trouble(WorkerId(1), source, None);
    assert_eq!(notices(&mut world), [""; 0]);
}
