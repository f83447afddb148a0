//! A table in memory, written file by file, so that each test says which files and deletes there are.
use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema as ArrowSchema};
use iceberg::io::FileIO;
use iceberg::spec::*;
use parquet::arrow::{ArrowWriter, PARQUET_FIELD_ID_META_KEY};
use roaring::RoaringTreemap;

use crate::table::{At, LoadedTable, TableError};

pub struct TableWriter {
    pub metadata: TableMetadata,
    file_io: FileIO,
    manifests: Vec<ManifestFile>,
    names: usize,
}

/// A column of a file: field id, name, values. Without an id the file has none.
pub type FileColumn = (Option<i32>, &'static str, ArrayRef);

pub fn longs(id: i32, name: &'static str, values: &[Option<i64>]) -> FileColumn {
    (Some(id), name, Arc::new(Int64Array::from(values.to_vec())))
}

pub fn texts(id: i32, name: &'static str, values: &[&str]) -> FileColumn {
    (Some(id), name, Arc::new(StringArray::from(values.to_vec())))
}

pub fn optional(id: i32, name: &str, kind: PrimitiveType) -> NestedFieldRef {
    NestedField::optional(id, name, Type::Primitive(kind)).into()
}

pub fn schema(fields: Vec<NestedFieldRef>) -> Schema {
    Schema::builder().with_fields(fields).build().unwrap()
}

impl TableWriter {
    /// Columns `id long` (1) and `name string` (2).
    pub fn new() -> Self {
        let columns = vec![optional(1, "id", PrimitiveType::Long), optional(2, "name", PrimitiveType::String)];
        Self::with(schema(columns), PartitionSpec::unpartition_spec().into_unbound())
    }

    /// The same, partitioned by `name`.
    pub fn by_name() -> Self {
        let columns = vec![optional(1, "id", PrimitiveType::Long), optional(2, "name", PrimitiveType::String)];
        let spec = UnboundPartitionSpec::builder().add_partition_field(2, "name", Transform::Identity).unwrap();
        Self::with(schema(columns), spec.build())
    }

    fn with(schema: Schema, spec: UnboundPartitionSpec) -> Self {
        let location = "memory:/t".to_owned();
        let order = SortOrder::unsorted_order();
        let builder = TableMetadataBuilder::new(schema, spec, order, location, FormatVersion::V2, HashMap::new());
        let metadata = builder.unwrap().build().unwrap().metadata;
        TableWriter { metadata, file_io: FileIO::new_with_memory(), manifests: Vec::new(), names: 0 }
    }

    pub fn evolve(&mut self, change: impl FnOnce(TableMetadataBuilder) -> TableMetadataBuilder) {
        let builder = change(self.metadata.clone().into_builder(None));
        self.metadata = builder.build().unwrap().metadata;
    }

    fn new_name(&mut self, suffix: &str) -> String {
        self.names += 1;
        format!("memory:/t/{}{suffix}", self.names)
    }

    async fn parquet(&mut self, columns: Vec<FileColumn>) -> (String, u64, u64) {
        let fields = columns.iter().map(|(id, name, array)| {
            let ids = id.map(|id| (PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_string()));
            Field::new(*name, array.data_type().clone(), true).with_metadata(ids.into_iter().collect())
        });
        let schema = Arc::new(ArrowSchema::new(fields.collect::<Vec<_>>()));
        let arrays = columns.into_iter().map(|(_, _, array)| array).collect();
        let batch = RecordBatch::try_new(schema.clone(), arrays).unwrap();
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, schema, None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let path = self.new_name(".parquet");
        let size = bytes.len() as u64;
        self.file_io.new_output(&path).unwrap().write(bytes.into()).await.unwrap();
        (path, size, batch.num_rows() as u64)
    }

    async fn file(
        &mut self,
        content: DataContentType,
        partition: Struct,
        columns: Vec<FileColumn>,
        ids: Option<Vec<i32>>,
    ) -> DataFile {
        let (path, size, rows) = self.parquet(columns).await;
        DataFileBuilder::default()
            .content(content)
            .file_path(path)
            .file_format(DataFileFormat::Parquet)
            .partition(partition)
            .partition_spec_id(self.metadata.default_partition_spec_id())
            .record_count(rows)
            .file_size_in_bytes(size)
            .equality_ids(ids)
            .build()
            .unwrap()
    }

    pub async fn data(&mut self, partition: Struct, columns: Vec<FileColumn>) -> DataFile {
        self.file(DataContentType::Data, partition, columns, None).await
    }

    pub async fn key_deletes(&mut self, partition: Struct, columns: Vec<FileColumn>) -> DataFile {
        let ids = columns.iter().filter_map(|(id, _, _)| *id).collect();
        self.file(DataContentType::EqualityDeletes, partition, columns, Some(ids)).await
    }

    pub async fn position_deletes(&mut self, partition: Struct, of: &DataFile, positions: &[i64]) -> DataFile {
        let paths = StringArray::from_iter_values(positions.iter().map(|_| of.file_path()));
        let columns: Vec<FileColumn> = vec![
            (Some(2_147_483_546), "file_path", Arc::new(paths)),
            (Some(2_147_483_545), "pos", Arc::new(Int64Array::from(positions.to_vec()))),
        ];
        self.file(DataContentType::PositionDeletes, partition, columns, None).await
    }

    pub async fn deletion_vector(&mut self, of: &DataFile, positions: &[u64]) -> DataFile {
        let mut blob = vec![0, 0, 0, 0, 0xd1, 0xd3, 0x39, 0x64];
        RoaringTreemap::from_iter(positions).serialize_into(&mut blob).unwrap();
        blob.extend([0; 4]);
        let size = blob.len() as i64;
        let path = self.new_name(".puffin");
        let bytes = [b"PFA1".as_slice(), &blob].concat();
        self.file_io.new_output(&path).unwrap().write(bytes.into()).await.unwrap();
        DataFileBuilder::default()
            .content(DataContentType::PositionDeletes)
            .file_path(path)
            .file_format(DataFileFormat::Puffin)
            .partition(of.partition().clone())
            .partition_spec_id(self.metadata.default_partition_spec_id())
            .record_count(positions.len() as u64)
            .file_size_in_bytes(size as u64 + 4)
            .content_offset(Some(4))
            .content_size_in_bytes(Some(size))
            .referenced_data_file(Some(of.file_path().to_owned()))
            .build()
            .unwrap()
    }

    /// One snapshot that adds these files.
    pub async fn commit(&mut self, files: &[&DataFile]) -> i64 {
        let id = self.metadata.last_sequence_number() + 100;
        let sequence = self.metadata.last_sequence_number() + 1;
        for is_data in [true, false] {
            let of_kind = files.iter().filter(|file| (file.content_type() == DataContentType::Data) == is_data);
            let of_kind: Vec<DataFile> = of_kind.map(|file| (*file).clone()).collect();
            if !of_kind.is_empty() {
                let mut manifest = self.manifest(id, is_data, of_kind).await;
                // As a manifest list assigns it; files inherit it.
                manifest.sequence_number = sequence;
                manifest.min_sequence_number = sequence;
                self.manifests.push(manifest);
            }
        }
        let list = self.new_name("-list.avro");
        let output = self.file_io.new_output(&list).unwrap().writer().await.unwrap();
        let mut writer = ManifestListWriter::v2(output, id, self.metadata.current_snapshot_id(), sequence);
        writer.add_manifests(self.manifests.clone().into_iter()).unwrap();
        writer.close().await.unwrap();
        let snapshot = Snapshot::builder()
            .with_snapshot_id(id)
            .with_parent_snapshot_id(self.metadata.current_snapshot_id())
            .with_sequence_number(sequence)
            .with_timestamp_ms(self.metadata.last_updated_ms() + 1)
            .with_manifest_list(list)
            .with_summary(Summary { operation: Operation::Append, additional_properties: HashMap::new() })
            .with_schema_id(self.metadata.current_schema_id())
            .build();
        self.evolve(|builder| builder.set_branch_snapshot(snapshot, "main").unwrap());
        id
    }

    async fn manifest(&mut self, snapshot: i64, is_data: bool, files: Vec<DataFile>) -> ManifestFile {
        let path = self.new_name(".avro");
        let output = self.file_io.new_output(path).unwrap();
        let spec = self.metadata.default_partition_spec().as_ref().clone();
        let schema = self.metadata.current_schema().clone();
        let builder = ManifestWriterBuilder::new(output, Some(snapshot), schema, spec);
        let mut writer = if is_data { builder.build_v2_data() } else { builder.build_v2_deletes() };
        const INHERIT: i64 = -1;
        for file in files {
            writer.add_file(file, INHERIT).unwrap();
        }
        writer.write_manifest_file().await.unwrap()
    }

    /// All rows as text, sorted: `1|a`.
    pub async fn rows(&self) -> Vec<String> {
        self.rows_at(At::Current).await.unwrap()
    }

    pub async fn rows_at(&self, at: At) -> Result<Vec<String>, TableError> {
        let table = LoadedTable { metadata: Arc::new(self.metadata.clone()), file_io: self.file_io.clone() };
        let mut scan = table.scan(&at).await?;
        let mut rows = Vec::new();
        while let Some(batch) = scan.next().await? {
            assert!(batch.num_rows() > 0);
            let texts: Vec<ArrayRef> =
                batch.columns().iter().map(|column| arrow::compute::cast(column, &DataType::Utf8).unwrap()).collect();
            for row in 0..batch.num_rows() {
                let cells = texts.iter().map(|column| {
                    let column = arrow_array::cast::AsArray::as_string::<i32>(column);
                    if arrow_array::Array::is_null(column, row) { "null" } else { column.value(row) }
                });
                rows.push(cells.collect::<Vec<_>>().join("|"));
            }
        }
        rows.sort();
        Ok(rows)
    }
}
