//! A worker, step by step: what it takes, what it holds back, and what its part of a checkpoint holds.
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use floodmark_pipeline::ids::{CheckpointId, Incarnation, PartitionIndex};
use floodmark_pipeline::stamp::PartitionTime;
use floodmark_pipeline::time::Span;
use floodmark_pipeline::watermark::PartitionWatermark;
use object_store::memory::InMemory;

use super::look::SourceLog;
use super::work;
use super::workers::Crew;
use crate::checkpoint::dir::CheckpointDir;
use crate::config::model::Pipeline;
use crate::host::{Computer, Host};
use crate::runtime::part::{Admission, FromWorker, Part, ToWorker};
use crate::runtime::worker::{Step, Worker};
use crate::simulate::log::{Entry, SimulatedLog, Topic};
use crate::source::Position;
use crate::source::names::PartitionNames;

const OURS: Incarnation = Incarnation { number: 1, token: 1 };
const PARTITIONS: usize = 2;
const FILE: &str = r#"
[pipeline]
id = "ID"
state = "memory"
queue_batches = 1
checkpoint = { dir = "s3://memory/checkpoints" }
KEYS

[source.events]
type = "kafka"
brokers = "sim:9092"
topic = "t"
event_time = { field = "at" }
watermark = { bound = "1s" }
discard = ["errors"]
schema = { id = "string", at = "timestamp_ms" }

[dedup.clean]
from = "events"
key = ["id"]
horizon = "1h"
discard = ["duplicates", "late"]

[sink.rows]
from = "clean"
type = "stdout"
"#;

/// A pipeline and a log in memory; working files go with it.
struct World {
    pipeline: Pipeline,
    topic: Topic,
}

impl World {
    /// Two worlds of one name at once would share a folder.
    fn new(name: &str, keys: &str) -> Self {
        let text = FILE.replace("ID", &format!("{name}-{}", std::process::id())).replace("KEYS", keys);
        let pipeline = crate::config::parse(&text, Path::new("memory.toml"), &|_| None);
        Self { pipeline: pipeline.unwrap_or_else(|refused| panic!("{refused}")), topic: Topic::new(PARTITIONS) }
    }

    /// Appends events with these numbers to each partition, all with ids of their own.
    fn feed(&self, numbers: Range<i64>) {
        for partition in 0..PARTITIONS {
            let entry = |n: i64| {
                let timestamp_ms = 1_767_225_600_000 + n * 1_500;
                Entry { value: format!("{{\"id\":\"{partition}-{n}\",\"at\":{timestamp_ms}}}"), timestamp_ms }
            };
            self.topic.append(partition, numbers.clone().map(entry));
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // None was made if no worker was.
        let _ = std::fs::remove_dir_all(work::base(&self.pipeline));
    }
}

/// Enough steps for anything that goes on at all.
const MANY: usize = 1_000;

/// Workers whose partitions nobody has told them of yet.
async fn workers(world: &World) -> Vec<Worker> {
    let source = world.pipeline.plan.find("events").unwrap();
    let log = Arc::new(SimulatedLog::undisturbed(&world.topic));
    let names = PartitionNames::new((0..PARTITIONS).map(Topic::name).collect());
    let logs = [SourceLog { node: source, log, partitions: vec![] }];
    let dir = CheckpointDir::new(Arc::new(InMemory::new()), "memory".into());
    let (restored, partitions) = (None, [].as_slice());
    let host: Arc<dyn Host> = Arc::new(Computer::default());
    let crew = Crew {
        pipeline: &world.pipeline,
        host: &host,
        dir: &dir,
        incarnation: OURS,
        restored,
        logs: &logs,
        partitions,
        names,
        reset: &[],
    };
    crew.build(CheckpointId(1)).await.unwrap().workers.into_iter().map(|(worker, _)| worker).collect()
}

/// The partition is read to its end as it is now.
fn admit(world: &World, worker: &mut Worker, partition: u32, end: i64) {
    let admission = Admission {
        source: world.pipeline.plan.find("events").unwrap(),
        partition: PartitionIndex(partition),
        name: Topic::name(partition as usize),
        position: Position::default(),
        time: PartitionTime::new(PartitionWatermark::new(Span(1_000)), Default::default()),
        end: Some(end),
        left: None,
    };
    worker.command(ToWorker::Admit(Box::new(admission))).unwrap();
}

fn barrier(worker: &mut Worker, checkpoint: u64) {
    let checkpoint = CheckpointId(checkpoint);
    worker.command(ToWorker::Barrier { checkpoint, leaving: vec![], drain: false, needed: None }).unwrap();
}

/// Steps until there is nothing to do; what was reported meanwhile.
fn rest(worker: &mut Worker) -> Vec<FromWorker> {
    let mut reports = vec![];
    for _ in 0..MANY {
        let step = worker.step().unwrap();
        reports.extend(worker.reports());
        if step != Step::Busy {
            return reports;
        }
    }
    panic!("busy for ever");
}

fn parts(reports: Vec<FromWorker>) -> Vec<Part> {
    reports.into_iter().filter_map(|r| if let FromWorker::Part(part) = r { Some(*part) } else { None }).collect()
}

/// Rows that a part holds for a sink.
fn rows_for(world: &World, part: &Part, sink: &str) -> u64 {
    let sink = world.pipeline.plan.find(sink).unwrap();
    part.segments.iter().filter(|s| s.sink == sink).map(|s| s.rows).sum()
}

fn world(name: &str, keys: &str) -> World {
    let world = World::new(name, keys);
    world.feed(0..4);
    world
}

#[tokio::test]
async fn what_is_read_before_a_barrier_is_in_its_part_and_the_rest_in_the_next() {
    let world = world("worker-cut", "workers = 1\nbatch_rows = 3");
    let mut worker = workers(&world).await.remove(0);
    admit(&world, &mut worker, 0, 4);
    assert_eq!(worker.step().unwrap(), Step::Busy, "a batch of three");
    barrier(&mut worker, 1);
    barrier_is_answered(&world, &mut worker, 3, 3);
    barrier(&mut worker, 2);
    barrier_is_answered(&world, &mut worker, 4, 1);
}

fn barrier_is_answered(world: &World, worker: &mut Worker, offset: i64, rows: u64) {
    let part = parts(rest(worker)).remove(0);
    assert_eq!(part.partitions[0].position.offset, offset);
    assert_eq!(rows_for(world, &part, "rows"), rows);
}

#[tokio::test]
async fn a_paused_worker_reads_nothing_and_passes_barriers() {
    let world = world("worker-paused", "workers = 1\nbatch_rows = 3");
    let mut worker = workers(&world).await.remove(0);
    admit(&world, &mut worker, 0, 4);
    worker.command(ToWorker::Pause(true)).unwrap();
    assert!(rest(&mut worker).is_empty());
    barrier(&mut worker, 1);
    barrier_is_answered(&world, &mut worker, 0, 0);
    worker.command(ToWorker::Pause(false)).unwrap();
    rest(&mut worker);
    barrier(&mut worker, 2);
    barrier_is_answered(&world, &mut worker, 4, 4);
}

#[tokio::test]
async fn the_end_of_a_partition_is_reported_once() {
    let world = world("worker-end", "workers = 1\nbatch_rows = 3");
    let mut worker = workers(&world).await.remove(0);
    admit(&world, &mut worker, 0, 4);
    let ended = |reports: Vec<FromWorker>| reports.iter().filter(|r| matches!(r, FromWorker::Exhausted(_))).count();
    assert_eq!(ended(rest(&mut worker)), 1);
    assert_eq!(ended(rest(&mut worker)), 0);
}

#[tokio::test]
async fn a_worker_without_partitions_sends_its_barriers_too() {
    let world = world("worker-barriers", "workers = 2\nbatch_rows = 3");
    let mut workers = workers(&world).await;
    admit(&world, &mut workers[0], 0, 4);
    for worker in &mut workers {
        barrier(worker, 1);
    }
    let mut found = vec![];
    for _ in 0..4 {
        for worker in &mut workers {
            found.extend(parts(rest(worker)).iter().map(|part| part.worker.0));
        }
    }
    found.sort();
    assert_eq!(found, [0, 1]);
}

#[tokio::test]
async fn a_worker_whose_receiver_takes_nothing_stops_reading_and_goes_on_when_it_does() {
    let world = World::new("worker-full", "workers = 2\nbatch_rows = 1");
    world.feed(0..300);
    let mut workers = workers(&world).await;
    admit(&world, &mut workers[0], 0, 300);
    let ended = |reports: Vec<FromWorker>| reports.iter().any(|r| matches!(r, FromWorker::Exhausted(_)));
    assert!(!ended(rest(&mut workers[0])), "a full queue holds it back");
    let mut over = false;
    for _ in 0..MANY {
        over |= ended(rest(&mut workers[1])) | ended(rest(&mut workers[0]));
    }
    assert!(over, "read to its end once the other takes its share");
}

#[tokio::test]
async fn a_stopped_worker_takes_nothing_more() {
    let world = world("worker-stopped", "workers = 1\nbatch_rows = 3");
    let mut worker = workers(&world).await.remove(0);
    admit(&world, &mut worker, 0, 4);
    worker.command(ToWorker::Stop).unwrap();
    assert_eq!(worker.step().unwrap(), Step::Stopped);
}
