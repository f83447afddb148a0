//! What a guard of this sink is for: the table is right with it, and wrong in just its way when it is off.
use floodmark_pipeline::guard::{Guard, without};

use super::*;

/// On this thread alone, so that a guard that is off is off in here and nowhere else.
fn outcome<T>(of: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(of)
}

/// A request that is never heard of again.
async fn rows_after_a_request_that_got_lost() -> Vec<String> {
    let lake = lake();
    let mut sink = lake.open("out");
    opened(&mut sink, start(1)).await;
    lake.catalog.next([Fault::Hold]);
    applied(&mut sink, None, &first(&lake, &["a"])).await;
    lake.visible().await
}

#[test]
fn without_unknown_outcome_rows_of_a_lost_request_are_missing() {
    let rows = || outcome(rows_after_a_request_that_got_lost());
    assert_eq!(rows(), ["a"]);
    assert!(without(Guard::UnknownOutcome, rows).is_empty());
}

/// What the sink says of the next commit, and what is in the table then.
async fn commit_after_a_rollback() -> (Result<Outcome, SinkError>, Vec<String>) {
    let lake = lake();
    let mut sink = lake.open("out");
    opened(&mut sink, start(1)).await;
    let mark = applied(&mut sink, None, &first(&lake, &["a"])).await;
    let old = lake.metadata().await.current_snapshot_id().unwrap();
    let mark = applied(&mut sink, mark.epoch, &second(&lake, &["b"])).await;
    lake.set_back(old).await;
    let next = [lake.rows.epoch(epoch(start(1), 3), &["c"])];
    (sink.commit(mark.epoch, &next, false).await, lake.visible().await)
}

#[test]
fn without_rollback_a_table_set_back_is_written_on_with_a_hole() {
    let (refused, rows) = outcome(commit_after_a_rollback());
    assert!(matches!(refused, Err(SinkError::RolledBack { .. })), "{refused:?}");
    assert_eq!(rows, ["a"]);
    let (taken, rows) = without(Guard::Rollback, || outcome(commit_after_a_rollback()));
    assert!(matches!(taken, Ok(Outcome::Applied(_))), "{taken:?}");
    assert_eq!(rows, ["a", "c"], "b is gone and nobody was told");
}

/// The first rows of a table whose properties, with a mark in them, are those of another.
async fn rows_of_a_table_with_a_copied_mark() -> Vec<String> {
    let (one, other) = (lake(), lake());
    let mut sink = one.open("out");
    opened(&mut sink, start(1)).await;
    applied(&mut sink, None, &first(&one, &["a"])).await;
    let copied = one.metadata().await.properties().clone();
    opened(&mut other.open("another"), start(1)).await;
    other.foreign(vec![TableUpdate::SetProperties { updates: copied }]).await;
    let mut sink = other.open("out");
    opened(&mut sink, start(1)).await;
    applied(&mut sink, None, &first(&other, &["b"])).await;
    other.visible().await
}

/// A table that was dropped and made again while the sink ran: what it says of its next commit.
async fn commit_into_a_table_made_anew() -> Outcome {
    let lake = lake();
    let mut sink = lake.open("out");
    opened(&mut sink, start(1)).await;
    lake.sql("DELETE FROM iceberg_tables").await;
    opened(&mut lake.open("out"), start(1)).await;
    sink.commit(None, &first(&lake, &["a"]), false).await.unwrap()
}

#[test]
fn without_table_identity_another_tables_mark_is_believed() {
    let rows = || outcome(rows_of_a_table_with_a_copied_mark());
    assert_eq!(rows(), ["b"]);
    assert!(without(Guard::TableIdentity, rows).is_empty(), "the mark says that they are there");
    let anew = || outcome(commit_into_a_table_made_anew());
    assert!(matches!(anew(), Outcome::Foreign(_)));
    assert!(matches!(without(Guard::TableIdentity, anew), Outcome::Applied(_)));
}
