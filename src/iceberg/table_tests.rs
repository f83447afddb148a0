//! Tables made from a pipeline file, and tables that don't fit one.
use std::collections::BTreeMap;
use std::time::Duration;

use iceberg::spec::TableMetadataBuilder;

use super::*;
use crate::config::model::{CatalogConfig, RestAuth};

fn config() -> IcebergConfig {
    let catalog = CatalogConfig::Rest { uri: String::new(), warehouse: None, auth: RestAuth::None, prefix: None };
    IcebergConfig {
        catalog,
        namespace: vec!["shop".into()],
        table: "events".into(),
        partition: vec![PartitionField { column: "at".into(), transform: Transform::Day }],
        sort: vec![SortField { column: "id".into(), descending: false, nulls_last: true }],
        target_file_size_bytes: 1,
        mark_interval: Duration::ZERO,
        properties: BTreeMap::new(),
    }
}

fn schema() -> Schema {
    Schema::new(vec![
        Field::required("id", FieldType::String),
        Field::required("at", FieldType::TIMESTAMP_MS),
        Field::nullable("price", FieldType::Decimal { precision: 10, scale: 2 }),
    ])
}

fn table(config: &IcebergConfig, schema: &Schema) -> TableMetadata {
    let mut creation = creation(config, schema).unwrap();
    creation.location = Some("file:///t".into());
    TableMetadataBuilder::from_table_creation(creation).unwrap().build().unwrap().metadata
}

fn difference(table: &TableMetadata, config: &IcebergConfig, schema: &Schema) -> String {
    check(table, config, schema).unwrap_err()
}

#[test]
fn a_table_made_by_the_pipeline_file_fits_it() {
    let made = table(&config(), &schema());
    assert_eq!(check(&made, &config(), &schema()), Ok(vec![]));
    assert_eq!(made.default_partition_spec().fields()[0].name, "at_day");
    assert_eq!(made.properties()["write.parquet.compression-codec"], "zstd");
    let follows = IcebergConfig { partition: vec![], sort: vec![], ..config() };
    assert_eq!(check(&made, &follows, &schema()), Ok(vec![]), "what the pipeline file doesn't say is the table's");
}

#[test]
fn every_type_has_its_place_in_a_table() {
    let types = [
        FieldType::Bool,
        FieldType::Int32,
        FieldType::Int64,
        FieldType::Float64,
        FieldType::Decimal { precision: 38, scale: 6 },
        FieldType::String,
        FieldType::Binary,
        FieldType::Date,
        FieldType::TIMESTAMP_MS,
        FieldType::Timestamp { unit: floodmark_pipeline::schema::TimestampUnit::Us, utc: false },
    ];
    let schema = Schema::new(
        types.iter().map(|ty| Field::nullable(ty.to_string().replace(['(', ')', ','], "_"), *ty)).collect(),
    );
    let config = IcebergConfig { partition: vec![], sort: vec![], ..config() };
    assert_eq!(check(&table(&config, &schema), &config, &schema), Ok(vec![]));
}

#[test]
fn added_nullable_columns_are_fine_on_either_side() {
    let mut wider = schema();
    wider.fields.push(Field::nullable("note", FieldType::String));
    assert_eq!(check(&table(&config(), &wider), &config(), &schema()), Ok(vec![]));
    assert_eq!(check(&table(&config(), &schema()), &config(), &wider), Ok(vec![wider.fields[3].clone()]));
}

#[test]
fn any_other_difference_is_refused_and_named() {
    let made = table(&config(), &schema());
    let mut other = schema();
    other.fields[0].nullable = true;
    other.fields[2].ty = FieldType::Int64;
    other.fields.push(Field::required("user", FieldType::String));
    assert_eq!(
        difference(&made, &config(), &other),
        "column `id` is string? in the pipeline file and string in the table; \
         column `price` is long? in the pipeline file and decimal(10, 2)? in the table; \
         column `user` is not in the table and can't be added, since it may not be null"
    );
    let narrow = Schema::new(schema().fields[..2].iter().skip(1).cloned().collect());
    let follows = IcebergConfig { partition: vec![], sort: vec![], ..config() };
    assert_eq!(
        difference(&made, &follows, &narrow),
        "column `id` is required in the table and not in the pipeline file"
    );
}

#[test]
fn another_partitioning_or_order_is_refused_and_named() {
    let made = table(&config(), &schema());
    let partition = vec![PartitionField { column: "id".into(), transform: Transform::Bucket(16) }];
    let sort = vec![SortField { column: "id".into(), descending: true, nulls_last: false }];
    assert_eq!(
        difference(&made, &IcebergConfig { partition, sort, ..config() }, &schema()),
        "it is partitioned by [bucket[16](id)] in the pipeline file and by [day(at)] in the table; \
         it is sorted by [id descending nulls first] in the pipeline file and by [id ascending nulls last] in the table"
    );
}

#[test]
fn what_no_table_can_be_is_refused() {
    let partition = vec![PartitionField { column: "id".into(), transform: Transform::Day }];
    let refused = creation(&IcebergConfig { partition, ..config() }, &schema()).unwrap_err();
    assert!(refused.starts_with("it can't be partitioned so: "), "{refused}");
}
