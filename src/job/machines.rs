//! The machines of the control side at the beginning of a run, whoever turns their cranks.
//!
//! Doesn't know: threads, channels, clocks. Keeps: when they exist, the first manifest of this start is durable, so reading may begin.
use std::sync::Arc;

use floodmark_pipeline::ids::{CheckpointId, NodeId};

use super::effects::{Collector, Publishing};
use super::start::{StartError, Started};
use crate::checkpoint::collect::Retained;
use crate::checkpoint::coordinator::{Coordinator, Terms};
use crate::checkpoint::publish::Publisher;
use crate::config::model::{Pipeline, SourceConnector};

pub struct Machines {
    pub terms: Terms,
    pub coordinator: Coordinator,
    pub publishing: Publishing,
    /// The checkpoint of the first manifest.
    pub first: CheckpointId,
}

impl Machines {
    pub async fn of(pipeline: &Pipeline, started: &Started, now_ms: u64) -> Result<Self, StartError> {
        let restored = started.restored.as_ref().map_or(vec![], |n| n.manifest.state.clone());
        let same_workers = restored.len() == usize::from(pipeline.settings.workers);
        let kept = if same_workers { restored.as_slice() } else { &[] };
        let publisher = Publisher::new(started.dir.clone(), started.incarnation, kept);
        let mut collector = Collector::new(started, pipeline.settings.retain);

        let terms = terms(pipeline, started);
        let mut coordinator = Coordinator::new(terms.clone(), started.beginning.clone(), now_ms);
        let mut manifest = coordinator.first_manifest(super::now_ms());
        manifest.state = restored;
        let name = started.dir.publish(&manifest).await?;
        let first = manifest.checkpoint;
        collector.add(Retained { name, manifest });

        let is_kafka = |id: &NodeId| matches!(pipeline.sources[id].connector, SourceConnector::Kafka(_));
        let kafka = started.logs.iter().filter(|l| is_kafka(&l.node)).map(|l| l.log.clone()).collect();
        Ok(Self { terms, coordinator, publishing: Publishing { publisher, collector, kafka }, first })
    }
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
