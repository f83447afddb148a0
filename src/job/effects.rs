//! Carries out what the coordinator decides: commands to workers, manifests to the publisher, epochs to committers.
use std::collections::BTreeMap;
use std::time::Instant;

use floodmark_pipeline::ids::{CheckpointId, NodeId};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use super::look::Named;
use super::start::Started;
use super::workers::WorkerHandle;
use crate::checkpoint::collect::{Retained, expendable, sweep};
use crate::checkpoint::coordinator::{Effect, Publication, SinkBook};
use crate::checkpoint::dir::{CheckpointDir, DirError};
use crate::checkpoint::publish::Publisher;
use crate::commit::committer::Committer;
use crate::commit::task::{FromCommitter, ToCommitter, run as run_committer};
use crate::config::model::{Pipeline, SinkConnector};
use crate::source::names::PartitionNames;

/// What the publisher tells.
#[derive(Debug)]
pub enum FromPublisher {
    Published {
        id: CheckpointId,
        name: String,
    },
    /// A newer start has claimed this number: what lies in the directory is no longer ours to change.
    Fenced {
        by: u64,
    },
    Failed(String),
}

/// The ends of all that the coordinator steers.
pub struct Hands {
    pub workers: Vec<WorkerHandle>,
    publications: UnboundedSender<Publication>,
    committers: BTreeMap<NodeId, UnboundedSender<ToCommitter>>,
    names: PartitionNames,
    tasks: Vec<JoinHandle<()>>,
}

/// How an effect ends a run.
pub enum End {
    Finished,
    Failed(String),
}

impl Hands {
    pub fn new(workers: Vec<WorkerHandle>, publications: UnboundedSender<Publication>, names: PartitionNames) -> Self {
        Self { workers, publications, committers: BTreeMap::new(), names, tasks: vec![] }
    }

    /// Starts a committer for every sink, with what already waits for it.
    pub fn start_committers(
        &mut self,
        pipeline: &Pipeline,
        sinks: Vec<(NodeId, Box<dyn crate::sink::Sink>)>,
        books: &BTreeMap<NodeId, SinkBook>,
        clock: Instant,
        reports: &UnboundedSender<FromCommitter>,
    ) {
        for (id, sink) in sinks {
            let config = &pipeline.sinks[&id];
            let mark_interval_ms = match &config.connector {
                SinkConnector::Iceberg(iceberg) => iceberg.mark_interval.as_millis() as u64,
                SinkConnector::File { .. } | SinkConnector::Stdout => u64::MAX,
            };
            let interval_ms = config.commit_interval.as_millis() as u64;
            let book = books.get(&id).cloned().unwrap_or_default();
            // What waits from before a restart is due at once.
            let committer = Committer::new(book.base, book.epochs, interval_ms, mark_interval_ms);
            let (inputs, receiver) = unbounded_channel();
            self.committers.insert(id, inputs);
            self.tasks.push(tokio::spawn(run_committer(id, sink, committer, clock, receiver, reports.clone())));
        }
    }

    pub fn apply(&self, effect: Effect) -> Option<End> {
        match effect {
            Effect::Names(names) => self.names.set(names),
            Effect::Worker(worker, command) => self.workers[usize::from(worker.0)].send(command),
            Effect::AllWorkers(command) => self.workers.iter().for_each(|w| w.send(command.clone())),
            // Whoever is gone has reported why; that report ends the run.
            Effect::Publish(publication) => drop(self.publications.send(*publication)),
            Effect::Epoch(sink, epoch) => drop(self.committers[&sink].send(ToCommitter::Epoch(epoch))),
            Effect::CommitNow => self.committers.values().for_each(|c| drop(c.send(ToCommitter::Flush))),
            Effect::Finished => return Some(End::Finished),
            Effect::Failed(error) => return Some(End::Failed(error.to_string())),
        }
        None
    }

    /// Ends all tasks; what they had under way is decided at the next start.
    pub fn stop(self) {
        drop(self.committers);
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Publishes one checkpoint after another, and removes what is no longer needed behind the newest.
pub async fn publish_all(
    mut publisher: Publisher,
    mut collector: Collector,
    mut publications: UnboundedReceiver<Publication>,
    reports: UnboundedSender<FromPublisher>,
) {
    while let Some(publication) = publications.recv().await {
        let (id, oldest_waiting) = (publication.manifest.checkpoint, publication.oldest_waiting);
        let mut complain = |error: &crate::checkpoint::publish::PublishError| {
            tracing::warn!(checkpoint = id.0, "not durable yet, trying again: {error}");
        };
        let report = match publisher.publish(publication, super::now_ms(), &mut complain).await {
            Ok((manifest, name)) => {
                collector.add(Retained { name: name.clone(), manifest });
                FromPublisher::Published { id, name }
            }
            Err(error) => FromPublisher::Failed(error.to_string()),
        };
        // Asked before anything is removed: a newer start reads the manifests after its claim, so it stands on none that is expendable now.
        let newer = collector.newer_start().await;
        let report = if let Ok(Some(by)) = newer { FromPublisher::Fenced { by } } else { report };
        if reports.send(report).is_err() {
            return;
        }
        match newer {
            Ok(None) => collector.collect(oldest_waiting).await,
            Ok(Some(_)) => return,
            Err(error) => tracing::warn!("old checkpoints not removed: {error}"),
        }
    }
}

/// Retention, as the publisher runs it.
pub struct Collector {
    dir: CheckpointDir,
    ours: floodmark_pipeline::ids::Incarnation,
    retain: usize,
    manifests: Vec<Retained>,
    swept: bool,
}

impl Collector {
    pub fn new(started: &Started, retain: usize) -> Self {
        let of = |named: &Named| Retained { name: named.name.clone(), manifest: named.manifest.clone() };
        let manifests = started.known.iter().map(of).collect();
        Self { dir: started.dir.clone(), ours: started.incarnation, retain, manifests, swept: false }
    }

    pub fn add(&mut self, newest: Retained) {
        self.manifests.insert(0, newest);
    }

    /// Number of the newest claim, if it isn't ours.
    async fn newer_start(&self) -> Result<Option<u64>, DirError> {
        let newest = self.dir.newest_claim().await?;
        Ok((newest > self.ours.number).then_some(newest))
    }

    /// What can't be removed now is left to a later time: rubbish costs space and nothing else.
    pub async fn collect(&mut self, oldest_waiting: Option<CheckpointId>) {
        if let Err(error) = self.try_collect(oldest_waiting).await {
            tracing::warn!("old checkpoints not removed: {error}");
        }
    }

    async fn try_collect(&mut self, oldest_waiting: Option<CheckpointId>) -> Result<(), DirError> {
        let gone: Vec<Retained> =
            expendable(&self.manifests, self.ours, self.retain, oldest_waiting).into_iter().cloned().collect();
        for old in &gone {
            self.dir.delete(&old.name).await?;
            self.manifests.retain(|m| m.name != old.name);
        }
        let named: std::collections::BTreeSet<&str> =
            self.manifests.iter().flat_map(|m| m.manifest.objects()).collect();
        for path in gone.iter().flat_map(|m| m.manifest.objects()).filter(|p| !named.contains(p)) {
            self.dir.delete(path).await?;
        }
        if !self.swept {
            self.swept = true;
            let left = sweep(&self.dir, self.ours, &self.manifests).await?;
            tracing::debug!(left, "removed what earlier starts left unfinished");
        }
        Ok(())
    }
}
