//! When a sink's epochs are committed. A state machine: inputs in, effects out, no I/O.
//!
//! Epochs that wait are folded into one commit. An epoch without rows needs none: it counts as done once all before it are, and its mark travels with
//! the next commit, or alone when the last mark is old and at the end. A savepoint's epoch is the last of its commit, so that the sink has a state to tag.
//! Doesn't know: what a sink is. Keeps: one commit at a time; epochs in order; `base` is what the sink's mark says.
use std::collections::VecDeque;

use floodmark_pipeline::ids::{CheckpointId, Epoch, Incarnation};
use floodmark_pipeline::mark::Mark;

use crate::sink::{Outcome, PendingEpoch, SinkError};

/// First and longest pause after a sink was away.
const RETRY_MS: (u64, u64) = (200, 10_000);

#[derive(Debug)]
pub enum Input {
    Tick,
    Epoch(PendingEpoch),
    /// No epoch will follow soon: commit what there is now, with or without rows.
    Flush,
    /// Tag the state as of this savepoint. Comes before any epoch that follows it.
    Tag(Tag),
    Done(Result<Outcome, SinkError>),
    Tagged(Result<(), SinkError>),
}

/// A savepoint's name and its checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    pub name: String,
    pub checkpoint: CheckpointId,
}

#[derive(Debug, PartialEq)]
pub enum Effect {
    Commit {
        base: Option<Epoch>,
        epochs: Vec<PendingEpoch>,
        even_if_empty: bool,
    },
    Tag(Tag),
    /// The tag stands, or why it never will.
    Tagged(Result<(), String>),
    /// The sink's mark names this epoch now.
    Committed {
        epoch: Epoch,
        mark: Box<Mark>,
    },
    /// The sink can't be reached; it is tried again.
    Away {
        why: String,
    },
    Stop(StopReason),
}

/// Why a sink takes nothing more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopReason {
    #[error("fenced: incarnation {} owns the sink now; this process is the old one, don't restart it", by.number)]
    Fenced { by: Incarnation },
    #[error(
        "the table changed under us: it holds checkpoint {found}, and the next commit follows {expected}; restart to see what to do"
    )]
    Foreign { found: String, expected: String },
    #[error("{0}")]
    Sink(String),
}

#[derive(Debug)]
pub struct Committer {
    base: Option<Epoch>,
    waiting: VecDeque<PendingEpoch>,
    /// Number of waiting epochs that the commit under way takes.
    in_flight: usize,
    interval_ms: u64,
    mark_interval_ms: u64,
    /// `None`: not since the start, so what waits is due at once.
    last_commit_ms: Option<u64>,
    flush: bool,
    tag: Option<Tag>,
    /// The sink is being told of `tag`.
    tagging: bool,
    retry_at_ms: u64,
    pause_ms: u64,
}

impl Committer {
    pub fn new(base: Option<Epoch>, waiting: VecDeque<PendingEpoch>, interval_ms: u64, mark_interval_ms: u64) -> Self {
        Self {
            base,
            waiting,
            in_flight: 0,
            interval_ms,
            mark_interval_ms,
            last_commit_ms: None,
            flush: false,
            tag: None,
            tagging: false,
            retry_at_ms: 0,
            pause_ms: RETRY_MS.0,
        }
    }

    pub fn step(&mut self, now_ms: u64, input: Input) -> Vec<Effect> {
        let mut effects = vec![];
        match input {
            Input::Tick => {}
            Input::Epoch(epoch) => self.waiting.push_back(epoch),
            Input::Flush => self.flush = true,
            Input::Tag(tag) => self.tag = Some(tag),
            Input::Done(result) => effects.extend(self.done(now_ms, result)),
            Input::Tagged(result) => effects.extend(self.tagged(now_ms, result)),
        }
        effects.extend(self.next(now_ms));
        effects
    }

    /// What a tag names is committed first, by itself, and then tagged.
    fn next(&mut self, now_ms: u64) -> Option<Effect> {
        if self.in_flight > 0 || self.tagging || now_ms < self.retry_at_ms {
            return None;
        }
        let Some(tag) = self.tag.clone() else { return self.commit_if_due(now_ms) };
        match self.waiting.iter().take_while(|e| e.epoch.checkpoint <= tag.checkpoint).count() {
            0 => {
                self.tagging = true;
                Some(Effect::Tag(tag))
            }
            epochs => Some(self.commit(epochs, true)),
        }
    }

    fn commit_if_due(&mut self, now_ms: u64) -> Option<Effect> {
        if self.waiting.is_empty() {
            return None;
        }
        let older_than = |ms: u64| self.last_commit_ms.is_none_or(|at| now_ms.saturating_sub(at) >= ms);
        let rows = self.waiting.iter().any(|e| e.rows() > 0);
        let mark_only = self.flush || older_than(self.mark_interval_ms) && self.moved();
        if !(rows && older_than(self.interval_ms) || mark_only) {
            return None;
        }
        Some(self.commit(self.waiting.len(), mark_only))
    }

    fn commit(&mut self, epochs: usize, even_if_empty: bool) -> Effect {
        self.in_flight = epochs;
        let epochs = self.waiting.iter().take(epochs).cloned().collect();
        Effect::Commit { base: self.base, epochs, even_if_empty }
    }

    /// Offsets differ between the first and the last waiting epoch.
    fn moved(&self) -> bool {
        match (self.waiting.front(), self.waiting.back()) {
            (Some(first), Some(last)) => first.offsets != last.offsets,
            _ => false,
        }
    }

    fn done(&mut self, now_ms: u64, result: Result<Outcome, SinkError>) -> Option<Effect> {
        let taken = std::mem::take(&mut self.in_flight);
        match result {
            Ok(Outcome::Applied(mark)) => {
                self.last_commit_ms = Some(now_ms);
                self.pause_ms = RETRY_MS.0;
                // It holds what its mark says. An earlier attempt may have got there, its answer lost; epochs without rows behind it go on waiting.
                let held = self.waiting.iter().take(taken).position(|e| Some(e.epoch) == mark.epoch)?;
                let epoch = self.waiting.drain(..=held).next_back()?.epoch;
                self.base = Some(epoch);
                Some(Effect::Committed { epoch, mark: Box::new(mark) })
            }
            Ok(Outcome::Fenced { by }) => Some(Effect::Stop(StopReason::Fenced { by })),
            Ok(Outcome::Foreign(mark)) => {
                let name = |epoch: Option<Epoch>| epoch.map_or("none".to_owned(), |e| e.to_string());
                let (found, expected) = (name(mark.epoch), name(self.base));
                Some(Effect::Stop(StopReason::Foreign { found, expected }))
            }
            Err(SinkError::Away { what, why }) => Some(self.away(now_ms, &what, &why)),
            Err(other) => Some(Effect::Stop(StopReason::Sink(other.to_string()))),
        }
    }

    /// A tag that can't be set costs the savepoint its tag, and the job nothing.
    fn tagged(&mut self, now_ms: u64, result: Result<(), SinkError>) -> Option<Effect> {
        self.tagging = false;
        if let Err(SinkError::Away { what, why }) = &result {
            return Some(self.away(now_ms, what, why));
        }
        self.tag = None;
        self.pause_ms = RETRY_MS.0;
        Some(Effect::Tagged(result.map_err(|error| error.to_string())))
    }

    fn away(&mut self, now_ms: u64, what: &str, why: &str) -> Effect {
        self.retry_at_ms = now_ms + self.pause_ms;
        self.pause_ms = (self.pause_ms * 2).min(RETRY_MS.1);
        Effect::Away { why: format!("{what}: {why}") }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use floodmark_pipeline::ids::{CheckpointId, PartitionName};
    use floodmark_pipeline::mark::RunningDigest;

    use super::*;
    use crate::sink::SegmentRef;

    const START: Incarnation = Incarnation { number: 1, token: 1 };

    fn epoch(checkpoint: u64, rows: u64) -> PendingEpoch {
        let segment = SegmentRef { path: "s".into(), offset: 0, length: 1, rows, digest: None };
        let partition = PartitionName { source: "e".into(), topic: "t".into(), partition: 0 };
        PendingEpoch {
            epoch: Epoch { incarnation: START, checkpoint: CheckpointId(checkpoint) },
            commit_id: 1,
            segments: if rows > 0 { vec![segment] } else { vec![] },
            offsets: BTreeMap::from([(partition, checkpoint as i64)]).into(),
            event_time_watermark: None,
            replay_from: Default::default(),
        }
    }

    fn applied(checkpoint: u64) -> Input {
        let epoch = Some(Epoch { incarnation: START, checkpoint: CheckpointId(checkpoint) });
        Input::Done(Ok(Outcome::Applied(Mark {
            table_uuid: String::new(),
            pipeline: String::new(),
            sink: String::new(),
            epoch,
            fence: Some(START),
            offsets: Default::default(),
            event_time_watermark: None,
            replay_from: Default::default(),
            digest: RunningDigest::default(),
        })))
    }

    fn committer() -> Committer {
        let mut committer = Committer::new(None, VecDeque::new(), 1_000, 600_000);
        committer.last_commit_ms = Some(0);
        committer
    }

    /// Ids of the epochs that a commit takes.
    fn commit(effects: &[Effect]) -> Option<Vec<u64>> {
        effects.iter().find_map(|e| match e {
            Effect::Commit { epochs, .. } => Some(epochs.iter().map(|e| e.epoch.checkpoint.0).collect()),
            _ => None,
        })
    }

    #[test]
    fn waiting_epochs_are_folded_into_one_commit_when_the_interval_is_over() {
        let mut committer = committer();
        assert_eq!(commit(&committer.step(100, Input::Epoch(epoch(1, 5)))), None);
        assert_eq!(commit(&committer.step(600, Input::Epoch(epoch(2, 5)))), None);
        assert_eq!(commit(&committer.step(1_000, Input::Tick)), Some(vec![1, 2]));
        assert_eq!(commit(&committer.step(2_500, Input::Epoch(epoch(3, 5)))), None, "one at a time");
        let effects = committer.step(2_600, applied(2));
        assert!(matches!(&effects[0], Effect::Committed { epoch, .. } if epoch.checkpoint.0 == 2));
        assert_eq!(commit(&committer.step(3_600, Input::Tick)), Some(vec![3]));
    }

    #[test]
    fn an_epoch_without_rows_waits_for_company_an_old_mark_or_the_end() {
        let mut committer = committer();
        committer.step(0, Input::Epoch(epoch(1, 0)));
        assert_eq!(commit(&committer.step(5_000, Input::Epoch(epoch(2, 0)))), None);
        assert_eq!(commit(&committer.step(600_000, Input::Tick)), Some(vec![1, 2]), "the mark is old");
        committer.step(600_010, applied(2));
        committer.step(600_020, Input::Epoch(epoch(3, 0)));
        assert_eq!(commit(&committer.step(600_030, Input::Flush)), Some(vec![3]));
    }

    #[test]
    fn a_sink_that_is_away_is_tried_again_later_with_all_that_waits() {
        let mut committer = committer();
        committer.step(0, Input::Epoch(epoch(1, 5)));
        committer.step(1_000, Input::Tick);
        let away = SinkError::Away { what: "catalog".into(), why: "refused".into() };
        assert!(matches!(&committer.step(1_010, Input::Done(Err(away)))[..], [Effect::Away { .. }]));
        committer.step(1_020, Input::Epoch(epoch(2, 5)));
        assert_eq!(commit(&committer.step(1_209, Input::Tick)), None);
        assert_eq!(commit(&committer.step(1_210, Input::Tick)), Some(vec![1, 2]));
    }

    /// A commit landed, its answer was lost, and what has come since has no rows: the sink writes nothing, and its mark is where it was.
    #[test]
    fn a_sink_holds_what_its_mark_says_and_not_what_it_was_given() {
        let mut committer = committer();
        committer.step(0, Input::Epoch(epoch(1, 5)));
        committer.step(1_000, Input::Tick);
        let lost = SinkError::Away { what: "catalog".into(), why: "no answer".into() };
        committer.step(1_010, Input::Done(Err(lost)));
        committer.step(1_020, Input::Epoch(epoch(2, 0)));
        assert_eq!(commit(&committer.step(1_210, Input::Tick)), Some(vec![1, 2]));
        let effects = committer.step(1_220, applied(1));
        assert!(matches!(&effects[..], [Effect::Committed { epoch, .. }] if epoch.checkpoint.0 == 1), "{effects:?}");
        let Some(Effect::Commit { base, epochs, even_if_empty }) = committer.step(1_230, Input::Flush).pop() else {
            panic!("what waits is committed in the end");
        };
        assert_eq!((base.map(|e| e.checkpoint.0), epochs.len(), even_if_empty), (Some(1), 1, true));
    }

    #[test]
    fn a_savepoint_ends_its_commit_and_is_tagged_before_any_later_one() {
        let mut committer = committer();
        committer.step(0, Input::Epoch(epoch(1, 5)));
        committer.step(10, Input::Epoch(epoch(2, 0)));
        let tag = Tag { name: "before".into(), checkpoint: CheckpointId(2) };
        assert_eq!(commit(&committer.step(20, Input::Tag(tag.clone()))), Some(vec![1, 2]), "at once");
        assert_eq!(commit(&committer.step(30, Input::Epoch(epoch(3, 5)))), None);
        assert!(committer.step(40, applied(2)).contains(&Effect::Tag(tag.clone())));
        let away = SinkError::Away { what: "catalog".into(), why: "refused".into() };
        committer.step(50, Input::Tagged(Err(away)));
        assert_eq!(committer.step(250, Input::Tick), [Effect::Tag(tag)], "tried again");
        let effects = committer.step(2_000, Input::Tagged(Ok(())));
        assert_eq!(effects[0], Effect::Tagged(Ok(())));
        assert_eq!(commit(&effects), Some(vec![3]));
    }

    #[test]
    fn a_fenced_sink_stops_the_job() {
        let mut committer = committer();
        committer.step(0, Input::Epoch(epoch(1, 5)));
        committer.step(1_000, Input::Tick);
        let by = Incarnation { number: 2, token: 9 };
        let effects = committer.step(1_001, Input::Done(Ok(Outcome::Fenced { by })));
        assert_eq!(effects[0], Effect::Stop(StopReason::Fenced { by }));
    }
}
