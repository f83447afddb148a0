//! Digests and differences of whole sources, from Arrow files.
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::ipc::writer::{FileWriter, StreamWriter};
use arrow_array::{Int64Array, RecordBatch, StringArray};

use super::compare::{Difference, Limits, compare};
use super::*;

fn batch(ids: &[i64], names: &[&str]) -> RecordBatch {
    RecordBatch::try_from_iter([
        ("id", Arc::new(Int64Array::from(ids.to_vec())) as arrow_array::ArrayRef),
        ("name", Arc::new(StringArray::from(names.to_vec()))),
    ])
    .unwrap()
}

fn numbers(range: std::ops::Range<i64>) -> RecordBatch {
    let names: Vec<String> = range.clone().map(|id| format!("n{}", id % 7)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    batch(&range.collect::<Vec<_>>(), &names)
}

fn file(dir: &Path, name: &str, batches: &[RecordBatch]) -> RowSource {
    let path = dir.join(name);
    let mut writer = FileWriter::try_new(File::create(&path).unwrap(), &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
    RowSource::ArrowFile(path)
}

async fn difference(a: &[RecordBatch], b: &[RecordBatch], hashes: u64) -> Difference {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (file(dir.path(), "a", a), file(dir.path(), "b", b));
    compare([&a, &b], Options::default(), Limits { shown: 3, hashes }).await.unwrap()
}

fn row(id: &str, name: &str) -> compare::ShownRow {
    vec![("id".to_owned(), Some(id.to_owned())), ("name".to_owned(), Some(name.to_owned()))]
}

#[tokio::test]
async fn a_file_and_a_stream_of_the_same_rows_have_one_digest() {
    let dir = tempfile::tempdir().unwrap();
    let rows = numbers(0..100);
    let path = dir.path().join("stream");
    let mut writer = StreamWriter::try_new(File::create(&path).unwrap(), &rows.schema()).unwrap();
    writer.write(&rows.slice(40, 60)).unwrap();
    writer.write(&rows.slice(0, 40)).unwrap();
    writer.finish().unwrap();
    let as_file = digest(&file(dir.path(), "file", &[rows]), Options::default()).await.unwrap();
    assert_eq!(digest(&RowSource::ArrowFile(path), Options::default()).await.unwrap(), as_file);
    assert_eq!(as_file.rows, 100);
}

#[tokio::test]
async fn equal_rows_in_another_order_do_not_differ() {
    let found = difference(&[numbers(0..10), numbers(10..1000)], &[numbers(500..1000), numbers(0..500)], 1000).await;
    assert!(found.is_empty());
    assert_eq!(found.digests[0], found.digests[1]);
}

#[tokio::test]
async fn a_changed_row_is_shown_on_both_sides() {
    let found = difference(&[batch(&[1, 2], &["a", "b"])], &[batch(&[2, 1], &["B", "a"])], 1000).await;
    assert_eq!(found.only_in[0].shown, [(row("2", "b"), 1)]);
    assert_eq!(found.only_in[1].shown, [(row("2", "B"), 1)]);
}

#[tokio::test]
async fn copies_are_counted() {
    let found = difference(&[batch(&[1, 1, 1, 2], &["a", "a", "a", "b"])], &[batch(&[1, 2], &["a", "b"])], 1000).await;
    assert_eq!(found.only_in[0].rows, 2);
    assert_eq!(found.only_in[0].shown, [(row("1", "a"), 2)]);
    assert_eq!(found.only_in[1].rows, 0);
}

#[tokio::test]
async fn a_small_budget_finds_the_same_differences_in_more_passes() {
    let (a, b) = ([numbers(0..3_000)], [numbers(1_000..3_500)]);
    let found = difference(&a, &b, 50).await;
    assert_eq!(found, difference(&a, &b, 1_000_000).await);
    assert_eq!([found.only_in[0].rows, found.only_in[1].rows], [1_000, 500]);
    assert_eq!([found.only_in[0].shown.len(), found.only_in[1].shown.len()], [3, 3]);
}

#[tokio::test]
async fn only_the_asked_columns_are_compared() {
    let dir = tempfile::tempdir().unwrap();
    let only_ids = |name, rows| RowSource::Columns(Box::new(file(dir.path(), name, &[rows])), &["id"]);
    let (a, b) = (only_ids("a", batch(&[1], &["a"])), only_ids("b", batch(&[1], &["b"])));
    let found = compare([&a, &b], Options::default(), Limits { shown: 3, hashes: 100 }).await.unwrap();
    assert!(found.is_empty());
}

#[tokio::test]
async fn a_file_that_is_no_arrow_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.csv");
    std::fs::write(&path, "id,name\n1,a\n").unwrap();
    let error = digest(&RowSource::ArrowFile(path), Options::default()).await.unwrap_err().to_string();
    assert!(error.contains("x.csv: not readable as an Arrow IPC file or stream"), "{error}");
}
