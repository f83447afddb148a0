//! What a sink says of itself, and what may be committed on top of it.
//!
//! A mark travels with the rows in one atomic commit, so the sink itself knows how far it got. The fence in it names the newest start that claimed the sink.
//! Doesn't know: how a sink stores its mark.
//! Keeps: epochs (a, b] are committed only on a base whose mark is exactly a and whose fence is our own incarnation (DESIGN.md 8).
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::guard::{Guard, holds};
use crate::ids::{Epoch, Incarnation, PartitionName};
use crate::time::EventTime;

/// A sink's own account of what it holds. Equal epochs are equal in all their fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Identity of the table; a table dropped and made again has another.
    pub table_uuid: String,
    pub pipeline: String,
    pub sink: String,
    /// Last epoch committed; `None`: no epoch yet, which equals an absent mark.
    pub epoch: Option<Epoch>,
    /// Newest incarnation that claimed the sink.
    pub fence: Option<Incarnation>,
    /// Next offset to read of each partition, as of `epoch`.
    pub offsets: Offsets,
    pub event_time_watermark: Option<EventTime>,
    /// Lowest offset of each partition that open windows and live dedup buckets still need, with the watermark before it.
    pub replay_from: ReplayPoints,
    /// Running digest of all rows that this sink's epochs added.
    pub digest: RunningDigest,
}

/// Next offset to read of each partition. All that one cut makes, for whichever sink, has the same; so it is shared.
pub type Offsets = Arc<BTreeMap<PartitionName, i64>>;

/// Where a replay would have to begin in each partition; shared likewise.
pub type ReplayPoints = Arc<BTreeMap<PartitionName, ReplayFrom>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayFrom {
    pub offset: i64,
    pub watermark: Option<EventTime>,
}

/// Row count and sum of row hashes (mod 2¹²⁸): the parts of a table's digest that travel with its mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunningDigest {
    pub rows: u64,
    pub sum: u128,
}

impl RunningDigest {
    pub fn plus(self, other: Self) -> Self {
        Self { rows: self.rows + other.rows, sum: self.sum.wrapping_add(other.sum) }
    }
}

/// What to do on one base of a table, given the epochs that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnBase {
    /// Commit the epochs from this place in the list on.
    CommitFrom(usize),
    /// All of them are in the table already.
    Done,
    /// A newer start owns the sink: stop, and don't come back.
    Fenced { by: Incarnation },
    /// Our fence isn't in force here (an older one or none is): the table was rolled back or made anew under us.
    FenceLost,
    /// The mark is none that our list knows.
    Foreign,
}

/// Decides on the very base that the commit will assert. `base` is the epoch that the first of `epochs` follows.
pub fn on_base(mark: &Mark, ours: Incarnation, base: Option<Epoch>, epochs: &[Epoch]) -> OnBase {
    match mark.fence {
        Some(fence) if fence == ours || !holds(Guard::Fence) => {}
        Some(fence) if fence.number >= ours.number => return OnBase::Fenced { by: fence },
        _ => return OnBase::FenceLost,
    }
    if mark.epoch == base || !holds(Guard::MarkEquality) {
        return if epochs.is_empty() { OnBase::Done } else { OnBase::CommitFrom(0) };
    }
    match epochs.iter().position(|e| Some(*e) == mark.epoch) {
        Some(last) if last + 1 == epochs.len() => OnBase::Done,
        Some(at) => OnBase::CommitFrom(at + 1),
        None => OnBase::Foreign,
    }
}

/// Whether a start may put its fence over the one that it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFence {
    Put,
    /// It is there already: an answer that was lost.
    Ours,
    /// Same number, another token: claim a new number.
    ClaimAgain,
    Fenced {
        by: Incarnation,
    },
}

pub fn on_fence(found: Option<Incarnation>, ours: Incarnation) -> OnFence {
    match found {
        None => OnFence::Put,
        Some(_) if !holds(Guard::FenceOrder) => OnFence::Put,
        Some(fence) if fence == ours => OnFence::Ours,
        Some(fence) if fence.number < ours.number => OnFence::Put,
        Some(fence) if fence.number == ours.number => OnFence::ClaimAgain,
        Some(fence) => OnFence::Fenced { by: fence },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::without;
    use crate::ids::CheckpointId;

    fn start(number: u64) -> Incarnation {
        Incarnation { number, token: u128::from(number) * 7 }
    }

    fn epoch(checkpoint: u64) -> Epoch {
        Epoch { incarnation: start(3), checkpoint: CheckpointId(checkpoint) }
    }

    fn mark(epoch: Option<Epoch>, fence: Option<Incarnation>) -> Mark {
        Mark {
            table_uuid: "t".into(),
            pipeline: "p".into(),
            sink: "s".into(),
            epoch,
            fence,
            offsets: Offsets::default(),
            event_time_watermark: None,
            replay_from: ReplayPoints::default(),
            digest: RunningDigest::default(),
        }
    }

    #[test]
    fn epochs_are_committed_only_on_the_mark_they_follow() {
        let list = [epoch(5), epoch(6), epoch(7)];
        let on = |found: Option<Epoch>| on_base(&mark(found, Some(start(3))), start(3), Some(epoch(4)), &list);
        assert_eq!(on(Some(epoch(4))), OnBase::CommitFrom(0));
        assert_eq!(on(Some(epoch(5))), OnBase::CommitFrom(1));
        assert_eq!(on(Some(epoch(7))), OnBase::Done);
        assert_eq!(on(Some(epoch(3))), OnBase::Foreign);
        assert_eq!(on(Some(epoch(8))), OnBase::Foreign);
        assert_eq!(on(None), OnBase::Foreign, "a mark that vanished is never `nothing committed yet`");
    }

    #[test]
    fn an_equal_checkpoint_number_of_another_start_is_not_recognised() {
        let other = Epoch { incarnation: Incarnation { number: 3, token: 1 }, checkpoint: CheckpointId(5) };
        let found = mark(Some(other), Some(start(3)));
        assert_eq!(on_base(&found, start(3), Some(epoch(4)), &[epoch(5)]), OnBase::Foreign);
    }

    #[test]
    fn the_first_commit_goes_on_a_table_without_an_epoch() {
        let found = mark(None, Some(start(3)));
        assert_eq!(on_base(&found, start(3), None, &[epoch(1)]), OnBase::CommitFrom(0));
    }

    #[test]
    fn nothing_is_committed_under_another_fence() {
        let on = |fence| on_base(&mark(Some(epoch(4)), fence), start(3), Some(epoch(4)), &[epoch(5)]);
        assert_eq!(on(Some(start(4))), OnBase::Fenced { by: start(4) });
        let twin = Incarnation { number: 3, token: 99 };
        assert_eq!(on(Some(twin)), OnBase::Fenced { by: twin });
        assert_eq!(on(Some(start(2))), OnBase::FenceLost);
        assert_eq!(on(None), OnBase::FenceLost);
    }

    #[test]
    fn digests_of_epochs_add_up_and_their_sums_wrap() {
        let (two, three) = (RunningDigest { rows: 2, sum: u128::MAX }, RunningDigest { rows: 3, sum: 5 });
        assert_eq!(two.plus(three), RunningDigest { rows: 5, sum: 4 });
        assert_eq!(two.plus(RunningDigest::default()), two);
    }

    #[test]
    fn only_the_guard_keeps_a_fence_from_a_newer_one() {
        let put = || on_fence(Some(start(3)), start(2));
        assert_eq!(put(), OnFence::Fenced { by: start(3) });
        assert_eq!(without(Guard::FenceOrder, put), OnFence::Put);
    }

    #[test]
    fn a_fence_goes_only_over_a_lower_number() {
        assert_eq!(on_fence(None, start(2)), OnFence::Put);
        assert_eq!(on_fence(Some(start(1)), start(2)), OnFence::Put);
        assert_eq!(on_fence(Some(start(2)), start(2)), OnFence::Ours);
        assert_eq!(on_fence(Some(Incarnation { number: 2, token: 0 }), start(2)), OnFence::ClaimAgain);
        assert_eq!(on_fence(Some(start(3)), start(2)), OnFence::Fenced { by: start(3) });
    }
}
