//! A round's job: its pipeline file, its processes, and what its tables hold.
//!
//! Doesn't know: kills, what the tables should hold. Keeps: each round has a folder, an id, tables and checkpoints of its own. Tested: here, tests/drill.rs.
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use floodmark_pipeline::digest::{Digest, Options};

use super::{Catalog, Settings, Topic};
use crate::config;
use crate::config::model::SinkConnector;
use crate::digest::digest;
use crate::digest::source::RowSource;
use crate::drill::DrillError;
use crate::drill::process::{End, Process};
use crate::host::Computer;
use crate::iceberg::commit::Table;
use crate::steps::{ORDERS, Point};
use crate::table::{At, LoadedTable};

/// Tables, and what goes into each.
const SINKS: [(&str, &str); 6] = [
    ("raw", "\"events\""),
    ("clean", "\"clean\""),
    ("per_type", "\"per_type\""),
    ("sessions", "\"sessions\""),
    ("late", "[\"per_type.late\", \"sessions.late\", \"clean.late\"]"),
    ("errors", "\"events.errors\""),
];

pub struct Job {
    folder: PathBuf,
    tables: Vec<(&'static str, Table)>,
}

impl Job {
    pub fn create(settings: &Settings, topic: &Topic, name: &str, catalog: &Catalog) -> Result<Self, DrillError> {
        let folder = std::path::absolute(settings.dir.join(name)).map_err(DrillError::at(&settings.dir))?;
        if folder.exists() {
            // Of a run that was stopped in the middle of this round.
            std::fs::remove_dir_all(&folder).map_err(DrillError::at(&folder))?;
        }
        std::fs::create_dir_all(&folder).map_err(DrillError::at(&folder))?;
        let id = format!("{}-{name}", topic.name);
        let file = folder.join("pipeline.toml");
        let text = pipeline_text(&id, settings, topic, &folder.display().to_string(), catalog);
        std::fs::write(&file, text).map_err(DrillError::at(&file))?;
        let pipeline = config::load(&file).map_err(|refused| DrillError::Pipeline(refused.to_string()))?;
        let mut tables = vec![];
        for (node, sink) in &pipeline.sinks {
            let name = pipeline.plan.node(*node).name.as_str();
            let known = SINKS.into_iter().find(|(sink, _)| format!("to_{sink}") == name);
            if let (Some((name, _)), SinkConnector::Iceberg(config)) = (known, &sink.connector) {
                let table = crate::iceberg::table(config, &pipeline.settings.s3, Arc::new(Computer::default()))?;
                tables.push((name, table));
            }
        }
        Ok(Self { folder, tables })
    }

    /// Starts `floodmark run`; what it says is added to the round's messages.
    pub fn start(&self) -> Result<Process, DrillError> {
        let messages = self.messages();
        let out = OpenOptions::new().create(true).append(true).open(&messages).map_err(DrillError::at(&messages))?;
        let mut command = Command::new(std::env::current_exe().map_err(DrillError::Spawn)?);
        command.arg("run").arg(self.folder.join("pipeline.toml")).current_dir(&self.folder);
        command.env(ORDERS, self.orders()).stdout(Stdio::null()).stderr(out);
        Process::start(command)
    }

    /// Has the next process killed at a step.
    pub fn order(&self, point: Point, visits: u64) -> Result<(), DrillError> {
        let (file, unseen) = (self.orders(), self.folder.join("orders.new"));
        let put = std::fs::write(&unseen, format!("{point} {visits} kill"));
        put.and_then(|()| std::fs::rename(&unseen, &file)).map_err(DrillError::at(file))
    }

    /// Rows that a reader of the table sees now.
    pub async fn visible(&self, name: &str) -> Result<u64, DrillError> {
        let Some((_, table)) = self.tables.iter().find(|(table, _)| *table == name) else { return Ok(0) };
        let Some(loaded) = table.load().await? else { return Ok(0) };
        let snapshot = loaded.metadata.current_snapshot();
        let rows = snapshot.and_then(|s| s.summary().additional_properties.get("total-records"));
        Ok(rows.and_then(|rows| rows.parse().ok()).unwrap_or(0))
    }

    pub async fn digests(&self) -> Result<BTreeMap<&'static str, Digest>, DrillError> {
        let mut digests = BTreeMap::new();
        for (name, table) in &self.tables {
            let metadata = Arc::new(table.load_present().await?.metadata);
            let table = LoadedTable { metadata, file_io: table.io.clone() };
            let rows = RowSource::Table { name: (*name).to_owned(), table, at: At::Current };
            digests.insert(*name, digest(&rows, Options::default()).await?);
        }
        Ok(digests)
    }

    pub fn clear(&self) -> Result<(), DrillError> {
        std::fs::remove_dir_all(&self.folder).map_err(DrillError::at(&self.folder))
    }

    pub fn place(&self) -> std::path::Display<'_> {
        self.folder.display()
    }

    pub fn failed(&self, end: Option<End>) -> DrillError {
        let how = end.map_or_else(|| "no end".to_owned(), |end| end.to_string());
        DrillError::ChildFailed { what: "run", how, log: self.messages() }
    }

    fn messages(&self) -> PathBuf {
        self.folder.join("run.log")
    }

    fn orders(&self) -> PathBuf {
        self.folder.join("orders")
    }
}

fn pipeline_text(id: &str, settings: &Settings, topic: &Topic, folder: &str, catalog: &Catalog) -> String {
    let (brokers, topic) = (&settings.brokers, &topic.name);
    let mut file = format!(
        r#"[pipeline]
id = "{id}"
workers = 2
checkpoint = {{ interval = "25ms", dir = "file:{folder}/checkpoints", retain = 2 }}

[source.events]
type = "kafka"
brokers = "{brokers}"
topic = "{topic}"
end = "latest"
event_time = {{ field = "event_time_ms" }}
watermark = {{ bound = "5s" }}

[source.events.schema]
event_id = "string"
user_id = "string"
event_type = "string"
product_id = "string"
price_cents = "int64?"
event_time_ms = "timestamp_ms"
source = "string"
schema_version = "int32"

[dedup.clean]
from = "events"
key = ["event_id"]
horizon = "24h"
discard = ["duplicates"]

[window.per_type]
from = "clean"
type = "tumbling"
size = "10s"
key = ["event_type"]
aggregates = {{ events = "count()", revenue_cents = "sum(price_cents)" }}
discard = ["errors"]

[window.sessions]
from = "clean"
type = "session"
gap = "30s"
key = ["user_id"]
aggregates = {{ events = "count()", revenue_cents = "sum(price_cents)" }}
discard = ["errors"]
"#
    );
    let catalog = match catalog {
        Catalog::Sqlite => {
            format!(
                "{{ type = \"sql\", uri = \"sqlite:{folder}/catalog.db\", warehouse = \"file:{folder}/warehouse\" }}"
            )
        }
        Catalog::Rest(uri) => format!("{{ type = \"rest\", uri = \"{uri}\" }}"),
    };
    let namespace: String = id.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    for (sink, from) in SINKS {
        file += &format!(
            "\n[sink.to_{sink}]\nfrom = {from}\ntype = \"iceberg\"\ntable = \"{namespace}.{sink}\"\ncatalog = {catalog}\ncommit_interval = \"50ms\"\n"
        );
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pipeline_is_understood_for_every_catalog() {
        let dir = tempfile::tempdir().unwrap();
        let brokers = "localhost:9092".to_owned();
        let settings = Settings { n: 1, seed: 1, events: 1, brokers, catalogs: vec![], dir: dir.path().into() };
        let topic = Topic { name: "floodmark-drill-1".into() };
        for catalog in [Catalog::Sqlite, Catalog::Rest("http://localhost:1".into())] {
            let text = pipeline_text("p-1", &settings, &topic, "/tmp/nowhere", &catalog);
            let file = dir.path().join("pipeline.toml");
            std::fs::write(&file, text).unwrap();
            let pipeline = config::load(&file).unwrap_or_else(|refused| panic!("{refused}"));
            assert_eq!(pipeline.sinks.len(), SINKS.len());
        }
    }
}
