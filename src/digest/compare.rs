//! The rows in which two sources differ, as multisets, in bounded memory.
//!
//! Both are read once into many small digests by the first bits of the row hash. Buckets that agree hold equal rows; those that don't are
//! read again, as many at a time as fit the budget, and their rows counted by hash. A last pass fetches the first rows to show.
//! Doesn't know: where rows come from. Tested: digest/tests.rs.
//!
//! ```text
//! pass 1        2^16 digests each     which buckets differ
//! pass 2..n     buckets of a budget   hash -> copies in A less copies in B; what is not zero differs
//! last pass     the first N hashes    the rows themselves
//! ```
use std::collections::{BTreeSet, HashMap};

use arrow::compute::cast;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType};
use floodmark_pipeline::digest::{Buckets, Digest, Options, RowHash};

use super::source::RowSource;
use super::{CompareError, hasher, in_source};

const BUCKET_BITS: u32 = 16;

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most rows to show of each side.
    pub shown: usize,
    /// Most row hashes held at once (32 bytes each, and the map's own room).
    pub hashes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub digests: [Digest; 2],
    pub only_in: [Side; 2],
}

/// What one source has more of than the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Side {
    /// Rows, each copy counted.
    pub rows: u64,
    /// The first of them, with the copies that the other lacks.
    pub shown: Vec<(ShownRow, u64)>,
}

/// Column names and values as text; `None` for null.
pub type ShownRow = Vec<(String, Option<String>)>;

impl Difference {
    pub fn is_empty(&self) -> bool {
        self.only_in.iter().all(|side| side.rows == 0)
    }
}

pub async fn compare(sources: [&RowSource; 2], options: Options, limits: Limits) -> Result<Difference, CompareError> {
    let mut buckets = [Buckets::new(BUCKET_BITS), Buckets::new(BUCKET_BITS)];
    for (source, buckets) in sources.iter().zip(&mut buckets) {
        for_each_hash(source, options, |hash| buckets.add_row(hash)).await?;
    }
    let [a, b] = &buckets;
    let mut difference = Difference { digests: [a.total(), b.total()], only_in: Default::default() };
    let mut wanted: [HashMap<RowHash, u64>; 2] = Default::default();
    for group in groups(a.differing(b), limits.hashes) {
        let surplus = surplus(sources, options, |hash| group.contains(&a.bucket_of(hash))).await?;
        for (hash, copies) in surplus {
            let side = usize::from(copies < 0);
            difference.only_in[side].rows += copies.unsigned_abs();
            if wanted[side].len() < limits.shown {
                wanted[side].insert(hash, copies.unsigned_abs());
            }
        }
    }
    for (side, source) in sources.iter().enumerate() {
        difference.only_in[side].shown = fetch(source, options, std::mem::take(&mut wanted[side])).await?;
    }
    Ok(difference)
}

/// Ranges of bucket numbers whose differing buckets hold at most `budget` rows together, or one bucket alone.
fn groups(differing: impl Iterator<Item = (usize, u64)>, budget: u64) -> Vec<BTreeSet<usize>> {
    let mut groups: Vec<BTreeSet<usize>> = Vec::new();
    let mut rows_in_last = 0;
    for (bucket, rows) in differing {
        match groups.last_mut() {
            Some(last) if rows_in_last + rows <= budget => {
                last.insert(bucket);
                rows_in_last += rows;
            }
            _ => {
                groups.push([bucket].into());
                rows_in_last = rows;
            }
        }
    }
    groups
}

/// Copies in the first source less copies in the second, by hash, in hash order; without those that are equal.
async fn surplus(
    sources: [&RowSource; 2],
    options: Options,
    included: impl Fn(RowHash) -> bool,
) -> Result<Vec<(RowHash, i64)>, CompareError> {
    let mut copies: HashMap<RowHash, i64> = HashMap::new();
    for (source, sign) in sources.into_iter().zip([1, -1]) {
        for_each_hash(source, options, |hash| {
            if included(hash) {
                *copies.entry(hash).or_default() += sign;
            }
        })
        .await?;
    }
    let mut surplus: Vec<_> = copies.into_iter().filter(|(_, copies)| *copies != 0).collect();
    surplus.sort_unstable();
    Ok(surplus)
}

async fn for_each_hash(
    source: &RowSource,
    options: Options,
    mut take: impl FnMut(RowHash),
) -> Result<(), CompareError> {
    let mut rows = source.open().await?;
    let mut hasher = hasher(source, &rows.schema(), options)?;
    let mut hashes = Vec::new();
    while let Some(batch) = rows.next().await? {
        hashes.clear();
        hasher.hash(&batch, &mut hashes).map_err(in_source(source))?;
        hashes.iter().for_each(|hash| take(*hash));
    }
    Ok(())
}

/// One row for each wanted hash, in the order in which the source holds them.
async fn fetch(
    source: &RowSource,
    options: Options,
    mut wanted: HashMap<RowHash, u64>,
) -> Result<Vec<(ShownRow, u64)>, CompareError> {
    let mut shown = Vec::with_capacity(wanted.len());
    if wanted.is_empty() {
        return Ok(shown);
    }
    let mut rows = source.open().await?;
    let mut hasher = hasher(source, &rows.schema(), options)?;
    let mut hashes = Vec::new();
    while let Some(batch) = rows.next().await? {
        hashes.clear();
        hasher.hash(&batch, &mut hashes).map_err(in_source(source))?;
        for (row, hash) in hashes.iter().enumerate() {
            if let Some(copies) = wanted.remove(hash) {
                shown.push((show(&batch, row).map_err(CompareError::Display)?, copies));
            }
        }
        if wanted.is_empty() {
            break;
        }
    }
    Ok(shown)
}

fn show(batch: &RecordBatch, row: usize) -> Result<ShownRow, ArrowError> {
    let options = FormatOptions::new();
    let schema = batch.schema_ref();
    let cells = schema.fields().iter().zip(batch.columns()).map(|(field, array)| {
        let cell = in_utc(&array.slice(row, 1))?;
        let value = ArrayFormatter::try_new(&cell, &options)?.value(0).try_to_string()?;
        Ok((field.name().clone(), cell.is_valid(0).then_some(value)))
    });
    cells.collect()
}

/// Names of zones other than offsets can't be printed, and say nothing about the value.
fn in_utc(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match array.data_type() {
        DataType::Timestamp(unit, Some(_)) => cast(array, &DataType::Timestamp(*unit, Some("+00:00".into()))),
        _ => Ok(array.clone()),
    }
}
