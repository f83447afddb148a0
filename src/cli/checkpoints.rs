//! `floodmark checkpoints FILE`: what a job could go on from, the newest first.
//!
//! Reads manifests and changes nothing. Doesn't know: whether a job is running. Keeps: what can't be read is listed too, with the reason.
//! Tested: here, and tests/run_and_stop.rs.
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use crate::checkpoint::dir::{CheckpointDir, DirError};
use crate::checkpoint::manifest::{Manifest, NodeRecord};
use crate::checkpoint::savepoint;
use crate::config;
use crate::config::model::Settings;
use crate::host::{Computer, Host};
use crate::status::units::{age, grouped, size};
use crate::store;

#[derive(Args, Debug)]
pub struct CheckpointsArgs {
    /// Pipeline file
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, thiserror::Error)]
enum ListError {
    #[error(transparent)]
    Store(#[from] store::StoreError),
    #[error(transparent)]
    Dir(#[from] DirError),
    #[error("can't start: {0}")]
    Runtime(#[from] std::io::Error),
    #[error("can't print: {0}")]
    Json(#[from] serde_json::Error),
}

/// One manifest of the directory.
#[derive(Debug, PartialEq, Serialize)]
struct Entry {
    /// Below the checkpoint directory; what `run --from` takes.
    path: String,
    #[serde(flatten)]
    content: Content,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
enum Content {
    Read(Row),
    Unreadable { unreadable: String },
}

#[derive(Debug, PartialEq, Serialize)]
struct Row {
    checkpoint: u64,
    incarnation: u64,
    age_ms: u64,
    state_bytes: u64,
    /// Of the content of all state, whatever files it lies in: equal for equal positions.
    state_digest: String,
    nodes: Vec<NodeState>,
    waiting: Vec<Waiting>,
    restored_from: Option<String>,
}

/// What a dedup or window node remembers.
#[derive(Debug, PartialEq, Serialize)]
struct NodeState {
    node: String,
    entries: u64,
    digest: String,
}

#[derive(Debug, PartialEq, Serialize)]
struct Waiting {
    sink: String,
    rows: u64,
}

pub fn run(args: &CheckpointsArgs) -> ExitCode {
    let pipeline = match config::load(&args.file) {
        Ok(pipeline) => pipeline,
        Err(diagnostics) => return super::refuse(&diagnostics),
    };
    match list(&pipeline.settings).and_then(|entries| show(&entries, &pipeline.settings, args.json)) {
        Ok(text) => super::print(&format!("{text}\n")),
        Err(error) => super::fail(&error),
    }
}

fn list(settings: &Settings) -> Result<Vec<Entry>, ListError> {
    let store = store::open(&settings.checkpoint_dir, &settings.s3)?;
    let dir = CheckpointDir::new(store, settings.checkpoint_dir.to_string());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(entries(&dir, Computer::default().wall_ms()))?)
}

async fn entries(dir: &CheckpointDir, now_ms: i64) -> Result<Vec<Entry>, DirError> {
    let mut paths: Vec<_> = dir.manifests().await?.into_iter().map(|listed| listed.name).collect();
    paths.extend(savepoint::list(dir).await?);
    let mut entries = vec![];
    for path in paths {
        let content = match dir.read_manifest(&path).await {
            Ok(manifest) => Content::Read(row(&manifest, now_ms)),
            Err(DirError::Unreadable { error, .. }) => Content::Unreadable { unreadable: error.to_string() },
            // A running job has removed it since.
            Err(DirError::Store { error: object_store::Error::NotFound { .. }, .. }) => continue,
            Err(other) => return Err(other),
        };
        entries.push(Entry { path: path.trim_end_matches("/manifest").to_owned(), content });
    }
    Ok(entries)
}

fn row(manifest: &Manifest, now_ms: i64) -> Row {
    let waiting =
        manifest.sinks.iter().map(|s| Waiting { sink: s.name.clone(), rows: s.epochs.iter().map(|e| e.rows()).sum() });
    Row {
        checkpoint: manifest.checkpoint.0,
        incarnation: manifest.incarnation.number,
        age_ms: now_ms.saturating_sub(manifest.created_ms).max(0) as u64,
        state_bytes: manifest.state.iter().flatten().map(|f| f.length).sum(),
        state_digest: format!("{:032x}", manifest.state_digest),
        nodes: manifest.nodes.iter().filter(|n| n.state.entries > 0).map(node_state).collect(),
        waiting: waiting.filter(|w| w.rows > 0).collect(),
        restored_from: manifest.restored_from.clone(),
    }
}

fn node_state(node: &NodeRecord) -> NodeState {
    NodeState { node: node.name.clone(), entries: node.state.entries, digest: format!("{:032x}", node.state.sum) }
}

fn show(entries: &[Entry], settings: &Settings, json: bool) -> Result<String, ListError> {
    if json {
        return Ok(serde_json::to_string_pretty(entries)?);
    }
    if entries.is_empty() {
        return Ok(format!("no checkpoints in {}", settings.checkpoint_dir));
    }
    Ok(table(entries))
}

fn table(entries: &[Entry]) -> String {
    let mut lines = vec![["id", "start", "age", "state", "rows waiting", "restored from", "path"].map(str::to_owned)];
    lines.extend(entries.iter().map(|entry| match &entry.content {
        Content::Read(row) => cells(row, &entry.path),
        Content::Unreadable { unreadable } => {
            let none = String::new;
            [none(), none(), none(), none(), none(), none(), format!("{}: unreadable: {unreadable}", entry.path)]
        }
    }));
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..lines[0].len()).map(width).collect();
    let padded = |line: &[String; 7]| {
        let cells: Vec<_> =
            line.iter().zip(widths.iter().copied()).map(|(cell, width)| format!("{cell:<width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    lines.iter().map(padded).collect::<Vec<_>>().join("\n")
}

fn cells(row: &Row, path: &str) -> [String; 7] {
    let waiting: Vec<_> = row.waiting.iter().map(|w| format!("{} {}", w.sink, grouped(w.rows))).collect();
    [
        row.checkpoint.to_string(),
        row.incarnation.to_string(),
        age(row.age_ms),
        size(row.state_bytes),
        if waiting.is_empty() { "none".into() } else { waiting.join(", ") },
        row.restored_from.clone().unwrap_or_else(|| "nothing".into()),
        path.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::memory::InMemory;

    use super::*;
    use crate::checkpoint::manifest::tests::manifest;

    #[tokio::test]
    async fn checkpoints_are_listed_newest_first_then_savepoints_and_torn_ones_with_the_reason() {
        let dir = CheckpointDir::new(Arc::new(InMemory::new()), "memory:".into());
        for path in ["state/y", "segments/x"] {
            dir.create(path, "1".into(), "test").await.unwrap();
        }
        for (number, id) in [(1, 4), (2, 5)] {
            dir.publish(&manifest(number, id)).await.unwrap();
        }
        savepoint::write(&dir, "before", &manifest(2, 5)).await.unwrap();
        let torn = format!("manifests/{:020}-{:032x}-{:020}", 3, 0, 6);
        dir.create(&torn, "torn".into(), "test").await.unwrap();
        let found = entries(&dir, 60_001).await.unwrap();
        let seen = |entry: &Entry| match &entry.content {
            Content::Read(row) => format!("{} of start {}", row.checkpoint, row.incarnation),
            Content::Unreadable { unreadable } => unreadable.clone(),
        };
        let torn = "torn or changed: its digest doesn't match its content";
        assert_eq!(found.iter().map(seen).collect::<Vec<_>>(), [torn, "5 of start 2", "4 of start 1", "5 of start 2"]);
        assert_eq!(found[3].path, "savepoints/before");
    }

    #[test]
    fn what_waits_stands_with_its_sink() {
        let content = Content::Read(row(&manifest(2, 5), 60_001));
        let unreadable = Content::Unreadable { unreadable: "torn".into() };
        let entries =
            [Entry { path: "manifests/b".into(), content: unreadable }, Entry { path: "manifests/a".into(), content }];
        let page = "\
id  start  age  state  rows waiting  restored from  path
                                                    manifests/b: unreadable: torn
5   2      60s  8B     lake 7        manifests/z    manifests/a";
        assert_eq!(table(&entries), page);
    }
}
