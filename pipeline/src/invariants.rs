//! What must hold whatever happens, each with an id: the one list that the simulator, the crash tests, the running job and docs/INVARIANTS.md share.
//!
//! Doesn't know: who asks, or when. Keeps: an id means the same for ever. Tested: here (each can be violated), and by everything that is simulated.
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ids::{CheckpointId, Epoch, Incarnation, PartitionName};
use crate::mark::{Mark, RunningDigest};
use crate::time::EventTime;

macro_rules! invariants {
    ($($id:ident = $says:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Invariant { $(#[doc = $says] $id,)* }

        impl Invariant {
            pub const ALL: &[Self] = &[$(Self::$id,)*];

            pub fn id(self) -> &'static str {
                match self { $(Self::$id => stringify!($id),)* }
            }

            pub fn says(self) -> &'static str {
                match self { $(Self::$id => $says,)* }
            }
        }
    };
}

invariants! {
    A1 = "Every record is accounted for at every node: what came in is what went out, was refused, was late, or was there before.",
    A2 = "What a node took is what the nodes before it handed on.",
    C1 = "Checkpoint ids rise, and none is used twice.",
    C2 = "From one manifest to the next no partition goes back or is forgotten; a start begins where what it restored ended.",
    C3 = "What waits for a sink is handed on from manifest to manifest, in order and without a gap, until the sink has it.",
    W1 = "The watermark of a node never goes back.",
    W2 = "All workers have the same watermark at one cut.",
    M1 = "Nothing is visible in a sink whose manifest isn't durable.",
    M2 = "A commit adds the epochs between its mark and the one it follows: all of them that have rows, none twice, in order.",
    M3 = "Nothing is committed by a start older than the fence, and a fence is replaced only by a newer one.",
    M4 = "Each epoch is in a sink at most once.",
    M5 = "The running digest in a mark is that of all rows of the sink.",
    G1 = "No object is removed that a manifest names which a start may go on from.",
    O1 = "Once the log is read to its end and all windows have fired, every table is what the oracle says.",
    L1 = "Once nothing goes wrong any more, everything is read and committed in bounded time.",
    R1 = "A start is refused only if something outside was lost, changed or set back.",
}

/// An invariant that doesn't hold: a bug in floodmark.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Violation {
    pub invariant: Invariant,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}) {}", self.invariant.id(), self.invariant.says(), self.what)
    }
}

/// Violations that this process has met.
static VIOLATIONS: AtomicU64 = AtomicU64::new(0);

impl Violation {
    pub fn new(invariant: Invariant, what: impl Into<String>) -> Self {
        Self { invariant, what: what.into() }
    }

    /// Counts it for the metric of a running job.
    pub fn counted(self) -> Self {
        VIOLATIONS.fetch_add(1, Ordering::Relaxed);
        self
    }
}

/// How many violations this process has counted.
pub fn violations() -> u64 {
    VIOLATIONS.load(Ordering::Relaxed)
}

type Judged = Result<(), Violation>;

fn holds(invariant: Invariant, so: bool, what: impl FnOnce() -> String) -> Judged {
    if so { Ok(()) } else { Err(Violation::new(invariant, what())) }
}

/// What one manifest says of a cut.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cut {
    pub checkpoint: CheckpointId,
    pub offsets: BTreeMap<PartitionName, i64>,
    /// By node.
    pub watermarks: BTreeMap<String, Option<EventTime>>,
    /// By sink: the epoch that it is known to hold, and those that may wait.
    pub sinks: BTreeMap<String, (Option<Epoch>, Vec<Epoch>)>,
}

/// C1, C2, C3, W1: `next` may follow `before`. `begins`: it is the first manifest of a start that went on from `before`.
pub fn cut_follows(before: &Cut, next: &Cut, begins: bool) -> Judged {
    use Invariant::{C1, C2, W1};
    let (old, new) = (before.checkpoint, next.checkpoint);
    holds(C1, new > old, || format!("checkpoint {new} follows {old}"))?;
    for (partition, from) in &before.offsets {
        let to = next.offsets.get(partition);
        let so = to.is_some_and(|to| if begins { to == from } else { to >= from });
        holds(C2, so, || format!("checkpoint {new}: {partition} was at {from}, and is at {to:?}"))?;
    }
    for (node, from) in &before.watermarks {
        let to = next.watermarks.get(node).copied().unwrap_or(*from);
        holds(W1, to >= *from, || format!("checkpoint {new}: {node} was at {from:?}, and is at {to:?}"))?;
    }
    next.sinks.iter().try_for_each(|(sink, now)| match before.sinks.get(sink) {
        Some(then) => list_follows(sink, then, now, new),
        None => Ok(()),
    })
}

fn list_follows(
    sink: &str,
    (base, epochs): &(Option<Epoch>, Vec<Epoch>),
    (new_base, new_epochs): &(Option<Epoch>, Vec<Epoch>),
    checkpoint: CheckpointId,
) -> Judged {
    let known: Vec<_> = std::iter::once(*base).chain(epochs.iter().copied().map(Some)).collect();
    let rest = known.iter().position(|epoch| epoch == new_base).map(|at| &known[at + 1..]);
    let now: Vec<_> = new_epochs.iter().copied().map(Some).collect();
    // It may have taken more than the manifest before it knew to be in the list.
    let so = rest.is_some_and(|rest| now.starts_with(rest));
    holds(Invariant::C3, so, || {
        format!("checkpoint {checkpoint}, {sink}: {base:?} and {epochs:?} became {new_base:?} and {new_epochs:?}")
    })
}

/// What one commit did to a sink.
#[derive(Clone, Copy, Debug)]
pub struct Commit<'a> {
    pub before: &'a Mark,
    pub after: &'a Mark,
    /// Who asked for it.
    pub by: Incarnation,
    /// Epochs whose rows it added.
    pub added: &'a [Epoch],
    /// Epochs after the mark before it, up to the new one, by the manifests: with the rows that each has for this sink. `None`: no chain of
    /// durable manifests leads from the one to the other.
    pub between: Option<&'a [(Epoch, u64)]>,
    /// Every epoch that the sink holds now, and the digest of its rows.
    pub held: &'a [Epoch],
    pub digest: RunningDigest,
}

/// M1 to M5.
pub fn commit(commit: &Commit<'_>) -> Judged {
    use Invariant::{M1, M2, M3, M4, M5};
    let Commit { before, after, by, added, between, held, digest } = commit;
    let at = || format!("{} at {:?}: ", after.sink, after.epoch);
    if before.epoch == after.epoch {
        holds(M2, added.is_empty(), || format!("{}adds {added:?} without a new mark", at()))?;
        let newer = before.fence.is_none_or(|old| after.fence.is_some_and(|new| new == old || new.number > old.number));
        holds(M3, newer && after.fence == Some(*by), || {
            format!("{}fence {:?} over {:?}", at(), after.fence, before.fence)
        })?;
    } else {
        let Some(between) = between else {
            return Err(Violation::new(M1, format!("{}no durable manifest leads there from {:?}", at(), before.epoch)));
        };
        let owns = before.fence == Some(*by) && after.fence == before.fence;
        holds(M3, owns, || format!("{}by {by:?}, fence {:?} became {:?}", at(), before.fence, after.fence))?;
        let mut rest = between.iter();
        let in_order = added.iter().all(|epoch| rest.any(|(e, _)| e == epoch));
        let left_out = between.iter().find(|(epoch, rows)| *rows > 0 && !added.contains(epoch));
        holds(M2, in_order && left_out.is_none(), || format!("{}adds {added:?} of {between:?}", at()))?;
    }
    let key = |epoch: &Epoch| (epoch.incarnation.number, epoch.incarnation.token, epoch.checkpoint);
    let unique: BTreeSet<_> = held.iter().map(key).collect();
    holds(M4, unique.len() == held.len(), || format!("{}holds {held:?}", at()))?;
    holds(M5, after.digest == *digest, || format!("{}mark {:?}, rows {digest:?}", at(), after.digest))
}

/// G1.
pub fn removal<'a>(path: &str, mut named: impl Iterator<Item = (&'a str, bool)>) -> Judged {
    let names_it = named.find(|(_, names)| *names);
    holds(Invariant::G1, names_it.is_none(), || format!("{path}, which {names_it:?} names"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(number: u64) -> Incarnation {
        Incarnation { number, token: 1 }
    }

    fn epoch(checkpoint: u64) -> Epoch {
        Epoch { incarnation: start(1), checkpoint: CheckpointId(checkpoint) }
    }

    fn cut(checkpoint: u64, offset: i64, watermark: i64, base: Option<u64>, epochs: &[u64]) -> Cut {
        let partition = PartitionName { source: "s".into(), topic: "t".into(), partition: 0 };
        let list = (base.map(epoch), epochs.iter().map(|e| epoch(*e)).collect());
        Cut {
            checkpoint: CheckpointId(checkpoint),
            offsets: BTreeMap::from([(partition, offset)]),
            watermarks: BTreeMap::from([("w".into(), Some(EventTime(watermark)))]),
            sinks: BTreeMap::from([("out".into(), list)]),
        }
    }

    fn violated(judged: Judged) -> Option<&'static str> {
        judged.err().map(|violation| violation.invariant.id())
    }

    #[test]
    fn a_cut_goes_on_from_the_one_before() {
        let before = cut(3, 10, 5, Some(1), &[2, 3]);
        for (next, begins, broken) in [
            (cut(4, 12, 6, Some(2), &[3, 4]), false, None),
            (cut(4, 10, 5, Some(1), &[2, 3]), true, None),
            (cut(3, 10, 5, Some(1), &[2, 3]), false, Some("C1")),
            (cut(4, 9, 5, Some(1), &[2, 3, 4]), false, Some("C2")),
            (cut(4, 11, 5, Some(1), &[2, 3]), true, Some("C2")),
            (cut(4, 10, 4, Some(1), &[2, 3, 4]), false, Some("W1")),
            (cut(4, 10, 5, Some(1), &[3, 4]), false, Some("C3")),
            (cut(4, 10, 5, Some(9), &[4]), false, Some("C3")),
        ] {
            assert_eq!(violated(cut_follows(&before, &next, begins)), broken, "{next:?}");
        }
    }

    fn mark(epoch: Option<Epoch>, fence: u64, rows: u64) -> Mark {
        Mark {
            table_uuid: "t".into(),
            pipeline: "p".into(),
            sink: "out".into(),
            epoch,
            fence: Some(start(fence)),
            offsets: Default::default(),
            event_time_watermark: None,
            replay_from: Default::default(),
            digest: RunningDigest { rows, sum: 0 },
        }
    }

    #[test]
    fn a_commit_adds_what_lies_between_two_marks() {
        let digest = RunningDigest { rows: 2, sum: 0 };
        let (before, after) = (mark(Some(epoch(1)), 1, 1), mark(Some(epoch(3)), 1, 2));
        let between = [(epoch(2), 0), (epoch(3), 1)];
        let whole = Commit {
            before: &before,
            after: &after,
            by: start(1),
            added: &[epoch(3)],
            between: Some(&between),
            held: &[epoch(1), epoch(3)],
            digest,
        };
        assert_eq!(violated(commit(&whole)), None);
        assert_eq!(violated(commit(&Commit { between: None, ..whole })), Some("M1"));
        assert_eq!(violated(commit(&Commit { added: &[], ..whole })), Some("M2"));
        assert_eq!(violated(commit(&Commit { added: &[epoch(3), epoch(3)], ..whole })), Some("M2"));
        assert_eq!(violated(commit(&Commit { held: &[epoch(1), epoch(1)], ..whole })), Some("M4"));
        assert_eq!(violated(commit(&Commit { digest: RunningDigest::default(), ..whole })), Some("M5"));
        let other = mark(Some(epoch(3)), 2, 2);
        assert_eq!(violated(commit(&Commit { after: &other, ..whole })), Some("M3"));
        let (newer, older) = (mark(Some(epoch(1)), 2, 2), mark(Some(epoch(1)), 0, 2));
        assert_eq!(violated(commit(&Commit { by: start(0), ..whole })), Some("M3"), "an old one");
        let fence = Commit { after: &newer, by: start(2), added: &[], between: None, held: &[epoch(1)], ..whole };
        assert_eq!(violated(commit(&fence)), None);
        assert_eq!(violated(commit(&Commit { after: &older, by: start(0), ..fence })), Some("M3"));
        assert_eq!(violated(commit(&Commit { added: &[epoch(3)], ..fence })), Some("M2"));
    }

    #[test]
    fn rows_are_added_in_the_order_of_their_epochs() {
        let digest = RunningDigest { rows: 3, sum: 0 };
        let (before, after) = (mark(Some(epoch(1)), 1, 1), mark(Some(epoch(3)), 1, 3));
        let added = |added: &[Epoch]| {
            violated(commit(&Commit {
                before: &before,
                after: &after,
                by: start(1),
                added,
                between: Some(&[(epoch(2), 1), (epoch(3), 1)]),
                held: &[epoch(1), epoch(2), epoch(3)],
                digest,
            }))
        };
        assert_eq!(added(&[epoch(2), epoch(3)]), None);
        assert_eq!(added(&[epoch(3), epoch(2)]), Some("M2"));
    }

    #[test]
    fn a_fence_is_not_replaced_by_its_twin_of_the_same_number() {
        let twin = Incarnation { number: 1, token: 2 };
        let before = mark(Some(epoch(1)), 1, 1);
        let after = Mark { fence: Some(twin), ..before.clone() };
        let (between, held, digest) = (None, &[epoch(1)], before.digest);
        let fence = Commit { before: &before, after: &after, by: twin, added: &[], between, held, digest };
        assert_eq!(violated(commit(&fence)), Some("M3"));
        assert_eq!(violated(commit(&Commit { after: &before, by: start(1), ..fence })), None, "put twice");
    }

    #[test]
    fn a_violation_names_its_invariant_and_is_counted_when_asked() {
        let before = violations();
        let violation = Violation::new(Invariant::M4, "out holds 3 twice").counted();
        assert_eq!(violation.to_string(), "M4 (Each epoch is in a sink at most once.) out holds 3 twice");
        let _ = violation.counted();
        assert!(violations() >= before + 2, "other tests may count too");
    }

    #[test]
    fn what_is_named_stays() {
        assert_eq!(violated(removal("a", [("m", false)].into_iter())), None);
        assert_eq!(violated(removal("a", [("m", false), ("n", true)].into_iter())), Some("G1"));
    }

    #[test]
    fn ids_are_unique() {
        let ids: BTreeSet<_> = Invariant::ALL.iter().map(|i| i.id()).collect();
        assert_eq!(ids.len(), Invariant::ALL.len());
    }
}
