//! The control side of files: which there are, where to begin, where to end.
//!
//! Doesn't know: what is in a line. Keeps: an end is a size that was seen once, so a file that grows meanwhile is read to there.
//! Tested: file/tests.rs.
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use async_trait::async_trait;
use floodmark_pipeline::ids::PartitionName;

use super::content::{Compression, Content};
use super::lines::Lines;
use super::listing::{Listing, file_error};
use super::prefix::Prefix;
use super::reader::FileReader;
use crate::config::model::{End, FileConfig, Start};
use crate::source::{Log, PartitionInfo, Position, Reader, SourceError};

/// Lines looked at between two looks at the limit.
const SKIM_LINES: usize = 64 << 10;

pub struct FileLog {
    source: String,
    listing: Listing,
}

impl FileLog {
    pub fn new(source: &str, config: &FileConfig) -> Self {
        Self { source: source.to_owned(), listing: Listing::new(&config.path) }
    }

    /// Counts a partition's complete lines, up to `max`, away from the threads that must not wait.
    async fn skim(&self, of: &PartitionInfo, max: i64) -> Result<(i64, Prefix), SourceError> {
        let path = self.listing.path_of(&of.name.topic);
        let (skimmed, end) = (path.clone(), of.end.max(0) as u64);
        let skim = tokio::task::spawn_blocking(move || skim(&skimmed, end, max)).await;
        skim.map_err(io::Error::other).and_then(|result| result).map_err(|e| file_error(&path, e))
    }

    /// The position behind the first `line` lines.
    async fn position_of(&self, of: &PartitionInfo, line: i64) -> Result<Position, SourceError> {
        let (offset, prefix) = self.skim(of, line).await?;
        if offset < line {
            return Err(SourceError::AboveEnd { partition: of.name.clone(), offset: line, end: offset });
        }
        Ok(position(offset, &prefix))
    }

    /// The size behind the first `line` lines.
    async fn size_of(&self, of: &PartitionInfo, line: i64) -> Result<i64, SourceError> {
        let path = self.listing.path_of(&of.name.topic);
        if Compression::of(&path) != Compression::None {
            let what = "a compressed file can't end at a line: use `end = \"latest\"`";
            return Err(SourceError::Setting(format!("{}: {what}", path.display())));
        }
        Ok(self.skim(of, line).await?.1.bytes() as i64)
    }
}

#[async_trait]
impl Log for FileLog {
    async fn partitions(&self) -> Result<Vec<PartitionInfo>, SourceError> {
        let mut partitions = vec![];
        for name in self.listing.names()? {
            let path = self.listing.path_of(&name);
            let size = std::fs::metadata(&path).map_err(|e| file_error(&path, e))?.len();
            let name = PartitionName { source: self.source.clone(), topic: name, partition: 0 };
            partitions.push(PartitionInfo { name, identity: String::new(), start: 0, end: size as i64 });
        }
        Ok(partitions)
    }

    async fn resolve_start(&self, start: &Start, of: &[PartitionInfo]) -> Result<Vec<Position>, SourceError> {
        let mut positions = Vec::with_capacity(of.len());
        for info in of {
            positions.push(match start {
                Start::Earliest => Position::default(),
                Start::Latest => {
                    let (offset, prefix) = self.skim(info, i64::MAX).await?;
                    position(offset, &prefix)
                }
                Start::TimestampMs(_) => return Err(no_timestamps("start")),
                Start::Offsets(offsets) => match line_of(offsets, info) {
                    Some(line) if line > 0 => self.position_of(info, line).await?,
                    _ => Position::default(),
                },
            });
        }
        Ok(positions)
    }

    async fn resolve_end(&self, end: &End, of: &[PartitionInfo]) -> Result<Vec<Option<i64>>, SourceError> {
        let mut ends = Vec::with_capacity(of.len());
        for info in of {
            ends.push(match end {
                End::Never => None,
                End::Latest => Some(info.end),
                End::TimestampMs(_) => return Err(no_timestamps("end")),
                End::Offsets(offsets) => match line_of(offsets, info) {
                    Some(line) => Some(self.size_of(info, line).await?),
                    None => Some(info.end),
                },
            });
        }
        Ok(ends)
    }

    fn reader(&self) -> Result<Box<dyn Reader>, SourceError> {
        Ok(Box::new(FileReader::new(self.listing.clone())))
    }

    /// No one else keeps track of files.
    async fn report(&self, _positions: &[(PartitionName, i64)]) -> Result<(), SourceError> {
        Ok(())
    }
}

fn position(offset: i64, prefix: &Prefix) -> Position {
    Position { offset, resume: prefix.stored().encode() }
}

fn line_of(offsets: &BTreeMap<(String, i32), i64>, of: &PartitionInfo) -> Option<i64> {
    offsets.get(&(of.name.topic.clone(), of.name.partition)).copied()
}

fn no_timestamps(key: &str) -> SourceError {
    SourceError::Setting(format!("`{key} = {{ timestamp = … }}` needs a log with timestamps: lines of a file have none"))
}

/// Counts complete lines, up to `max`, and takes in what they are.
fn skim(path: &Path, end: u64, max: i64) -> io::Result<(i64, Prefix)> {
    let mut lines = Lines::new(Content::open(path, Some(end))?);
    let (mut count, mut prefix) = (0_i64, Prefix::default());
    while count < max {
        let wanted = usize::try_from(max - count).unwrap_or(SKIM_LINES).min(SKIM_LINES);
        let before = count;
        prefix.extend(lines.take(wanted, |_| count += 1));
        if count == before && lines.fill()? == 0 {
            break;
        }
    }
    Ok((count, prefix))
}
