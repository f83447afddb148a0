//! What in a status a person should know, each with what to do about it.
//!
//! Pure: a status in, notices out. Keeps: a notice names its subject, and is there exactly as long as its cause.
//! Tested: tests.rs beside it.
use floodmark_pipeline::time::EventTime;

use super::units::{age, grouped, size};
use super::{NodeStatus, Notice, PartitionState, PartitionStatus, SinkStatus, Status};

/// A partition that held the watermark for so long without a record is named.
const QUIET_MS: u64 = 10_000;
/// Rows that wait so long, and three commit intervals, make a sink one that is behind.
const BEHIND_MS: u64 = 30_000;
/// A checkpoint that takes so long, and ten intervals, is named.
const SLOW_CHECKPOINT_MS: u64 = 60_000;

/// `waits_for_quiet` tells whether a source is told when to call a partition idle.
pub fn of(status: &Status, waits_for_quiet: impl Fn(&str) -> bool) -> Vec<Notice> {
    let mut notices = vec![];
    if status.outbox.sources_paused {
        notices.push(paused(status));
    }
    notices.extend(status.nodes.iter().filter_map(in_trouble));
    let holders = status.partitions.iter().filter(|p| !waits_for_quiet(&p.source) && holds(status, p));
    notices.extend(holders.map(quiet));
    notices.extend(status.sinks.iter().filter_map(behind));
    let slow =
        status.checkpoint.under_way_ms.filter(|ms| *ms >= SLOW_CHECKPOINT_MS.max(10 * status.checkpoint.interval_ms));
    notices.extend(slow.map(|ms| Notice {
        about: "checkpoint".into(),
        text: format!(
            "a checkpoint has been under way for {}: nothing is committed before it is durable. The log says if the checkpoint directory fails.",
            age(ms)
        ),
    }));
    notices
}

fn in_trouble(node: &NodeStatus) -> Option<Notice> {
    let why = node.trouble.as_ref()?;
    let text = format!("{} gets nothing to read: {why}. Reading goes on by itself once that has passed.", node.name);
    Some(Notice { about: format!("source {}", node.name), text })
}

/// It stands at its log's end, and its source's watermark would be higher without it.
fn holds(status: &Status, partition: &PartitionStatus) -> bool {
    let Some(source) = status.nodes.iter().find(|n| n.name == partition.source) else { return false };
    let live = |p: &&PartitionStatus| p.source == partition.source && p.state == PartitionState::Live;
    let others_are_ahead = status.partitions.iter().filter(live).any(|p| p.watermark_ms > partition.watermark_ms);
    source.has_event_time
        && partition.state == PartitionState::Live
        && partition.quiet_ms.is_some_and(|ms| ms >= QUIET_MS)
        && others_are_ahead
        && source.held_by.as_ref() == Some(&partition.name)
}

fn quiet(partition: &PartitionStatus) -> Notice {
    let PartitionStatus { source, name, .. } = partition;
    let what = match partition.watermark_ms {
        Some(ms) => format!("{name} is quiet and holds the watermark at {}", EventTime(ms)),
        None => format!("{name} is empty and holds back the watermark"),
    };
    Notice {
        about: format!("quiet {name}"),
        text: format!(
            "{what}: windows behind {source} wait for it. If it may stay so, let it step aside: `watermark = {{ …, idle = \"30s\" }}` in [source.{source}]"
        ),
    }
}

fn behind(sink: &SinkStatus) -> Option<Notice> {
    let waits = sink.waiting_ms.filter(|ms| *ms >= BEHIND_MS.max(3 * sink.commit_interval_ms));
    let waiting = format!("{} rows ({}) wait for it", grouped(sink.waiting_rows), size(sink.waiting_bytes));
    let text = match (&sink.away, waits) {
        (Some(why), _) => format!("{} is away ({why}): {waiting}, and it is tried again", sink.name),
        (None, Some(ms)) => format!("{} is behind: {waiting}, for {}", sink.name, age(ms)),
        (None, None) => return None,
    };
    Some(Notice { about: format!("sink {}", sink.name), text })
}

fn paused(status: &Status) -> Notice {
    let most = status.sinks.iter().max_by_key(|s| s.waiting_bytes);
    let most = most.map_or(String::new(), |s| format!(", most of it for {}", s.name));
    Notice {
        about: "outbox".into(),
        text: format!(
            "sources are paused: {} of rows wait for sinks{most}, and `outbox` allows {}. Reading goes on by itself once they are committed.",
            size(status.outbox.bytes),
            size(status.outbox.limit_bytes),
        ),
    }
}
