//! A status as one line: for a terminal, and for the log.
//!
//! Doesn't know: terminals. Keeps: what isn't known isn't shown, rather than shown as 0. Tested: tests.rs beside it.
use super::units::{age, grouped, size};
use super::{Phase, Status};

/// `12,000/s · lag 340 · watermark 4.2s behind (events:clicks-3) · checkpoint 42, 0.8s ago · …`
pub fn live(status: &Status) -> String {
    if status.phase == Phase::Starting {
        return "starting".into();
    }
    let mut parts = vec![status.records_per_second.map_or("-/s".to_owned(), |n| format!("{}/s", grouped(n)))];
    parts.extend(status.lag().map(|lag| format!("lag {}", grouped(lag.max(0) as u64))));
    parts.extend(watermark(status));
    parts.extend(checkpoint(status));
    parts.extend(commit(status));
    parts.push(format!("late {}", grouped(status.late())));
    parts.push(format!("duplicates {}", grouped(status.counted("dedup", "duplicates"))));
    parts.push(format!("errors {}", grouped(status.errors())));
    if status.outbox.sources_paused {
        parts.push(format!("PAUSED, outbox {}", size(status.outbox.bytes)));
    }
    if status.phase == Phase::Stopping {
        parts.push("stopping".into());
    }
    parts.join(" · ")
}

fn watermark(status: &Status) -> Option<String> {
    let source = status.slowest()?;
    let holder = source.held_by.as_ref().map_or(String::new(), |name| format!(" ({name})"));
    Some(match source.watermark_ms {
        Some(ms) => format!("watermark {} behind{holder}", age(status.now_ms.saturating_sub(ms).max(0) as u64)),
        None => format!("no watermark yet{holder}"),
    })
}

fn checkpoint(status: &Status) -> Option<String> {
    let checkpoint = &status.checkpoint;
    Some(format!("checkpoint {}, {} ago", checkpoint.id?, age(checkpoint.age_ms?)))
}

/// The sink that has waited longest for a commit.
fn commit(status: &Status) -> Option<String> {
    let sink = status.sinks.iter().max_by_key(|s| (s.waiting_ms, s.committed_age_ms))?;
    if let Some(ms) = sink.committed_age_ms {
        return Some(format!("commit {} ago", age(ms)));
    }
    sink.waiting_ms.map(|ms| format!("{} waits for its first commit, {}", sink.name, age(ms)))
}

impl Status {
    /// Beyond a dedup's horizon, or late for a window.
    pub(super) fn late(&self) -> u64 {
        self.counted("dedup", "late") + self.counted("window", "late")
    }

    pub(super) fn errors(&self) -> u64 {
        self.counted("source", "errors") + self.counted("window", "errors")
    }
}

/// The same for a log, as fields.
pub fn log(status: &Status) {
    let slowest = status.slowest();
    let committed = status.sinks.iter().filter_map(|s| s.committed).min();
    let waiting: u64 = status.sinks.iter().map(|s| s.waiting_rows).sum();
    tracing::info!(
        records_per_second = status.records_per_second,
        read = status.counted("source", "read"),
        lag = status.lag(),
        watermark_behind_ms = slowest.and_then(|n| n.watermark_ms).map(|ms| status.now_ms.saturating_sub(ms)),
        held_by = slowest.and_then(|n| n.held_by.as_deref()),
        checkpoint = status.checkpoint.id,
        checkpoint_age_ms = status.checkpoint.age_ms,
        checkpoint_duration_ms = status.checkpoint.duration_ms,
        committed,
        waiting_rows = waiting,
        outbox_bytes = status.outbox.bytes,
        late = status.late(),
        duplicates = status.counted("dedup", "duplicates"),
        errors = status.errors(),
        "running"
    );
}
