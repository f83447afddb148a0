//! Carries out what the coordinator decides: commands to workers, manifests to the publisher, epochs to committers.
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use floodmark_pipeline::guard::{Guard, holds};
use floodmark_pipeline::ids::{CheckpointId, NodeId};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::Failure;
use super::look::Named;
use super::start::Started;
use super::work;
use super::workers::WorkerHandle;
use crate::checkpoint::book::SinkBook;
use crate::checkpoint::collect::{Retained, expendable, sweep};
use crate::checkpoint::coordinator::{Effect, JobError, Publication};
use crate::checkpoint::dir::{CheckpointDir, DirError};
use crate::checkpoint::manifest::Manifest;
use crate::checkpoint::publish::Publisher;
use crate::checkpoint::savepoint;
use crate::commit::committer::{Committer, Tag};
use crate::commit::task::{FromCommitter, ToCommitter, run as run_committer};
use crate::config::model::{Pipeline, SinkConfig, SinkConnector};
use crate::host::{Host, Spawned, elsewhere};
use crate::runtime::part::WorkerError;
use crate::source::check::check;
use crate::source::names::PartitionNames;
use crate::source::{Log, SourceError};
use crate::steps::{self, Point};

/// What the publisher tells.
#[derive(Debug)]
pub enum FromPublisher {
    /// A newer start has claimed this number: what lies in the directory is no longer ours to change.
    Fenced {
        by: u64,
    },
    Published {
        id: CheckpointId,
        name: String,
    },
    /// A savepoint's files are durable in this folder, or why not.
    Savepoint {
        id: CheckpointId,
        result: Result<String, String>,
    },
    Failed(String),
}

/// The ends of all that the coordinator steers. When they are let go, all of it ends; what was under way is decided at the next start.
pub struct Hands {
    pub workers: Vec<WorkerHandle>,
    publications: UnboundedSender<Publication>,
    committers: BTreeMap<NodeId, UnboundedSender<ToCommitter>>,
    names: PartitionNames,
    tasks: Vec<Spawned>,
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
        host: &Arc<dyn Host>,
        reports: &UnboundedSender<FromCommitter>,
    ) {
        for (id, sink) in sinks {
            let committer = committer(&pipeline.sinks[&id], books.get(&id).cloned().unwrap_or_default());
            let (inputs, receiver) = unbounded_channel();
            self.committers.insert(id, inputs);
            let task = run_committer(id, sink, committer, host.clone(), receiver, reports.clone());
            self.tasks.push(host.spawn(Box::pin(task)));
        }
    }

    /// Returns how the run ends, if this is its end.
    pub fn apply(&self, effect: Effect) -> Option<Result<(), Failure>> {
        match effect {
            Effect::Names(names) => self.names.set(names),
            Effect::Worker(worker, command) => self.workers[usize::from(worker.0)].send(command),
            Effect::AllWorkers(command) => self.workers.iter().for_each(|w| w.send(command.clone())),
            // Whoever is gone has reported why; that report ends the run.
            Effect::Publish(publication) => {
                steps::reached(Point::Cut);
                drop(self.publications.send(*publication));
            }
            Effect::Epoch(sink, epoch) => {
                drop(self.committers[&sink].send(ToCommitter::Epoch(epoch)));
                steps::reached(Point::Handed);
            }
            Effect::CommitNow => self.committers.values().for_each(|c| drop(c.send(ToCommitter::Flush))),
            Effect::Finished => return Some(Ok(())),
            Effect::Failed(error) => return Some(Err(failure(&error))),
        }
        None
    }

    /// Has the savepoint's state tagged in every sink.
    pub fn tag(&self, tag: &Tag) {
        self.committers.values().for_each(|c| drop(c.send(ToCommitter::Tag(tag.clone()))));
    }
}

/// What is wrong with a file or a record stays so: starting again would end in the same place.
fn failure(error: &JobError) -> Failure {
    let JobError::Worker(WorkerError::Source { error: source, .. }) = error else {
        return Failure::Failed(error.to_string());
    };
    let choices = match source {
        SourceError::FileChanged { .. } => {
            "put the file back as it was\n          a new pipeline id   read all files from their beginning"
        }
        SourceError::Record { .. } => {
            "mend the record where it lies\n          on_error = \"output\"   bad records go to a sink of their own"
        }
        broken if broken.is_content() => {
            "put a file in its place that can be read\n          take it away   the job goes on without what is left of it"
        }
        short if short.is_cut_short() => {
            let hint = "if it is still being written, the next start reads on once it is whole; if not, put a whole one in its place";
            return Failure::Failed(format!("{error}\n  it ends in the middle: {hint}"));
        }
        _ => return Failure::Failed(error.to_string()),
    };
    Failure::Stuck(format!("{error}\n  choose: {choices}"))
}

/// What waits from before a restart is due at once.
pub fn committer(config: &SinkConfig, book: SinkBook) -> Committer {
    let mark_interval_ms = match &config.connector {
        SinkConnector::Iceberg(iceberg) => iceberg.mark_interval.as_millis() as u64,
        SinkConnector::File { .. } | SinkConnector::Stdout => u64::MAX,
    };
    let interval_ms = config.commit_interval.as_millis() as u64;
    Committer::new(book.base, book.epochs, interval_ms, mark_interval_ms)
}

/// Publishes one checkpoint after another, and removes what is no longer needed behind the newest.
pub struct Publishing {
    pub publisher: Publisher,
    pub collector: Collector,
    pub kafka: KafkaLogs,
}

/// Logs that may be replaced by others of their name while running.
pub struct KafkaLogs {
    logs: Vec<Arc<dyn Log>>,
    /// Where they had been read to when they were last asked: nothing has come since that they would have to be asked about.
    asked_at: Option<Vec<i64>>,
}

impl Publishing {
    pub async fn all(
        mut self,
        mut publications: UnboundedReceiver<Publication>,
        reports: UnboundedSender<FromPublisher>,
    ) {
        while let Some(publication) = publications.recv().await {
            // The job may be over; whoever isn't there to hear it knows.
            if !self.one(publication, &mut |report| reports.send(report).is_ok()).await {
                return;
            }
        }
    }

    /// Tells how it went, and returns whether there is any use in going on. `tell` answers whether anybody listens.
    pub async fn one(
        &mut self,
        publication: Publication,
        tell: &mut (dyn FnMut(FromPublisher) -> bool + Send),
    ) -> bool {
        let Self { publisher, collector, kafka } = self;
        let (id, oldest_waiting) = (publication.manifest.checkpoint, publication.oldest_waiting);
        if let Err(other_log) = kafka.are_the_same(&publication.manifest).await {
            tell(FromPublisher::Failed(other_log.to_string()));
            return false;
        }
        let savepoint = publication.savepoint.clone();
        let mut complain = |error: &crate::checkpoint::publish::PublishError| {
            tracing::warn!(checkpoint = id.0, "not durable yet, trying again: {error}");
        };
        let report = match publisher.publish(publication, &mut complain).await {
            Ok((manifest, name)) => {
                collector.add(Retained { name: name.clone(), manifest: manifest.into() });
                FromPublisher::Published { id, name }
            }
            Err(error) => FromPublisher::Failed(error.to_string()),
        };
        // Asked before anything is removed: a newer start reads the manifests after its claim, so it stands on none that is expendable now.
        let newer = collector.dir.newer_start(collector.ours).await;
        let newer = if holds(Guard::CollectAsNewest) { newer } else { Ok(None) };
        let report = if let Ok(Some(by)) = newer { FromPublisher::Fenced { by } } else { report };
        if !tell(report) {
            return false;
        }
        if let Some(name) = savepoint {
            // Before anything is collected: what it copies must be there.
            let result = collector.save(&name, id).await;
            tell(FromPublisher::Savepoint { id, result });
        }
        match newer {
            Ok(None) => collector.collect(oldest_waiting).await,
            Ok(Some(_)) => return false,
            Err(error) => tracing::warn!("old checkpoints not removed: {error}"),
        }
        true
    }
}

impl KafkaLogs {
    pub fn new(logs: Vec<Arc<dyn Log>>) -> Self {
        Self { logs, asked_at: None }
    }

    /// Between a cut and its manifest: is the topic still the one that was read? An id never comes back, so if it is right now, every record before the
    /// cut was of that topic. A broker that can't be asked says nothing, and takes its time to; the next cut with further records or the next start asks
    /// again.
    async fn are_the_same(&mut self, manifest: &Manifest) -> Result<(), SourceError> {
        let read_to: Vec<i64> = manifest.partitions.iter().map(|partition| partition.position.offset).collect();
        if self.asked_at.as_ref() == Some(&read_to) {
            return Ok(());
        }
        for log in &self.logs {
            let infos = match log.partitions().await {
                Ok(infos) => infos,
                Err(SourceError::Away(..)) => continue,
                Err(error) => return Err(error),
            };
            for info in infos {
                if let Some(record) = manifest.partitions.iter().find(|p| p.name == info.name) {
                    check(record.position.offset, &record.identity, &info)?;
                }
            }
        }
        self.asked_at = Some(read_to);
        Ok(())
    }
}

/// Retention, as the publisher runs it.
pub struct Collector {
    dir: CheckpointDir,
    host: Arc<dyn Host>,
    ours: floodmark_pipeline::ids::Incarnation,
    retain: usize,
    manifests: Vec<Retained>,
    /// Where working databases lie.
    work: PathBuf,
    swept: bool,
}

impl Collector {
    pub fn new(started: &Started, retain: usize, work: PathBuf) -> Self {
        let of = |named: &Named| Retained { name: named.name.clone(), manifest: named.manifest.clone() };
        let collectable = started.known.iter().filter(|named| !savepoint::holds(&named.name));
        let manifests = collectable.map(of).collect();
        Self {
            dir: started.dir.clone(),
            host: started.host.clone(),
            ours: started.incarnation,
            retain,
            manifests,
            work,
            swept: false,
        }
    }

    pub fn add(&mut self, newest: Retained) {
        self.manifests.insert(0, newest);
    }

    /// Makes a savepoint of a complete checkpoint.
    async fn save(&self, name: &str, id: CheckpointId) -> Result<String, String> {
        let newest = self.manifests.first().filter(|m| m.manifest.checkpoint == id);
        let Some(newest) = newest else { return Err(format!("checkpoint {id} did not complete")) };
        savepoint::write(&self.dir, name, &newest.manifest).await.map_err(|error| error.to_string())
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
            steps::reached(Point::ManifestGone);
            self.manifests.retain(|m| m.name != old.name);
        }
        // Nobody asks what is named as long as nothing goes.
        let named = self.manifests.iter().filter(|_| !gone.is_empty()).flat_map(|m| m.manifest.objects());
        let named: std::collections::BTreeSet<&str> = named.collect();
        let is_named = |path: &str| named.contains(path) && holds(Guard::CollectUnnamed);
        let unneeded = |path: &&str| !is_named(path) && !savepoint::holds(path);
        for path in gone.iter().flat_map(|m| m.manifest.objects()).filter(unneeded) {
            self.dir.delete(path).await?;
            steps::reached(Point::ObjectGone);
        }
        if !self.swept {
            self.swept = true;
            let left = sweep(&self.dir, self.ours, &self.manifests).await?;
            steps::reached(Point::Swept);
            tracing::debug!(left, "removed what earlier starts left unfinished");
            let (files, work, ours) = (self.host.files(), self.work.clone(), self.ours);
            let removed = elsewhere(&*self.host, move || work::remove_older(&*files, &work, ours)).await;
            if let Some(Err(error)) = removed {
                let work = self.work.display();
                tracing::warn!("working files of earlier starts in {work} not removed: {error}; they only take space");
            }
        }
        Ok(())
    }
}
