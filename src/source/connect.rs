//! From a source's settings to its log and its decoder.
//!
//! Doesn't know: what is done with records. Keeps: nothing is opened before it is read from.
use std::sync::Arc;

use super::names::PartitionNames;
use super::{Log, SourceError};
use crate::config::model::{SourceConfig, SourceConnector};
use crate::decode::Decoder;
use crate::decode::json::JsonDecoder;
use crate::file::FileLog;
use crate::generator::GeneratorLog;

pub fn log_for(pipeline: &str, source: &str, config: &SourceConfig) -> Result<Arc<dyn Log>, SourceError> {
    Ok(match &config.connector {
        SourceConnector::Kafka(_) => {
            return Err(SourceError::Setting(format!("{pipeline}: source `{source}`: this build reads no Kafka")));
        }
        SourceConnector::File(file) => Arc::new(FileLog::new(source, file)),
        SourceConnector::Generator(generator) => Arc::new(GeneratorLog::new(source, generator)?),
    })
}

/// A decoder for one worker; `names` is the pipeline's table of partitions.
pub fn decoder_for(config: &SourceConfig, names: &PartitionNames) -> Result<Box<dyn Decoder>, SourceError> {
    Ok(Box::new(JsonDecoder::new(&config.format, names.clone())?))
}
