//! What an event costs on one worker: in a tumbling window, in a session, and in the whole core (decode, dedup, both windows, outbox, barriers).
//!
//! Records are the clickstream's with all its faults; the pipeline is docs/examples/clickstream.toml with state in memory.
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use floodmark::checkpoint::cut::slice_width;
use floodmark::config;
use floodmark::config::model::Pipeline;
use floodmark::runtime::element::TaskInfo;
use floodmark::runtime::exchange::Exchanges;
use floodmark::runtime::operator::OperatorTask;
use floodmark::runtime::part::{Admission, FromWorker, ToWorker};
use floodmark::runtime::source_task::SourceTask;
use floodmark::runtime::topology::Topology;
use floodmark::runtime::worker::{Duties, Step, Worker};
use floodmark::source::connect::decoder_for;
use floodmark::source::names::PartitionNames;
use floodmark::source::{Position, Progress, RawBatch, RawRecord, Reader, SourceError};
use floodmark::workload::WorkloadName;
use floodmark::workload::dials::Dials;
use floodmark_pipeline::ids::{CheckpointId, NodeId, PartitionIndex, PartitionName, WorkerId};
use floodmark_pipeline::plan::NodeKind;
use floodmark_pipeline::rows::Rows;
use floodmark_pipeline::stamp::PartitionTime;
use floodmark_pipeline::time::Span;
use floodmark_pipeline::watermark::PartitionWatermark;
use floodmark_pipeline::window::WindowState;
use floodmark_state::{BackendKind, KeyedState, StateSettings};
use tempfile::TempDir;

const RECORDS: usize = 200_000;
const BATCH: usize = 1_000;
const BATCHES_PER_BARRIER: usize = 50;
const PARTITION: PartitionIndex = PartitionIndex(0);

/// The records of one partition, handed out from memory.
struct Log {
    values: Arc<Vec<Vec<u8>>>,
    next: usize,
}

impl Reader for Log {
    fn assign(
        &mut self,
        _: PartitionIndex,
        _: &PartitionName,
        _: &Position,
        _: Option<i64>,
    ) -> Result<(), SourceError> {
        Ok(())
    }

    fn pause(&mut self, _: PartitionIndex, _: bool) -> Result<(), SourceError> {
        Ok(())
    }

    fn poll(&mut self, max_records: usize, take: &mut dyn FnMut(RawBatch<'_>)) -> Result<usize, SourceError> {
        let values = &self.values[self.next..self.values.len().min(self.next + max_records)];
        let offsets = self.next as i64..;
        let records: Vec<_> = values
            .iter()
            .zip(offsets)
            .map(|(value, offset)| RawRecord { offset, payload: Some(value), ..Default::default() })
            .collect();
        take(RawBatch { partition: PARTITION, records: &records });
        self.next += records.len();
        Ok(records.len())
    }

    fn progress(&self, _: PartitionIndex) -> Option<Progress> {
        let position = Position { offset: self.next as i64, resume: vec![] };
        Some(Progress { position, ended: self.next == self.values.len() })
    }

    fn drained(&self, _: PartitionIndex) -> bool {
        self.next == self.values.len()
    }
}

struct World {
    pipeline: Pipeline,
    values: Arc<Vec<Vec<u8>>>,
}

impl World {
    fn new() -> Result<Self, Box<dyn std::error::Error>> {
        let pipeline =
            config::load(Path::new("docs/examples/clickstream.toml")).map_err(|refused| refused.to_string())?;
        let dials = Dials { events: RECORDS as u64, partitions: 1, ..Dials::default() };
        let workload = WorkloadName::Clickstream.build(&dials)?;
        let mut record = floodmark::workload::Record::default();
        let value = |index| {
            workload.record(index, &mut record);
            record.value.clone()
        };
        let values = Arc::new((0..workload.records()).map(value).collect());
        Ok(Self { pipeline, values })
    }

    fn node(&self, name: &str) -> NodeId {
        self.pipeline.plan.find(name).unwrap_or(NodeId(0))
    }

    fn source(&self) -> Result<SourceTask, SourceError> {
        let node = self.node("events");
        let NodeKind::Source(spec) = &self.pipeline.plan.node(node).kind else {
            return Err(SourceError::Setting("`events` is no source".into()));
        };
        let names = PartitionNames::new(vec![name()]);
        let decoder = decoder_for(&self.pipeline.sources[&node], &names)?;
        let reader = Box::new(Log { values: self.values.clone(), next: 0 });
        let mut task = SourceTask::new(node, spec.clone(), reader, decoder, slice_width(&self.pipeline.plan));
        let time = PartitionTime::new(PartitionWatermark::new(Span(5_000)), BTreeMap::new());
        let (position, left, end) = (Position::default(), None, None);
        task.admit(Admission { source: node, partition: PARTITION, name: name(), position, time, end, left })?;
        Ok(task)
    }

    /// All decodable records, in batches.
    fn rows(&self) -> Result<Vec<Rows>, SourceError> {
        let mut source = self.source()?;
        let mut rows = vec![];
        loop {
            let polled = source.poll(BATCH)?;
            if polled.read == 0 {
                return Ok(rows);
            }
            rows.extend(polled.rows);
        }
    }

    fn worker(&self, folder: &Path) -> Result<Worker, Box<dyn std::error::Error>> {
        let plan = &self.pipeline.plan;
        let topology = Arc::new(Topology::of(Arc::new(plan.clone())));
        let exchanges = Arc::new(Exchanges::new(topology.edges.len(), 1, 16));
        let of = |wanted: fn(&NodeKind) -> bool| {
            plan.ids().filter(|id| wanted(&plan.node(*id).kind)).map(|id| (id, plan.node(id).name.clone())).collect()
        };
        let store = KeyedState::open(StateSettings {
            backend: BackendKind::Memory,
            folder: folder.to_owned(),
            budget_bytes: 1 << 30,
            dedup: of(|kind| matches!(kind, NodeKind::Dedup(_))),
            windows: of(|kind| matches!(kind, NodeKind::Window(_))),
            key_groups: 0..plan.max_parallelism,
            max_parallelism: plan.max_parallelism,
        })?;
        let operator = |node| OperatorTask::new(plan, node, false, topology.edges_into(node).count());
        let operators = topology.operators().filter_map(operator).collect();
        let info = TaskInfo { worker: WorkerId(0), workers: 1, max_parallelism: plan.max_parallelism };
        let names = PartitionNames::new(vec![name()]);
        let duties = Duties { sources: vec![self.source()?], operators, store, names, batch_rows: BATCH };
        Ok(Worker::new(info, topology, exchanges, duties))
    }
}

fn name() -> PartitionName {
    PartitionName { source: "events".into(), topic: "clicks".into(), partition: 0 }
}

/// Reads all there is, with a barrier every so many batches. Returns how many rows the sinks would get.
fn drive(worker: &mut Worker) -> Result<u64, Box<dyn std::error::Error>> {
    let (mut checkpoint, mut rows, mut over) = (CheckpointId(0), 0, false);
    while !over {
        for _ in 0..BATCHES_PER_BARRIER {
            while worker.step()? == Step::Busy {}
        }
        checkpoint = checkpoint.next();
        worker.command(ToWorker::Barrier { checkpoint, leaving: vec![], drain: false, needed: None })?;
        while worker.step()? == Step::Busy {}
        for report in worker.reports() {
            match report {
                FromWorker::Part(part) => rows += part.segments.iter().map(|segment| segment.rows).sum::<u64>(),
                FromWorker::Exhausted(_) => over = true,
                other => return Err(format!("{other:?}").into()),
            }
        }
        worker.command(ToWorker::Release(checkpoint))?;
    }
    Ok(rows)
}

fn window(criterion: &mut Criterion, world: &World, node: &str) -> Result<(), Box<dyn std::error::Error>> {
    let id = world.node(node);
    let plan = &world.pipeline.plan;
    let (NodeKind::Window(spec), Some(input)) = (&plan.node(id).kind, plan.input_schema(id)) else {
        return Err(format!("`{node}` is no window").into());
    };
    let rows: Vec<_> = world.rows()?.iter().map(|rows| rows.keyed_by(&spec.key)).collect();
    let mut group = criterion.benchmark_group("window");
    group.throughput(Throughput::Elements(RECORDS as u64));
    group.bench_function(node, |bench| {
        bench.iter(|| {
            let mut state = WindowState::new(spec.clone(), input.clone(), false);
            let mut fired = 0;
            for rows in rows.chunks(BATCHES_PER_BARRIER) {
                rows.iter().for_each(|rows| drop(state.assign(rows)));
                let last = rows.last().and_then(|rows| rows.side().watermark(rows.side().len() - 1));
                fired += last.map_or(0, |watermark| state.fire(watermark).len());
                state.changes();
            }
            fired
        });
    });
    group.finish();
    Ok(())
}

fn core(criterion: &mut Criterion, world: &World) {
    let mut group = criterion.benchmark_group("core");
    group.sample_size(10);
    group.throughput(Throughput::Elements(RECORDS as u64));
    group.bench_function("fused", |bench| {
        let setup = || {
            let folder = tempfile::tempdir()?;
            world.worker(folder.path()).map(|worker| (worker, folder))
        };
        let run = |built: Result<(Worker, TempDir), Box<dyn std::error::Error>>| {
            let (rows, folder) = built.and_then(|(mut worker, folder)| Ok((drive(&mut worker)?, folder)))?;
            // Handed out, so that taking the folder away isn't measured.
            Ok::<_, Box<dyn std::error::Error>>((rows, folder))
        };
        bench.iter_batched(
            setup,
            |built| run(built).unwrap_or_else(|error| panic!("{error}")),
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

fn benches(criterion: &mut Criterion) {
    let mut run = || -> Result<(), Box<dyn std::error::Error>> {
        let world = World::new()?;
        window(criterion, &world, "per_type")?;
        window(criterion, &world, "sessions")?;
        core(criterion, &world);
        Ok(())
    };
    if let Err(error) = run() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

criterion_group!(all, benches);
criterion_main!(all);
