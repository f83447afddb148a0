//! Files as a log: NDJSON, plain or compressed, one partition a file, one record a line.
//!
//! Doesn't know: what is in a line. Keeps: what was read of a file before is still what it begins with, or it is refused.
pub mod content;
pub mod lines;
pub mod listing;
pub mod log;
pub mod prefix;
pub mod reader;

use std::path::Path;

use floodmark_pipeline::ids::PartitionName;

use crate::source::Position;

pub use log::FileLog;

/// How much of a file has been read, in the unit of its end; `None` for a compressed one, whose size doesn't say how much is in it.
pub fn bytes_read(file: &PartitionName, position: &Position) -> Option<i64> {
    let plain = content::Compression::of(Path::new(&*file.topic)) == content::Compression::None;
    plain.then(|| prefix::StoredPrefix::decode(&position.resume).map_or(0, |p| p.bytes as i64))
}

#[cfg(test)]
mod tests;
