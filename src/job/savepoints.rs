//! Savepoints that were asked for and aren't finished: who waits, and for what.
//!
//! ```text
//!  asked -> (barrier, cut, manifest durable) -> written -> every sink tagged -> answered
//! ```
//! One at a time. Doesn't know: stores, catalogs. Keeps: whoever asked is answered once, and only of what is durable.
use std::collections::BTreeSet;

use floodmark_pipeline::ids::{CheckpointId, NodeId};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::checkpoint::savepoint::check_name;
use crate::commit::committer::Tag;

/// A savepoint that is asked for, and where the answer goes.
#[derive(Debug)]
pub struct SavepointRequest {
    pub name: String,
    pub answer: oneshot::Sender<Result<Savepoint, String>>,
}

/// A savepoint that is durable, and tagged in every sink.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Savepoint {
    pub name: String,
    pub checkpoint: u64,
    /// Below the checkpoint directory; what `run --from` takes.
    pub path: String,
}

#[derive(Debug, Default)]
pub struct Savepoints {
    current: Option<Current>,
}

#[derive(Debug)]
struct Current {
    request: SavepointRequest,
    written: Option<Savepoint>,
    untagged: BTreeSet<NodeId>,
    problems: Vec<String>,
}

impl Savepoints {
    /// The name to take a checkpoint under, unless the request is refused.
    pub fn ask(&mut self, request: SavepointRequest) -> Option<String> {
        let refusal = match &self.current {
            Some(current) => Some(format!("savepoint {} is under way: one at a time", current.request.name)),
            None => check_name(&request.name).err().map(|error| error.to_string()),
        };
        if let Some(refusal) = refusal {
            // Nobody waiting for the refusal is none to refuse.
            let _ = request.answer.send(Err(refusal));
            return None;
        }
        let name = request.name.clone();
        self.current = Some(Current { request, written: None, untagged: BTreeSet::new(), problems: vec![] });
        Some(name)
    }

    /// Its files are durable, or why not. Returns the tag for `sinks`.
    pub fn written(
        &mut self,
        checkpoint: CheckpointId,
        result: Result<String, String>,
        sinks: impl Iterator<Item = NodeId>,
    ) -> Option<Tag> {
        let current = self.current.as_mut()?;
        let name = current.request.name.clone();
        match result {
            Ok(path) => {
                current.written = Some(Savepoint { name: name.clone(), checkpoint: checkpoint.0, path });
                current.untagged = sinks.collect();
                self.answer_if_done();
                Some(Tag { name, checkpoint })
            }
            Err(why) => {
                if let Some(current) = self.current.take() {
                    let _ = current.request.answer.send(Err(why));
                }
                None
            }
        }
    }

    /// A sink has set the tag, or never will.
    pub fn tagged(&mut self, sink: NodeId, result: Result<(), String>) {
        let Some(current) = &mut self.current else { return };
        current.untagged.remove(&sink);
        current.problems.extend(result.err());
        self.answer_if_done();
    }

    fn answer_if_done(&mut self) {
        if self.current.as_ref().is_none_or(|c| c.written.is_none() || !c.untagged.is_empty()) {
            return;
        }
        let Some(Current { request, written: Some(savepoint), problems, .. }) = self.current.take() else { return };
        let answer = if problems.is_empty() {
            tracing::info!(savepoint = savepoint.name, checkpoint = savepoint.checkpoint, "savepoint taken");
            Ok(savepoint)
        } else {
            Err(format!(
                "savepoint {} is in {}, but not every table is tagged: {}",
                savepoint.name,
                savepoint.path,
                problems.join("; ")
            ))
        };
        let _ = request.answer.send(answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SINKS: [NodeId; 2] = [NodeId(3), NodeId(4)];

    fn asked(savepoints: &mut Savepoints, name: &str) -> oneshot::Receiver<Result<Savepoint, String>> {
        let (answer, receiver) = oneshot::channel();
        savepoints.ask(SavepointRequest { name: name.into(), answer });
        receiver
    }

    #[test]
    fn the_answer_comes_when_it_is_written_and_every_sink_has_its_tag() {
        let mut savepoints = Savepoints::default();
        let mut answer = asked(&mut savepoints, "a");
        let tag = savepoints.written(CheckpointId(7), Ok("savepoints/a".into()), SINKS.into_iter());
        assert_eq!(tag, Some(Tag { name: "a".into(), checkpoint: CheckpointId(7) }));
        savepoints.tagged(SINKS[0], Ok(()));
        assert!(answer.try_recv().is_err());
        savepoints.tagged(SINKS[1], Ok(()));
        let savepoint = Savepoint { name: "a".into(), checkpoint: 7, path: "savepoints/a".into() };
        assert_eq!(answer.try_recv(), Ok(Ok(savepoint)));
    }

    #[test]
    fn a_second_one_waits_for_nobody() {
        let mut savepoints = Savepoints::default();
        let _first = asked(&mut savepoints, "a");
        let mut second = asked(&mut savepoints, "b");
        assert_eq!(second.try_recv(), Ok(Err("savepoint a is under way: one at a time".into())));
    }

    #[test]
    fn a_table_without_its_tag_is_named_and_the_next_savepoint_may_come() {
        let mut savepoints = Savepoints::default();
        let mut answer = asked(&mut savepoints, "a");
        savepoints.written(CheckpointId(7), Ok("savepoints/a".into()), SINKS[..1].iter().copied());
        savepoints.tagged(SINKS[0], Err("shop.events: refused".into()));
        let text = "savepoint a is in savepoints/a, but not every table is tagged: shop.events: refused";
        assert_eq!(answer.try_recv(), Ok(Err(text.into())));
        let mut next = asked(&mut savepoints, "b");
        savepoints.written(CheckpointId(8), Err("disk full".into()), SINKS.into_iter());
        assert_eq!(next.try_recv(), Ok(Err("disk full".into())));
    }
}
