//! Filters of buckets that have become quiet, each in a file of its own: a store that was just restored knows by them what its buckets don't hold.
//!
//! Doesn't know: which buckets are quiet, or when a file is of use no more.
//! Keeps: a number is used once, so that a file of one name is the same in every snapshot; a file that was changed is not read.
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use floodmark_pipeline::state::Bucket;
use xxhash_rust::xxh3::xxh3_64;

use super::filter::Filter;
use crate::error::StateError;
use crate::files::{self, Files, SharedFiles};
use crate::record::{Reader, put_bytes};

const MAGIC: &[u8; 8] = b"FMFILTR\n";
const FORMAT_VERSION: u32 = 1;
pub(crate) const ENDING: &str = ".filter";

pub(crate) struct FilterFolder {
    files: SharedFiles,
    folder: PathBuf,
    next: u64,
}

/// A filter as it was found in its file.
pub(crate) struct SavedFilter {
    pub number: u64,
    pub node: String,
    pub bucket: Bucket,
    pub(super) filter: Filter,
}

impl FilterFolder {
    /// Reads what a restore has brought into the folder.
    pub fn open(files: SharedFiles, folder: PathBuf) -> Result<(Self, Vec<SavedFilter>), StateError> {
        files::make_folder(&*files, &folder)?;
        let mut saved = vec![];
        for (name, _) in files::list(&*files, &folder)? {
            let number = name.strip_suffix(ENDING).and_then(|number| number.parse().ok());
            if let Some(number) = number {
                saved.push(read(&*files, number, &folder.join(name))?);
            }
        }
        let next = saved.iter().map(|filter| filter.number + 1).max().unwrap_or(0);
        Ok((Self { files, folder, next }, saved))
    }

    pub(super) fn write(&mut self, node: &str, bucket: Bucket, filter: &Filter) -> Result<u64, StateError> {
        let mut out = MAGIC.to_vec();
        out.extend(FORMAT_VERSION.to_le_bytes());
        put_bytes(&mut out, node.as_bytes());
        out.extend(bucket.0.to_le_bytes());
        filter.encode(&mut out);
        out.extend(xxh3_64(&out).to_le_bytes());
        let number = self.next;
        self.next += 1;
        files::write(&*self.files, &self.folder.join(name(number)), &out)?;
        Ok(number)
    }

    /// Links the filters of these numbers into a snapshot, and removes all others.
    pub fn link_into(&self, to: &Path, numbers: &BTreeSet<u64>) -> Result<(), StateError> {
        for (file, _) in files::list(&*self.files, &self.folder)? {
            let number = file.strip_suffix(ENDING).and_then(|number| number.parse().ok());
            if number.is_some_and(|number: u64| numbers.contains(&number)) {
                files::bring(&*self.files, &file, &self.folder.join(&file), &to.join(&file))?;
            } else {
                files::remove_file(&*self.files, &self.folder.join(&file))?;
            }
        }
        Ok(())
    }
}

fn name(number: u64) -> String {
    format!("{number:08}{ENDING}")
}

fn read(files: &dyn Files, number: u64, path: &Path) -> Result<SavedFilter, StateError> {
    let bytes = files::read(files, path)?;
    let body = bytes.strip_prefix(MAGIC).ok_or_else(|| StateError::damaged(path, "it doesn't begin as a filter"))?;
    let mut from = Reader(body);
    let version = from.u32().unwrap_or(0);
    if version != FORMAT_VERSION {
        return Err(StateError::Format { path: path.to_owned(), found: version, known: FORMAT_VERSION });
    }
    match bytes.split_last_chunk::<8>() {
        Some((content, sum)) if xxh3_64(content) == u64::from_le_bytes(*sum) => {}
        _ => return Err(StateError::damaged(path, "its checksum is wrong")),
    }
    let mut decode = || {
        let (node, bucket) = (from.text()?, Bucket(from.i64()?));
        Some(SavedFilter { number, node, bucket, filter: Filter::decode(&mut from)? })
    };
    decode().ok_or_else(|| StateError::damaged(path, "it ends early"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use floodmark_pipeline::hash::KeyHash;

    use super::*;
    use crate::files::LocalDisk;

    fn open(folder: &Path) -> Result<(FilterFolder, Vec<SavedFilter>), StateError> {
        FilterFolder::open(Arc::new(LocalDisk), folder.to_owned())
    }

    #[test]
    fn a_filter_is_read_back_under_its_number_and_a_changed_file_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let (mut filters, none) = open(folder.path()).unwrap();
        assert!(none.is_empty());
        let mut filter = Filter::for_ids(10);
        filter.insert(KeyHash(7 << 64));
        filters.write("clean", Bucket(-3), &filter).unwrap();
        assert_eq!(filters.write("clean", Bucket(4), &filter).unwrap(), 1);
        let (mut again, saved) = open(folder.path()).unwrap();
        let seen: Vec<_> = saved.iter().map(|s| (s.number, s.node.as_str(), s.bucket)).collect();
        assert_eq!(seen, [(0, "clean", Bucket(-3)), (1, "clean", Bucket(4))]);
        assert!(saved[0].filter.may_hold(KeyHash(7 << 64)));
        assert_eq!(again.write("clean", Bucket(5), &filter).unwrap(), 2, "no number comes twice");

        let path = folder.path().join(name(1));
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[40] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert!(matches!(open(folder.path()).err(), Some(StateError::Damaged { .. })));
    }

    #[test]
    fn a_snapshot_gets_the_filters_that_hold_and_the_others_go() {
        let (folder, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (mut filters, _) = open(folder.path()).unwrap();
        for bucket in (0..3).map(Bucket) {
            filters.write("clean", bucket, &Filter::for_ids(10)).unwrap();
        }
        filters.link_into(to.path(), &BTreeSet::from([1])).unwrap();
        for folder in [folder.path(), to.path()] {
            let names: Vec<_> = files::list(&LocalDisk, folder).unwrap().into_iter().map(|(name, _)| name).collect();
            assert_eq!(names, [name(1)]);
        }
    }
}
