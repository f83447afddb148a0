//! Which files one snapshot holds, and which deletes may concern which file.
//!
//! Reads the manifest list and the manifests; of each live entry it keeps the little that reading needs. Data files are ordered by
//! partition, so that the deletes of one partition are held only while its files are read.
//! Doesn't know: what is in the files. Tested: table/tests.rs.
use std::collections::HashMap;
use std::ops::Range;

use iceberg::io::FileIO;
use iceberg::spec::{
    DataContentType, DataFileFormat, ManifestEntry, ManifestList, PartitionSpec, SchemaRef, SnapshotRef, Struct,
    TableMetadata, Transform,
};

use super::TableError;
use super::constant::Constants;

/// Which state of a table is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum At {
    Current,
    Snapshot(i64),
    /// A branch or tag.
    Ref(String),
}

/// Partition that a file belongs to: its spec and values, as a number.
pub type PartitionNumber = usize;

#[derive(Debug)]
pub struct DataFile {
    pub path: String,
    pub sequence: i64,
    pub partition: PartitionNumber,
    /// Columns that the partition says, by field id, for files that leave them out (tables that came from Hive).
    pub constants: Constants,
}

#[derive(Debug)]
pub struct DeleteFile {
    pub path: String,
    pub sequence: i64,
    pub partition: PartitionNumber,
    /// Written under an unpartitioned spec: equality deletes of such a file concern every partition.
    pub global: bool,
    /// Field ids of the key; empty for position deletes.
    pub equality_ids: Vec<i32>,
    /// Set when the file is a deletion vector.
    pub vector: Option<Vector>,
}

/// A deletion vector: a part of a Puffin file that holds the deleted positions of one data file.
#[derive(Debug)]
pub struct Vector {
    pub of: String,
    pub bytes: Range<u64>,
}

#[derive(Debug)]
pub struct Plan {
    pub schema: SchemaRef,
    /// Newest schema first; deletes may go by columns that the table has no more.
    pub schemas: Vec<SchemaRef>,
    pub name_mapping: Option<String>,
    pub data: Vec<DataFile>,
    pub position_deletes: Vec<DeleteFile>,
    pub equality_deletes: Vec<DeleteFile>,
}

pub async fn plan(metadata: &TableMetadata, file_io: &FileIO, at: &At) -> Result<Plan, TableError> {
    let snapshot = snapshot(metadata, at)?;
    let mut schemas: Vec<SchemaRef> = metadata.schemas_iter().cloned().collect();
    schemas.sort_by_key(|schema| std::cmp::Reverse(schema.schema_id()));
    let mut plan = Plan {
        schema: schema_of(metadata, at, snapshot.as_ref()),
        schemas,
        name_mapping: metadata.properties().get("schema.name-mapping.default").cloned(),
        data: Vec::new(),
        position_deletes: Vec::new(),
        equality_deletes: Vec::new(),
    };
    let Some(snapshot) = snapshot else { return Ok(plan) };
    let mut partitions = Partitions::default();
    let list_path = snapshot.manifest_list();
    let list = read(file_io, list_path).await?;
    let list =
        ManifestList::parse_with_version(&list, metadata.format_version()).map_err(TableError::iceberg(list_path))?;
    for manifest in list.entries() {
        let entries = manifest.load_manifest(file_io).await.map_err(TableError::iceberg(&manifest.manifest_path))?;
        let spec_id = manifest.partition_spec_id;
        let spec = metadata.partition_spec_by_id(spec_id);
        let global = spec.is_none_or(|spec| spec.is_unpartitioned());
        for entry in entries.entries().iter().filter(|entry| entry.is_alive()) {
            let values = entry.data_file().partition();
            let constants = spec.map_or_else(Constants::default, |spec| constants(spec, values));
            plan.add(entry, partitions.number(spec_id, values), global, constants)?;
        }
    }
    plan.data.sort_by(|a, b| (a.partition, a.sequence, &a.path).cmp(&(b.partition, b.sequence, &b.path)));
    Ok(plan)
}

impl Plan {
    fn add(
        &mut self,
        entry: &ManifestEntry,
        partition: PartitionNumber,
        global: bool,
        constants: Constants,
    ) -> Result<(), TableError> {
        let file = entry.data_file();
        let path = file.file_path().to_owned();
        let vector = vector(file);
        if file.file_format() != DataFileFormat::Parquet && vector.is_none() {
            return Err(TableError::Format { path, format: file.file_format().to_string() });
        }
        // Entries of format v1 have no number; there nothing is deleted by sequence.
        let sequence = entry.sequence_number().unwrap_or(0);
        match file.content_type() {
            DataContentType::Data => self.data.push(DataFile { path, sequence, partition, constants }),
            DataContentType::PositionDeletes => {
                let equality_ids = Vec::new();
                self.position_deletes.push(DeleteFile { path, sequence, partition, global, equality_ids, vector });
            }
            DataContentType::EqualityDeletes => {
                let mut equality_ids = file.equality_ids().unwrap_or_default();
                equality_ids.sort_unstable();
                self.equality_deletes.push(DeleteFile { path, sequence, partition, global, equality_ids, vector });
            }
        }
        Ok(())
    }
}

fn vector(file: &iceberg::spec::DataFile) -> Option<Vector> {
    let offset = u64::try_from(file.content_offset()?).ok()?;
    let size = u64::try_from(file.content_size_in_bytes()?).ok()?;
    Some(Vector { of: file.referenced_data_file()?, bytes: offset..offset + size })
}

fn constants(spec: &PartitionSpec, values: &Struct) -> Constants {
    let fields = spec.fields().iter().zip(values.fields());
    let identities = fields.filter(|(field, _)| field.transform == Transform::Identity);
    identities.filter_map(|(field, value)| Some((field.source_id, value.clone()?))).collect()
}

#[derive(Default)]
struct Partitions(HashMap<(i32, Struct), PartitionNumber>);

impl Partitions {
    fn number(&mut self, spec: i32, values: &Struct) -> PartitionNumber {
        let next = self.0.len();
        *self.0.entry((spec, values.clone())).or_insert(next)
    }
}

async fn read(file_io: &FileIO, path: &str) -> Result<bytes::Bytes, TableError> {
    let input = file_io.new_input(path).map_err(TableError::iceberg(path))?;
    input.read().await.map_err(TableError::iceberg(path))
}

fn snapshot(metadata: &TableMetadata, at: &At) -> Result<Option<SnapshotRef>, TableError> {
    let (found, wanted) = match at {
        At::Current => return Ok(metadata.current_snapshot().cloned()),
        At::Snapshot(id) => (metadata.snapshot_by_id(*id), id.to_string()),
        At::Ref(name) => (metadata.snapshot_for_ref(name), name.clone()),
    };
    let missing = || {
        let mut ids: Vec<_> = metadata.snapshots().collect();
        ids.sort_by_key(|snapshot| snapshot.sequence_number());
        let ids: Vec<_> = ids.iter().map(|snapshot| snapshot.snapshot_id().to_string()).collect();
        let has = if ids.is_empty() { "none".to_owned() } else { ids.join(", ") };
        TableError::NoSnapshot { wanted, has }
    };
    found.cloned().map(Some).ok_or_else(missing)
}

/// The current state has the current schema; a snapshot or tag is read with the schema it was written with.
fn schema_of(metadata: &TableMetadata, at: &At, snapshot: Option<&SnapshotRef>) -> SchemaRef {
    let written_with = snapshot.filter(|_| *at != At::Current).and_then(|snapshot| snapshot.schema_id());
    let schema = written_with.and_then(|id| metadata.schema_by_id(id));
    schema.unwrap_or_else(|| metadata.current_schema()).clone()
}
