//! Orders against the published digests: each row an object of strings, keys sorted, one JSON array, sha256.
use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::*;

fn orders(seed: u64, events: u64, partitions: u32) -> Orders {
    Orders::new(&Dials { events, seed, partitions, ..Dials::default() }).unwrap()
}

fn rows(orders: &Orders) -> Vec<Value> {
    let mut record = Record::default();
    (0..orders.records())
        .map(|index| {
            orders.record(index, &mut record);
            serde_json::from_slice(&record.value).unwrap()
        })
        .collect()
}

fn digest(rows: &[Value]) -> String {
    let rows: Vec<BTreeMap<&str, String>> = rows
        .iter()
        .map(|row| {
            let columns = row.as_object().unwrap().iter();
            columns
                .map(|(name, value)| {
                    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    (name.as_str(), text)
                })
                .collect()
        })
        .collect();
    format!("{:x}", Sha256::digest(serde_json::to_vec(&rows).unwrap()))
}

#[test]
fn digests_are_those_published() {
    for (seed, events, expected) in PUBLISHED {
        assert_eq!(digest(&rows(&orders(seed, events, 3))), expected, "seed {seed}");
    }
}

#[test]
fn the_update_sweep_gives_its_published_digest() {
    let mut rows = rows(&orders(305, 36, 3));
    for (i, row) in rows.iter_mut().enumerate() {
        row["event_id"] = json!(i + 1 + 1_000_000);
        row["status"] = json!("replayed");
        row["amount_cents"] = json!(row["amount_cents"].as_u64().unwrap() + 7);
        row["updated_at"] = json!(row["updated_at"].as_str().unwrap().replace("2026-01-01", "2026-01-02"));
    }
    assert_eq!(digest(&rows), "17ed71ec943ec3a57a8635ba90ab6e2bcae0a7a3db34c146adc6c8b36305487e");
}

#[test]
fn partitions_fill_as_on_the_published_topics() {
    for (events, expected) in [(36, [9, 15, 12]), (120, [35, 35, 50]), (100_000, [33_381, 33_088, 33_531])] {
        let orders = orders(305, events, 3);
        let mut counts = [0; 3];
        (0..events).for_each(|index| counts[orders.partition_of(index) as usize] += 1);
        assert_eq!(counts, expected);
    }
}

#[test]
fn the_misrouted_order_belongs_to_partition_two() {
    let mut key = Vec::new();
    for order_id in [9_100_303, 9_300_304] {
        write_key(order_id, &mut key);
        assert_eq!(partition_of(&key, 3), 2);
    }
}

#[test]
fn a_row_is_compact_json_in_table_order() {
    let mut record = Record::default();
    orders(17, 1_000, 3).record(0, &mut record);
    let text = String::from_utf8(record.value).unwrap();
    assert!(
        text.starts_with(r#"{"order_id":1,"business_key":"order-000000000001","event_id":1,"customer_id":"#),
        "{text}"
    );
    assert!(text.ends_with(r#","updated_at":"2026-01-01 00:00:01.000","seed":17}"#), "{text}");
    assert_eq!(record.key, [0, 0, 0, 0, 1, 2]);
}
