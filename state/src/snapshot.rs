//! What a store hands over at a barrier: files under logical names, and the digest of what they mean.
//!
//! Doesn't know: where checkpoints are kept, or what they call the files.
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use floodmark_pipeline::ids::CheckpointId;
use xxhash_rust::xxh3::Xxh3;

use crate::digest::StateDigest;
use crate::error::StateError;

/// One worker's state at a barrier. The local files stay until `release`.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub checkpoint: CheckpointId,
    pub files: Vec<StateFile>,
    pub digest: StateDigest,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StateFile {
    /// Name it must have again at a restore; without folders.
    pub name: String,
    pub path: PathBuf,
    pub length: u64,
    /// A file of this name is the same in every snapshot of this store, and in that of the [old store](crate::KeyedState::old_store) that it goes
    /// on with.
    pub immutable: bool,
}

impl StateFile {
    /// xxh3-128 of the content. Reads the file; meant for another thread than the worker's.
    pub fn content_digest(&self) -> Result<u128, StateError> {
        let failed = |e| StateError::io("reading", &self.path, e);
        let mut file = File::open(&self.path).map_err(failed)?;
        let mut hash = Xxh3::new();
        let mut chunk = vec![0; 1 << 18];
        loop {
            match file.read(&mut chunk).map_err(failed)? {
                0 => return Ok(hash.digest128()),
                n => hash.update(&chunk[..n]),
            }
        }
    }
}

/// The files of one worker's snapshot, brought back from a checkpoint. They are linked or copied, never changed.
#[derive(Clone, Debug)]
pub struct OldStore {
    pub files: Vec<OldFile>,
}

#[derive(Clone, Debug)]
pub struct OldFile {
    pub name: String,
    pub path: PathBuf,
}
