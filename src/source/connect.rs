//! From a source's settings to its log and its decoder.
//!
//! Doesn't know: what is done with records. Keeps: nothing is opened before it is read from.
use std::sync::Arc;

use super::names::PartitionNames;
use super::{Log, Reader, SourceError};
use crate::config::model::{End, Origin, SourceConfig, SourceConnector};
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

/// A reader of all partitions, each to where its log ends now. They are added to `names`, in the order of their indexes.
pub async fn reader_to_now(
    log: &dyn Log,
    config: &SourceConfig,
    names: &PartitionNames,
) -> Result<Box<dyn Reader>, SourceError> {
    let partitions = log.partitions().await?;
    let starts = log.resolve_start(&config.start, &partitions).await?;
    let ends = log.resolve_end(&End::Latest, &partitions).await?;
    let mut reader = log.reader()?;
    for ((partition, start), end) in partitions.iter().zip(starts).zip(ends) {
        let index = names.push(partition.name.clone());
        reader.assign(index, &partition.name, &start, end)?;
    }
    Ok(reader)
}
