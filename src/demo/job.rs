//! One run's pipeline: docs/examples/clickstream.toml with paths of its own, its process, and what can be read of it from outside.
//!
//! Doesn't know: kills, what rows should be there. Keeps: a process that is let go of is killed, so an error leaves none behind.
//! Tested: here, tests/demo.rs.
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use floodmark_pipeline::digest::Digest;
use iceberg::spec::TableMetadata;

use super::DemoError;
use crate::checkpoint::dir::CheckpointDir;
use crate::checkpoint::manifest::Manifest;
use crate::config;
use crate::config::model::{Pipeline, SinkConnector};
use crate::digest::source::RowSource;
use crate::host::Computer;
use crate::iceberg::commit::Table;
use crate::iceberg::mark::Identity;
use crate::table::{At, LoadedTable};

const EXAMPLE: &str = include_str!("../../docs/examples/clickstream.toml");

/// The Iceberg sinks of the example.
pub const SINKS: [&str; 5] = ["lake", "per_type_lake", "sessions_lake", "late", "bad"];

pub struct Job {
    pub folder: PathBuf,
    pub pipeline: Pipeline,
    tables: Vec<(&'static str, Table)>,
}

/// A process of the engine.
pub struct Running {
    child: Child,
}

impl Job {
    /// Writes the pipeline file into `folder`, reading the log at `log`, with a checkpoint each `interval`.
    pub fn create(folder: PathBuf, log: &Path, interval: Duration) -> Result<Self, DemoError> {
        let file = folder.join("pipeline.toml");
        std::fs::write(&file, pipeline_text(&folder, log, interval)).map_err(DemoError::at(&file))?;
        let pipeline = config::load(&file).map_err(|refused| DemoError::Pipeline(refused.to_string()))?;
        let mut tables = Vec::new();
        for (id, sink) in &pipeline.sinks {
            let name = pipeline.plan.node(*id).name.as_str();
            let known = SINKS.into_iter().find(|sink| *sink == name);
            if let (Some(name), SinkConnector::Iceberg(config)) = (known, &sink.connector) {
                tables
                    .push((name, crate::iceberg::table(config, &pipeline.settings.s3, Arc::new(Computer::default()))?));
            }
        }
        Ok(Self { folder, pipeline, tables })
    }

    /// Starts `floodmark run`; what it says is added to `messages()`.
    pub fn start(&self) -> Result<Running, DemoError> {
        let messages = self.messages();
        let out = OpenOptions::new().create(true).append(true).open(&messages).map_err(DemoError::at(&messages))?;
        let mut command = Command::new(std::env::current_exe().map_err(DemoError::Spawn)?);
        command.arg("run").arg(self.folder.join("pipeline.toml")).stdout(Stdio::null()).stderr(out);
        Ok(Running { child: command.spawn().map_err(DemoError::Spawn)? })
    }

    pub fn messages(&self) -> PathBuf {
        self.folder.join("run.log")
    }

    /// Rows of the events table that a reader sees now.
    pub async fn visible(&self) -> Result<u64, DemoError> {
        let Some(metadata) = self.metadata("lake").await? else { return Ok(0) };
        let rows = metadata.current_snapshot().and_then(|s| s.summary().additional_properties.get("total-records"));
        Ok(rows.and_then(|rows| rows.parse().ok()).unwrap_or(0))
    }

    /// A sink's table, to be read as it stands now.
    pub async fn rows_of(&self, sink: &'static str) -> Result<RowSource, DemoError> {
        let table = self.table(sink)?;
        let metadata = Arc::new(table.load_present().await?.metadata);
        let table = LoadedTable { metadata, file_io: table.io.clone() };
        Ok(RowSource::Table { name: sink.to_owned(), table, at: At::Current })
    }

    /// What the sink's mark says that it has added.
    pub async fn running_digest(&self, sink: &'static str) -> Result<Digest, DemoError> {
        let table = self.table(sink)?;
        let metadata = table.load_present().await?.metadata;
        let identity = Identity { pipeline: self.pipeline.plan.pipeline.clone(), sink: sink.to_owned() };
        let mark = identity.read(&metadata, &table.name())?;
        Ok(Digest { rows: mark.digest.rows, sum: mark.digest.sum })
    }

    /// Name and newest metadata file of each table.
    pub async fn table_locations(&self) -> Result<Vec<(String, String)>, DemoError> {
        let mut locations = Vec::new();
        for (_, table) in &self.tables {
            locations.push((table.name(), table.load_present().await?.metadata_location));
        }
        Ok(locations)
    }

    pub async fn last_manifest(&self) -> Result<Manifest, DemoError> {
        let location = &self.pipeline.settings.checkpoint_dir;
        let store = crate::store::open(location, &self.pipeline.settings.s3)?;
        let dir = CheckpointDir::new(store, location.to_string());
        let newest = dir.manifests().await?.into_iter().next();
        let newest = newest.ok_or_else(|| DemoError::NoCheckpoint { dir: location.to_string() })?;
        Ok(dir.read_manifest(&newest.name).await?)
    }

    async fn metadata(&self, sink: &'static str) -> Result<Option<TableMetadata>, DemoError> {
        Ok(self.table(sink)?.load().await?.map(|loaded| loaded.metadata))
    }

    fn table(&self, sink: &'static str) -> Result<&Table, DemoError> {
        let found = self.tables.iter().find(|(name, _)| *name == sink);
        found.map(|(_, table)| table).ok_or_else(|| DemoError::Pipeline(format!("it has no Iceberg sink `{sink}`")))
    }
}

impl Running {
    /// How it ended, if it has.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, DemoError> {
        self.child.try_wait().map_err(DemoError::Spawn)
    }

    /// SIGKILL: it can't catch it, flush or say goodbye.
    pub fn kill(mut self) -> Result<(), DemoError> {
        self.child.kill().map_err(DemoError::Spawn)?;
        self.child.wait().map_err(DemoError::Spawn)?;
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Of one that has ended already neither does anything.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pipeline_text(folder: &Path, log: &Path, interval: Duration) -> String {
    EXAMPLE
        .replace("\"data/events\"", &format!("\"{}\"", log.display()))
        .replace("file:data/", &format!("file:{}/", folder.display()))
        .replace("sqlite:data/", &format!("sqlite:{}/", folder.display()))
        .replace("interval = \"1s\"", &format!("interval = \"{}ms\"", interval.as_millis()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::model::Location;

    #[tokio::test]
    async fn the_example_becomes_a_job_with_paths_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        let job = Job::create(path.clone(), &path.join("log"), Duration::from_millis(40)).unwrap();
        assert_eq!(job.pipeline.settings.checkpoint_interval, Duration::from_millis(40));
        assert_eq!(job.pipeline.settings.checkpoint_dir, Location::File(path.join("checkpoints")));
        assert_eq!(job.tables.len(), SINKS.len());
        assert!(!std::fs::read_to_string(path.join("pipeline.toml")).unwrap().contains("data/"));
    }
}
