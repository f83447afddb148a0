//! What a start found, in the words of the recovery plan; and how a refusal reads.
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use floodmark_pipeline::ids::Epoch;
use floodmark_pipeline::plan::{Node, NodeKind, Plan};
use floodmark_pipeline::recovery::{Edit, ManifestSummary, Recorded, Refusal, told};

use super::Options;
use crate::checkpoint::manifest::{Manifest, NodeRecord, SinkRecord};
use crate::config::model::{Fingerprint, Pipeline};

/// Reasons to refuse a start, each with its choices.
#[derive(Debug)]
pub struct Refused {
    refusals: Vec<Refusal>,
    /// The pipeline file, for the commands among the choices.
    file: PathBuf,
}

impl Refused {
    pub fn new(refusals: Vec<Refusal>) -> Self {
        Self { refusals, file: "FILE".into() }
    }

    /// A start knows its file, and what it calls doesn't.
    pub fn of_file(self, file: &Path) -> Self {
        Self { file: file.to_owned(), ..self }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&told(&self.refusals, &self.file.to_string_lossy()))
    }
}

pub fn summary(name: &str, manifest: &Manifest) -> ManifestSummary {
    ManifestSummary {
        name: name.to_owned(),
        pipeline: manifest.pipeline.clone(),
        checkpoint: manifest.checkpoint,
        epoch: manifest.epoch(),
    }
}

pub fn recorded(sink: &SinkRecord, manifest: &Manifest) -> Recorded {
    let epochs: Vec<Epoch> = sink.epochs.iter().map(|e| e.epoch).collect();
    let offsets = sink.epochs.first().map_or_else(|| manifest.offsets().into(), |e| e.offsets.clone());
    Recorded { base: sink.base, epochs, offsets }
}

/// A key that no node can change: the state of all is spread by it.
const OF_ALL_STATE: &str = "max_parallelism";

/// How the file's nodes differ from the manifest's, by name.
pub fn edits(pipeline: &Pipeline, manifest: &Manifest, options: &Options) -> Vec<Edit> {
    let before: BTreeMap<&str, &NodeRecord> = manifest.nodes.iter().map(|n| (n.name.as_str(), n)).collect();
    let mut edits = vec![];
    for node in &pipeline.plan.nodes {
        let (name, now) = (&node.name, pipeline.fingerprints.get(&node.name));
        match before.get(name.as_str()) {
            None => edits.push(Edit::Added { node: name.clone() }),
            Some(record) => {
                let change = now.and_then(|now| changed(node, now, record));
                let reset =
                    options.reset.contains(name) && !matches!(change, Some(Edit::Changed { resettable: false, .. }));
                edits.extend(if reset { Some(Edit::Reset { node: name.clone() }) } else { change });
            }
        }
    }
    let is_sink = |name: &str| manifest.sinks.iter().any(|s| s.name == name);
    let removed = before.keys().filter(|name| pipeline.plan.find(name).is_none());
    edits.extend(removed.map(|name| Edit::Removed { node: (*name).to_owned(), is_sink: is_sink(name) }));
    edits
}

/// The first difference. One that a reset doesn't help against comes before all others, then the one that explains them.
fn changed(node: &Node, now: &Fingerprint, before: &NodeRecord) -> Option<Edit> {
    let keys = now.parts.keys().chain(before.fingerprint.keys());
    let nothing = || "not set".to_owned();
    let (is, was) = (|key: &str| now.parts.get(key), |key: &str| before.fingerprint.get(key));
    let differs = |key: &&String| is(key) != was(key) && !is_new_nullable_column(key, was(key), is(key));
    // Another type explains all else; what follows from another key unless it is given (a horizon's bucket, a tumbling window's slide) is told last.
    let rank = |key: &&String| (*key != OF_ALL_STATE, *key != "type", ["bucket", "slide"].contains(&key.as_str()));
    let key = keys.filter(differs).min_by_key(rank)?;
    Some(Edit::Changed {
        node: node.name.clone(),
        line: now.line,
        key: key.clone(),
        was: was(key).cloned().unwrap_or_else(nothing),
        is: is(key).cloned().unwrap_or_else(nothing),
        resettable: is_keyed(&node.kind) && *key != OF_ALL_STATE,
    })
}

/// A column that may be null can be added: rows from before have none of it. Whoever keys by it has another `key`, and is told so.
fn is_new_nullable_column(key: &str, was: Option<&String>, is: Option<&String>) -> bool {
    key.starts_with("schema.") && was.is_none() && is.is_some_and(|column| column.ends_with('?'))
}

/// It remembers something that can be left behind.
pub fn is_keyed(kind: &NodeKind) -> bool {
    matches!(kind, NodeKind::Dedup(_) | NodeKind::Window(_))
}

/// Names of the nodes of a kind, with their ids.
pub fn named(plan: &Plan, wanted: fn(&NodeKind) -> bool) -> Vec<(floodmark_pipeline::ids::NodeId, String)> {
    let of_kind = plan.ids().filter(|id| wanted(&plan.node(*id).kind));
    of_kind.map(|id| (id, plan.node(id).name.clone())).collect()
}
