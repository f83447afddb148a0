//! The Iceberg sink against a SQLite catalog and a local warehouse: what it does when the catalog, another engine or its own twin interferes.
mod guards;
pub mod world;

use floodmark_pipeline::ids::Incarnation;
use floodmark_pipeline::mark::Mark;
use floodmark_pipeline::schema::{Field, FieldType};
use iceberg::TableUpdate;
use iceberg::spec::{MAIN_BRANCH, SnapshotReference, SnapshotRetention, TableMetadata};

use super::catalog::Answer;
use super::mark::Identity;
use crate::sink::conformance::{World, applied, epoch, opened, sink_conformance, start};
use crate::sink::{Found, Outcome, PendingEpoch, Sink, SinkError};
use world::{Fault, Lake, lake, lake_with};

sink_conformance!(lake());

fn first(lake: &Lake, names: &[&str]) -> [PendingEpoch; 1] {
    [lake.rows.epoch(epoch(start(1), 1), names)]
}

fn second(lake: &Lake, names: &[&str]) -> [PendingEpoch; 1] {
    [lake.rows.epoch(epoch(start(1), 2), names)]
}

async fn refusal(sink: &mut dyn Sink, ours: Incarnation) -> String {
    sink.open(ours).await.unwrap_err().to_string()
}

#[tokio::test]
async fn a_conflict_does_not_write_the_rows_again() {
    let lake = lake();
    let mut sink = lake.open("out");
    opened(&mut sink, start(1)).await;
    lake.catalog.next([Fault::Overtake(lake.table.clone(), 77), Fault::Overtake(lake.table.clone(), 78)]);
    applied(&mut sink, None, &first(&lake, &["a"])).await;
    assert_eq!(lake.visible().await, ["a"]);
    assert_eq!(lake.files(".parquet").len(), 1);
    // Fence, two foreign snapshots, and ours: manifest lists of overtaken attempts are gone.
    assert_eq!(lake.metadata().await.snapshots().len(), 4);
    assert_eq!(lake.files(".avro").iter().filter(|name| name.contains("/snap-")).count(), 4);
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_found_in_the_table() {
    let lake = lake();
    let mut sink = lake.open("out");
    lake.catalog.next([Fault::LoseAnswer]);
    opened(&mut sink, start(1)).await;
    lake.catalog.next([Fault::LoseAnswer]);
    let mark = applied(&mut sink, None, &first(&lake, &["a"])).await;
    lake.catalog.next([Fault::LoseAnswer]);
    let mark = applied(&mut sink, mark.epoch, &second(&lake, &["b"])).await;
    assert_eq!((lake.visible().await, mark.digest.rows), (vec!["a".to_owned(), "b".to_owned()], 2));
    assert_eq!(lake.metadata().await.snapshots().len(), 3);
}

#[tokio::test]
async fn of_two_requests_on_one_base_only_one_lands() {
    let lake = lake();
    let mut sink = lake.open("out");
    opened(&mut sink, start(1)).await;
    lake.catalog.next([Fault::Hold, Fault::Hold]);
    applied(&mut sink, None, &first(&lake, &["a"])).await;
    assert_eq!(lake.catalog.release(&lake.table.ident).await, [Answer::Conflict, Answer::Conflict]);
    assert_eq!(lake.visible().await, ["a"]);
    assert_eq!(lake.files(".parquet").len(), 1);
}

#[tokio::test]
async fn a_held_request_that_lands_first_counts() {
    let lake = lake();
    let mut sink = lake.open("out");
    opened(&mut sink, start(1)).await;
    let rows = first(&lake, &["a"]);
    lake.catalog.next(std::iter::repeat_with(|| Fault::Hold).take(5));
    assert!(matches!(sink.commit(None, &rows, false).await, Err(SinkError::Away { .. })));
    let answers = lake.catalog.release(&lake.table.ident).await;
    assert_eq!(answers.iter().filter(|a| **a == Answer::Applied).count(), 1);
    // More epochs have come meanwhile.
    let both = [rows[0].clone(), second(&lake, &["b"])[0].clone()];
    let mark = applied(&mut sink, None, &both).await;
    assert_eq!(mark.epoch, Some(both[1].epoch));
    assert_eq!(lake.visible().await, ["a", "b"]);
}

#[tokio::test]
async fn a_request_that_lands_late_finds_the_fence() {
    let lake = lake();
    let mut zombie = lake.open("out");
    opened(&mut zombie, start(1)).await;
    let rows = first(&lake, &["a"]);
    lake.catalog.next(std::iter::repeat_with(|| Fault::Hold).take(5));
    assert!(zombie.commit(None, &rows, false).await.is_err());
    let mut owner = lake.open("out");
    opened(&mut owner, start(2)).await;
    let answers = lake.catalog.release(&lake.table.ident).await;
    assert!(answers.iter().all(|a| *a == Answer::Conflict), "{answers:?}");
    assert_eq!(zombie.commit(None, &rows, false).await.unwrap(), Outcome::Fenced { by: start(2) });
    assert_eq!(lake.files(".parquet").len(), 0, "what certainly didn't land is cleaned up");
    applied(&mut owner, None, &rows).await;
    assert_eq!(lake.visible().await, ["a"]);
}

#[tokio::test]
async fn a_catalog_that_is_away_costs_no_rows() {
    let lake = lake();
    let mut sink = lake.open("out");
    opened(&mut sink, start(1)).await;
    let rows = first(&lake, &["a"]);
    lake.catalog.next([Fault::Away, Fault::Away]);
    for _ in 0..2 {
        assert!(matches!(sink.commit(None, &rows, false).await, Err(SinkError::Away { .. })));
    }
    let both = [rows[0].clone(), second(&lake, &["b"])[0].clone()];
    applied(&mut sink, None, &both).await;
    assert_eq!(lake.visible().await, ["a", "b"]);
    assert_eq!(lake.files(".parquet").len(), 2, "the first epoch's file is used, not written again");
}

#[tokio::test]
async fn two_sinks_share_a_table() {
    let lake = lake();
    let (mut one, mut two) = (lake.open("one"), lake.open("two"));
    opened(&mut one, start(1)).await;
    opened(&mut two, start(1)).await;
    let mark = applied(&mut one, None, &first(&lake, &["a"])).await;
    let other = PendingEpoch { commit_id: 5, ..second(&lake, &["b"])[0].clone() };
    applied(&mut two, None, &[other]).await;
    applied(&mut one, mark.epoch, &second(&lake, &["c"])).await;
    assert_eq!(lake.visible().await, ["a", "b", "c"]);
}

#[tokio::test]
async fn a_table_rolled_back_is_refused() {
    let lake = lake();
    let mut sink = lake.open("out");
    opened(&mut sink, start(1)).await;
    let mark = applied(&mut sink, None, &first(&lake, &["a"])).await;
    let old = lake.metadata().await.current_snapshot_id().unwrap();
    let mark = applied(&mut sink, mark.epoch, &second(&lake, &["b"])).await;
    let lost = lake.metadata().await.current_snapshot_id().unwrap();
    lake.set_back(old).await;
    let expected = format!(
        "shop.events: rolled back under us: the mark was committed with snapshot {lost}, which `main` no longer contains"
    );
    let next = [lake.rows.epoch(epoch(start(1), 3), &["c"])];
    assert_eq!(sink.commit(mark.epoch, &next, false).await.unwrap_err().to_string(), expected);
    assert_eq!(lake.open("out").look().await.unwrap_err().to_string(), expected);
    assert_eq!(refusal(&mut lake.open("out"), start(2)).await, expected);
    // A snapshot on top of the older one changes nothing.
    lake.foreign_snapshot(99).await;
    assert_eq!(lake.open("out").look().await.unwrap_err().to_string(), expected);
    assert_eq!(lake.visible().await, ["a"]);
}

#[tokio::test]
async fn history_that_expired_is_no_rollback() {
    let lake = lake();
    let mut sink = lake.open("out");
    opened(&mut sink, start(1)).await;
    let mark = applied(&mut sink, None, &first(&lake, &["a"])).await;
    lake.foreign_snapshot(98).await;
    lake.foreign_snapshot(99).await;
    let all: Vec<_> = lake.metadata().await.snapshots().map(|s| s.snapshot_id()).filter(|id| *id != 99).collect();
    lake.foreign(vec![TableUpdate::RemoveSnapshots { snapshot_ids: all }]).await;
    applied(&mut sink, mark.epoch, &second(&lake, &["b"])).await;
    assert_eq!(lake.visible().await, ["a", "b"]);
}

#[tokio::test]
async fn a_table_made_anew_is_foreign_and_a_dropped_one_is_named() {
    let lake = lake();
    let mut sink = lake.open("out");
    let before = opened(&mut sink, start(1)).await;
    lake.sql("DELETE FROM iceberg_tables").await;
    let rows = first(&lake, &["a"]);
    let dropped = sink.commit(None, &rows, false).await.unwrap_err();
    assert_eq!(dropped.to_string(), "shop.events: dropped while running");
    opened(&mut lake.open("out"), start(1)).await;
    let outcome = sink.commit(None, &rows, false).await.unwrap();
    let Outcome::Foreign(Mark { table_uuid, .. }) = outcome else { panic!("{outcome:?}") };
    assert_ne!(table_uuid, before.table_uuid);
    assert_eq!(lake.visible().await, [""; 0]);
}

#[tokio::test]
async fn a_mark_that_came_with_a_copy_of_another_table_says_nothing() {
    let (one, other) = (lake(), lake());
    let mut sink = one.open("out");
    opened(&mut sink, start(1)).await;
    applied(&mut sink, None, &first(&one, &["a"])).await;
    let copied = one.metadata().await.properties().clone();
    opened(&mut other.open("another"), start(1)).await;
    other.foreign(vec![TableUpdate::SetProperties { updates: copied }]).await;
    let Found::Here(mark) = other.open("out").look().await.unwrap() else { panic!("it is there") };
    assert_eq!((mark.epoch, mark.fence), (None, None), "nothing of it was ever committed here");
    let mut sink = other.open("out");
    assert_eq!(opened(&mut sink, start(1)).await.epoch, None);
    applied(&mut sink, None, &first(&other, &["b"])).await;
    assert_eq!(other.visible().await, ["b"]);
}

#[tokio::test]
async fn rows_of_another_pipeline_are_seen_until_something_is_ours() {
    let lake = lake();
    let mut sink = lake.open("out");
    let mark = opened(&mut sink, start(1)).await;
    let of_another = |identity: &Identity, metadata: &TableMetadata| identity.another(metadata);
    let ours = Identity { pipeline: "another".into(), sink: "out".into() };
    assert_eq!(of_another(&ours, &lake.metadata().await), None, "a fence is no row");
    let epoch = applied(&mut sink, mark.epoch, &first(&lake, &["a"])).await.epoch.unwrap();
    assert_eq!(of_another(&ours, &lake.metadata().await), Some((mark.pipeline.clone(), epoch)));
    assert_eq!(of_another(&Identity::of(&mark), &lake.metadata().await), None, "two sinks of one pipeline share it");
}

#[tokio::test]
async fn settings_of_main_survive_and_totals_go_on() {
    let lake = lake();
    let mut sink = lake.open("out");
    opened(&mut sink, start(1)).await;
    let head = lake.metadata().await.current_snapshot_id().unwrap();
    let kept = SnapshotRetention::branch(Some(7), Some(86_400_000), None);
    let update =
        TableUpdate::SetSnapshotRef { ref_name: MAIN_BRANCH.into(), reference: SnapshotReference::new(head, kept) };
    lake.foreign(vec![update]).await;
    let mark = applied(&mut sink, None, &first(&lake, &["a", "b"])).await;
    applied(&mut sink, mark.epoch, &second(&lake, &["c"])).await;
    let metadata = lake.metadata().await;
    let main = serde_json::to_value(&metadata).unwrap()["refs"]["main"].clone();
    assert_eq!(
        (main["min-snapshots-to-keep"].as_i64(), main["max-snapshot-age-ms"].as_i64()),
        (Some(7), Some(86_400_000))
    );
    let summary = &metadata.current_snapshot().unwrap().summary().additional_properties;
    let says = |key: &str| summary.get(key).map(String::as_str);
    assert_eq!(says("total-records"), Some("3"));
    assert_eq!(says("total-data-files"), Some("2"));
    assert_eq!(says("added-records"), Some("1"));
    assert_eq!(says("floodmark.max-committed-checkpoint-id"), Some("2"));
    assert_eq!(says("floodmark.previous-checkpoint-id"), Some("1"));
    assert_eq!(says("floodmark.incarnation"), Some("1"));
    assert_eq!(says("floodmark.event-time-watermark"), Some("2000"));
    assert_eq!((says("floodmark.pipeline"), says("floodmark.sink")), (Some("p"), Some("out")));
    assert_eq!(says("floodmark.rows"), Some("1"));
    assert_eq!(says("floodmark.offsets"), Some("events:t-0=20"));
    assert_eq!(metadata.current_snapshot().unwrap().snapshot_id(), 1_002, "the id chosen at the barrier");
}

#[tokio::test]
async fn many_small_manifests_are_merged_and_no_row_is_lost() {
    let lake = lake_with(|config| {
        config.properties.insert("commit.manifest.min-count-to-merge".into(), "4".into());
    });
    let mut sink = lake.open("out");
    let mut mark = opened(&mut sink, start(1)).await;
    for k in 1..=10 {
        let rows = [lake.rows.epoch(epoch(start(1), k), &[&format!("{k:02}")])];
        mark = applied(&mut sink, mark.epoch, &rows).await;
        let head = lake.metadata().await.current_snapshot().unwrap().manifest_list().to_owned();
        let list = lake.table.io.new_input(head).unwrap().read().await.unwrap();
        let list = iceberg::spec::ManifestList::parse_with_version(&list, iceberg::spec::FormatVersion::V2).unwrap();
        assert!(list.entries().len() < 4, "{} manifests after {k} commits", list.entries().len());
        let rows: u64 =
            list.entries().iter().map(|m| m.added_rows_count.unwrap() + m.existing_rows_count.unwrap()).sum();
        assert_eq!(rows, k);
    }
    assert_eq!(lake.visible().await, (1..=10).map(|k| format!("{k:02}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_savepoint_tags_the_snapshot_of_its_checkpoint() {
    let lake = lake();
    let mut sink = lake.open("out");
    opened(&mut sink, start(1)).await;
    let mark = applied(&mut sink, None, &first(&lake, &["a"])).await;
    let together = [lake.rows.epoch(epoch(start(1), 2), &["b"]), lake.rows.epoch(epoch(start(1), 4), &["c"])];
    applied(&mut sink, mark.epoch, &together).await;
    sink.tag("before", first(&lake, &[])[0].epoch.checkpoint).await.unwrap();
    sink.tag("now", together[1].epoch.checkpoint).await.unwrap();
    sink.tag("now", together[1].epoch.checkpoint).await.unwrap();
    let metadata = lake.metadata().await;
    let tagged = |tag| metadata.snapshot_for_ref(tag).map(|s| s.snapshot_id());
    assert_eq!((tagged("floodmark-before"), tagged("floodmark-now")), (Some(1_001), Some(1_004)));
    let refused = sink.tag("between", together[0].epoch.checkpoint).await.unwrap_err().to_string();
    assert_eq!(refused, "shop.events: checkpoint 2 was committed in one snapshot with the later 4: it has no tag");
}

#[tokio::test]
async fn a_new_nullable_column_is_added_and_an_added_one_is_left_null() {
    let mut lake = lake();
    opened(&mut lake.open("out"), start(1)).await;
    lake.schema.fields.push(Field::nullable("note", FieldType::String));
    let mut sink = lake.open("out");
    opened(&mut sink, start(2)).await;
    assert!(lake.metadata().await.current_schema().field_by_name("note").is_some());
    applied(&mut sink, None, &first(&lake, &["a"])).await;
    assert_eq!(lake.visible().await, ["a"]);
}

#[tokio::test]
async fn a_column_dropped_under_us_is_refused() {
    let mut lake = lake();
    lake.schema.fields.push(Field::nullable("note", FieldType::String));
    let mut sink = lake.open("out");
    opened(&mut sink, start(1)).await;
    let current = lake.metadata().await.current_schema().clone();
    let kept: Vec<_> = current.as_struct().fields().iter().filter(|f| f.name != "note").cloned().collect();
    let narrower = iceberg::spec::Schema::builder().with_schema_id(7).with_fields(kept).build().unwrap();
    lake.foreign(vec![TableUpdate::AddSchema { schema: narrower }, TableUpdate::SetCurrentSchema { schema_id: -1 }])
        .await;
    let refused = sink.commit(None, &first(&lake, &["a"]), false).await.unwrap_err().to_string();
    assert_eq!(refused, "shop.events: column `note` is no longer in the table");
}
