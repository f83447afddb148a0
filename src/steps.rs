//! Named points at every step of a start, a checkpoint and a commit, where a test can have the process die, stand still, fail, or lose an answer.
//!
//! Each point stands right after the step it names (those that end in `due`: right before it); docs/PROTOCOL.md has them in their order.
//! Only builds with the feature `checks` look for orders: tests have it, what ships doesn't, and there a point is an empty function.
//! Doesn't know: what the steps do. Keeps: a point changes nothing unless it was ordered to.
//! Tested: steps/orders.rs (orders), tests/steps.rs (every point fires, and a crash there changes no table), tests/tidy.rs (every point has its place).
#[cfg(feature = "checks")]
mod orders;

use std::fmt;

/// Names the file in which a process finds its orders: `POINT VISITS ACTION`, taken once, at the first visit of any point after it was put there.
pub const ORDERS: &str = "FLOODMARK_ORDERS";

macro_rules! points {
    ($($(#[$doc:meta])* $point:ident = $name:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Point { $($(#[$doc])* $point,)* }

        impl Point {
            pub const ALL: &[Point] = &[$(Point::$point,)*];

            pub fn name(self) -> &'static str {
                match self { $(Point::$point => $name,)* }
            }
        }
    };
}

points! {
    /// The first look allows a start; nothing has been touched.
    Looked = "looked",
    /// The incarnation is ours in the checkpoint directory, and no sink knows.
    Claimed = "claimed",
    /// The fence is about to be asked for.
    FenceDue = "fence_due",
    /// One sink has it.
    Fenced = "fenced",
    /// The second look, under the fences, has decided how to go on.
    Planned = "planned",
    /// The workers' stores are brought back.
    Restored = "restored",
    /// The restored cut is durable as a manifest of our own.
    Owned = "owned",
    /// Records have been read, and are in memory only.
    Read = "read",
    /// A worker is about to take a barrier.
    Barrier = "barrier",
    /// A worker's part of a checkpoint is taken: state snapshot, sealed rows.
    Part = "part",
    /// All parts are in, and their sums close.
    Cut = "cut",
    /// A segment is durable.
    Segment = "segment",
    /// A state file is durable.
    StateFile = "state_file",
    /// All is durable but the manifest, and who publishes has made sure of what it checks.
    ManifestDue = "manifest_due",
    /// The checkpoint is complete, and nobody has heard of it.
    Manifest = "manifest",
    /// A committer is told of an epoch.
    Handed = "handed",
    /// Rows are in files that no snapshot or mark names.
    DataFiles = "data_files",
    /// Mark and fence are judged, and the commit is about to be asked for.
    CommitDue = "commit_due",
    /// The rows are visible, and we haven't heard so.
    Committed = "committed",
    /// A file's rows have their visible name.
    Linked = "linked",
    /// The coordinator is about to hear of a commit.
    AckDue = "ack_due",
    /// An old manifest is removed; the objects that it named are not.
    ManifestGone = "manifest_gone",
    /// An object that no manifest names is removed.
    ObjectGone = "object_gone",
    /// What earlier starts left unfinished is removed.
    Swept = "swept",
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A step failed because it was ordered to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ordered to fail at {0}")]
pub struct Ordered(Point);

/// The process has come to a point.
#[inline]
pub fn reached(point: Point) {
    // Where nothing can fail, an order to fail is not obeyed.
    let _ = pass(point);
}

/// The same where the step may fail, or its answer may get lost.
#[inline]
pub fn pass(point: Point) -> Result<(), Ordered> {
    #[cfg(feature = "checks")]
    if orders::visit(point) {
        return Err(Ordered(point));
    }
    #[cfg(not(feature = "checks"))]
    let _ = point;
    Ok(())
}
