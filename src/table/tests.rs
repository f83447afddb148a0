//! Tables with every kind of delete, read back; they are made by `writer`.
mod writer;

use std::sync::Arc;

use arrow_array::{Decimal128Array, Float32Array, Int32Array};
use iceberg::spec::*;

use super::*;
use writer::*;

fn none() -> Struct {
    Struct::empty()
}

fn partition(name: &str) -> Struct {
    Struct::from_iter([Some(Literal::string(name))])
}

fn some(values: &[i64]) -> Vec<Option<i64>> {
    values.iter().copied().map(Some).collect()
}

fn rows(ids: &[i64], names: &[&str]) -> Vec<FileColumn> {
    vec![longs(1, "id", &some(ids)), texts(2, "name", names)]
}

#[tokio::test]
async fn rows_of_all_files_are_read() {
    let mut table = TableWriter::new();
    let one = table.data(none(), rows(&[1, 2], &["a", "b"])).await;
    table.commit(&[&one]).await;
    let two = table.data(none(), rows(&[3], &["c"])).await;
    table.commit(&[&two]).await;
    assert_eq!(table.rows().await, ["1|a", "2|b", "3|c"]);
}

#[tokio::test]
async fn a_table_without_snapshots_is_empty() {
    assert!(TableWriter::new().rows().await.is_empty());
}

#[tokio::test]
async fn position_deletes_count_through_all_batches_of_a_file() {
    let mut table = TableWriter::new();
    let ids: Vec<i64> = (0..20_000).collect();
    let names: Vec<&str> = ids.iter().map(|_| "x").collect();
    let file = table.data(none(), rows(&ids, &names)).await;
    let other = table.data(none(), rows(&[-1], &["y"])).await;
    let deletes = table.position_deletes(none(), &file, &[19_999, 0, 8_191, 8_192]).await;
    table.commit(&[&file, &other]).await;
    table.commit(&[&deletes]).await;
    let left = table.rows().await;
    assert_eq!(left.len(), 20_000 - 4 + 1);
    for gone in ["0|x", "8191|x", "8192|x", "19999|x"] {
        assert!(!left.contains(&gone.to_owned()), "{gone}");
    }
}

#[tokio::test]
async fn a_position_delete_concerns_files_of_its_own_commit() {
    let mut table = TableWriter::new();
    let file = table.data(none(), rows(&[1, 2], &["a", "b"])).await;
    let deletes = table.position_deletes(none(), &file, &[0]).await;
    table.commit(&[&file, &deletes]).await;
    assert_eq!(table.rows().await, ["2|b"]);
}

#[tokio::test]
async fn an_upsert_keeps_the_rows_that_came_with_its_deletes() {
    let mut table = TableWriter::new();
    let old = table.data(none(), rows(&[1, 2], &["a", "b"])).await;
    table.commit(&[&old]).await;
    let new = table.data(none(), rows(&[2], &["B"])).await;
    let deletes = table.key_deletes(none(), vec![longs(1, "id", &some(&[2]))]).await;
    table.commit(&[&new, &deletes]).await;
    assert_eq!(table.rows().await, ["1|a", "2|B"]);
}

#[tokio::test]
async fn a_key_deleted_and_written_again_is_there() {
    let mut table = TableWriter::new();
    let old = table.data(none(), rows(&[1], &["a"])).await;
    table.commit(&[&old]).await;
    let deletes = table.key_deletes(none(), vec![longs(1, "id", &some(&[1]))]).await;
    table.commit(&[&deletes]).await;
    assert!(table.rows().await.is_empty());
    let again = table.data(none(), rows(&[1], &["a"])).await;
    table.commit(&[&again]).await;
    assert_eq!(table.rows().await, ["1|a"]);
}

#[tokio::test]
async fn in_a_delete_key_null_equals_null() {
    let mut table = TableWriter::new();
    let file = table.data(none(), vec![longs(1, "id", &[None, Some(1)]), texts(2, "name", &["a", "b"])]).await;
    table.commit(&[&file]).await;
    let deletes = table.key_deletes(none(), vec![longs(1, "id", &[None])]).await;
    table.commit(&[&deletes]).await;
    assert_eq!(table.rows().await, ["1|b"]);
}

#[tokio::test]
async fn deletes_by_other_keys_stand_beside_each_other() {
    let mut table = TableWriter::new();
    let file = table.data(none(), rows(&[1, 2, 3, 3], &["a", "b", "c", "d"])).await;
    table.commit(&[&file]).await;
    let by_id = table.key_deletes(none(), vec![longs(1, "id", &some(&[1]))]).await;
    let by_name = table.key_deletes(none(), vec![texts(2, "name", &["b"])]).await;
    let by_both = table.key_deletes(none(), rows(&[3], &["c"])).await;
    table.commit(&[&by_id, &by_name, &by_both]).await;
    assert_eq!(table.rows().await, ["3|d"]);
}

#[tokio::test]
async fn deletes_stay_within_their_partition() {
    let mut table = TableWriter::by_name();
    let a = table.data(partition("a"), rows(&[1, 2], &["a", "a"])).await;
    let b = table.data(partition("b"), rows(&[1, 2], &["b", "b"])).await;
    table.commit(&[&a, &b]).await;
    let keys = table.key_deletes(partition("a"), vec![longs(1, "id", &some(&[1]))]).await;
    let positions = table.position_deletes(partition("b"), &b, &[1]).await;
    table.commit(&[&keys, &positions]).await;
    assert_eq!(table.rows().await, ["1|b", "2|a"]);
}

#[tokio::test]
async fn deletes_of_an_unpartitioned_spec_concern_every_partition() {
    let mut table = TableWriter::by_name();
    let a = table.data(partition("a"), rows(&[1, 2], &["a", "a"])).await;
    let b = table.data(partition("b"), rows(&[1, 2], &["b", "b"])).await;
    table.commit(&[&a, &b]).await;
    table.evolve(|builder| builder.add_default_partition_spec(UnboundPartitionSpec::builder().build()).unwrap());
    let keys = table.key_deletes(none(), vec![longs(1, "id", &some(&[1]))]).await;
    table.commit(&[&keys]).await;
    assert_eq!(table.rows().await, ["2|a", "2|b"]);
}

#[tokio::test]
async fn many_delete_keys_are_applied_by_hash() {
    let mut table = TableWriter::new();
    let ids: Vec<i64> = (0..100_000).collect();
    let names: Vec<&str> = ids.iter().map(|_| "x").collect();
    let file = table.data(none(), rows(&ids, &names)).await;
    table.commit(&[&file]).await;
    let deletes = table.key_deletes(none(), vec![longs(1, "id", &some(&ids[1..]))]).await;
    table.commit(&[&deletes]).await;
    assert_eq!(table.rows().await, ["0|x"]);
}

#[tokio::test]
async fn older_files_are_seen_with_the_wider_schema() {
    let mut table = TableWriter::new();
    let narrow = schema(vec![
        optional(1, "id", PrimitiveType::Int),
        optional(3, "ratio", PrimitiveType::Float),
        optional(4, "price", PrimitiveType::Decimal { precision: 5, scale: 2 }),
    ]);
    table.evolve(|builder| builder.add_current_schema(narrow).unwrap());
    let price = Decimal128Array::from(vec![12345]).with_precision_and_scale(5, 2).unwrap();
    let columns: Vec<FileColumn> = vec![
        (Some(1), "id", Arc::new(Int32Array::from(vec![7]))),
        (Some(3), "ratio", Arc::new(Float32Array::from(vec![0.5]))),
        (Some(4), "price", Arc::new(price)),
    ];
    let file = table.data(none(), columns).await;
    table.commit(&[&file]).await;
    let wide = schema(vec![
        optional(5, "added", PrimitiveType::String),
        optional(1, "renamed", PrimitiveType::Long),
        optional(3, "ratio", PrimitiveType::Double),
        optional(4, "price", PrimitiveType::Decimal { precision: 20, scale: 2 }),
    ]);
    table.evolve(|builder| builder.add_current_schema(wide).unwrap());
    assert_eq!(table.rows().await, ["null|7|0.5|123.45"]);
}

#[tokio::test]
async fn deletes_by_a_column_that_was_dropped_still_hold() {
    let mut table = TableWriter::new();
    let file = table.data(none(), rows(&[1, 2], &["a", "b"])).await;
    table.commit(&[&file]).await;
    let deletes = table.key_deletes(none(), vec![longs(1, "id", &some(&[1]))]).await;
    table.commit(&[&deletes]).await;
    let without_id = schema(vec![optional(2, "name", PrimitiveType::String)]);
    table.evolve(|builder| builder.add_current_schema(without_id).unwrap());
    assert_eq!(table.rows().await, ["b"]);
}

#[tokio::test]
async fn a_file_without_ids_is_read_by_the_name_mapping() {
    let mut table = TableWriter::new();
    let mut columns = rows(&[1], &["a"]);
    columns.iter_mut().for_each(|column| column.0 = None);
    let file = table.data(none(), columns).await;
    table.commit(&[&file]).await;
    assert!(matches!(table.rows_at(At::Current).await, Err(TableError::NoFieldIds { .. })));
    let mapping = r#"[{"field-id": 1, "names": ["key", "id"]}, {"field-id": 2, "names": ["name"]}]"#;
    let property = [("schema.name-mapping.default".to_owned(), mapping.to_owned())].into();
    table.evolve(|builder| builder.set_properties(property).unwrap());
    assert_eq!(table.rows().await, ["1|a"]);
}

#[tokio::test]
async fn a_snapshot_is_read_as_it_was() {
    let mut table = TableWriter::new();
    let one = table.data(none(), rows(&[1], &["a"])).await;
    let first = table.commit(&[&one]).await;
    let two = table.data(none(), rows(&[2], &["b"])).await;
    let second = table.commit(&[&two]).await;
    let without_name = schema(vec![optional(1, "id", PrimitiveType::Long)]);
    table.evolve(|builder| builder.add_current_schema(without_name).unwrap());
    assert_eq!(table.rows_at(At::Snapshot(first)).await.unwrap(), ["1|a"]);
    assert_eq!(table.rows_at(At::Ref("main".to_owned())).await.unwrap(), ["1|a", "2|b"]);
    assert_eq!(table.rows().await, ["1", "2"]);
    let error = table.rows_at(At::Snapshot(7)).await.unwrap_err().to_string();
    assert_eq!(error, format!("no snapshot or ref `7` in this table; it has {first}, {second}"));
}

#[tokio::test]
async fn a_deletion_vector_hides_its_positions() {
    let mut table = TableWriter::new();
    let file = table.data(none(), rows(&[1, 2, 3], &["a", "b", "c"])).await;
    let other = table.data(none(), rows(&[4], &["d"])).await;
    let vector = table.deletion_vector(&file, &[0, 2]).await;
    table.commit(&[&file, &other]).await;
    table.commit(&[&vector]).await;
    assert_eq!(table.rows().await, ["2|b", "4|d"]);
}

#[tokio::test]
async fn a_column_that_older_files_lack_has_its_default_there() {
    let mut table = TableWriter::new();
    let file = table.data(none(), rows(&[1], &["a"])).await;
    table.commit(&[&file]).await;
    let default = |id, name: &str, kind, value| {
        NestedField::optional(id, name, Type::Primitive(kind)).with_initial_default(value).into()
    };
    let price = PrimitiveType::Decimal { precision: 9, scale: 2 };
    let with_defaults = schema(vec![
        optional(1, "id", PrimitiveType::Long),
        default(3, "kind", PrimitiveType::String, Literal::string("new")),
        default(4, "price", price, Literal::decimal(125)),
        default(5, "since", PrimitiveType::Date, Literal::date(20_454)),
    ]);
    table.evolve(|builder| builder.upgrade_format_version(FormatVersion::V3).unwrap());
    table.evolve(|builder| builder.add_current_schema(with_defaults).unwrap());
    assert_eq!(table.rows().await, ["1|new|1.25|2026-01-01"]);
}

#[tokio::test]
async fn a_file_that_leaves_its_partition_column_out_has_it_from_the_partition() {
    let mut table = TableWriter::by_name();
    let file = table.data(partition("a"), vec![longs(1, "id", &some(&[1, 2]))]).await;
    table.commit(&[&file]).await;
    assert_eq!(table.rows().await, ["1|a", "2|a"]);
}
