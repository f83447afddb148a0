//! State in memory: all ids stand in the hot table, values in the operators' tables; the files here are only for checkpoints and restores.
//!
//! Each family is a short list of sorted runs. A new run is merged with the last one while that is not twice as large, so there are few of them,
//! and an entry is rewritten no more often than the family doubles.
//! Doesn't know: how to look an id up. Keeps: runs of a family are in the order they were written; a later one wins.
//! Tested: conformance.
mod run;

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};

use floodmark_pipeline::hash::KeyHash;

use self::run::{Content, Run};
use crate::backend::{Backend, Family, IdEntry, IdScan, Lookup, ValueChange, ValueScan};
use crate::error::StateError;
use crate::files::{self, SharedFiles};

pub(crate) struct MemoryBackend {
    files: SharedFiles,
    folder: PathBuf,
    families: BTreeMap<Family, Vec<Run>>,
    next_run: u64,
}

impl MemoryBackend {
    /// Opens the runs in `folder`, if there are any.
    pub fn open(files: SharedFiles, folder: PathBuf) -> Result<Self, StateError> {
        files::make_folder(&*files, &folder)?;
        let mut families: BTreeMap<Family, Vec<Run>> = BTreeMap::new();
        let mut next_run = 0;
        for (name, _) in files::list(&*files, &folder)? {
            let Some(number) = name.strip_suffix(".run").and_then(|number| number.parse::<u64>().ok()) else {
                continue;
            };
            let (family, run) = Run::open(&*files, folder.join(name))?;
            families.entry(family).or_default().push(run);
            next_run = next_run.max(number + 1);
        }
        Ok(Self { files, folder, families, next_run })
    }

    fn push(&mut self, family: &Family, mut content: Content) -> Result<(), StateError> {
        let runs = self.families.entry(family.clone()).or_default();
        let mut merged = vec![];
        while let Some(last) = runs.pop_if(|last| last.entries < content.len() * 2) {
            content = last.read(&*self.files)?.with(content);
            merged.push(last);
        }
        if runs.is_empty() {
            content.drop_deletes();
        }
        let path = self.folder.join(format!("{:012}.run", self.next_run));
        self.next_run += 1;
        runs.push(Run::write(&*self.files, path, family, &content)?);
        merged.iter().try_for_each(|run| files::remove_file(&*self.files, &run.path))
    }

    fn read(&self, family: &Family) -> Result<Option<Content>, StateError> {
        let mut all: Option<Content> = None;
        for run in self.families.get(family).into_iter().flatten() {
            let newer = run.read(&*self.files)?;
            all = Some(match all {
                Some(older) => older.with(newer),
                None => newer,
            });
        }
        Ok(all)
    }
}

impl Backend for MemoryBackend {
    fn families(&self) -> Vec<Family> {
        self.families.keys().cloned().collect()
    }

    fn write_ids(&mut self, family: &Family, run: &[IdEntry]) -> Result<(), StateError> {
        self.push(family, Content::Ids(run.to_vec()))
    }

    fn lookup(&self) -> Option<&dyn Lookup> {
        None
    }

    fn ids(&self, family: &Family, range: RangeInclusive<KeyHash>) -> Result<IdScan<'_>, StateError> {
        let Some(Content::Ids(ids)) = self.read(family)? else { return Ok(Box::new(std::iter::empty())) };
        Ok(Box::new(ids.into_iter().filter(move |entry| range.contains(&entry.id)).map(Ok)))
    }

    fn write_values(&mut self, family: &Family, run: &[ValueChange]) -> Result<(), StateError> {
        self.push(family, Content::Values(run.to_vec()))
    }

    fn values(&self, family: &Family, key_groups: Range<u16>) -> Result<ValueScan<'_>, StateError> {
        let Some(Content::Values(changes)) = self.read(family)? else { return Ok(Box::new(std::iter::empty())) };
        let bound = |group: u16| group.to_be_bytes();
        let (start, end) = (bound(key_groups.start), bound(key_groups.end));
        let within = move |key: &[u8]| key >= start.as_slice() && key < end.as_slice();
        Ok(Box::new(
            changes.into_iter().filter_map(move |(key, value)| value.filter(|_| within(&key)).map(|v| Ok((key, v)))),
        ))
    }

    fn drop_family(&mut self, family: &Family) -> Result<(), StateError> {
        let runs = self.families.remove(family).unwrap_or_default();
        runs.iter().try_for_each(|run| files::remove_file(&*self.files, &run.path))
    }

    fn link_into(&mut self, folder: &Path) -> Result<(), StateError> {
        files::make_folder(&*self.files, folder)?;
        for run in self.families.values().flatten() {
            if let Some(name) = run.path.file_name() {
                files::bring(&*self.files, &name.to_string_lossy(), &run.path, &folder.join(name))?;
            }
        }
        Ok(())
    }

    fn memory_used(&self) -> Result<u64, StateError> {
        Ok(0)
    }

    fn check(&self) -> Result<(), StateError> {
        Ok(())
    }
}
