//! What can go wrong with keyed state: what happened, where, and what to do.
//!
//! Keeps: a full disk is named as such whichever library met it first; nothing that the working store reports is dropped.
use std::io;
use std::path::{Path, PathBuf};

use floodmark_pipeline::ids::{CheckpointId, NodeId};

#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error("disk full while {doing} {}: free space there, or let the state lie on a larger disk; the last complete checkpoint is whole", path.display())]
    DiskFull { doing: &'static str, path: PathBuf },

    #[error("can't go on {doing} {}: {source}", path.display())]
    Io { doing: &'static str, path: PathBuf, source: io::Error },

    #[error(
        "RocksDB failed {doing} {}: {reason}; restart from the last complete checkpoint, and look at the disk if it comes back",
        path.display()
    )]
    Rocks { doing: &'static str, path: PathBuf, reason: String },

    #[error(
        "state needs {used} bytes but its budget is {budget}, and `state = \"memory\"` can't lay ids aside: set `state = \"rocksdb\"` or raise `memory`"
    )]
    OverBudget { used: u64, budget: u64 },

    #[error("{} has state format {found}, this build reads up to {known}: use the build that wrote it, or a newer one", path.display())]
    Format { path: PathBuf, found: u32, known: u32 },

    #[error("{} is damaged ({reason}): restore from an older checkpoint", path.display())]
    Damaged { path: PathBuf, reason: String },

    #[error("a state file is missing: {name}; restore from an older checkpoint")]
    Missing { name: String },

    #[error(
        "the state was written with max_parallelism {found}, the pipeline file says {asked}: it can't change during a pipeline's life"
    )]
    MaxParallelism { found: u16, asked: u16 },

    #[error("no old store holds key groups {from}..{to}: the checkpoint is not whole")]
    Uncovered { from: u16, to: u16 },

    #[error("node {} keeps no {kind} state", node.0)]
    UnknownNode { node: NodeId, kind: &'static str },

    #[error("dedup node {node}: {reason}; this is a bug in floodmark, please report it")]
    Contract { node: String, reason: String },

    #[error("checkpoint {0} was taken already; its id can't be used again")]
    SnapshotTwice(CheckpointId),
}

const DISK_FULL: i32 = 28; // ENOSPC
const QUOTA_FULL: i32 = 122; // EDQUOT

impl StateError {
    pub(crate) fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.raw_os_error() {
            Some(DISK_FULL | QUOTA_FULL) => Self::DiskFull { doing, path },
            _ => Self::Io { doing, path, source },
        }
    }

    pub(crate) fn rocks(doing: &'static str, path: &Path, error: &rocksdb::Error) -> Self {
        let (path, reason) = (path.to_owned(), error.to_string());
        let full = ["No space left", "NoSpace", "Disk quota exceeded", "Space limit"];
        if full.iter().any(|text| reason.contains(text)) {
            return Self::DiskFull { doing, path };
        }
        Self::Rocks { doing, path, reason }
    }

    pub(crate) fn damaged(path: &Path, reason: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), reason: reason.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_named_as_such() {
        let full = StateError::io("writing", Path::new("w/1.run"), io::Error::from_raw_os_error(DISK_FULL));
        assert!(full.to_string().starts_with("disk full while writing w/1.run"), "{full}");
        let other = StateError::io("writing", Path::new("w/1.run"), io::Error::from_raw_os_error(13));
        assert!(matches!(other, StateError::Io { .. }));
    }
}
