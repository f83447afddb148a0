//! When barriers go out, in which order manifests come, what sinks hear of and when, and how a job ends.
use std::path::Path;

use floodmark_pipeline::stamp::PartitionTime;
use floodmark_pipeline::time::Span;
use floodmark_pipeline::watermark::PartitionWatermark;
use floodmark_state::{Snapshot, StateDigest};

use super::*;
use crate::checkpoint::partitions::SourceInfo;
use crate::runtime::outbox::Sealed;
use crate::runtime::part::{NodePart, PartitionPart};
use crate::source::Position;

const FILE: &str = r#"
[pipeline]
id = "clicks"
[source.events]
type = "file"
path = "events"
discard = ["errors"]
schema = { id = "string" }
[sink.out]
from = "events"
type = "stdout"
"#;
const OURS: Incarnation = Incarnation { number: 3, token: 9 };
const SOURCE: NodeId = NodeId(0);
const OUT: NodeId = NodeId(1);
const FIRST: PartitionIndex = PartitionIndex(0);
const INTERVAL_MS: u64 = 1_000;
const LIMIT_BYTES: u64 = 250;
/// Bytes of a segment with rows.
const SEGMENT_BYTES: usize = 100;

/// A coordinator and what it has asked for, as short words.
struct World {
    coordinator: Coordinator,
    workers: u16,
}

impl World {
    /// A job that reads one partition and has used ids up to 4.
    fn new(workers: u16) -> Self {
        let pipeline = crate::config::parse(FILE, Path::new("clicks.toml"), &|_| None).unwrap();
        let terms = Terms {
            plan: Arc::new(pipeline.plan.clone()),
            fingerprints: BTreeMap::new(),
            settings: BTreeMap::new(),
            incarnation: OURS,
            workers,
            interval_ms: INTERVAL_MS,
            outbox_bytes: LIMIT_BYTES,
            restored_from: None,
        };
        let source = SourceInfo { node: SOURCE, name: "events".into(), bound: Span(0), watermark: None, bounded: true };
        let mut partitions = Partitions::new(vec![], vec![], vec![source]);
        partitions.begin_with(vec![Found {
            name: PartitionName { source: "events".into(), topic: "a".into(), partition: 0 },
            identity: String::new(),
            position: Position::default(),
            end: None,
        }]);
        let nodes = pipeline.plan.nodes.len();
        let beginning = Beginning {
            partitions,
            counters: vec![NodeCounters::default(); nodes],
            last_id: CheckpointId(4),
            sinks: BTreeMap::from([(OUT, SinkBook { definition: "as written".into(), ..SinkBook::default() })]),
            nodes: NodesAtCut {
                watermarks: vec![None; nodes],
                fired_floors: vec![None; nodes],
                oldest: vec![None; nodes],
                counters: vec![NodeCounters::default(); nodes],
                state: vec![StateDigest::default(); nodes],
            },
            state_digest: 0,
        };
        Self { coordinator: Coordinator::new(terms, beginning, 0), workers }
    }

    fn step(&mut self, now_ms: u64, input: Input) -> Vec<Effect> {
        self.coordinator.step(now_ms, input)
    }

    /// The same, as words: what a test of an order reads best.
    fn does(&mut self, now_ms: u64, input: Input) -> String {
        words(&self.step(now_ms, input))
    }

    /// Every worker's part of a checkpoint comes in; the first has read so many rows since the start.
    fn cut(&mut self, now_ms: u64, checkpoint: u64, rows: u64) -> Vec<Effect> {
        let mut effects = vec![];
        for worker in 0..self.workers {
            let rows = if worker == 0 { rows } else { 0 };
            effects.extend(self.step(now_ms, part(worker, checkpoint, rows)));
        }
        effects
    }

    fn published(&mut self, now_ms: u64, checkpoint: u64) -> String {
        self.does(now_ms, Input::Published(CheckpointId(checkpoint), String::new()))
    }
}

fn epoch(checkpoint: u64) -> Epoch {
    Epoch { incarnation: OURS, checkpoint: CheckpointId(checkpoint) }
}

/// A part in which rows went from the source to the sink. Counters are those of the whole run, so a test cuts with rows once.
fn part(worker: u16, checkpoint: u64, rows: u64) -> Input {
    let counters = NodeCounters { records_in: rows, records_out: rows, ..NodeCounters::default() };
    let sealed = Sealed { sink: OUT, rows, chunks: vec![vec![0; SEGMENT_BYTES].into()] };
    let time = PartitionTime::new(PartitionWatermark::new(Span(0)), BTreeMap::new());
    let read = PartitionPart { partition: FIRST, position: Position { offset: rows as i64, resume: vec![] }, time };
    let state = Snapshot { checkpoint: CheckpointId(checkpoint), files: vec![], digest: StateDigest::default() };
    Input::Worker(FromWorker::Part(Box::new(Part {
        worker: WorkerId(worker),
        checkpoint: CheckpointId(checkpoint),
        partitions: if worker == 0 { vec![read] } else { vec![] },
        nodes: vec![NodePart { counters, ..NodePart::default() }; 2],
        segments: if rows > 0 { vec![sealed] } else { vec![] },
        state,
        state_memory: 0,
    })))
}

fn words(effects: &[Effect]) -> String {
    let word = |effect: &Effect| match effect {
        Effect::AllWorkers(ToWorker::Barrier { checkpoint, drain, .. }) => {
            format!("barrier {checkpoint}{}", if *drain { " drain" } else { "" })
        }
        Effect::AllWorkers(ToWorker::Pause(paused)) => (if *paused { "pause" } else { "resume" }).to_owned(),
        Effect::AllWorkers(ToWorker::Release(id)) => format!("release {id}"),
        Effect::AllWorkers(other) => format!("{other:?}"),
        Effect::Worker(worker, ToWorker::Admit(admission)) => {
            format!("admit {} to {}", admission.partition.0, worker.0)
        }
        Effect::Worker(_, other) => format!("{other:?}"),
        Effect::Names(names) => format!("{} names", names.len()),
        Effect::Publish(publication) => format!("publish {}", publication.manifest.checkpoint),
        Effect::Epoch(_, epoch) => format!("epoch {}", epoch.epoch.checkpoint),
        Effect::CommitNow => "commit now".to_owned(),
        Effect::Finished => "finished".to_owned(),
        Effect::Failed(error) => format!("failed: {error}"),
    };
    effects.iter().map(word).collect::<Vec<_>>().join(", ")
}

fn manifest(effects: &[Effect]) -> &Manifest {
    let published = effects.iter().find_map(|e| if let Effect::Publish(p) = e { Some(&p.manifest) } else { None });
    published.unwrap_or_else(|| panic!("nothing is published: {}", words(effects)))
}

#[test]
fn ids_rise_from_the_largest_that_was_ever_used() {
    let mut world = World::new(1);
    assert_eq!(world.coordinator.first_manifest(0).checkpoint, CheckpointId(5));
    assert_eq!(words(&world.coordinator.begin()), "1 names, admit 0 to 0");
    assert_eq!(world.does(999, Input::Tick), "");
    assert_eq!(world.does(1_000, Input::Tick), "barrier 6");
    assert_eq!(words(&world.cut(1_001, 6, 0)), "publish 6");
    assert_eq!(world.does(2_000, Input::Tick), "barrier 7");
}

#[test]
fn one_barrier_is_on_its_way_at_a_time() {
    let mut world = World::new(2);
    assert_eq!(world.does(1_000, Input::Tick), "barrier 5");
    assert_eq!(world.does(9_000, Input::Tick), "");
    assert_eq!(world.does(9_001, part(1, 5, 0)), "", "one of two parts");
    assert_eq!(world.does(9_002, part(0, 5, 0)), "publish 5, barrier 6", "the next was due long ago");
}

#[test]
fn a_part_of_another_barrier_is_none_of_this_one() {
    let mut world = World::new(1);
    world.step(1_000, Input::Tick);
    assert_eq!(world.does(1_001, part(0, 4, 0)), "");
    assert_eq!(world.does(1_002, part(0, 5, 0)), "publish 5");
    assert_eq!(world.does(1_003, part(0, 5, 0)), "");
}

#[test]
fn two_manifests_may_be_on_their_way_and_a_third_barrier_waits() {
    let mut world = World::new(1);
    let mut published = vec![];
    for (now_ms, id) in [(1_000, 5), (2_000, 6)] {
        assert_eq!(world.does(now_ms, Input::Tick), format!("barrier {id}"));
        published.push(manifest(&world.cut(now_ms, id, 0)).checkpoint.0);
    }
    assert_eq!(world.does(3_000, Input::Tick), "", "due, and waits");
    assert_eq!(world.published(3_500, 5), "epoch 5, release 5, barrier 7");
    published.push(manifest(&world.cut(3_600, 7, 0)).checkpoint.0);
    assert_eq!(published, [5, 6, 7], "handed out in the order of their ids");
}

#[test]
fn a_sink_hears_of_an_epoch_when_its_manifest_is_durable() {
    let mut world = World::new(1);
    world.step(1_000, Input::Tick);
    assert_eq!(words(&world.cut(1_001, 5, 3)), "publish 5");
    assert_eq!(world.published(1_100, 5), "epoch 5, release 5");
}

#[test]
fn a_manifest_lists_what_a_sink_lacks_behind_the_last_that_it_holds() {
    let mut world = World::new(1);
    for id in [5, 6] {
        world.step(id * 1_000, Input::Tick);
        world.cut(id * 1_000, id, 0);
        world.published(id * 1_000, id);
    }
    world.step(6_500, Input::Committed(OUT, epoch(5)));
    world.step(7_000, Input::Tick);
    let effects = world.cut(7_001, 7, 0);
    let sink = &manifest(&effects).sinks[0];
    assert_eq!((sink.name.as_str(), sink.definition.as_str()), ("out", "as written"));
    assert_eq!(sink.base, Some(epoch(5)));
    assert_eq!(sink.epochs.iter().map(|e| e.epoch).collect::<Vec<_>>(), [epoch(6), epoch(7)]);
}

#[test]
fn a_full_outbox_pauses_the_sources_and_only_them() {
    let mut world = World::new(1);
    for (now_ms, id) in [(1_000, 5), (2_000, 6), (3_000, 7)] {
        world.step(now_ms, Input::Tick);
        let effects = words(&world.cut(now_ms, id, 3));
        let full = id == 7;
        assert_eq!(effects, if full { "publish 7, pause" } else { ["publish 5", "publish 6"][id as usize - 5] });
        world.published(now_ms, id);
    }
    assert!(world.coordinator.sources_paused());
    assert_eq!(world.coordinator.outbox_bytes(), 3 * SEGMENT_BYTES as u64);
    assert_eq!(world.does(4_000, Input::Tick), "barrier 8", "barriers pass");
    assert_eq!(world.does(4_001, Input::Committed(OUT, epoch(5))), "resume");
    assert_eq!(world.coordinator.outbox_bytes(), 2 * SEGMENT_BYTES as u64);
}

#[test]
fn a_worker_with_too_much_unsealed_gets_a_barrier_at_once() {
    let mut world = World::new(1);
    assert_eq!(world.does(10, Input::Worker(FromWorker::OutboxFull)), "barrier 5");
    world.cut(11, 5, 0);
    assert_eq!(world.does(12, Input::Tick), "", "once");
}

#[test]
fn a_publication_names_the_oldest_checkpoint_with_rows_that_wait() {
    let mut world = World::new(1);
    let oldest = |effects: &[Effect]| {
        effects.iter().find_map(|e| if let Effect::Publish(p) = e { p.oldest_waiting } else { None })
    };
    let cuts = [(5, 0, None), (6, 3, Some(CheckpointId(6))), (7, 3, Some(CheckpointId(6)))];
    for (id, rows, expected) in cuts {
        world.step(id * 1_000, Input::Tick);
        assert_eq!(oldest(&world.cut(id * 1_000, id, rows)), expected, "an epoch without rows waits for nothing");
        world.published(id * 1_000, id);
    }
    world.step(7_500, Input::Committed(OUT, epoch(6)));
    world.step(8_000, Input::Tick);
    assert_eq!(oldest(&world.cut(8_001, 8, 3)), Some(CheckpointId(7)));
}

#[test]
fn sums_that_do_not_close_stop_the_job_before_anything_is_published() {
    let mut world = World::new(1);
    world.step(1_000, Input::Tick);
    let Input::Worker(FromWorker::Part(mut broken)) = part(0, 5, 3) else { panic!("a part") };
    broken.nodes[0].counters.records_out = 2;
    let effects = world.does(1_001, Input::Worker(FromWorker::Part(broken)));
    assert!(
        effects.starts_with("failed: A1 (") && effects.contains(" events: read = 3, but decoded + errors = 2"),
        "{effects}"
    );
    assert!(!effects.contains("publish") && !effects.contains("epoch"), "{effects}");
}

#[test]
fn a_stop_ends_with_one_last_checkpoint_and_all_that_waits_committed() {
    let mut world = World::new(1);
    assert_eq!(world.does(10, Input::Stop { drain: true }), "pause, barrier 5 drain", "at once");
    assert_eq!(world.does(11, Input::Stop { drain: true }), "", "asked twice");
    assert_eq!(words(&world.cut(12, 5, 3)), "publish 5");
    assert!(!world.coordinator.waits_only_for_sinks());
    assert_eq!(world.published(20, 5), "epoch 5, release 5, commit now");
    assert!(world.coordinator.waits_only_for_sinks());
    assert_eq!(world.does(9_000, Input::Tick), "", "no further checkpoint");
    let effects = world.step(9_001, Input::Committed(OUT, epoch(5)));
    assert_eq!(words(&effects), "publish 6", "of what has been committed");
    let record = &manifest(&effects).sinks[0];
    assert_eq!((record.base, record.epochs.len()), (Some(epoch(5)), 0));
    assert!(world.coordinator.waits_only_for_sinks(), "nothing would be lost without it");
    assert_eq!(world.published(9_002, 6), "release 6, finished");
}

#[test]
fn a_stop_waits_for_the_checkpoint_that_is_under_way() {
    let mut world = World::new(1);
    world.step(1_000, Input::Tick);
    assert_eq!(world.does(1_001, Input::Stop { drain: false }), "pause");
    assert_eq!(words(&world.cut(1_002, 5, 0)), "publish 5, barrier 6");
}

#[test]
fn a_log_that_is_read_to_its_end_ends_the_job() {
    let mut world = World::new(1);
    assert_eq!(world.does(10, Input::Worker(FromWorker::Exhausted(FIRST))), "barrier 5", "nothing more will come");
    let effects = world.cut(11, 5, 3);
    let manifest = manifest(&effects);
    assert_eq!(manifest.partitions[0].status, crate::checkpoint::manifest::Status::Ended);
    assert_eq!(world.published(12, 5), "epoch 5, release 5, commit now");
    assert_eq!(world.does(13, Input::Committed(OUT, epoch(5))), "publish 6");
    assert_eq!(world.published(14, 6), "release 6, finished");
}

#[test]
fn a_partition_found_while_running_is_read_from_the_cut_on_that_records_it() {
    let mut world = World::new(2);
    let name = PartitionName { source: "events".into(), topic: "b".into(), partition: 0 };
    let found = Found { name, identity: String::new(), position: Position::default(), end: None };
    assert_eq!(world.does(10, Input::Discovered(vec![found])), "", "it waits for a barrier");
    world.step(1_000, Input::Tick);
    let effects = world.cut(1_001, 5, 0);
    assert_eq!(words(&effects), "2 names, admit 1 to 1, publish 5");
    assert_eq!(manifest(&effects).partitions.len(), 2);
}

#[test]
fn a_worker_that_failed_ends_the_job() {
    let mut world = World::new(1);
    let error = WorkerError::Rows { node: "clean".into(), error: arrow_schema::ArrowError::DivideByZero };
    let effects = world.does(1, Input::Worker(FromWorker::Failed { worker: WorkerId(0), error }));
    assert!(effects.starts_with("failed: clean: "), "{effects}");
}
