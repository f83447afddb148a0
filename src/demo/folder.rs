//! The demo's folder: the log, one folder for each run, messages of the child processes.
//!
//! Keeps: only a folder that an earlier demo made, or that isn't there, is cleared.
//! Tested: here.
use std::path::{Path, PathBuf};

use super::DemoError;

/// Says that the folder is a demo's.
const MARKER: &str = ".floodmark-demo";

pub struct Folder {
    dir: PathBuf,
}

impl Folder {
    /// Makes the folder, without what an earlier demo left in it.
    pub fn clear(dir: &Path) -> Result<Self, DemoError> {
        let dir = std::path::absolute(dir).map_err(DemoError::at(dir))?;
        let in_use = std::fs::read_dir(&dir).is_ok_and(|mut entries| entries.next().is_some());
        if in_use && !dir.join(MARKER).exists() {
            return Err(DemoError::FolderInUse { dir });
        }
        if in_use {
            std::fs::remove_dir_all(&dir).map_err(DemoError::at(&dir))?;
        }
        std::fs::create_dir_all(&dir).map_err(DemoError::at(&dir))?;
        std::fs::write(dir.join(MARKER), "").map_err(DemoError::at(&dir))?;
        Ok(Self { dir })
    }

    /// Where the log's files are.
    pub fn log(&self) -> PathBuf {
        self.dir.join("events")
    }

    /// Where a run has everything of its own.
    pub fn job(&self, name: &str) -> Result<PathBuf, DemoError> {
        let job = self.dir.join(name);
        std::fs::create_dir_all(&job).map_err(DemoError::at(&job))?;
        Ok(job)
    }

    pub fn messages(&self, of: &str) -> PathBuf {
        self.dir.join(format!("{of}.log"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_demo_is_cleared_and_a_stranger_is_not() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().join("demo");
        Folder::clear(&dir).unwrap();
        std::fs::write(dir.join("leftover"), "x").unwrap();
        Folder::clear(&dir).unwrap();
        assert!(!dir.join("leftover").exists());

        let stranger = temporary.path().join("thesis");
        std::fs::create_dir(&stranger).unwrap();
        std::fs::write(stranger.join("chapter1"), "x").unwrap();
        assert!(matches!(Folder::clear(&stranger), Err(DemoError::FolderInUse { .. })));
        assert!(stranger.join("chapter1").exists());
    }
}
