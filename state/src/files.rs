//! Files and folders of a store: made, linked, listed, removed, each failure with its place.
//!
//! [`Files`] is where they lie: [`LocalDisk`], or the memory of a simulation.
//! Keeps: a file that may change is copied, only one that can't is linked.
use std::fmt::Debug;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use crate::error::StateError;
use crate::seen::FILTER_ENDING;

/// A file system, as far as stores ask for one.
pub trait Files: Debug + Send + Sync {
    /// Makes a folder and those around it.
    fn make_folder(&self, path: &Path) -> io::Result<()>;

    /// Makes a folder that must not be there yet, in one that is.
    fn make_new_folder(&self, path: &Path) -> io::Result<()>;

    /// Removes a folder and all that is in it.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;

    /// Removes a folder in which there is nothing.
    fn remove_empty_folder(&self, path: &Path) -> io::Result<()>;

    fn remove_file(&self, path: &Path) -> io::Result<()>;

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Of a file, in bytes.
    fn length(&self, path: &Path) -> io::Result<u64>;

    /// Names in a folder, in no order, with the length of each.
    fn list(&self, folder: &Path) -> io::Result<Vec<(String, u64)>>;

    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    fn copy(&self, from: &Path, to: &Path) -> io::Result<()>;
}

/// What stores and their parts share.
pub(crate) type SharedFiles = Arc<dyn Files>;

#[derive(Clone, Copy, Debug, Default)]
pub struct LocalDisk;

impl Files for LocalDisk {
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn make_new_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }

    fn remove_empty_folder(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        fs::write(path, bytes)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn length(&self, path: &Path) -> io::Result<u64> {
        let found = fs::metadata(path)?;
        if found.is_file() { Ok(found.len()) } else { Err(ErrorKind::IsADirectory.into()) }
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<(String, u64)>> {
        let mut files = vec![];
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            files.push((entry.file_name().to_string_lossy().into_owned(), entry.metadata()?.len()));
        }
        Ok(files)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::copy(from, to).map(drop)
    }
}

pub(crate) fn make_folder(files: &dyn Files, path: &Path) -> Result<(), StateError> {
    files.make_folder(path).map_err(|e| StateError::io("making", path, e))
}

/// Makes a folder that must not be there yet: two stores never share one.
pub(crate) fn make_new_folder(files: &dyn Files, path: &Path) -> Result<(), StateError> {
    if let Some(parent) = path.parent() {
        make_folder(files, parent)?;
    }
    files.make_new_folder(path).map_err(|e| StateError::io("making", path, e))
}

pub(crate) fn remove_folder(files: &dyn Files, path: &Path) -> Result<(), StateError> {
    match files.remove_folder(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(StateError::io("removing", path, e)),
        _ => Ok(()),
    }
}

pub(crate) fn remove_file(files: &dyn Files, path: &Path) -> Result<(), StateError> {
    files.remove_file(path).map_err(|e| StateError::io("removing", path, e))
}

pub(crate) fn write(files: &dyn Files, path: &Path, bytes: &[u8]) -> Result<(), StateError> {
    files.write(path, bytes).map_err(|e| StateError::io("writing", path, e))
}

pub(crate) fn read(files: &dyn Files, path: &Path) -> Result<Vec<u8>, StateError> {
    files.read(path).map_err(|e| StateError::io("reading", path, e))
}

/// Names and lengths of the files in a folder, by name.
pub(crate) fn list(files: &dyn Files, folder: &Path) -> Result<Vec<(String, u64)>, StateError> {
    let mut listed = files.list(folder).map_err(|e| StateError::io("listing", folder, e))?;
    listed.sort();
    Ok(listed)
}

/// Sorted tables, runs and filters are written once, under a name used once.
pub(crate) fn is_immutable(name: &str) -> bool {
    [".sst", ".run", FILTER_ENDING].iter().any(|ending| name.ends_with(ending))
}

/// Puts a file under another name: linked if it can't change and lies on the same disk, else copied.
pub(crate) fn bring(files: &dyn Files, name: &str, from: &Path, to: &Path) -> Result<(), StateError> {
    if files.length(from).is_err() {
        return Err(StateError::Missing { name: format!("{name} ({})", from.display()) });
    }
    if is_immutable(name) && files.link(from, to).is_ok() {
        return Ok(());
    }
    files.copy(from, to).map_err(|e| StateError::io("copying", from, e))
}
