//! A checked pipeline file: the plan, and what each node needs to reach the world.
//!
//! Doesn't know TOML. Keeps: everything in here has been checked against everything else; nothing is looked up or defaulted later.
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use floodmark_pipeline::ids::NodeId;
use floodmark_pipeline::plan::Plan;
use floodmark_pipeline::schema::Schema;

#[derive(Clone, Debug)]
pub struct Pipeline {
    pub plan: Plan,
    pub settings: Settings,
    pub sources: BTreeMap<NodeId, SourceConfig>,
    pub sinks: BTreeMap<NodeId, SinkConfig>,
    /// What a manifest remembers of each node by name, to tell an edited file from the one that wrote it.
    pub fingerprints: BTreeMap<String, Fingerprint>,
    /// Each sink as a manifest keeps it, to commit what waits for it when it has left the file.
    pub definitions: BTreeMap<NodeId, String>,
}

#[derive(Clone, Debug)]
pub struct Settings {
    /// The pipeline file itself, for messages.
    pub file: PathBuf,
    pub checkpoint_interval: Duration,
    pub checkpoint_dir: Location,
    pub retain: usize,
    pub state: StateBackend,
    pub memory_bytes: u64,
    pub workers: u16,
    /// Largest number of records in one batch.
    pub batch_rows: usize,
    /// Batches that one queue of an exchange holds.
    pub queue_batches: usize,
    /// Bytes of sealed and open segments that may wait for a sink before sources pause.
    pub outbox_bytes: u64,
    pub listen: Option<SocketAddr>,
    pub s3: S3Settings,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateBackend {
    Memory,
    RocksDb,
}

/// A folder in a store: `file:PATH` or `s3://BUCKET/PREFIX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    File(PathBuf),
    S3 { bucket: String, prefix: String },
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

/// What isn't given is taken from the usual AWS environment variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct S3Settings {
    pub endpoint: Option<String>,
    pub region: Option<String>,
    pub access_key: Option<Secret>,
    pub secret_key: Option<Secret>,
}

/// A value that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

#[derive(Clone, Debug)]
pub struct SourceConfig {
    pub connector: SourceConnector,
    pub format: JsonFormat,
    pub start: Start,
    pub end: End,
    pub idle: Option<Duration>,
    /// Largest lead of a partition's watermark over the smallest one, in milliseconds of event time.
    pub align_ms: Option<i64>,
    pub discovery_interval: Duration,
}

#[derive(Clone, Debug)]
pub enum SourceConnector {
    Kafka(KafkaConfig),
    File(FileConfig),
    Generator(GeneratorConfig),
}

#[derive(Clone, Debug)]
pub struct KafkaConfig {
    pub brokers: String,
    pub topics: Vec<String>,
    /// Passed through to librdkafka; keys that the engine owns have been refused. Values may be secrets.
    pub properties: BTreeMap<String, Secret>,
}

#[derive(Clone, Debug)]
pub struct FileConfig {
    /// Directory, file or glob.
    pub path: String,
}

#[derive(Clone, Debug)]
pub struct GeneratorConfig {
    pub workload: String,
    /// The workload's dials as written: `events`, `seed`, `partitions`, `rate`, …
    pub options: BTreeMap<String, String>,
}

/// Where a partition without a stored position begins.
#[derive(Clone, Debug, PartialEq)]
pub enum Start {
    Earliest,
    Latest,
    TimestampMs(i64),
    /// (topic, partition) to offset.
    Offsets(BTreeMap<(String, i32), i64>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum End {
    Never,
    Latest,
    TimestampMs(i64),
    Offsets(BTreeMap<(String, i32), i64>),
}

#[derive(Clone, Debug)]
pub struct JsonFormat {
    pub schema: Schema,
    /// Where each field of `schema` comes from, in its order.
    pub origins: Vec<Origin>,
    pub unknown_fields_are_errors: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Path of object keys in the document.
    Path(Vec<String>),
    Topic,
    Partition,
    Offset,
    Timestamp,
    Key,
    Header(String),
}

#[derive(Clone, Debug)]
pub struct SinkConfig {
    pub connector: SinkConnector,
    pub commit_interval: Duration,
}

#[derive(Clone, Debug)]
pub enum SinkConnector {
    Iceberg(Box<IcebergConfig>),
    /// NDJSON files, one or more an epoch, named by mark.
    File {
        dir: Location,
    },
    Stdout,
}

#[derive(Clone, Debug)]
pub struct IcebergConfig {
    pub catalog: CatalogConfig,
    pub namespace: Vec<String>,
    pub table: String,
    pub partition: Vec<PartitionField>,
    pub sort: Vec<SortField>,
    pub target_file_size_bytes: u64,
    /// A mark-only snapshot is committed when the last mark is older and offsets moved.
    pub mark_interval: Duration,
    /// Table properties to create the table with.
    pub properties: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatalogConfig {
    /// The JDBC catalog's tables in SQLite (`sqlite:PATH`) or Postgres (`postgres://…`). `name` is the `catalog_name` column.
    Sql {
        uri: Secret,
        name: String,
        warehouse: Location,
    },
    Rest {
        uri: String,
        warehouse: Option<String>,
        auth: RestAuth,
        prefix: Option<String>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestAuth {
    None,
    Bearer(Secret),
    OAuth2 { token_uri: Option<String>, credential: Secret, scope: Option<String> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionField {
    pub column: String,
    pub transform: Transform,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transform {
    Identity,
    Year,
    Month,
    Day,
    Hour,
    Bucket(u32),
    Truncate(u32),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortField {
    pub column: String,
    pub descending: bool,
    pub nulls_last: bool,
}

/// A node as a manifest remembers it. `parts` is what must be equal to go on with its state (type, input, keys, schema, window, horizon, bound,
/// max_parallelism), each by its key in the pipeline file, so that a refusal can name what differs; `line` is where the node stands in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// Every manifest of a run has it, so it is shared.
    pub parts: Arc<BTreeMap<String, String>>,
    pub line: usize,
}
