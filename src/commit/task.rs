//! Turns the crank of a committer: epochs in, commits out, outcomes reported.
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use floodmark_pipeline::ids::{Epoch, NodeId};
use floodmark_pipeline::mark::Mark;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::committer::{Committer, Effect, Input, StopReason, Tag};
use crate::host::Host;
use crate::sink::Sink;
use crate::steps::{self, Point};

/// How often a committer looks at the time.
const TICK: Duration = Duration::from_millis(20);

/// What a committer is asked.
#[derive(Debug)]
pub enum ToCommitter {
    Epoch(crate::sink::PendingEpoch),
    Flush,
    Tag(Tag),
}

/// What it tells.
#[derive(Debug)]
pub enum FromCommitter {
    Committed { sink: NodeId, epoch: Epoch, mark: Box<Mark> },
    Away { sink: NodeId, why: String },
    Tagged { sink: NodeId, result: Result<(), String> },
    Stopped { sink: NodeId, reason: StopReason },
}

/// Runs until the other side is gone or the sink stops.
pub async fn run(
    id: NodeId,
    mut sink: Box<dyn Sink>,
    mut committer: Committer,
    host: Arc<dyn Host>,
    mut inputs: UnboundedReceiver<ToCommitter>,
    reports: UnboundedSender<FromCommitter>,
) {
    let now_ms = || host.now_ms();
    let mut tick = host.sleep(TICK);
    loop {
        let input = tokio::select! {
            biased;
            received = inputs.recv() => match received {
                Some(ToCommitter::Epoch(epoch)) => Input::Epoch(epoch),
                Some(ToCommitter::Flush) => Input::Flush,
                Some(ToCommitter::Tag(tag)) => Input::Tag(tag),
                None => return,
            },
            () = &mut tick => {
                tick = host.sleep(TICK);
                Input::Tick
            }
        };
        let mut effects = VecDeque::from(committer.step(now_ms(), input));
        while let Some(effect) = effects.pop_front() {
            let report = match effect {
                Effect::Commit { base, epochs, even_if_empty } => {
                    let done = sink.commit(base, &epochs, even_if_empty).await;
                    effects.extend(committer.step(now_ms(), Input::Done(done)));
                    continue;
                }
                Effect::Tag(tag) => {
                    let done = sink.tag(&tag.name, tag.checkpoint).await;
                    effects.extend(committer.step(now_ms(), Input::Tagged(done)));
                    continue;
                }
                Effect::Tagged(result) => FromCommitter::Tagged { sink: id, result },
                Effect::Committed { epoch, mark } => {
                    steps::reached(Point::AckDue);
                    FromCommitter::Committed { sink: id, epoch, mark }
                }
                Effect::Away { why } => FromCommitter::Away { sink: id, why },
                Effect::Stop(reason) => {
                    // The job may be gone already; then nobody needs the reason.
                    let _ = reports.send(FromCommitter::Stopped { sink: id, reason });
                    return;
                }
            };
            if reports.send(report).is_err() {
                return;
            }
        }
    }
}
