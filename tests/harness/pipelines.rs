//! Pipeline files of the tests: the examples' pipelines with their dials open.
use std::fmt::Write;

/// Where the click pipeline's tables lie, by sink.
pub const TABLES: [&str; 6] = ["events", "duplicates", "per_type", "sessions", "late", "errors"];

/// What tests turn at a pipeline. Values are written as they stand in the file.
#[derive(Clone)]
pub struct Dials {
    pub id: String,
    /// Keys of [pipeline] beside `id` and `checkpoint`.
    pub pipeline: String,
    pub checkpoint: String,
    /// Keys of the source that say where it reads from.
    pub source: String,
    pub watermark: String,
    pub catalog: String,
    pub commit_interval: String,
    /// Namespace of the tables.
    pub namespace: String,
    pub outputs: Outputs,
}

/// Where the outputs of a pipeline go, each under its own name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Outputs {
    /// Into tables of the namespace.
    Tables,
    /// Into folders of `data/out`.
    Files,
    /// Into both.
    TablesAndFiles,
}

impl Default for Dials {
    fn default() -> Self {
        Dials {
            id: "clicks".into(),
            pipeline: "workers = 2".into(),
            checkpoint: r#"{ interval = "50ms", dir = "file:data/checkpoints" }"#.into(),
            source: "type = \"file\"\npath = \"data/events\"".into(),
            watermark: r#"{ bound = "5s" }"#.into(),
            catalog: sqlite(),
            commit_interval: "100ms".into(),
            namespace: "shop".into(),
            outputs: Outputs::Tables,
        }
    }
}

/// The SQLite catalog in the job's folder.
pub fn sqlite() -> String {
    r#"{ type = "sql", uri = "sqlite:data/catalog.db", warehouse = "file:data/warehouse" }"#.into()
}

/// From a topic.
pub fn kafka(brokers: &str, topic: &str) -> String {
    format!("type = \"kafka\"\nbrokers = \"{brokers}\"\ntopic = \"{topic}\"")
}

impl Dials {
    pub fn pipeline(pipeline: &str) -> Dials {
        Dials { pipeline: pipeline.into(), ..Dials::default() }
    }

    /// Clicks: dedup, windows by type, sessions by user; every output in a table.
    pub fn clicks(&self) -> String {
        let Dials { id, pipeline, checkpoint, source, watermark, .. } = self;
        let mut file = format!(
            r#"[pipeline]
id = "{id}"
checkpoint = {checkpoint}
{pipeline}

[source.events]
{source}
event_time = {{ field = "event_time_ms" }}
watermark = {watermark}

[source.events.schema]
event_id = "string"
user_id = "string"
event_type = "string"
product_id = "string"
price_cents = "int64?"
event_time_ms = "timestamp_ms"
source = "string"

[dedup.clean]
from = "events"
key = ["event_id"]
horizon = "24h"

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
        file += &self.sink("events", r#""clean""#, "partition = [\"day(event_time_ms)\"]");
        file += &self.sink("duplicates", r#""clean.duplicates""#, "");
        file += &self.sink("per_type", r#""per_type""#, "");
        file += &self.sink("sessions", r#""sessions""#, "");
        file += &self.sink("late", r#"["per_type.late", "sessions.late", "clean.late"]"#, "");
        file += &self.sink("errors", r#""events.errors""#, "");
        file
    }

    /// Roster: the records as they are, in one table.
    pub fn roster(&self) -> String {
        let Dials { id, pipeline, checkpoint, source, .. } = self;
        let mut file = format!(
            r#"[pipeline]
id = "{id}"
checkpoint = {checkpoint}
{pipeline}

[source.updates]
{source}
on_error = "fail"

[source.updates.schema]
"#
        );
        for column in ["npi", "source", "first_name", "last_name", "credential", "city", "state", "zip"] {
            let _ = writeln!(file, "{column} = \"string\"");
        }
        file += "specialty = \"string\"\nnetwork_status = \"string\"\nrevision = \"int32\"\nseq = \"int64\"\n";
        file += &self.sink("updates_lake", r#""updates""#, "");
        file.replace("shop.updates_lake", "shop.updates")
    }

    fn sink(&self, name: &str, from: &str, more: &str) -> String {
        let Dials { catalog, commit_interval, namespace, outputs, .. } = self;
        let mut sinks = String::new();
        if *outputs != Outputs::Files {
            sinks += &format!(
                "\n[sink.{name}_table]\nfrom = {from}\ntype = \"iceberg\"\ntable = \"{namespace}.{name}\"\ncatalog = {catalog}\ncommit_interval = \"{commit_interval}\"\n{more}\n"
            );
        }
        if *outputs != Outputs::Tables {
            sinks += &format!(
                "\n[sink.{name}_files]\nfrom = {from}\ntype = \"file\"\ndir = \"file:data/out/{name}\"\ncommit_interval = \"{commit_interval}\"\n"
            );
        }
        sinks
    }
}
