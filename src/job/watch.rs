//! Watches the logs of unbounded sources while running: partitions that are new, quiet, or have something to read again.
//!
//! A partition is quiet only if its position is the log's end as the broker reports it, for as long as the pipeline file asks; never because a broker
//! is away (then there is no report), because we are busy, or because it waits for others to catch up (then the position is not the end).
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use floodmark_pipeline::ids::{NodeId, PartitionIndex, PartitionName};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::look::SourceLog;
use super::start::earliest;
use crate::checkpoint::coordinator::Input;
use crate::checkpoint::manifest::{PartitionRecord, Status};
use crate::checkpoint::partitions::{Found, Partitions};
use crate::config::model::{End, Pipeline, SourceConnector};
use crate::file::bytes_read;
use crate::host::{Host, Spawned};
use crate::source::check::check;
use crate::source::{Log, PartitionInfo};

/// How often ends are asked for where idleness matters, and for the lag elsewhere.
const QUIET_POLL: Duration = Duration::from_millis(500);
const LAG_POLL: Duration = Duration::from_secs(5);

/// A source's partitions as its log reported them, or why it couldn't.
pub struct Seen {
    node: NodeId,
    partitions: Result<Vec<PartitionInfo>, String>,
}

/// What a log's ends are, and whether it can be another under the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogKind {
    Kafka,
    /// Ends are sizes; content is checked by the reader.
    File,
    Generator,
}

struct Watched {
    name: String,
    idle_ms: Option<u64>,
    kind: LogKind,
    discovery_ms: u64,
    /// When new partitions may join next.
    discovery_at_ms: u64,
}

pub struct Watch {
    watched: BTreeMap<NodeId, Watched>,
    /// Since when a partition has stood at its log's end.
    quiet_since: BTreeMap<PartitionIndex, u64>,
    /// Where logs ended when they were last asked.
    ends: BTreeMap<PartitionName, i64>,
    reports: UnboundedReceiver<Seen>,
    /// They ask as long as somebody listens.
    _tasks: Vec<Spawned>,
}

impl Watch {
    pub fn start(pipeline: &Pipeline, logs: &[SourceLog], host: &Arc<dyn Host>) -> Self {
        let (sender, reports) = unbounded_channel();
        let (mut watched, mut tasks) = (BTreeMap::new(), vec![]);
        for log in logs {
            let config = &pipeline.sources[&log.node];
            if config.end != End::Never {
                continue;
            }
            let poll = if config.idle.is_some() { QUIET_POLL } else { LAG_POLL };
            let every = poll.min(config.discovery_interval);
            let asking = ask(log.node, log.log.clone(), every, host.clone(), sender.clone());
            tasks.push(host.spawn(Box::pin(asking)));
            let name = pipeline.plan.node(log.node).name.clone();
            let idle_ms = config.idle.map(|d| d.as_millis() as u64);
            let kind = match config.connector {
                SourceConnector::Kafka(_) => LogKind::Kafka,
                SourceConnector::File(_) => LogKind::File,
                SourceConnector::Generator(_) => LogKind::Generator,
            };
            // Reports come a little early or late.
            let discovery_ms = (config.discovery_interval - every / 2).as_millis() as u64;
            watched.insert(log.node, Watched { name, idle_ms, kind, discovery_ms, discovery_at_ms: 0 });
        }
        Self { watched, quiet_since: BTreeMap::new(), ends: BTreeMap::new(), reports, _tasks: tasks }
    }

    pub async fn next(&mut self) -> Option<Seen> {
        self.reports.recv().await
    }

    /// Since when a partition has stood at its log's end.
    pub fn quiet_since(&self, partition: PartitionIndex) -> Option<u64> {
        self.quiet_since.get(&partition).copied()
    }

    pub fn end_of(&self, partition: &PartitionName) -> Option<i64> {
        self.ends.get(partition).copied()
    }

    /// What a report means for the coordinator. An error ends the job: the log isn't the one that was read.
    pub fn judge(&mut self, seen: Seen, table: &Partitions, now_ms: u64) -> Result<Vec<Input>, String> {
        let Some(watched) = self.watched.get_mut(&seen.node) else { return Ok(vec![]) };
        let infos = match seen.partitions {
            Ok(infos) => infos,
            Err(why) => {
                tracing::warn!(
                    source = watched.name,
                    "the log can't be asked, reading goes on as far as it can: {why}"
                );
                self.quiet_since.clear();
                return Ok(vec![]);
            }
        };
        let (mut inputs, mut new) = (vec![], vec![]);
        for info in infos {
            self.ends.insert(info.name.clone(), info.end);
            match table.index_of(&info.name).and_then(|at| Some((at, table.record_of(at)?))) {
                None => new.push(found(info)),
                Some((at, record)) => {
                    if watched.kind == LogKind::Kafka {
                        check(record.position.offset, &record.identity, &info).map_err(|e| e.to_string())?;
                    }
                    let at_end = watched.kind.reached(record).is_some_and(|position| position >= info.end);
                    inputs.extend(movement(at, record.status, at_end, watched.idle_ms, &mut self.quiet_since, now_ms));
                }
            }
        }
        if now_ms >= watched.discovery_at_ms {
            watched.discovery_at_ms = now_ms + watched.discovery_ms;
            inputs.push(Input::Discovered(new));
        }
        Ok(inputs)
    }
}

fn found(info: PartitionInfo) -> Found {
    let position = earliest(&info);
    Found { name: info.name, identity: info.identity, position, end: None }
}

impl LogKind {
    /// How far a partition has been read, in the unit of its log's end; `None` where that can't be told.
    fn reached(self, record: &PartitionRecord) -> Option<i64> {
        match self {
            Self::File => bytes_read(&record.name, &record.position),
            Self::Kafka | Self::Generator => Some(record.position.offset),
        }
    }
}

/// Whether a known partition has gone quiet or come back.
fn movement(
    at: PartitionIndex,
    status: Status,
    at_end: bool,
    idle_ms: Option<u64>,
    quiet_since: &mut BTreeMap<PartitionIndex, u64>,
    now_ms: u64,
) -> Option<Input> {
    match status {
        Status::Live if at_end => {
            let since = *quiet_since.entry(at).or_insert(now_ms);
            (now_ms - since >= idle_ms?).then_some(Input::Quiet(at))
        }
        Status::Live => {
            quiet_since.remove(&at);
            None
        }
        Status::Idle | Status::Ended => {
            quiet_since.remove(&at);
            (!at_end).then_some(Input::CameBack(at, None))
        }
    }
}

async fn ask(node: NodeId, log: Arc<dyn Log>, every: Duration, host: Arc<dyn Host>, reports: UnboundedSender<Seen>) {
    loop {
        let partitions = log.partitions().await.map_err(|e| e.to_string());
        if reports.send(Seen { node, partitions }).is_err() {
            return;
        }
        host.sleep(every).await;
    }
}

#[cfg(test)]
mod tests;
