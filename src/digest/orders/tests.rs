//! The orders digest: published values, order of batches, escapes.
use std::sync::Arc;

use arrow_array::Int64Array;
use arrow_json::ReaderBuilder;
use arrow_schema::{Field, Schema};

use super::*;
use crate::workload::dials::Dials;
use crate::workload::orders::Orders;
use crate::workload::{Record, Workload};

/// Rows of the workload as a table holds them.
fn orders(seed: u64, events: u64) -> RecordBatch {
    let orders = Orders::new(&Dials { events, seed, ..Dials::default() }).unwrap();
    let (mut record, mut lines) = (Record::default(), Vec::new());
    for index in 0..orders.records() {
        orders.record(index, &mut record);
        lines.extend_from_slice(&record.value);
        lines.push(b'\n');
    }
    let fields = COLUMNS.map(|name| {
        let data_type = match name {
            "business_key" | "status" => DataType::Utf8,
            "updated_at" => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
            _ => DataType::Int64,
        };
        Field::new(name, data_type, false)
    });
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let rows = ReaderBuilder::new(schema).with_batch_size(events as usize).build(lines.as_slice()).unwrap();
    let rows: Vec<RecordBatch> = rows.map(Result::unwrap).collect();
    rows.into_iter().next().unwrap()
}

fn digest(batches: &[RecordBatch]) -> String {
    let mut digest = OrdersDigest::default();
    batches.iter().for_each(|batch| digest.add(batch).unwrap());
    digest.finish()
}

#[test]
fn published_digests_come_out() {
    assert_eq!(digest(&[orders(17, 1_000)]), "5780efc5f0fb50058cfb68e2501a52c2f6a01e6e1f7cc96e3cff301507629d88");
    assert_eq!(digest(&[orders(301, 120)]), "ab3a445b8ee03611bfee31fd3b1984822d9b355b6592385bf2922061206eaa22");
    assert_eq!(digest(&[orders(401, 100_000)]), "3eb5097b201c4cc0cc4ce817ff40746df5665acfeb1c30e60645bea0f757dcb9");
}

#[test]
fn the_order_of_batches_changes_nothing() {
    let whole = orders(17, 100);
    assert_eq!(digest(&[whole.slice(60, 40), whole.slice(0, 60)]), digest(&[whole]));
}

#[test]
fn strings_are_escaped_as_python_does() {
    let mut json = String::new();
    push_string(&mut json, "a\"\\\n\u{1}é😀\u{7f}");
    assert_eq!(json, "\"a\\\"\\\\\\n\\u0001\\u00e9\\ud83d\\ude00\u{7f}\"");
}

#[test]
fn a_table_without_its_columns_is_refused() {
    let batch = RecordBatch::try_from_iter([("order_id", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]).unwrap();
    let error = OrdersDigest::default().add(&batch).unwrap_err();
    assert_eq!(error.to_string(), "not a table of orders: it lacks column `amount_cents`");
}
