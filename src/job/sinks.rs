//! From a sink's settings to something that takes epochs.
use std::sync::Arc;

use arrow_array::RecordBatch;
use floodmark_pipeline::digest::{Options, RowHasher};
use floodmark_pipeline::ids::NodeId;
use floodmark_pipeline::mark::RunningDigest;
use floodmark_pipeline::schema::Schema;

use crate::checkpoint::dir::CheckpointDir;
use crate::config::model::{Pipeline, SinkConfig, SinkConnector};
use crate::host::Host;
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
pub fn all(pipeline: &Pipeline, dir: &CheckpointDir, host: &Arc<dyn Host>) -> Result<Vec<OpenSink>, SinkError> {
    let open = |(id, config): (&NodeId, &SinkConfig)| {
        let columns = pipeline.plan.input_schema(*id).cloned().unwrap_or_default();
        Ok((*id, one(pipeline, &pipeline.plan.node(*id).name, config, columns, dir, host)?))
    };
    pipeline.sinks.iter().map(open).collect()
}

/// Opens the way to one sink of this pipeline, whether it stands in the file or stood there once.
pub fn one(
    pipeline: &Pipeline,
    name: &str,
    config: &SinkConfig,
    columns: Schema,
    dir: &CheckpointDir,
    host: &Arc<dyn Host>,
) -> Result<Box<dyn Sink>, SinkError> {
    let (id, s3, segments): (_, _, SharedSegments) =
        (&pipeline.plan.pipeline, &pipeline.settings.s3, Arc::new(dir.clone()));
    let setting = |e: store::StoreError| SinkError::Setting(e.to_string());
    Ok(match &config.connector {
        SinkConnector::Iceberg(config) => {
            let table = iceberg::table(config, s3, host.clone())?;
            let identity = Identity { pipeline: id.clone(), sink: name.to_owned() };
            Box::new(IcebergSink::new(table, identity, config.as_ref().clone(), columns, segments, running_digest))
        }
        SinkConnector::File { dir } => {
            let store = store::open(dir, s3).map_err(setting)?;
            Box::new(FileSink::new(store, dir.to_string(), (id, name), segments, running_digest))
        }
        SinkConnector::Stdout => {
            Box::new(StdoutSink::new(Box::new(std::io::stdout()), id, name, segments, running_digest))
        }
    })
}

/// Count and digest of a batch's rows, over all columns.
pub fn running_digest(batch: &RecordBatch) -> Result<RunningDigest, SinkError> {
    let digest = RowHasher::new(&batch.schema(), Options::default()).and_then(|mut hasher| hasher.digest(batch));
    let digest = digest.map_err(|error| SinkError::Segment(format!("rows without a digest: {error}")))?;
    Ok(RunningDigest { rows: digest.rows, sum: digest.sum })
}
