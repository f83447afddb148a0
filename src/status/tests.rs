//! One status, and everything that is made of it, word for word.
use std::collections::BTreeMap;

use super::*;

fn partition(number: u32, offset: i64, watermark_ms: Option<i64>) -> PartitionStatus {
    PartitionStatus {
        source: "events".into(),
        name: format!("events:clicks-{number}"),
        state: PartitionState::Live,
        offset,
        position: offset,
        end: Some(500),
        unit: Unit::Records,
        lag: Some(500 - offset),
        watermark_ms,
        quiet_ms: None,
    }
}

fn node(name: &str, kind: &'static str, counters: &[(&'static str, u64)]) -> NodeStatus {
    NodeStatus {
        name: name.into(),
        kind,
        watermark_ms: (kind != "sink").then_some(1_767_225_600_000),
        has_event_time: kind != "sink",
        held_by: (kind != "sink").then(|| "events:clicks-1".into()),
        trouble: None,
        state_entries: if kind == "dedup" { 470 } else { 0 },
        counters: counters.iter().copied().collect(),
    }
}

/// A job in the middle of its work, with nothing to complain of.
fn running() -> Status {
    Status {
        pipeline: "shop".into(),
        phase: Phase::Running,
        now_ms: 1_767_225_604_200,
        uptime_ms: 61_000,
        incarnation: 3,
        restored_from: Some("manifests/a".into()),
        settings: BTreeMap::from([("workers".into(), "2".into())]),
        records_read: 560,
        invariant_violations: 0,
        records_per_second: Some(12_000),
        progress: None,
        checkpoint: CheckpointStatus {
            id: Some(42),
            age_ms: Some(800),
            duration_ms: Some(35),
            under_way_ms: None,
            completed: 60,
            interval_ms: 1_000,
        },
        state: StateStatus { memory_bytes: 1 << 20, limit_bytes: 2 << 30 },
        outbox: OutboxStatus { bytes: 4_096, limit_bytes: 4 << 30, sources_paused: false },
        partitions: vec![partition(0, 400, Some(1_767_225_610_000)), partition(1, 160, Some(1_767_225_600_000))],
        nodes: vec![
            node("events", "source", &[("read", 560), ("decoded", 553), ("errors", 7), ("unknown_fields", 0)]),
            node(
                "clean",
                "dedup",
                &[("in", 553), ("unique", 500), ("duplicates", 50), ("cross_partition_duplicates", 0), ("late", 3)],
            ),
            node("per_type", "window", &[("in", 500), ("counted", 491), ("late", 9), ("fired", 20), ("errors", 0)]),
            node("lake", "sink", &[("in", 500), ("rows", 500)]),
        ],
        sinks: vec![SinkStatus {
            name: "lake".into(),
            committed: Some(40),
            committed_age_ms: Some(2_300),
            rows: Some(480),
            commit_interval_ms: 5_000,
            waiting_epochs: 2,
            waiting_rows: 20,
            waiting_bytes: 4_096,
            waiting_ms: Some(2_000),
            away: None,
        }],
        notices: vec![],
    }
}

#[test]
fn the_live_line_says_how_it_goes() {
    assert_eq!(
        line::live(&running()),
        "12,000/s · lag 440 · watermark 4.2s behind (events:clicks-1) · checkpoint 42, 0.8s ago · commit 2.3s ago · late 12 · \
         duplicates 50 · errors 7"
    );
    assert_eq!(line::live(&Status::starting("shop")), "starting");
}

#[test]
fn what_is_not_known_is_not_shown() {
    let mut status = running();
    status.partitions.iter_mut().for_each(|p| p.lag = None);
    status.nodes.retain(|n| n.kind == "sink");
    status.sinks[0].committed_age_ms = None;
    status.checkpoint.id = None;
    assert_eq!(
        line::live(&status),
        "12,000/s · lake waits for its first commit, 2.0s · late 0 · duplicates 0 · errors 0"
    );
}

#[test]
fn the_summary_counts_what_every_node_did() {
    let expected = "\
shop: ran for 61s, 560 records read, 60 checkpoints, the last is 42; went on from manifests/a
  counted since the first start, or since a node was added or taken out:
  source events: 560 read, 553 decoded, 7 errors
  dedup  clean: 553 in, 50 duplicates, 3 late, 500 unique
  window per_type: 500 in, 491 counted, 20 fired, 9 late
  sink   lake: 500 in, 500 rows
  20 rows wait in the outbox for lake";
    assert_eq!(summary::text(&running()).as_deref(), Some(expected));
    assert_eq!(summary::text(&Status::starting("shop")), None);
}

#[test]
fn a_quiet_partition_that_holds_the_watermark_is_named_with_what_to_do() {
    let mut status = running();
    status.partitions[1].quiet_ms = Some(10_000);
    let notices = notices::of(&status, |_| false);
    assert_eq!(
        notices[0].text,
        "events:clicks-1 is quiet and holds the watermark at 2026-01-01T00:00:00.000Z: windows behind events wait for it. If it may stay so, \
         let it step aside: `watermark = { …, idle = \"30s\" }` in [source.events]"
    );
    assert_eq!(notices::of(&status, |source| source == "events"), [], "it will step aside by itself");
    status.partitions[1].watermark_ms = None;
    assert!(
        notices::of(&status, |_| false)[0].text.starts_with("events:clicks-1 is empty and holds back the watermark")
    );
    status.partitions[0].watermark_ms = None;
    assert_eq!(notices::of(&status, |_| false), [], "all are as quiet: none holds another back");
}

#[test]
fn a_sink_that_is_away_or_behind_is_named() {
    let mut status = running();
    assert_eq!(notices::of(&status, |_| false), []);
    status.sinks[0].waiting_ms = Some(45_000);
    assert_eq!(notices::of(&status, |_| false)[0].text, "lake is behind: 20 rows (4.0KiB) wait for it, for 45s");
    status.sinks[0].away = Some("catalog: refused".into());
    assert_eq!(
        notices::of(&status, |_| false)[0].text,
        "lake is away (catalog: refused): 20 rows (4.0KiB) wait for it, and it is tried again"
    );
}

#[test]
fn a_full_outbox_says_why_nothing_is_read() {
    let mut status = running();
    status.outbox = OutboxStatus { bytes: 3 << 20, limit_bytes: 2 << 20, sources_paused: true };
    assert_eq!(
        notices::of(&status, |_| false)[0].text,
        "sources are paused: 3.0MiB of rows wait for sinks, most of it for lake, and `outbox` allows 2.0MiB. Reading goes on by itself once they \
         are committed."
    );
    assert!(line::live(&status).ends_with("errors 7 · PAUSED, outbox 3.0MiB"));
}

#[test]
fn a_checkpoint_that_does_not_complete_is_named() {
    let mut status = running();
    status.checkpoint.under_way_ms = Some(61_000);
    assert!(notices::of(&status, |_| false)[0].text.starts_with("a checkpoint has been under way for 61s"));
}

#[test]
fn health_is_reading_checkpointing_and_reaching_every_sink() {
    let mut status = running();
    assert_eq!(health::check(&status), Ok(()));
    status.sinks[0].away = Some("catalog: refused".into());
    assert_eq!(health::check(&status), Err("sink lake is away: catalog: refused".into()));
    status.checkpoint.age_ms = Some(61_000);
    assert_eq!(health::check(&status), Err("no checkpoint has completed for 61s".into()));
    assert_eq!(health::check(&Status::starting("shop")), Err("starting".into()));
}

#[test]
fn the_metrics_page_is_what_dashboards_were_built_on() {
    let page = metrics::page(&running());
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/src/status/metrics.txt");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(kept, &page).unwrap();
    }
    assert!(page == std::fs::read_to_string(kept).unwrap(), "{page}");
}

#[test]
fn a_label_may_hold_any_name() {
    let mut status = running();
    status.partitions[0].name = "events:a\"b\\c-0".into();
    assert!(metrics::page(&status).contains("floodmark_partition_offset{partition=\"events:a\\\"b\\\\c-0\"} 400\n"));
}

#[test]
fn the_json_has_everything_under_names_that_stay() {
    let json = serde_json::to_value(running()).unwrap();
    assert_eq!(json["phase"], "running");
    assert_eq!(json["nodes"][1]["counters"]["duplicates"], 50);
    assert_eq!(json["nodes"][2]["held_by"], "events:clicks-1");
    assert_eq!(json["sinks"][0]["committed"], 40);
    assert_eq!(json["partitions"][0]["lag"], 100);
    assert_eq!(json["settings"]["workers"], "2");
}
