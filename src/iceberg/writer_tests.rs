//! Data files: partitions, counts, bounds, rolling, and what is left of abandoned ones.
use std::collections::HashMap;

use arrow_array::{ArrayRef, Float64Array, Int64Array, StringArray};
use iceberg::TableCreation;
use iceberg::spec::{
    Datum, Literal, NestedField, PrimitiveType, Schema, TableMetadataBuilder, Transform, Type, UnboundPartitionSpec,
};

use super::*;
use crate::iceberg::storage::Stores;

struct Case {
    dir: tempfile::TempDir,
    metadata: TableMetadata,
}

fn case(partitioned: bool, properties: &[(&str, &str)]) -> Case {
    let dir = tempfile::tempdir().unwrap();
    let field = |id, name: &str, ty| Arc::new(NestedField::optional(id, name, Type::Primitive(ty)));
    let types = [
        ("n", PrimitiveType::Long),
        ("s", PrimitiveType::String),
        ("f", PrimitiveType::Double),
        ("b", PrimitiveType::Binary),
    ];
    let fields = types.into_iter().zip(1..).map(|((name, ty), id)| field(id, name, ty));
    let schema = Schema::builder().with_fields(fields).build().unwrap();
    let mut spec = UnboundPartitionSpec::builder();
    if partitioned {
        spec = spec.add_partition_field(1, "n", Transform::Identity).unwrap();
    }
    let creation = TableCreation::builder()
        .name("t".into())
        .location(format!("file://{}", dir.path().display()))
        .partition_spec(spec.build())
        .properties(properties.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect::<HashMap<_, _>>())
        .schema(schema)
        .build();
    let metadata = TableMetadataBuilder::from_table_creation(creation).unwrap().build().unwrap().metadata;
    Case { dir, metadata }
}

impl Case {
    async fn write(&self, target_size: u64, batches: &[&[RecordBatch]]) -> Vec<DataFile> {
        let io = Stores::default().file_io();
        let mut writer = DataWriter::new(&self.metadata, io, "x".into(), target_size).unwrap();
        for batches in batches {
            writer.write(batches).await.unwrap();
            assert!(writer.open.len() <= OPEN_WRITERS);
        }
        writer.finish().await.unwrap()
    }
}

fn numbers(values: Vec<Option<i64>>) -> RecordBatch {
    let n: ArrayRef = Arc::new(Int64Array::from(values));
    RecordBatch::try_from_iter_with_nullable([("n", n, true)]).unwrap()
}

#[tokio::test]
async fn counts_and_bounds_hold_for_the_file() {
    let case = case(false, &[]);
    let n: ArrayRef = Arc::new(Int64Array::from(vec![Some(3), None, Some(-2)]));
    let long = "x".repeat(100);
    let s: ArrayRef = Arc::new(StringArray::from(vec![Some("b"), Some("a"), Some(&*long)]));
    let f: ArrayRef = Arc::new(Float64Array::from(vec![Some(f64::NAN), Some(1.5), None]));
    let batch = RecordBatch::try_from_iter_with_nullable([("n", n, true), ("s", s, true), ("f", f, true)]).unwrap();
    let [file] = case.write(1 << 20, &[&[batch]]).await.try_into().unwrap();
    assert_eq!(file.record_count(), 3);
    let path = file.file_path().strip_prefix("file://").unwrap().to_owned();
    assert_eq!(file.file_size_in_bytes(), std::fs::metadata(path).unwrap().len());
    assert_eq!((file.null_value_counts()[&1], file.null_value_counts()[&2], file.null_value_counts()[&4]), (1, 0, 3));
    assert_eq!(file.nan_value_counts()[&3], 1);
    assert_eq!((&file.lower_bounds()[&1], &file.upper_bounds()[&1]), (&Datum::long(-2), &Datum::long(3)));
    let raised = format!("{}y", "x".repeat(15));
    assert_eq!((&file.lower_bounds()[&2], &file.upper_bounds()[&2]), (&Datum::string("a"), &Datum::string(raised)));
    assert_eq!((&file.lower_bounds()[&3], &file.upper_bounds()[&3]), (&Datum::double(1.5), &Datum::double(1.5)));
    assert!(!file.lower_bounds().contains_key(&4), "a column of nulls has no bounds");
}

#[tokio::test]
async fn each_partition_value_has_a_file_and_few_are_open() {
    let case = case(true, &[]);
    let values: Vec<_> = (0..200).map(|i| Some(i % 100)).chain([None]).collect();
    let files = case.write(1 << 20, &[&[numbers(values)]]).await;
    assert_eq!(files.len(), 101);
    let of_7: Vec<_> = files.iter().filter(|f| f.partition()[0] == Some(Literal::long(7))).collect();
    assert_eq!(of_7.iter().map(|f| f.record_count()).collect::<Vec<_>>(), [2]);
    assert!(of_7[0].file_path().contains("/data/n=7/x-"), "{}", of_7[0].file_path());
    assert!(files.iter().any(|f| f.partition()[0].is_none()));
}

#[tokio::test]
async fn a_file_rolls_at_the_target_size() {
    let case = case(false, &[("write.parquet.compression-codec", "uncompressed")]);
    let batches: Vec<_> = (0..4).map(|k| numbers((0..30_000).map(|i| Some(i * 7_919 + k)).collect())).collect();
    let files = case.write(100_000, &[&batches[..2], &batches[2..]]).await;
    assert!(files.len() > 1, "{} files", files.len());
    assert_eq!(files.iter().map(DataFile::record_count).sum::<u64>(), 120_000);
}

#[tokio::test]
async fn abandoned_files_are_deleted() {
    let case = case(true, &[]);
    let io = Stores::default().file_io();
    let mut writer = DataWriter::new(&case.metadata, io, "x".into(), 1 << 20).unwrap();
    writer.write(&[numbers((0..70).map(Some).collect())]).await.unwrap();
    assert_eq!(writer.finished.len(), 6, "64 stay open");
    let path = writer.finished[0].file_path().strip_prefix("file://").unwrap().to_owned();
    assert!(path.starts_with(&*case.dir.path().display().to_string()));
    writer.abandon().await;
    assert!(!std::path::Path::new(&path).exists());
}

#[tokio::test]
async fn a_codec_that_is_not_written_is_named() {
    let case = case(false, &[("write.parquet.compression-codec", "brotli")]);
    let refused = DataWriter::new(&case.metadata, Stores::default().file_io(), "x".into(), 1).err().unwrap();
    assert!(
        refused.to_string().contains("write.parquet.compression-codec = brotli: only zstd, snappy and uncompressed")
    );
}

#[test]
fn a_partition_path_holds_only_plain_characters() {
    assert_eq!(plain("a/b c=ä%2F"), "a_b_c___2F");
    assert_eq!(plain(".."), "__");
    assert_eq!(plain(""), "_");
}
