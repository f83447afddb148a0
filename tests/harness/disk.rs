//! What a folder takes on disk while a job changes it.
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Files below a folder and their bytes; one that has several names counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    pub files: u64,
    pub bytes: u64,
}

pub fn held(folder: &Path) -> Held {
    let mut lengths = BTreeMap::new();
    walk(folder, &mut lengths);
    Held { files: lengths.len() as u64, bytes: lengths.values().sum() }
}

/// Length of each file by its number. What goes while this looks isn't there.
fn walk(folder: &Path, lengths: &mut BTreeMap<u64, u64>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.metadata() {
            Ok(meta) if meta.is_dir() => walk(&entry.path(), lengths),
            Ok(meta) => drop(lengths.insert(meta.ino(), meta.len())),
            Err(_) => {}
        }
    }
}
