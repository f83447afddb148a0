//! Test vectors of docs/DIGEST.md: each row here must stand there with its bytes and its hash, as it comes out now.
use std::sync::Arc;

use arrow_array::*;
use xxhash_rust::xxh3::xxh3_128;

use super::{Options, RowHasher};

/// A row as the document writes it (`name type = JSON value`; a test of the Python twin reads this form) and as Arrow columns.
fn vectors() -> Vec<(&'static str, Vec<(&'static str, ArrayRef)>)> {
    fn cell(name: &'static str, array: impl Array + 'static) -> (&'static str, ArrayRef) {
        (name, Arc::new(array))
    }
    vec![
        ("a int64 = null", vec![cell("a", Int64Array::new_null(1))]),
        ("a int64 = -1", vec![cell("a", Int64Array::from(vec![-1]))]),
        ("a int32 = -1", vec![cell("a", Int32Array::from(vec![-1]))]),
        ("ok bool = true", vec![cell("ok", BooleanArray::from(vec![true]))]),
        ("x float64 = 1.5", vec![cell("x", Float64Array::from(vec![1.5]))]),
        ("x float64 = -0.0", vec![cell("x", Float64Array::from(vec![-0.0]))]),
        ("x float64 = NaN", vec![cell("x", Float64Array::from(vec![f64::NAN]))]),
        (
            "price decimal(12,2) = \"-123.45\"",
            vec![cell("price", Decimal128Array::from(vec![-12345]).with_precision_and_scale(12, 2).unwrap())],
        ),
        ("day date = 20454", vec![cell("day", Date32Array::from(vec![20454]))]),
        ("at time_us = 3600000001", vec![cell("at", Time64MicrosecondArray::from(vec![3_600_000_001]))]),
        (
            "t timestamp_ms = 1767225600001",
            vec![cell("t", TimestampMillisecondArray::from(vec![1_767_225_600_001]).with_timezone("UTC"))],
        ),
        ("t timestamp_us_ntz = -1", vec![cell("t", TimestampMicrosecondArray::from(vec![-1]))]),
        ("s string = \"\"", vec![cell("s", StringArray::from(vec![""]))]),
        ("s string = \"Überlauf\"", vec![cell("s", StringArray::from(vec!["Überlauf"]))]),
        ("k binary = \"00ff\"", vec![cell("k", BinaryArray::from(vec![&[0u8, 255][..]]))]),
        (
            "b string = \"c\"; a string = \"ab\"",
            vec![cell("b", StringArray::from(vec!["c"])), cell("a", StringArray::from(vec!["ab"]))],
        ),
        (
            "event_id string = \"e-000017\"; price_cents int64 = 1299; coupon string = null; _offset int64 = 42",
            vec![
                cell("event_id", StringArray::from(vec!["e-000017"])),
                cell("price_cents", Int64Array::from(vec![1299])),
                cell("coupon", StringArray::new_null(1)),
                cell("_offset", Int64Array::from(vec![42])),
            ],
        ),
    ]
}

fn table() -> String {
    let mut lines = String::from("| row | bytes | xxh3-128 |\n|---|---|---|\n");
    for (row, columns) in vectors() {
        let batch =
            RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
                .unwrap();
        let mut hasher = RowHasher::new(&batch.schema(), Options::default()).unwrap();
        let mut bytes = Vec::new();
        hasher.for_each_row(&batch, |row| bytes = row.to_vec()).unwrap();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        lines.push_str(&format!("| `{row}` | `{hex}` | `{:032x}` |\n", xxh3_128(&bytes)));
    }
    lines
}

#[test]
fn the_document_holds_these_vectors() {
    let document = include_str!("../../../docs/DIGEST.md");
    let table = table();
    assert!(document.contains(&table), "docs/DIGEST.md should hold:\n{table}");
}
