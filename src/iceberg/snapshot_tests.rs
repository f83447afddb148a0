//! Snapshots and the requests that put them on `main`.
use std::sync::Arc;

use iceberg::TableCreation;
use iceberg::spec::{Schema, TableMetadataBuilder};

use super::*;
use crate::sink::mark_json::unmarked;

fn table() -> TableMetadata {
    let creation = TableCreation::builder().name("t".into()).location("file:///t".into());
    let creation = creation.schema(Schema::builder().build().unwrap()).build();
    TableMetadataBuilder::from_table_creation(creation).unwrap().build().unwrap().metadata
}

fn change(snapshot_id: i64) -> Change {
    let mark = unmarked("uuid", "p", "s");
    Change { snapshot_id, added: vec![], mark, previous: None, delta: RunningDigest::default() }
}

fn snapshot(updates: &[TableUpdate]) -> Snapshot {
    updates
        .iter()
        .find_map(|u| if let TableUpdate::AddSnapshot { snapshot } = u { Some(snapshot.clone()) } else { None })
        .unwrap()
}

fn put(base: &TableMetadata, change: &Change, now_ms: i64) -> TableMetadata {
    let (_, updates) = change.requests(base, "list", now_ms).unwrap();
    updates.into_iter().fold(base.clone().into_builder(None), |b, u| u.apply(b).unwrap()).build().unwrap().metadata
}

#[test]
fn a_clock_that_went_back_does_not_make_a_snapshot_older_than_its_base() {
    let base = put(&table(), &change(1), 4_000_000_000_000);
    let (_, updates) = change(2).requests(&base, "list", 1_000).unwrap();
    assert_eq!(snapshot(&updates).timestamp_ms(), 4_000_000_000_000);
}

#[test]
fn a_request_asserts_table_and_head() {
    let base = put(&table(), &change(1), 4_000_000_000_000);
    let (requirements, updates) = change(2).requests(&base, "list", 0).unwrap();
    let head = TableRequirement::RefSnapshotIdMatch { r#ref: "main".into(), snapshot_id: Some(1) };
    assert_eq!(requirements, [TableRequirement::UuidMatch { uuid: base.uuid() }, head]);
    assert_eq!(snapshot(&updates).parent_snapshot_id(), Some(1));
    assert!(
        updates
            .iter()
            .any(|u| matches!(u, TableUpdate::SetProperties { updates } if updates.contains_key("floodmark.p.s")))
    );
}

#[test]
fn offsets_stay_out_of_a_summary_when_they_are_long() {
    let mut long = change(1);
    let name = |partition| floodmark_pipeline::ids::PartitionName { source: "s".into(), topic: "t".into(), partition };
    long.mark.offsets = Arc::new((0..200).map(|partition| (name(partition), 1_000_000)).collect());
    let (_, updates) = long.requests(&table(), "list", 0).unwrap();
    assert!(!snapshot(&updates).summary().additional_properties.contains_key("floodmark.offsets"));
}
