//! From a source's settings to its log and its decoder.
//!
//! Doesn't know: what is done with records. Keeps: nothing is opened before it is read from.
use std::sync::Arc;

use super::names::PartitionNames;
use super::{Log, SourceError};
use crate::config::model::{Origin, SourceConfig, SourceConnector};
use crate::decode::Decoder;
use crate::decode::json::JsonDecoder;
use crate::file::FileLog;
use crate::generator::GeneratorLog;
use crate::kafka::KafkaLog;

pub fn log_for(pipeline: &str, source: &str, config: &SourceConfig) -> Result<Arc<dyn Log>, SourceError> {
    Ok(match &config.connector {
        SourceConnector::Kafka(kafka) => {
            let headers_wanted = config.format.origins.iter().any(|o| matches!(o, Origin::Header(_)));
            Arc::new(KafkaLog::new(source, pipeline, kafka.clone(), headers_wanted)?)
        }
        SourceConnector::File(file) => Arc::new(FileLog::new(source, file)),
        SourceConnector::Generator(generator) => Arc::new(GeneratorLog::new(source, generator)?),
    })
}

/// A decoder for one worker; `names` is the pipeline's table of partitions.
pub fn decoder_for(config: &SourceConfig, names: &PartitionNames) -> Result<Box<dyn Decoder>, SourceError> {
    Ok(Box::new(JsonDecoder::new(&config.format, names.clone())?))
}
