//! Watches what becomes durable or visible in a simulation, and holds it against the invariants.
//!
//! Doesn't know: processes, faults; it sees manifests, removals and commits only. Keeps: looking changes nothing.
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use floodmark_pipeline::ids::{Epoch, PartitionName};
use floodmark_pipeline::invariants::{self, Commit, Cut, Violation, cut_follows};
use floodmark_pipeline::mark::{Mark, RunningDigest};

use super::executor::ProcessId;
use super::store::Witness;
use super::table::Table;
use crate::checkpoint::dir::manifest_name;
use crate::checkpoint::manifest::{Decision, DecisionKind, Manifest};
use crate::sink::mark_json::unmarked;

/// A clone is the same judge.
#[derive(Clone, Default)]
pub struct Judge(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    /// Every manifest that was ever durable, by name.
    manifests: BTreeMap<Arc<str>, Known>,
    /// Those that are still there.
    there: BTreeSet<Arc<str>>,
    /// By object, the manifests that name it.
    named_by: HashMap<String, Vec<Arc<str>>>,
    violations: Vec<Violation>,
}

struct Known {
    content: Bytes,
    manifest: Manifest,
    cut: Cut,
    /// The one that it goes on from.
    parent: Option<Arc<str>>,
}

impl fmt::Debug for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("judge")
    }
}

impl Judge {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn violations(&self) -> Vec<Violation> {
        self.lock().violations.clone()
    }

    pub fn is_content(&self) -> bool {
        self.lock().violations.is_empty()
    }

    /// Manifests that became durable.
    pub fn checkpoints(&self) -> usize {
        self.lock().manifests.len()
    }

    /// Names of the manifests that are there.
    pub fn there(&self) -> Vec<String> {
        self.lock().there.iter().map(ToString::to_string).collect()
    }

    /// Next offsets by the newest manifest.
    pub fn offsets(&self) -> BTreeMap<PartitionName, i64> {
        let inner = self.lock();
        let newest = inner.manifests.values().max_by_key(|known| number_of(&known.manifest));
        newest.map_or_else(BTreeMap::new, |known| known.manifest.offsets())
    }

    /// Lowest offsets by the manifests that are there: a start may stand on any of them, since an older process can publish one after it has chosen.
    pub fn needed(&self) -> BTreeMap<PartitionName, i64> {
        let inner = self.lock();
        let mut all = inner.there.iter().map(|name| inner.manifests[name].manifest.offsets());
        let first = all.next().unwrap_or_default();
        all.fold(first, |lowest, offsets| {
            let lower = |(name, offset): (PartitionName, i64)| {
                let other = *offsets.get(&name)?;
                Some((name, offset.min(other)))
            };
            lowest.into_iter().filter_map(lower).collect()
        })
    }

    /// Decisions of the newest manifest and of all it goes on from: partition, offset, watermark and what was decided.
    pub fn decisions(&self) -> Vec<(PartitionName, Decision)> {
        let inner = self.lock();
        let newest = inner.manifests.iter().max_by_key(|(_, known)| number_of(&known.manifest));
        let mut at = newest.map(|(name, _)| name.clone());
        let mut found: Vec<(PartitionName, Decision)> = vec![];
        while let Some(known) = at.and_then(|name| inner.manifests.get(&name)) {
            for decision in known.manifest.decisions.iter().filter(|d| d.kind != DecisionKind::Idle) {
                let Some(record) = known.manifest.partitions.get(decision.partition.0 as usize) else { continue };
                let named = (record.name.clone(), *decision);
                if !found.contains(&named) {
                    found.push(named);
                }
            }
            at = known.parent.clone();
        }
        found
    }

    /// A table has taken a commit.
    pub fn committed(&self, sink: &str, before: &Table, after: &Table) {
        let Some(stamped) = &after.stamped else { return };
        let (now, by) = (stamped.mark.clone(), stamped.by);
        let then = before
            .stamped
            .as_ref()
            .map(|stamped| stamped.mark.clone())
            .filter(|mark| mark.table_uuid == after.uuid)
            .unwrap_or_else(|| unmarked(&after.uuid, &now.pipeline, sink));
        let added: Vec<_> = after.files().iter().skip(before.files().len()).flat_map(|f| f.epochs.clone()).collect();
        let held: Vec<_> = after.files().iter().flat_map(|file| file.epochs.clone()).collect();
        let digest = after.files().iter().fold(RunningDigest::default(), |sum, file| sum.plus(file.digest));
        let mut inner = self.lock();
        let between = inner.between(sink, &then, &now);
        let (added, held) = (&added, &held);
        let commit = Commit { before: &then, after: &now, by, added, between: between.as_deref(), held, digest };
        let judged = invariants::commit(&commit);
        inner.violations.extend(judged.err());
    }
}

/// By which the newest manifest is chosen.
fn number_of(manifest: &Manifest) -> (u64, u64) {
    (manifest.incarnation.number, manifest.checkpoint.0)
}

impl Inner {
    fn manifest(&mut self, name: &str, content: &Bytes) {
        // The very same once more: its first answer was lost, and one who had gone on from it has removed it meanwhile. Nobody goes on from it again.
        if self.manifests.get(name).is_some_and(|known| known.content == *content) {
            return;
        }
        let Ok(manifest) = Manifest::decode(content) else { return };
        let of_this_start = self.manifests.iter().filter(|(_, k)| k.manifest.incarnation == manifest.incarnation);
        let before = of_this_start.max_by_key(|(_, known)| known.manifest.checkpoint).map(|(name, _)| name.clone());
        let (begins, cut) = (before.is_none(), manifest.cut());
        let parent = before.or_else(|| manifest.restored_from.as_deref().map(Arc::from));
        if let Some(known) = parent.as_ref().and_then(|parent| self.manifests.get(parent)) {
            self.violations.extend(cut_follows(&known.cut, &cut, begins).err());
        }
        let name: Arc<str> = name.into();
        for object in manifest.objects() {
            match self.named_by.get_mut(object) {
                Some(names) if names.last() == Some(&name) => {}
                Some(names) => names.push(name.clone()),
                None => drop(self.named_by.insert(object.to_owned(), vec![name.clone()])),
            }
        }
        self.manifests.insert(name.clone(), Known { content: content.clone(), manifest, cut, parent });
        self.there.insert(name);
    }

    fn removed(&mut self, process: ProcessId, path: &str) {
        if self.there.remove(path) {
            return;
        }
        let named = self.named_by.get(path).into_iter().flatten();
        let mut there = named.filter(|name| self.there.contains(*name)).peekable();
        if there.peek().is_none() {
            return;
        }
        let judged = {
            let chosen = self.chosen();
            let named = there.filter(|name| chosen(name)).map(|name| (&**name, true));
            invariants::removal(&format!("p{process} removed {path}"), named)
        };
        self.violations.extend(judged.err());
    }

    /// Whether a start may still go on from a manifest: it is of the newest start, or one that the newest goes on from. What an older process publishes
    /// when another has chosen already is nobody's.
    fn chosen(&self) -> impl Fn(&str) -> bool + '_ {
        let newest = self.there.iter().max_by_key(|name| number_of(&self.manifests[*name].manifest));
        let incarnation = newest.map(|name| self.manifests[name].manifest.incarnation);
        let mut chain = BTreeSet::new();
        let mut at = newest.cloned();
        while let Some((name, known)) = at.and_then(|name| self.manifests.get_key_value(&name)) {
            chain.insert(name.clone());
            at = known.parent.clone();
        }
        move |name| {
            let known = self.manifests.get(name);
            chain.contains(name) || known.map(|known| known.manifest.incarnation) == incarnation
        }
    }

    /// Epochs from one mark to another, by the chain of manifests, with the rows that each has for the sink.
    fn between(&self, sink: &str, then: &Mark, now: &Mark) -> Option<Vec<(Epoch, u64)>> {
        let mut epochs = vec![];
        let last = now.epoch?;
        let mut at: Option<Arc<str>> = Some(manifest_name(last.incarnation, last.checkpoint).into());
        while let Some(known) = at.as_ref().and_then(|name| self.manifests.get(name)) {
            let manifest = &known.manifest;
            if then.epoch == Some(manifest.epoch()) {
                break;
            }
            let listed = manifest.sinks.iter().find(|record| record.name == sink).map(|record| &record.epochs);
            let own = listed.into_iter().flatten().find(|pending| pending.epoch == manifest.epoch());
            epochs.extend(own.map(|pending| (pending.epoch, pending.rows())));
            at = known.parent.clone();
        }
        // The chain must end where it was to end: at the mark, or at the very first manifest.
        let ended = match (at, then.epoch) {
            (Some(name), Some(epoch)) => *name == *manifest_name(epoch.incarnation, epoch.checkpoint),
            (None, None) => !epochs.is_empty(),
            _ => false,
        };
        epochs.reverse();
        ended.then_some(epochs)
    }
}

impl Witness for Judge {
    fn put(&self, path: &str, content: &Bytes) {
        if path.starts_with("manifests/") {
            self.lock().manifest(path, content);
        }
    }

    fn deleted(&self, process: ProcessId, path: &str) {
        if path.starts_with("segments/") || path.starts_with("state/") || path.starts_with("manifests/") {
            self.lock().removed(process, path);
        }
    }
}
