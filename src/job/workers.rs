//! Builds the workers: their stores (empty, or brought back from a checkpoint), sources and operators, each on a thread of its own.
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use floodmark_pipeline::align::Standing;
use floodmark_pipeline::guard::{Guard, holds};
use floodmark_pipeline::hash::key_groups_of;
use floodmark_pipeline::ids::{CheckpointId, Incarnation, NodeId, PartitionIndex, WorkerId};
use floodmark_pipeline::plan::NodeKind;
use floodmark_pipeline::time::Span;
use floodmark_state::{BackendKind, KeyedState, OldFile, OldStore, Snapshot, StateSettings};
use tokio::sync::mpsc::UnboundedSender;

use super::found::named;
use super::look::{Named, SourceLog};
use super::start::StartError;
use super::work;
use crate::checkpoint::cut::slice_width;
use crate::checkpoint::dir::CheckpointDir;
use crate::checkpoint::manifest::{NodeRecord, PartitionRecord, StateFileRecord, Status};
use crate::config::model::{Location, Pipeline, StateBackend};
use crate::host::Host;
use crate::runtime::alignment::{Alignment, Alignments};
use crate::runtime::crank::{Crank, Turning};
use crate::runtime::element::TaskInfo;
use crate::runtime::exchange::{Bell, Exchanges};
use crate::runtime::operator::OperatorTask;
use crate::runtime::part::{FromWorker, ToWorker};
use crate::runtime::source_task::SourceTask;
use crate::runtime::topology::Topology;
use crate::runtime::worker::{Duties, Worker};
use crate::source::connect::decoder_for;
use crate::source::names::PartitionNames;

/// How long the end of a run waits for a worker. One that hangs in a call of the system (a network disk that is away) ends with the process.
const STOP_LIMIT: Duration = Duration::from_secs(2);
const STOP_POLL: Duration = Duration::from_millis(1);

/// A running worker, seen from the control side.
pub struct WorkerHandle {
    commands: Sender<ToWorker>,
    bell: Arc<Bell>,
    turning: Option<Turning>,
}

impl WorkerHandle {
    pub fn send(&self, command: ToWorker) {
        // A worker that is gone has reported why.
        let _ = self.commands.send(command);
        self.bell.ring();
    }
}

impl Drop for WorkerHandle {
    // Only for a thread, which is in no simulation.
    #[allow(clippy::disallowed_methods)]
    fn drop(&mut self) {
        self.send(ToWorker::Stop);
        if let Some(Turning::Thread(thread)) = self.turning.take() {
            let asked = Instant::now();
            while !thread.is_finished() && asked.elapsed() < STOP_LIMIT {
                std::thread::sleep(STOP_POLL);
            }
        }
    }
}

/// All workers at work, and what became of the state that they were restored from.
pub struct Started {
    pub handles: Vec<WorkerHandle>,
    pub restored: RestoredState,
}

/// The workers, each with the bell that wakes it, and what became of the state that they were restored from.
pub struct Built {
    pub workers: Vec<(Worker, Arc<Bell>)>,
    pub restored: RestoredState,
}

pub struct RestoredState {
    /// State files of the restored checkpoint that each worker goes on with.
    pub kept: Vec<Vec<StateFileRecord>>,
    /// State as it is without what was reset; none if nothing was.
    pub snapshots: Vec<(WorkerId, Snapshot)>,
}

/// What the workers of one run share.
pub struct Crew<'a> {
    pub pipeline: &'a Pipeline,
    pub host: &'a Arc<dyn Host>,
    pub dir: &'a CheckpointDir,
    pub incarnation: Incarnation,
    pub restored: Option<&'a Named>,
    pub logs: &'a [SourceLog],
    /// Partitions that will be read from the first moment on.
    pub partitions: &'a [PartitionRecord],
    pub names: PartitionNames,
    /// Nodes that begin anew.
    pub reset: &'a [NodeId],
}

/// Sees to it that a worker's crank is turned.
pub type Turn = fn(&Arc<dyn Host>, Crank) -> std::io::Result<Turning>;

impl Crew<'_> {
    /// Starts all workers. They take nothing before they are told of partitions. `first` is the id of the run's first manifest.
    pub async fn start(
        &self,
        first: CheckpointId,
        turn: Turn,
        reports: &UnboundedSender<FromWorker>,
    ) -> Result<Started, StartError> {
        let Built { workers, restored } = self.build(first).await?;
        let mut handles = vec![];
        for (worker, bell) in workers {
            let (commands, receiver) = channel();
            let crank = Crank { worker, bell: bell.clone(), commands: receiver, reports: reports.clone() };
            let turning = turn(self.host, crank);
            let turning = Some(turning.map_err(|e| StartError::Worker(format!("can't start a thread: {e}")))?);
            handles.push(WorkerHandle { commands, bell, turning });
        }
        Ok(Started { handles, restored })
    }

    /// All workers, on no thread yet.
    pub async fn build(&self, first: CheckpointId) -> Result<Built, StartError> {
        let settings = &self.pipeline.settings;
        let topology = Arc::new(Topology::of(Arc::new(self.pipeline.plan.clone())));
        let exchanges = Arc::new(Exchanges::new(topology.edges.len(), settings.workers, settings.queue_batches));
        let old = match self.restored {
            Some(_) if !holds(Guard::StateRestore) => vec![],
            Some(named) => self.bring(&named.manifest.state).await?,
            None => vec![],
        };
        let alignments = self.alignments();
        let max_parallelism = self.pipeline.plan.max_parallelism;
        let (mut workers, mut old_stores, mut snapshots) = (vec![], vec![], vec![]);
        for worker in (0..settings.workers).map(WorkerId) {
            let mut store = self.store(worker, &old)?;
            old_stores.push(store.old_store());
            if !self.reset.is_empty() {
                self.reset.iter().try_for_each(|node| store.reset(*node))?;
                snapshots.push((worker, store.snapshot(first)?));
            }
            let duties = self.duties(&topology, &alignments, store)?;
            let info = TaskInfo { worker, workers: settings.workers, max_parallelism };
            let built = Worker::new(info, topology.clone(), exchanges.clone(), duties);
            workers.push((built, exchanges.bell(worker)));
        }
        let files = self.restored.map_or(&[][..], |named| named.manifest.state.as_slice());
        Ok(Built { workers, restored: RestoredState { kept: kept(&old_stores, files), snapshots } })
    }

    /// Everybody is waited for before anybody reads, whoever of the workers is first.
    fn alignments(&self) -> Alignments {
        let asked = self.pipeline.sources.iter().filter_map(|(node, config)| Some((*node, config.align_ms?)));
        let alignments: Alignments = asked.map(|(node, ms)| (node, Arc::new(Alignment::new(Span(ms))))).collect();
        for (partition, record) in (0..).map(PartitionIndex).zip(self.partitions) {
            let alignment = self.pipeline.plan.find(&record.name.source).and_then(|node| alignments.get(&node));
            if let (Some(alignment), Status::Live) = (alignment, record.status) {
                let standing = Standing { watermark: record.time.watermark.before_next(), has_more: true };
                alignment.meet(std::iter::once((partition, standing)));
            }
        }
        alignments
    }

    fn duties(
        &self,
        topology: &Topology,
        alignments: &Alignments,
        mut store: KeyedState,
    ) -> Result<Duties, StartError> {
        let (settings, plan) = (&self.pipeline.settings, &self.pipeline.plan);
        let mut operators = vec![];
        for node in topology.operators() {
            let queues = topology.edges_into(node).count() * usize::from(settings.workers);
            let Some(mut task) = OperatorTask::new(plan, node, self.late_by_event(node), queues) else { continue };
            let record = self.record_of(node);
            let (watermark, floor) = record.map_or((None, None), |r| (r.watermark, r.fired_floor));
            task.restore(watermark, floor, &mut store).map_err(|e| StartError::Worker(e.to_string()))?;
            operators.push(task);
        }
        let (sources, names, batch_rows) = (self.sources(alignments)?, self.names.clone(), settings.batch_rows);
        Ok(Duties { sources, operators, store, names, batch_rows })
    }

    fn sources(&self, alignments: &Alignments) -> Result<Vec<SourceTask>, StartError> {
        let plan = &self.pipeline.plan;
        let mut tasks = vec![];
        for log in self.logs {
            let NodeKind::Source(spec) = &plan.node(log.node).kind else { continue };
            let failed = |error| StartError::Source { node: plan.node(log.node).name.clone(), error };
            let reader = log.log.reader().map_err(failed)?;
            let decoder = decoder_for(&self.pipeline.sources[&log.node], &self.names).map_err(failed)?;
            let task = SourceTask::new(log.node, spec.clone(), reader, decoder, slice_width(plan));
            tasks.push(task.aligned(alignments.get(&log.node).cloned()));
        }
        Ok(tasks)
    }

    fn store(&self, worker: WorkerId, old: &[OldStore]) -> Result<KeyedState, StartError> {
        let (settings, plan) = (&self.pipeline.settings, &self.pipeline.plan);
        let state = StateSettings {
            backend: match settings.state {
                StateBackend::Memory => BackendKind::Memory,
                StateBackend::RocksDb => BackendKind::Rocksdb,
            },
            folder: work::folder(self.pipeline, self.incarnation).join(format!("worker-{}", worker.0)),
            budget_bytes: settings.memory_bytes / u64::from(settings.workers),
            dedup: named(plan, |kind| matches!(kind, NodeKind::Dedup(_))),
            windows: named(plan, |kind| matches!(kind, NodeKind::Window(_))),
            key_groups: key_groups_of(worker.0, settings.workers, plan.max_parallelism),
            max_parallelism: plan.max_parallelism,
        };
        let files = self.host.files();
        Ok(if old.is_empty() { KeyedState::open_on(files, state)? } else { KeyedState::restore_on(files, state, old)? })
    }

    /// A window's late rule is that of the sources above it; one that asks for the event rule asks for all it feeds.
    fn late_by_event(&self, node: NodeId) -> bool {
        let plan = &self.pipeline.plan;
        let by_event = |id: NodeId| matches!(&plan.node(id).kind, NodeKind::Source(s) if s.late_by_event);
        plan.sources_of(node).into_iter().any(by_event)
    }

    fn record_of(&self, node: NodeId) -> Option<&NodeRecord> {
        let name = &self.pipeline.plan.node(node).name;
        self.restored?.manifest.nodes.iter().find(|n| n.name == *name)
    }

    /// State files as local files: those of a local checkpoint directory where they lie, others fetched.
    async fn bring(&self, state: &[Vec<StateFileRecord>]) -> Result<Vec<OldStore>, StartError> {
        let mut stores = vec![];
        for (worker, files) in state.iter().enumerate() {
            let mut brought = vec![];
            for file in files {
                let path = match &self.pipeline.settings.checkpoint_dir {
                    Location::File(root) => self.local(root.join(&file.path), file)?,
                    Location::S3 { .. } => self.fetch(worker, file).await?,
                };
                brought.push(OldFile { name: file.name.clone(), path });
            }
            stores.push(OldStore { files: brought });
        }
        Ok(stores)
    }

    fn local(&self, path: PathBuf, file: &StateFileRecord) -> Result<PathBuf, StartError> {
        let missing = || floodmark_state::StateError::Missing { name: path.display().to_string() };
        let length = std::fs::metadata(&path).map_err(|_| missing())?.len();
        if length != file.length {
            let reason = format!("it has {length} bytes and had {}", file.length);
            return Err(floodmark_state::StateError::Damaged { path, reason }.into());
        }
        Ok(path)
    }

    async fn fetch(&self, worker: usize, file: &StateFileRecord) -> Result<PathBuf, StartError> {
        let folder = work::folder(self.pipeline, self.incarnation).join(format!("fetched-{worker}"));
        let path = folder.join(&file.name);
        let bytes = self.dir.get(&file.path).await?;
        let io = |source| floodmark_state::StateError::Io { doing: "writing", path: path.clone(), source };
        let files = self.host.files();
        files.make_folder(&folder).map_err(io)?;
        files.write(&path, &bytes).map_err(io)?;
        if xxhash_rust::xxh3::xxh3_128(&bytes) != file.digest {
            let reason = "its digest is not the one in the manifest".into();
            return Err(floodmark_state::StateError::Damaged { path, reason }.into());
        }
        Ok(path)
    }
}

/// The records of the files that a store goes on with: those of the old store it was opened from. A store whose names begin anew has none, whatever the
/// number of workers: a new file may have the name and length of an old one.
fn kept(old_stores: &[Option<usize>], restored: &[Vec<StateFileRecord>]) -> Vec<Vec<StateFileRecord>> {
    let records = |old: &Option<usize>| old.and_then(|at| restored.get(at).cloned()).unwrap_or_default();
    old_stores.iter().map(records).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_whose_names_begin_anew_has_no_files_of_an_old_one() {
        let record = |worker: &str| {
            let (name, path) = ("000009.sst".to_owned(), format!("state/{worker}"));
            vec![StateFileRecord { name, path, length: 4, digest: 0, immutable: true }]
        };
        let restored = [record("a"), record("b")];
        assert_eq!(kept(&[Some(0), Some(1)], &restored), restored);
        assert_eq!(kept(&[None, None], &restored), [vec![], vec![]], "as many workers, and yet other files");
        assert_eq!(kept(&[None, None, Some(1)], &restored), [vec![], vec![], record("b")], "by store, not by place");
    }
}
