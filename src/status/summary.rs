//! What a run leaves to say when it ends.
//!
//! Doesn't know: why it ended. Tested: tests.rs beside it.
use super::units::{age, grouped};
use super::{NodeStatus, Status};

/// Several lines, without the last newline; nothing for a job that never read.
pub fn text(status: &Status) -> Option<String> {
    let id = status.checkpoint.id?;
    let mut lines = vec![format!(
        "{}: ran for {}, {} records read, {} checkpoints, the last is {id}{}",
        status.pipeline,
        age(status.uptime_ms),
        grouped(status.records_read),
        grouped(status.checkpoint.completed),
        status.restored_from.as_ref().map_or(String::new(), |from| format!("; went on from {from}")),
    )];
    if status.restored_from.is_some() {
        lines.push("  counted since the first start, or since a node was added or taken out:".to_owned());
    }
    lines.extend(status.nodes.iter().map(node));
    for sink in status.sinks.iter().filter(|s| s.waiting_rows > 0) {
        lines.push(format!("  {} rows wait in the outbox for {}", grouped(sink.waiting_rows), sink.name));
    }
    Some(lines.join("\n"))
}

/// Counters of the pipeline's whole life, those that are 0 left out.
fn node(node: &NodeStatus) -> String {
    let counted: Vec<_> = node
        .order()
        .filter(|(_, n)| *n > 0)
        .map(|(name, n)| format!("{} {}", grouped(n), name.replace('_', " ")))
        .collect();
    let counted = if counted.is_empty() { "nothing".to_owned() } else { counted.join(", ") };
    format!("  {:<7}{}: {counted}", node.kind, node.name)
}

impl NodeStatus {
    /// Counters with what came in first.
    fn order(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let first = |name: &str| matches!(name, "read" | "in");
        let (head, tail): (Vec<_>, Vec<_>) = self.counters.iter().map(|(k, v)| (*k, *v)).partition(|(k, _)| first(k));
        head.into_iter().chain(tail)
    }
}
