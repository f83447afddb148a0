//! The control side of a generator: its partitions and where they end.
//!
//! Doesn't know: how fast records are read. Keeps: the same options, the same log; its identity says which.
//! Tested: generator/tests.rs.
use std::sync::Arc;

use async_trait::async_trait;
use floodmark_pipeline::ids::PartitionName;

use super::options::Options;
use super::reader::GeneratorReader;
use crate::config::model::{End, GeneratorConfig, Start};
use crate::source::{Log, PartitionInfo, Position, Reader, SourceError};
use crate::workload::{Workload, WorkloadName};

pub struct GeneratorLog {
    source: Arc<str>,
    name: WorkloadName,
    options: Options,
    workload: Arc<dyn Workload>,
}

impl GeneratorLog {
    pub fn new(source: &str, config: &GeneratorConfig) -> Result<Self, SourceError> {
        let setting = |what: String| SourceError::Setting(format!("source `{source}`: {what}"));
        let name: WorkloadName = config.workload.parse().map_err(|e| setting(format!("{e}")))?;
        let options = Options::read(name, &config.options).map_err(setting)?;
        let workload = name.build(&options.dials).map_err(|e| setting(e.to_string()))?;
        Ok(Self { source: source.into(), name, options, workload: workload.into() })
    }

    /// The dials that say what stands at an offset. A log that only got longer is the same log, but for orders: they are drawn all at once.
    fn identity(&self) -> Result<String, SourceError> {
        let mut dials = self.options.dials.clone();
        if self.name != WorkloadName::Orders {
            dials.events = 0;
        }
        serde_json::to_string(&dials).map_err(|e| SourceError::Setting(e.to_string()))
    }
}

#[async_trait]
impl Log for GeneratorLog {
    async fn partitions(&self) -> Result<Vec<PartitionInfo>, SourceError> {
        let identity = self.identity()?;
        let topic: Arc<str> = self.name.to_string().into();
        let partition = |number: u32| PartitionInfo {
            name: PartitionName { source: self.source.clone(), topic: topic.clone(), partition: number as i32 },
            identity: identity.clone(),
            start: 0,
            end: end_of(self.workload.as_ref(), number) as i64,
        };
        Ok((0..self.options.dials.partitions).map(partition).collect())
    }

    async fn resolve_start(&self, start: &Start, of: &[PartitionInfo]) -> Result<Vec<Position>, SourceError> {
        match start {
            Start::Earliest => Ok(vec![Position::default(); of.len()]),
            _ => Err(SourceError::Setting("a generator begins at its first record: use `start = \"earliest\"`".into())),
        }
    }

    async fn resolve_end(&self, end: &End, of: &[PartitionInfo]) -> Result<Vec<Option<i64>>, SourceError> {
        match end {
            End::Latest if !self.options.endless => Ok(of.iter().map(|info| Some(info.end)).collect()),
            End::Latest | End::Never => Ok(vec![None; of.len()]),
            _ => Err(SourceError::Setting("a generator has no other ends than `never` and `latest`".into())),
        }
    }

    fn reader(&self) -> Result<Box<dyn Reader>, SourceError> {
        let rate = self.options.rate.map(|rate| rate / f64::from(self.options.dials.partitions));
        Ok(Box::new(GeneratorReader::new(self.workload.clone(), rate)))
    }

    /// No one else keeps track of records that aren't there.
    async fn report(&self, _positions: &[(PartitionName, i64)]) -> Result<(), SourceError> {
        Ok(())
    }
}

/// First offset of a partition that has no record: by halving, since it has records up to there and none from there on.
fn end_of(workload: &dyn Workload, partition: u32) -> u64 {
    let (mut low, mut high) = (0, workload.records());
    while low < high {
        let middle = low + (high - low) / 2;
        if workload.index_of(partition, middle).is_some() {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
