//! What outlives the processes of a simulation: the log, the checkpoint directory, the tables; and what one process sees of it.
use std::collections::BTreeMap;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, PoisonError};

use floodmark_pipeline::ids::NodeId;
use floodmark_pipeline::schema::Schema;
use object_store::memory::InMemory;

use super::executor::ProcessId;
use super::files::MemoryFiles;
use super::gate::Gate;
use super::host::{SimulatedHost, as_task};
use super::judge::Judge;
use super::lake::Lake;
use super::log::{SimulatedLog, Topic};
use super::sink::{Place, TableSink};
use super::store::{Disk, SimulatedStore};
use super::table::Table;
use crate::checkpoint::dir::CheckpointDir;
use crate::config::model::{IcebergConfig, Pipeline, SinkConnector};
use crate::host::Host;
use crate::iceberg::mark::Identity;
use crate::job::{self, running_digest};
use crate::sink::Sink;
use crate::sink::file::FileSink;
use crate::source::Log;

/// Rows by sink, sorted.
pub type Tables = BTreeMap<String, Vec<String>>;

pub struct World {
    pub topic: Topic,
    pub skew_ms: Arc<AtomicI64>,
    gate: Gate,
    judge: Judge,
    pipeline: Arc<Pipeline>,
    checkpoints: Disk,
    sinks: BTreeMap<NodeId, (String, Sunk)>,
    lake: Lake,
    /// Where working databases lie.
    files: Arc<MemoryFiles>,
}

/// What sinks held at a time.
pub struct Held {
    tables: BTreeMap<NodeId, Option<Table>>,
    folders: BTreeMap<NodeId, InMemory>,
}

/// What takes the rows.
enum Sunk {
    Table(Place),
    /// A table of the lake.
    Iceberg(Box<IcebergConfig>, Schema),
    Folder(Disk),
}

impl World {
    pub fn new(
        pipeline: &Arc<Pipeline>,
        topic: Topic,
        (gate, judge): (&Gate, &Judge),
        skew_ms: Arc<AtomicI64>,
        (is_durable, is_encoded): (bool, bool),
    ) -> Self {
        let sink = |(id, config): (&NodeId, &crate::config::model::SinkConfig)| {
            let name = pipeline.plan.node(*id).name.clone();
            let sunk = match &config.connector {
                SinkConnector::Iceberg(config) if is_encoded => {
                    Sunk::Iceberg(config.clone(), pipeline.plan.input_schema(*id).cloned().unwrap_or_default())
                }
                SinkConnector::Iceberg(_) => Sunk::Table(Place::default()),
                _ => Sunk::Folder(Disk::new(&name, is_durable, None)),
            };
            (*id, (name, sunk))
        };
        Self {
            topic,
            skew_ms,
            gate: gate.clone(),
            judge: judge.clone(),
            pipeline: pipeline.clone(),
            lake: Lake::new(is_durable),
            checkpoints: Disk::new("checkpoints", is_durable, Some(Arc::new(judge.clone()))),
            sinks: pipeline.sinks.iter().map(sink).collect(),
            files: Arc::default(),
        }
    }

    /// What one process has of it.
    pub fn seen_by(&self, process: ProcessId) -> job::World {
        let pipeline = &self.pipeline.plan.pipeline;
        let (executor, skew_ms, files) = (self.gate.executor.clone(), self.skew_ms.clone(), self.files.clone());
        let host = SimulatedHost { executor, process, skew_ms, files };
        let host: Arc<dyn Host> = Arc::new(host);
        let store = |disk: &Disk| SimulatedStore { disk: disk.clone(), gate: self.gate.clone(), process };
        let dir = CheckpointDir::new(Arc::new(store(&self.checkpoints)), "simulated".into());
        let sink = |(id, (name, sunk)): (&NodeId, &(String, Sunk))| -> (NodeId, Box<dyn Sink>) {
            let segments = Arc::new(dir.clone());
            let sink: Box<dyn Sink> = match sunk {
                Sunk::Folder(disk) => {
                    let names = (pipeline.as_str(), name.as_str());
                    Box::new(FileSink::new(Arc::new(store(disk)), name.clone(), names, segments, running_digest))
                }
                Sunk::Iceberg(config, schema) => {
                    let identity = Identity { pipeline: pipeline.clone(), sink: name.clone() };
                    let of = (&self.gate, host.clone(), process);
                    Box::new(self.lake.sink(identity, config, schema.clone(), segments, of))
                }
                Sunk::Table(place) => Box::new(TableSink {
                    place: place.clone(),
                    name: name.clone(),
                    pipeline: pipeline.clone(),
                    segments,
                    gate: self.gate.clone(),
                    process,
                    judge: self.judge.clone(),
                    claim: None,
                }),
            };
            (*id, sink)
        };
        let log = SimulatedLog { topic: self.topic.clone(), gate: self.gate.clone(), process };
        job::World {
            sinks: self.sinks.iter().map(sink).collect(),
            // The one source stands first in the file.
            logs: vec![(NodeId(0), Arc::new(log) as Arc<dyn Log>)],
            dir,
            host,
            turn: as_task,
        }
    }

    pub fn cut_power(&self) {
        self.checkpoints.cut_power();
        self.lake.cut_power();
        for (_, sunk) in self.sinks.values() {
            if let Sunk::Folder(disk) = sunk {
                disk.cut_power();
            }
        }
    }

    pub fn with_table<T>(&self, sink: &str, change: impl FnOnce(&mut Option<Table>) -> T) {
        let found = self.sinks.values().find(|(name, _)| name == sink);
        if let Some((_, Sunk::Table(place))) = found {
            change(&mut place.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Tables as they are now.
    pub fn tables(&self) -> BTreeMap<NodeId, Option<Table>> {
        let tables = self.sinks.iter().filter_map(|(id, (_, sunk))| match sunk {
            Sunk::Table(place) => Some((*id, place.lock().unwrap_or_else(PoisonError::into_inner).clone())),
            Sunk::Folder(_) | Sunk::Iceberg(..) => None,
        });
        tables.collect()
    }

    /// Tables and folders as they are now.
    pub fn copy(&self) -> Held {
        let folder = |(id, (_, sunk)): (&NodeId, &(String, Sunk))| match sunk {
            Sunk::Folder(disk) => Some((*id, disk.copy())),
            Sunk::Table(_) | Sunk::Iceberg(..) => None,
        };
        Held { tables: self.tables(), folders: self.sinks.iter().filter_map(folder).collect() }
    }

    pub fn bring_back(&self, copy: &Held) {
        for (id, (_, sunk)) in &self.sinks {
            match (sunk, copy.tables.get(id), copy.folders.get(id)) {
                (Sunk::Table(place), Some(table), _) => {
                    place.lock().unwrap_or_else(PoisonError::into_inner).clone_from(table);
                }
                (Sunk::Folder(disk), _, Some(folder)) => disk.bring_back(folder),
                _ => {}
            }
        }
    }

    /// Rows that readers see.
    pub fn rows(&self) -> Tables {
        self.sinks.values().map(|(name, sunk)| (name.clone(), sunk.rows(&self.lake))).collect()
    }
}

impl Sunk {
    fn rows(&self, lake: &Lake) -> Vec<String> {
        let disk = match self {
            // What can't be read is no row that anybody expects.
            Self::Iceberg(config, schema) => return lake.rows(config, schema).unwrap_or_else(|why| vec![why]),
            Self::Table(place) => {
                let place = place.lock().unwrap_or_else(PoisonError::into_inner);
                return place.as_ref().map_or_else(Vec::new, Table::rows);
            }
            Self::Folder(disk) => disk,
        };
        let visible = disk.paths().into_iter().filter(|path| !path.starts_with("_floodmark/"));
        let files = visible.filter_map(|path| disk.content(&path));
        let mut rows: Vec<_> = files
            .flat_map(|file| String::from_utf8_lossy(&file).lines().map(str::to_owned).collect::<Vec<_>>())
            .collect();
        rows.sort();
        rows
    }
}
