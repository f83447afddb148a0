//! State over RocksDB: one database a worker, one column family for each bucket of ids and each node's values.
//!
//! Written only in sorted runs (`SstFileWriter`, then ingest by link): ten times as fast as puts, and nothing is ever in a memtable or a log.
//! Doesn't know: which ids are hot. Keeps: a family dropped is files freed; the runs of a family stay below `MOST_RUNS`.
//! Tested: conformance, tests/{budget,expiry}.rs.
mod options;

use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};

use floodmark_pipeline::hash::KeyHash;
use floodmark_pipeline::state::Bucket;
use rocksdb::checkpoint::Checkpoint;
use rocksdb::{
    Cache, ColumnFamily, ColumnFamilyDescriptor, DB, DBIterator, Direction, IngestExternalFileOptions, IteratorMode,
    ReadOptions, SstFileWriter,
};

use self::options::FamilyOptions;
use crate::backend::{Backend, Family, IdEntry, IdScan, Lookup, ValueChange, ValueScan};
use crate::error::StateError;
use crate::files::{self, LocalDisk};

/// Runs at which a write waits for them to be merged.
const MOST_RUNS: u64 = 48;

pub(crate) struct RocksBackend {
    db: DB,
    folder: PathBuf,
    /// Where runs are written before the database takes them over: beside it, so that a link does.
    runs: PathBuf,
    cache: Cache,
    options: FamilyOptions,
    families: BTreeSet<Family>,
    next_run: u64,
}

impl RocksBackend {
    /// Opens the database in `folder`, or makes it.
    pub fn open(folder: PathBuf, runs: PathBuf, cache_bytes: u64) -> Result<Self, StateError> {
        files::make_folder(&LocalDisk, &folder)?;
        files::make_folder(&LocalDisk, &runs)?;
        let cache = Cache::new_lru_cache(cache_bytes as usize);
        let options = FamilyOptions::new(&cache);
        let database = options::database();
        let failed = |e| StateError::rocks("opening", &folder, &e);
        let names = match folder.join("CURRENT").exists() {
            true => DB::list_cf(&database, &folder).map_err(failed)?,
            false => vec![],
        };
        let mut families = BTreeSet::new();
        let mut descriptors = vec![ColumnFamilyDescriptor::new("default", options.values.clone())];
        for name in names.iter().filter(|name| *name != "default") {
            let family = parse(name).ok_or_else(|| StateError::damaged(&folder, format!("unknown family {name}")))?;
            descriptors.push(ColumnFamilyDescriptor::new(name, options.of(&family).clone()));
            families.insert(family);
        }
        let db = DB::open_cf_descriptors(&database, &folder, descriptors).map_err(failed)?;
        Ok(Self { db, folder, runs, cache, options, families, next_run: 0 })
    }

    fn failed(&self, doing: &'static str, error: &rocksdb::Error) -> StateError {
        StateError::rocks(doing, &self.folder, error)
    }

    fn handle(&self, family: &Family) -> Result<&ColumnFamily, StateError> {
        let name = name(family);
        self.db.cf_handle(&name).ok_or_else(|| StateError::damaged(&self.folder, format!("family {name} is gone")))
    }

    /// Writes a run to a file of its own and has the family take it over.
    fn ingest(
        &mut self,
        family: &Family,
        fill: impl FnOnce(&mut SstFileWriter<'_>) -> Result<(), rocksdb::Error>,
    ) -> Result<(), StateError> {
        if self.families.insert(family.clone()) {
            let made = self.db.create_cf(name(family), self.options.of(family));
            made.map_err(|e| self.failed("adding a family to", &e))?;
        }
        let path = self.runs.join(format!("{}.sst", self.next_run));
        self.next_run += 1;
        let mut run = SstFileWriter::create(self.options.of(family));
        let written = run.open(&path).and_then(|()| fill(&mut run)).and_then(|()| run.finish());
        written.map_err(|e| StateError::rocks("writing", &path, &e))?;
        drop(run);
        let mut by_link = IngestExternalFileOptions::default();
        by_link.set_move_files(true);
        let handle = self.handle(family)?;
        let taken = self.db.ingest_external_file_cf_opts(handle, &by_link, vec![&path]);
        taken.map_err(|e| self.failed("taking a run into", &e))?;
        if self.number("rocksdb.num-files-at-level0", handle)? > MOST_RUNS {
            self.db.compact_range_cf(handle, None::<&[u8]>, None::<&[u8]>);
        }
        Ok(())
    }

    fn number(&self, property: &str, handle: &ColumnFamily) -> Result<u64, StateError> {
        let value = self.db.property_int_value_cf(handle, property).map_err(|e| self.failed("asking", &e))?;
        Ok(value.unwrap_or(0))
    }

    fn scan(&self, family: &Family, first: &[u8], end: Option<Vec<u8>>) -> Result<DBIterator<'_>, StateError> {
        let handle = self.handle(family)?;
        Ok(self.db.iterator_cf_opt(handle, once(end), IteratorMode::From(first, Direction::Forward)))
    }
}

impl Backend for RocksBackend {
    fn families(&self) -> Vec<Family> {
        self.families.iter().cloned().collect()
    }

    fn write_ids(&mut self, family: &Family, run: &[IdEntry]) -> Result<(), StateError> {
        self.ingest(family, |file| {
            run.iter().try_for_each(|entry| file.put(entry.id.0.to_be_bytes(), encode_place(*entry)))
        })
    }

    fn lookup(&self) -> Option<&dyn Lookup> {
        Some(self)
    }

    fn ids(&self, family: &Family, range: RangeInclusive<KeyHash>) -> Result<IdScan<'_>, StateError> {
        if !self.families.contains(family) {
            return Ok(Box::new(std::iter::empty()));
        }
        let end = range.end().0.checked_add(1).map(|end| end.to_be_bytes().to_vec());
        // Raw, since a scan of millions of ids would make two small boxes for each.
        let mut scan = self.db.raw_iterator_cf_opt(self.handle(family)?, once(end));
        scan.seek(range.start().0.to_be_bytes());
        Ok(Box::new(std::iter::from_fn(move || {
            let Some((id, place)) = scan.item() else {
                return scan.status().err().map(|e| Err(self.failed("scanning", &e)));
            };
            let id = <[u8; 16]>::try_from(id).map_err(|_| StateError::damaged(&self.folder, "an id isn't 16 bytes"));
            let entry = id.and_then(|id| self.entry(KeyHash(u128::from_be_bytes(id)), place));
            scan.next();
            Some(entry)
        })))
    }

    fn write_values(&mut self, family: &Family, run: &[ValueChange]) -> Result<(), StateError> {
        self.ingest(family, |file| {
            run.iter().try_for_each(|(key, value)| match value {
                Some(value) => file.put(key, value),
                None => file.delete(key),
            })
        })
    }

    fn values(&self, family: &Family, key_groups: Range<u16>) -> Result<ValueScan<'_>, StateError> {
        if !self.families.contains(family) {
            return Ok(Box::new(std::iter::empty()));
        }
        let end = key_groups.end.to_be_bytes().to_vec();
        let scan = self.scan(family, &key_groups.start.to_be_bytes(), Some(end))?;
        Ok(Box::new(scan.map(move |entry| {
            let (key, value) = entry.map_err(|e| self.failed("scanning", &e))?;
            Ok((key.into_vec(), value.into_vec()))
        })))
    }

    fn drop_family(&mut self, family: &Family) -> Result<(), StateError> {
        if !self.families.remove(family) {
            return Ok(());
        }
        self.db.drop_cf(&name(family)).map_err(|e| self.failed("dropping a family of", &e))
    }

    fn link_into(&mut self, folder: &Path) -> Result<(), StateError> {
        let failed = |e| StateError::rocks("linking", folder, &e);
        Checkpoint::new(&self.db).and_then(|now| now.create_checkpoint(folder)).map_err(failed)
    }

    fn memory_used(&self) -> Result<u64, StateError> {
        let mut bytes = self.cache.get_usage() as u64;
        for family in &self.families {
            let handle = self.handle(family)?;
            bytes += self.number("rocksdb.cur-size-all-mem-tables", handle)?;
            bytes += self.number("rocksdb.estimate-table-readers-mem", handle)?;
        }
        Ok(bytes)
    }

    fn check(&self) -> Result<(), StateError> {
        let property =
            self.db.property_int_value("rocksdb.background-errors").map_err(|e| self.failed("asking", &e))?;
        match property {
            None | Some(0) => Ok(()),
            Some(n) => {
                let reason = format!("{n} errors while merging runs in the background, see the file LOG there");
                Err(StateError::Rocks { doing: "merging runs of", path: self.folder.clone(), reason })
            }
        }
    }
}

impl Lookup for RocksBackend {
    fn find_ids(&self, family: &Family, ids: &[KeyHash], found: &mut dyn FnMut(IdEntry)) -> Result<(), StateError> {
        if !self.families.contains(family) {
            return Ok(());
        }
        let keys: Vec<[u8; 16]> = ids.iter().map(|id| id.0.to_be_bytes()).collect();
        let values = self.db.batched_multi_get_cf(self.handle(family)?, &keys, true);
        for (id, value) in ids.iter().zip(values) {
            if let Some(place) = value.map_err(|e| self.failed("reading", &e))? {
                found(self.entry(*id, &place)?);
            }
        }
        Ok(())
    }
}

impl RocksBackend {
    fn entry(&self, id: KeyHash, place: &[u8]) -> Result<IdEntry, StateError> {
        let parts = place.split_first_chunk::<4>();
        let Some((partition, offset)) = parts.and_then(|(p, rest)| Some((p, <[u8; 8]>::try_from(rest).ok()?))) else {
            return Err(StateError::damaged(&self.folder, format!("the place of an id has {} bytes", place.len())));
        };
        Ok(IdEntry { id, partition: u32::from_le_bytes(*partition), offset: i64::from_le_bytes(offset) })
    }
}

/// A scan passes by once; what it reads must not push out what lookups need.
fn once(end: Option<Vec<u8>>) -> ReadOptions {
    let mut read = ReadOptions::default();
    read.fill_cache(false);
    if let Some(end) = end {
        read.set_iterate_upper_bound(end);
    }
    read
}

fn encode_place(entry: IdEntry) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&entry.partition.to_le_bytes());
    bytes[4..].copy_from_slice(&entry.offset.to_le_bytes());
    bytes
}

fn name(family: &Family) -> String {
    match family {
        Family::Ids { node, bucket } => format!("ids/{}/{node}", bucket.0),
        Family::Values { node } => format!("values/{node}"),
    }
}

fn parse(name: &str) -> Option<Family> {
    if let Some(node) = name.strip_prefix("values/") {
        return Some(Family::Values { node: node.into() });
    }
    let (bucket, node) = name.strip_prefix("ids/")?.split_once('/')?;
    Some(Family::Ids { node: node.into(), bucket: Bucket(bucket.parse().ok()?) })
}

#[cfg(test)]
mod tests;
