//! A status in Prometheus' text format (version 0.0.4).
//!
//! Names and labels are kept: they are other people's dashboards. Doesn't know: HTTP. Keeps: each name has one help and one type line.
//! Tested: tests.rs beside it, against a page kept word for word.
use std::fmt::Write;

use super::{PartitionState, Phase, Status, health};

pub fn page(status: &Status) -> String {
    let mut page = Page::default();
    page.one(
        "up",
        "gauge",
        "1 while the job runs or stops",
        Some(u64::from(matches!(status.phase, Phase::Running | Phase::Stopping))),
    );
    page.one("healthy", "gauge", "1 if /healthz says so", Some(u64::from(health::check(status).is_ok())));
    page.one("uptime_seconds", "gauge", "Time since this start", Some(seconds(status.uptime_ms)));
    page.one("incarnation", "gauge", "Number of this start", Some(status.incarnation));
    page.one("records_per_second", "gauge", "Records read, between the last cuts", status.records_per_second);
    page.one("progress_ratio", "gauge", "Share of a bounded input that has been read", status.progress);
    page.one(
        "invariant_violations_total",
        "counter",
        "Broken invariants, each a bug in floodmark",
        Some(status.invariant_violations),
    );
    checkpoints(&mut page, status);
    partitions(&mut page, status);
    nodes(&mut page, status);
    state(&mut page, status);
    sinks(&mut page, status);
    page.text
}

fn checkpoints(page: &mut Page, status: &Status) {
    let checkpoint = &status.checkpoint;
    page.one("checkpoint_id", "gauge", "The last complete checkpoint", checkpoint.id);
    page.one("checkpoint_age_seconds", "gauge", "Time since it completed", checkpoint.age_ms.map(seconds));
    page.one(
        "checkpoint_duration_seconds",
        "gauge",
        "From its barrier until it was durable",
        checkpoint.duration_ms.map(seconds),
    );
    page.one("checkpoints_total", "counter", "Complete checkpoints of this run", Some(checkpoint.completed));
    page.one(
        "state_memory_bytes",
        "gauge",
        "Memory of keyed state, as of the last cut",
        Some(status.state.memory_bytes),
    );
    page.one("state_memory_limit_bytes", "gauge", "What `memory` allows", Some(status.state.limit_bytes));
    page.one("outbox_bytes", "gauge", "Rows that wait for sinks", Some(status.outbox.bytes));
    page.one("outbox_limit_bytes", "gauge", "Where sources pause", Some(status.outbox.limit_bytes));
    page.one("sources_paused", "gauge", "1 while the outbox is full", Some(u64::from(status.outbox.sources_paused)));
}

fn partitions(page: &mut Page, status: &Status) {
    page.head("partition_offset", "gauge", "Next offset to read");
    for p in &status.partitions {
        page.value("partition_offset", &[("partition", &p.name)], p.offset);
    }
    page.head("partition_lag", "gauge", "Distance to the log's end, in records or bytes");
    for p in &status.partitions {
        if let Some(lag) = p.lag {
            page.value("partition_lag", &[("partition", &p.name), ("unit", p.unit.name())], lag);
        }
    }
    page.head("partition_live", "gauge", "0 when idle or ended: it doesn't hold the watermark");
    for p in &status.partitions {
        page.value("partition_live", &[("partition", &p.name)], u8::from(p.state == PartitionState::Live));
    }
    page.head("partition_watermark_seconds", "gauge", "Event time since 1970");
    for p in &status.partitions {
        if let Some(ms) = p.watermark_ms {
            page.value("partition_watermark_seconds", &[("partition", &p.name)], millis(ms));
        }
    }
}

fn nodes(page: &mut Page, status: &Status) {
    page.head("node_watermark_seconds", "gauge", "Event time since 1970");
    for n in &status.nodes {
        if let Some(ms) = n.watermark_ms {
            page.value("node_watermark_seconds", &[("node", &n.name)], millis(ms));
        }
    }
    page.head("node_records_total", "counter", "Over the pipeline's whole life, as of the last cut");
    for n in &status.nodes {
        for (counter, value) in &n.counters {
            page.value("node_records_total", &[("node", &n.name), ("kind", n.kind), ("what", counter)], *value);
        }
    }
}

fn state(page: &mut Page, status: &Status) {
    page.head("node_state_entries", "gauge", "Ids or windows that a node remembers, as of the last cut");
    for n in status.nodes.iter().filter(|n| matches!(n.kind, "dedup" | "window")) {
        page.value("node_state_entries", &[("node", &n.name)], n.state_entries);
    }
}

fn sinks(page: &mut Page, status: &Status) {
    page.head("sink_committed_checkpoint", "gauge", "The last checkpoint that the sink holds whole");
    for s in &status.sinks {
        if let Some(id) = s.committed {
            page.value("sink_committed_checkpoint", &[("sink", &s.name)], id);
        }
    }
    page.head("sink_commit_age_seconds", "gauge", "Since the last commit of this run");
    for s in &status.sinks {
        if let Some(ms) = s.committed_age_ms {
            page.value("sink_commit_age_seconds", &[("sink", &s.name)], seconds(ms));
        }
    }
    page.head("sink_waiting_rows", "gauge", "Rows in the outbox for this sink");
    for s in &status.sinks {
        page.value("sink_waiting_rows", &[("sink", &s.name)], s.waiting_rows);
    }
    page.head("sink_waiting_bytes", "gauge", "Bytes in the outbox for this sink");
    for s in &status.sinks {
        page.value("sink_waiting_bytes", &[("sink", &s.name)], s.waiting_bytes);
    }
    page.head("sink_away", "gauge", "1 while it can't be reached");
    for s in &status.sinks {
        page.value("sink_away", &[("sink", &s.name)], u8::from(s.away.is_some()));
    }
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        self.text.push_str(&format!("# HELP floodmark_{name} {help}\n# TYPE floodmark_{name} {kind}\n"));
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: Option<impl std::fmt::Display>) {
        if let Some(value) = value {
            self.head(name, kind, help);
            self.value(name, &[], value);
        }
    }

    fn value(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let labels: Vec<_> = labels.iter().map(|(key, text)| format!("{key}=\"{}\"", escaped(text))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        // Writing to a String doesn't fail.
        let _ = writeln!(self.text, "floodmark_{name}{labels} {value}");
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1_000.0
}

fn millis(ms: i64) -> f64 {
    ms as f64 / 1_000.0
}

impl super::Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Records => "records",
            Self::Bytes => "bytes",
        }
    }
}
