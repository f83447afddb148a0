//! The control side of files: which there are, where to begin, where to end.
//!
//! Doesn't know: what is in a line. Keeps: an end is a size that was seen once, so a file that grows meanwhile is read to there.
//! Tested: file/tests.rs.
use std::sync::Arc;

use async_trait::async_trait;
use floodmark_pipeline::ids::PartitionName;

use super::listing::{Listing, file_error};
use super::reader::FileReader;
use crate::config::model::{End, FileConfig, Start};
use crate::source::{Log, PartitionInfo, Position, Reader, SourceError};

pub struct FileLog {
    source: Arc<str>,
    listing: Listing,
}

impl FileLog {
    pub fn new(source: &str, config: &FileConfig) -> Self {
        Self { source: source.into(), listing: Listing::new(&config.path) }
    }
}

#[async_trait]
impl Log for FileLog {
    async fn partitions(&self) -> Result<Vec<PartitionInfo>, SourceError> {
        let mut partitions = vec![];
        for name in self.listing.names()? {
            let path = self.listing.path_of(&name);
            let size = std::fs::metadata(&path).map_err(|e| file_error(&path, e))?.len();
            let name = PartitionName { source: self.source.clone(), topic: name.into(), partition: 0 };
            partitions.push(PartitionInfo { name, identity: String::new(), start: 0, end: size as i64 });
        }
        Ok(partitions)
    }

    async fn resolve_start(&self, start: &Start, of: &[PartitionInfo]) -> Result<Vec<Position>, SourceError> {
        match start {
            Start::Earliest => Ok(vec![Position::default(); of.len()]),
            _ => Err(SourceError::Setting("files are read from their first line: use `start = \"earliest\"`".into())),
        }
    }

    async fn resolve_end(&self, end: &End, of: &[PartitionInfo]) -> Result<Vec<Option<i64>>, SourceError> {
        match end {
            End::Never => Ok(vec![None; of.len()]),
            End::Latest => Ok(of.iter().map(|info| Some(info.end)).collect()),
            _ => Err(SourceError::Setting("files have no other ends than `never` and `latest`".into())),
        }
    }

    fn reader(&self) -> Result<Box<dyn Reader>, SourceError> {
        Ok(Box::new(FileReader::new(self.listing.clone())))
    }

    /// No one else keeps track of files.
    async fn report(&self, _positions: &[(PartitionName, i64)]) -> Result<(), SourceError> {
        Ok(())
    }
}
