//! From a sink's settings to something that takes epochs.
use std::sync::Arc;

use arrow_array::RecordBatch;
use floodmark_pipeline::digest::{Options, RowHasher};
use floodmark_pipeline::ids::NodeId;
use floodmark_pipeline::mark::RunningDigest;

use crate::checkpoint::dir::CheckpointDir;
use crate::config::model::{Pipeline, SinkConnector};
use crate::iceberg;
use crate::iceberg::mark::Identity;
use crate::iceberg::sink::IcebergSink;
use crate::sink::file::FileSink;
use crate::sink::stdout::StdoutSink;
use crate::sink::{SharedSegments, Sink, SinkError};
use crate::store;

/// A sink and its node.
pub type OpenSink = (NodeId, Box<dyn Sink>);

/// Opens the way to every sink of the file; nothing is asked of the outside yet.
pub fn all(pipeline: &Pipeline, dir: &CheckpointDir) -> Result<Vec<OpenSink>, SinkError> {
    let segments: SharedSegments = Arc::new(dir.clone());
    pipeline.sinks.keys().map(|id| Ok((*id, one(pipeline, *id, segments.clone())?))).collect()
}

fn one(pipeline: &Pipeline, id: NodeId, segments: SharedSegments) -> Result<Box<dyn Sink>, SinkError> {
    let (name, plan) = (pipeline.plan.node(id).name.as_str(), &pipeline.plan);
    let setting = |e: store::StoreError| SinkError::Setting(e.to_string());
    Ok(match &pipeline.sinks[&id].connector {
        SinkConnector::Iceberg(config) => {
            let table = iceberg::table(config, &pipeline.settings.s3, super::now_ms)?;
            let identity = Identity { pipeline: plan.pipeline.clone(), sink: name.to_owned() };
            let schema = plan.input_schema(id).cloned().unwrap_or_default();
            Box::new(IcebergSink::new(table, identity, config.as_ref().clone(), schema, segments, running_digest))
        }
        SinkConnector::File { dir } => {
            let store = store::open(dir, &pipeline.settings.s3).map_err(setting)?;
            Box::new(FileSink::new(store, dir.to_string(), (&plan.pipeline, name), segments, running_digest))
        }
        SinkConnector::Stdout => {
            Box::new(StdoutSink::new(Box::new(std::io::stdout()), &plan.pipeline, name, segments, running_digest))
        }
    })
}

/// Count and digest of a batch's rows, over all columns.
fn running_digest(batch: &RecordBatch) -> Result<RunningDigest, SinkError> {
    let digest = RowHasher::new(&batch.schema(), Options::default()).and_then(|mut hasher| hasher.digest(batch));
    let digest = digest.map_err(|error| SinkError::Segment(format!("rows without a digest: {error}")))?;
    Ok(RunningDigest { rows: digest.rows, sum: digest.sum })
}
