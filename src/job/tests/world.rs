//! A world without disk and network: a log, a checkpoint directory and tables in memory, which outlive the runs in it.
//!
//! Only a worker's own state lies in files while it runs; the folder goes with the world.
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use floodmark_pipeline::ids::NodeId;
use futures::TryStreamExt;
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt};

use super::store::{SteppedStore, Switch};
use crate::checkpoint::dir::CheckpointDir;
use crate::config::model::Pipeline;
use crate::job::sinks::running_digest;
use crate::job::{start, work};
use crate::sink::Sink;
use crate::sink::file::FileSink;
use crate::source::Log;
use crate::source::memory::MemoryLog;

const FILE: &str = r#"
[pipeline]
id = "ID"
state = "memory"
queue_batches = 1
checkpoint = { interval = "10ms", dir = "s3://memory/checkpoints", retain = 2 }
KEYS

[source.events]
type = "file"
path = "unused"
event_time = { field = "at" }
watermark = { bound = "1s" }
discard = ["errors"]
schema = { id = "string", user = "string", at = "timestamp_ms" }

[dedup.clean]
from = "events"
key = ["id"]
horizon = "1h"
discard = ["duplicates", "late"]

[window.per_user]
from = "clean"
type = "tumbling"
size = "5s"
key = ["user"]
aggregates = { events = "count()" }
discard = ["late"]

[sink.rows]
from = "clean"
type = "file"
dir = "s3://memory/rows"
commit_interval = "20ms"

[sink.counts]
from = "per_user"
type = "file"
dir = "s3://memory/counts"
commit_interval = "20ms"
"#;

pub const PARTITIONS: usize = 2;

/// Rows by sink.
pub type Tables = BTreeMap<String, Vec<String>>;

pub struct World {
    pub pipeline: Pipeline,
    pub log: MemoryLog,
    checkpoints: Arc<InMemory>,
    tables: BTreeMap<NodeId, Arc<InMemory>>,
}

impl World {
    /// A world for the pipeline above; `keys` go into [pipeline].
    pub fn new(name: &str, keys: &str) -> Self {
        Self::of(name, &FILE.replace("KEYS", keys))
    }

    /// A world for this pipeline file, in which `ID` stands for the id. Two worlds of one name at once would share a folder.
    pub fn of(name: &str, text: &str) -> Self {
        let text = text.replace("ID", &format!("{name}-{}", std::process::id()));
        let pipeline = crate::config::parse(&text, Path::new("memory.toml"), &|_| None);
        let pipeline = pipeline.unwrap_or_else(|error| panic!("{error}"));
        let tables = pipeline.sinks.keys().map(|id| (*id, Arc::new(InMemory::new()))).collect();
        let log = MemoryLog::new("events", PARTITIONS);
        Self { pipeline, log, checkpoints: Arc::new(InMemory::new()), tables }
    }

    /// Appends events with these numbers to each partition: one every 1.5 s of event time, every third of them sent twice.
    pub fn feed(&self, numbers: std::ops::Range<i64>) {
        for partition in 0..PARTITIONS {
            let event = |n: i64| {
                format!(
                    "{{\"id\":\"{partition}-{n}\",\"user\":\"u{}\",\"at\":{}}}",
                    n % 2,
                    1_767_225_600_000 + n * 1_500
                )
            };
            self.log.append(partition, numbers.clone().flat_map(|n| vec![event(n); if n % 3 == 0 { 2 } else { 1 }]));
        }
    }

    pub fn dir(&self, switch: &Switch) -> CheckpointDir {
        CheckpointDir::new(self.store("checkpoints", &self.checkpoints, switch), "memory".into())
    }

    /// What one start sees of it.
    pub fn open(&self, switch: &Switch) -> start::World {
        let dir = self.dir(switch);
        let sink = |(id, table): (&NodeId, &Arc<InMemory>)| -> (NodeId, Box<dyn Sink>) {
            let name = &self.pipeline.plan.node(*id).name;
            let store = self.store(name, table, switch);
            let names = (self.pipeline.plan.pipeline.as_str(), name.as_str());
            (*id, Box::new(FileSink::new(store, name.clone(), names, Arc::new(dir.clone()), running_digest)))
        };
        let logs =
            self.pipeline.sources.keys().map(|id| -> (NodeId, Arc<dyn Log>) { (*id, Arc::new(self.log.clone())) });
        start::World { sinks: self.tables.iter().map(sink).collect(), logs: logs.collect(), dir }
    }

    fn store(&self, name: &str, inner: &Arc<InMemory>, switch: &Switch) -> Arc<dyn ObjectStore> {
        Arc::new(SteppedStore { name: name.to_owned(), inner: inner.clone(), switch: switch.clone() })
    }

    /// All rows that a reader of a table sees, sorted.
    pub async fn rows_of(&self, sink: &str) -> Vec<String> {
        let table = &self.tables[&self.pipeline.plan.find(sink).unwrap()];
        let objects: Vec<_> = table.list(None).try_collect().await.unwrap();
        let mut rows = vec![];
        for object in objects.iter().filter(|o| !o.location.as_ref().starts_with("_floodmark/")) {
            let bytes = table.get(&object.location).await.unwrap().bytes().await.unwrap();
            rows.extend(String::from_utf8(bytes.to_vec()).unwrap().lines().map(str::to_owned));
        }
        rows.sort();
        rows
    }

    /// Rows of all tables.
    pub async fn tables(&self) -> Tables {
        let mut tables = Tables::new();
        for id in self.tables.keys() {
            let name = &self.pipeline.plan.node(*id).name;
            tables.insert(name.clone(), self.rows_of(name).await);
        }
        tables
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // None was made if no worker was.
        let _ = std::fs::remove_dir_all(work::base(&self.pipeline));
    }
}
