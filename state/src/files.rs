//! Files and folders of a store: made, linked, listed, removed, each failure with its place.
//!
//! Keeps: a file that may change is copied, only one that can't is linked.
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::error::StateError;
use crate::seen::FILTER_ENDING;

pub(crate) fn make_folder(path: &Path) -> Result<(), StateError> {
    fs::create_dir_all(path).map_err(|e| StateError::io("making", path, e))
}

/// Makes a folder that must not be there yet: two stores never share one.
pub(crate) fn make_new_folder(path: &Path) -> Result<(), StateError> {
    if let Some(parent) = path.parent() {
        make_folder(parent)?;
    }
    fs::create_dir(path).map_err(|e| StateError::io("making", path, e))
}

pub(crate) fn remove_folder(path: &Path) -> Result<(), StateError> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(StateError::io("removing", path, e)),
        _ => Ok(()),
    }
}

pub(crate) fn remove_file(path: &Path) -> Result<(), StateError> {
    fs::remove_file(path).map_err(|e| StateError::io("removing", path, e))
}

pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), StateError> {
    fs::write(path, bytes).map_err(|e| StateError::io("writing", path, e))
}

/// Names and lengths of the files in a folder, by name.
pub(crate) fn list(folder: &Path) -> Result<Vec<(String, u64)>, StateError> {
    let failed = |e| StateError::io("listing", folder, e);
    let mut files = vec![];
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let length = entry.metadata().map_err(failed)?.len();
        files.push((entry.file_name().to_string_lossy().into_owned(), length));
    }
    files.sort();
    Ok(files)
}

/// Sorted tables, runs and filters are written once, under a name used once.
pub(crate) fn is_immutable(name: &str) -> bool {
    [".sst", ".run", FILTER_ENDING].iter().any(|ending| name.ends_with(ending))
}

/// Puts a file under another name: linked if it can't change and lies on the same disk, else copied.
pub(crate) fn bring(name: &str, from: &Path, to: &Path) -> Result<(), StateError> {
    if !from.is_file() {
        return Err(StateError::Missing { name: format!("{name} ({})", from.display()) });
    }
    if is_immutable(name) && fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    fs::copy(from, to).map_err(|e| StateError::io("copying", from, e))?;
    Ok(())
}
