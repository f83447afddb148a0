//! What there is to say about a running job, as one value: the only source of the live line, the log, the exit summary, `/status`, `/metrics`, `/healthz`.
//!
//! ```text
//!  control loop -> job/board.rs -> Status (a few times a second) -> watch channel -> line | log | HTTP | summary
//! ```
//! Positions, counters and watermarks are those of the last cut: whoever adds them up finds sums that close.
//! Doesn't know: how it is shown. Tested: tests.rs beside it; with real processes in tests/run_and_stop.rs.
pub mod health;
pub mod line;
pub mod metrics;
pub mod notices;
pub mod serve;
pub mod show;
pub mod summary;
pub mod units;

use std::collections::BTreeMap;

use serde::Serialize;

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Status {
    pub pipeline: String,
    pub phase: Phase,
    /// Wall clock of this value, milliseconds since 1970; ages below are as of it.
    pub now_ms: i64,
    pub uptime_ms: u64,
    /// Number of this start.
    pub incarnation: u64,
    /// The manifest that this run went on from.
    pub restored_from: Option<String>,
    /// Settings in force.
    pub settings: BTreeMap<String, String>,
    /// By this run.
    pub records_read: u64,
    /// Between the last cuts; `None` where none has come for a while.
    pub records_per_second: Option<u64>,
    /// Share of a bounded input that has been read, 0 to 1.
    pub progress: Option<f64>,
    pub checkpoint: CheckpointStatus,
    pub state: StateStatus,
    pub outbox: OutboxStatus,
    pub partitions: Vec<PartitionStatus>,
    pub nodes: Vec<NodeStatus>,
    pub sinks: Vec<SinkStatus>,
    pub notices: Vec<Notice>,
    /// Broken invariants that this process has met (docs/INVARIANTS.md): bugs in floodmark.
    pub invariant_violations: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    #[default]
    Starting,
    Running,
    Stopping,
    Ended,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CheckpointStatus {
    /// The last complete one.
    pub id: Option<u64>,
    pub age_ms: Option<u64>,
    /// From its barrier until it was durable.
    pub duration_ms: Option<u64>,
    /// How long the oldest one under way has been so.
    pub under_way_ms: Option<u64>,
    /// Complete ones of this run.
    pub completed: u64,
    pub interval_ms: u64,
}

/// Keyed state of all workers, as of the last cut.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StateStatus {
    pub memory_bytes: u64,
    /// `memory` of the pipeline file.
    pub limit_bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OutboxStatus {
    pub bytes: u64,
    pub limit_bytes: u64,
    /// The limit is reached: nothing is read until a sink takes what waits for it.
    pub sources_paused: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PartitionStatus {
    pub source: String,
    /// As in logs: `source:topic-partition`.
    pub name: String,
    pub state: PartitionState,
    /// Next offset to read.
    pub offset: i64,
    /// How far reading has come, in the unit of `end`.
    pub position: i64,
    /// Where the log ends, as far as it has said so.
    pub end: Option<i64>,
    pub unit: Unit,
    pub lag: Option<i64>,
    pub watermark_ms: Option<i64>,
    /// Since when it has stood at its log's end; `None`: it doesn't, or nobody looked.
    pub quiet_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PartitionState {
    #[default]
    Live,
    Idle,
    Ended,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    #[default]
    Records,
    Bytes,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeStatus {
    pub name: String,
    pub kind: &'static str,
    /// `None` where it has no event time, or has seen none yet: `has_event_time` tells.
    pub watermark_ms: Option<i64>,
    pub has_event_time: bool,
    /// The partition whose watermark is the lowest of those above.
    pub held_by: Option<String>,
    /// A source: why it gets nothing though there may be something to read.
    pub trouble: Option<String>,
    pub counters: BTreeMap<&'static str, u64>,
    /// Ids or windows that it remembers.
    pub state_entries: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SinkStatus {
    pub name: String,
    /// The last checkpoint that it holds whole.
    pub committed: Option<u64>,
    /// Since the last commit of this run.
    pub committed_age_ms: Option<u64>,
    /// Rows that all commits added, by the sink's own mark; known from the first commit of a run on.
    pub rows: Option<u64>,
    pub commit_interval_ms: u64,
    pub waiting_epochs: u64,
    pub waiting_rows: u64,
    pub waiting_bytes: u64,
    /// How long rows have waited without a commit.
    pub waiting_ms: Option<u64>,
    /// Why it can't be reached.
    pub away: Option<String>,
}

/// Something that a person should know. `about` stays the same while it lasts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Notice {
    pub about: String,
    pub text: String,
}

impl Status {
    /// What a job says before it has looked at anything.
    pub fn starting(pipeline: &str) -> Self {
        Self { pipeline: pipeline.to_owned(), ..Self::default() }
    }

    /// Sum of one counter over all nodes of a kind.
    fn counted(&self, kind: &str, counter: &str) -> u64 {
        self.nodes.iter().filter(|n| n.kind == kind).filter_map(|n| n.counters.get(counter)).sum()
    }

    /// Records behind the logs' ends, over the partitions that have said where that is.
    fn lag(&self) -> Option<i64> {
        let lags = self.partitions.iter().filter(|p| p.unit == Unit::Records).filter_map(|p| p.lag);
        lags.fold(None, |sum, lag| Some(sum.unwrap_or(0) + lag))
    }

    /// The source that lags most in event time.
    fn slowest(&self) -> Option<&NodeStatus> {
        self.nodes.iter().filter(|n| n.kind == "source" && n.has_event_time).min_by_key(|n| n.watermark_ms)
    }
}

#[cfg(test)]
mod tests;
