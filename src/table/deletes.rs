//! Rows that are in a data file and not in the table.
//!
//! Position deletes are sorted positions by data file; equality deletes a map from the key's hash to the newest sequence number that
//! deleted it. Both are asked once per batch, so a scan costs O(rows + deletes).
//! Keeps the specification's rules: an equality delete concerns data files of a lower sequence number, a position delete those of an equal or lower one,
//! both only within their partition; equality deletes of an unpartitioned spec concern the whole table. In a key, null equals null.
//! Doesn't know: how files are planned. Tested: table/tests.rs.
use std::collections::HashMap;
use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{BooleanArray, RecordBatch};
use floodmark_pipeline::digest::{Options, RowHash, RowHasher};
use iceberg::io::FileIO;
use iceberg::spec::{NestedField, NestedFieldRef, PrimitiveType, Type};
use roaring::RoaringTreemap;

use super::TableError;
use super::columns::{Columns, FileBatches, NameMapping};
use super::constant::Constants;
use super::plan::{DeleteFile, Plan, Vector};

const FILE_PATH_FIELD_ID: i32 = 2_147_483_546;
const POS_FIELD_ID: i32 = 2_147_483_545;

/// Positions deleted by data file, each with the sequence number of its delete.
#[derive(Default)]
pub struct PositionDeletes(HashMap<String, Vec<(i64, i64)>>);

impl PositionDeletes {
    pub async fn read<'a>(file_io: &FileIO, files: impl Iterator<Item = &'a DeleteFile>) -> Result<Self, TableError> {
        let columns = Columns::new(vec![
            NestedField::required(FILE_PATH_FIELD_ID, "file_path", Type::Primitive(PrimitiveType::String)).into(),
            NestedField::required(POS_FIELD_ID, "pos", Type::Primitive(PrimitiveType::Long)).into(),
        ])?;
        let mut deletes = PositionDeletes::default();
        for file in files {
            if let Some(vector) = &file.vector {
                deletes.add_vector(&read_vector(file_io, &file.path, vector).await?, vector, file.sequence);
                continue;
            }
            let mut batches =
                FileBatches::open(file_io, &file.path, &columns, &NameMapping::default(), &Constants::new()).await?;
            while let Some(batch) = batches.next().await? {
                deletes.add(&batch, file.sequence);
            }
        }
        deletes.0.values_mut().for_each(|positions| positions.sort_unstable());
        Ok(deletes)
    }

    fn add(&mut self, batch: &RecordBatch, sequence: i64) {
        let paths = batch.column(0).as_string::<i32>();
        let positions = batch.column(1).as_primitive::<Int64Type>();
        for row in 0..batch.num_rows() {
            let path = paths.value(row);
            let entry = (positions.value(row), sequence);
            match self.0.get_mut(path) {
                Some(list) => list.push(entry),
                None => drop(self.0.insert(path.to_owned(), vec![entry])),
            }
        }
    }

    fn add_vector(&mut self, positions: &RoaringTreemap, vector: &Vector, sequence: i64) {
        let list = self.0.entry(vector.of.clone()).or_default();
        list.extend(positions.iter().map(|position| (position as i64, sequence)));
    }

    /// Marks the deleted ones among the rows at `positions` of a data file.
    pub fn mark(&self, path: &str, sequence: i64, positions: Range<i64>, deleted: &mut [bool]) {
        let Some(list) = self.0.get(path) else { return };
        let first = list.partition_point(|(position, _)| *position < positions.start);
        for (position, deleted_at) in list[first..].iter().take_while(|(position, _)| *position < positions.end) {
            if *deleted_at >= sequence {
                deleted[(position - positions.start) as usize] = true;
            }
        }
    }
}

/// Equality deletes that go by the same key columns.
pub struct KeyDeletes {
    /// Places of the key columns in the scan's batches.
    places: Vec<usize>,
    /// Newest sequence number that deleted a key.
    deleted_at: HashMap<RowHash, i64>,
}

impl KeyDeletes {
    /// One for each set of key columns among `files`. `wanted` are the columns of the scan; it must hold every key column (see [`key_fields`]).
    pub async fn read<'a>(
        file_io: &FileIO,
        files: impl Iterator<Item = &'a DeleteFile>,
        wanted: &Columns,
    ) -> Result<Vec<KeyDeletes>, TableError> {
        let mut by_key: HashMap<&[i32], KeyDeletes> = HashMap::new();
        for file in files {
            let place = |id: &i32| wanted.fields.iter().position(|field| field.id == *id);
            let places: Vec<usize> = file.equality_ids.iter().filter_map(place).collect();
            let key = Columns::new(places.iter().map(|place| wanted.fields[*place].clone()).collect())?;
            let deletes =
                by_key.entry(&file.equality_ids).or_insert_with(|| KeyDeletes { places, deleted_at: HashMap::new() });
            let mut batches =
                FileBatches::open(file_io, &file.path, &key, &NameMapping::default(), &Constants::new()).await?;
            let mut hasher = RowHasher::new(&key.schema, Options::default()).map_err(in_file(&file.path))?;
            let mut hashes = Vec::new();
            while let Some(batch) = batches.next().await? {
                hashes.clear();
                hasher.hash(&batch, &mut hashes).map_err(in_file(&file.path))?;
                for hash in &hashes {
                    let newest = deletes.deleted_at.entry(*hash).or_insert(file.sequence);
                    *newest = (*newest).max(file.sequence);
                }
            }
        }
        Ok(by_key.into_values().collect())
    }

    pub fn mark(&self, path: &str, sequence: i64, batch: &RecordBatch, deleted: &mut [bool]) -> Result<(), TableError> {
        let keys = batch.project(&self.places).map_err(TableError::arrow(path))?;
        let mut hashes = Vec::with_capacity(keys.num_rows());
        let mut hasher = RowHasher::new(&keys.schema(), Options::default()).map_err(in_file(path))?;
        hasher.hash(&keys, &mut hashes).map_err(in_file(path))?;
        for (hash, deleted) in hashes.iter().zip(deleted) {
            *deleted |= self.deleted_at.get(hash).is_some_and(|deleted_at| sequence < *deleted_at);
        }
        Ok(())
    }
}

/// Layout of a deletion vector's blob: length u32 (big-endian) of magic and bitmap, magic, 64-bit roaring bitmap, CRC-32 (big-endian).
async fn read_vector(file_io: &FileIO, path: &str, vector: &Vector) -> Result<RoaringTreemap, TableError> {
    const MAGIC: [u8; 4] = [0xd1, 0xd3, 0x39, 0x64];
    let input = file_io.new_input(path).map_err(TableError::iceberg(path))?;
    let reader = input.reader().await.map_err(TableError::iceberg(path))?;
    let blob = reader.read(vector.bytes.clone()).await.map_err(TableError::iceberg(path))?;
    let bitmap = blob.get(4..blob.len().saturating_sub(4)).and_then(|body| body.strip_prefix(&MAGIC));
    let positions = bitmap.and_then(|bitmap| RoaringTreemap::deserialize_from(bitmap).ok());
    positions.ok_or_else(|| TableError::DeletionVector { path: path.to_owned() })
}

fn in_file(path: &str) -> impl FnOnce(floodmark_pipeline::digest::DigestError) -> TableError + '_ {
    move |source| TableError::Keys { path: path.to_owned(), source }
}

/// Key columns of the plan's equality deletes that aren't in its schema, under names that no user's column has.
pub fn key_fields(plan: &Plan) -> Result<Vec<NestedFieldRef>, TableError> {
    let mut fields: Vec<NestedFieldRef> = Vec::new();
    for file in &plan.equality_deletes {
        for id in &file.equality_ids {
            if plan.schema.as_struct().field_by_id(*id).is_some() || fields.iter().any(|field| field.id == *id) {
                continue;
            }
            let field = plan.schemas.iter().find_map(|schema| schema.field_by_id(*id));
            let field = field.ok_or_else(|| TableError::UnknownField { path: file.path.clone(), field_id: *id })?;
            fields.push(NestedField::new(*id, format!("_deleted_by_{id}"), *field.field_type.clone(), false).into());
        }
    }
    Ok(fields)
}

/// Rows to keep.
pub fn kept(deleted: Vec<bool>) -> BooleanArray {
    deleted.into_iter().map(|deleted| Some(!deleted)).collect()
}
