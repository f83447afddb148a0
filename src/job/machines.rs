//! The machines of the control side at the beginning of a run, whoever turns their cranks.
//!
//! Doesn't know: threads, channels, clocks. Keeps: when they exist, the first manifest of this start is durable, so reading may begin.
use std::sync::Arc;

use floodmark_pipeline::ids::{CheckpointId, NodeId, WorkerId};
use floodmark_state::Snapshot;

use super::effects::{Collector, KafkaLogs, Publishing};
use super::start::{StartError, Started};
use super::workers::RestoredState;
use super::{Failure, work};
use crate::checkpoint::collect::Retained;
use crate::checkpoint::coordinator::{Coordinator, Publication, Terms};
use crate::checkpoint::manifest::Manifest;
use crate::checkpoint::publish::{PublishError, Publisher};
use crate::config::model::{Pipeline, SourceConnector};

pub struct Machines {
    pub terms: Terms,
    pub coordinator: Coordinator,
    pub publishing: Publishing,
    /// The checkpoint of the first manifest.
    pub first: CheckpointId,
}

impl Machines {
    pub async fn of(
        pipeline: &Pipeline,
        started: &Started,
        restored: RestoredState,
        now_ms: u64,
    ) -> Result<Self, Failure> {
        let RestoredState { kept, snapshots } = restored;
        let mut publisher = Publisher::new(started.dir.clone(), started.host.clone(), started.incarnation, &kept);
        let mut collector = Collector::new(started, pipeline.settings.retain, work::base(pipeline));
        let terms = terms(pipeline, started);
        let mut coordinator = Coordinator::new(terms.clone(), started.beginning.clone(), now_ms);
        let manifest = coordinator.first_manifest(started.host.wall_ms());
        let retained = publish_first(manifest, &mut publisher, started, snapshots).await?;
        let first = retained.manifest.checkpoint;
        collector.add(retained);

        let is_kafka = |id: &NodeId| matches!(pipeline.sources[id].connector, SourceConnector::Kafka(_));
        let logs = started.logs.iter().filter(|l| is_kafka(&l.node)).map(|l| l.log.clone()).collect();
        let kafka = KafkaLogs::new(logs);
        Ok(Self { terms, coordinator, publishing: Publishing { publisher, collector, kafka }, first })
    }
}

/// The restored cut as a manifest of our own: with the state files that it had, or with state without what was reset.
async fn publish_first(
    mut manifest: Manifest,
    publisher: &mut Publisher,
    started: &Started,
    snapshots: Vec<(WorkerId, Snapshot)>,
) -> Result<Retained, Failure> {
    if snapshots.is_empty() {
        manifest.state = started.restored.as_ref().map_or(vec![], |named| named.manifest.state.clone());
        let (manifest, name) = publisher.publish_restored(manifest).await.map_err(StartError::Dir)?;
        return Ok(Retained { name, manifest: manifest.into() });
    }
    manifest.state_digest = snapshots.iter().fold(0, |sum: u128, (_, s)| sum.wrapping_add(s.digest.sum));
    let publication =
        Publication { manifest, segments: vec![], state: snapshots, oldest_waiting: None, savepoint: None };
    let mut complain = |error: &PublishError| tracing::warn!("not durable yet, trying again: {error}");
    let published = publisher.publish(publication, &mut complain).await;
    let (manifest, name) = published.map_err(|error| Failure::Failed(error.to_string()))?;
    Ok(Retained { name, manifest: manifest.into() })
}

fn terms(pipeline: &Pipeline, started: &Started) -> Terms {
    let settings = &pipeline.settings;
    let named = [
        ("checkpoint.dir", settings.checkpoint_dir.to_string()),
        ("checkpoint.interval_ms", settings.checkpoint_interval.as_millis().to_string()),
        ("checkpoint.retain", settings.retain.to_string()),
        ("state", format!("{:?}", settings.state).to_lowercase()),
        ("memory_bytes", settings.memory_bytes.to_string()),
        ("workers", settings.workers.to_string()),
        ("max_parallelism", pipeline.plan.max_parallelism.to_string()),
        ("batch_rows", settings.batch_rows.to_string()),
        ("queue_batches", settings.queue_batches.to_string()),
        ("outbox_bytes", settings.outbox_bytes.to_string()),
    ];
    Terms {
        plan: Arc::new(pipeline.plan.clone()),
        fingerprints: pipeline.fingerprints.clone(),
        settings: named.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
        incarnation: started.incarnation,
        workers: settings.workers,
        interval_ms: settings.checkpoint_interval.as_millis() as u64,
        outbox_bytes: settings.outbox_bytes,
        restored_from: started.restored.as_ref().map(|n| n.name.clone()),
    }
}
