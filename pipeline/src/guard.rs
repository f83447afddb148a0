//! Guards that a promise rests on, each of which a test can switch off to see that something fails then.
//!
//! Only builds with the feature `checks` have switches; in what ships a guard always holds, and asking costs nothing.
//! Doesn't know: what the guards do. Keeps: a guard that nobody switched off holds.
//! Tested: the switches here; what each guard is for in the simulations of src/simulate/tests/guards.rs.
macro_rules! guards {
    ($($(#[$doc:meta])* $guard:ident = $name:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Guard { $($(#[$doc])* $guard,)* }

        impl Guard {
            pub const ALL: &[Self] = &[$(Self::$guard,)*];

            pub fn name(self) -> &'static str {
                match self { $(Self::$guard => $name,)* }
            }
        }
    };
}

guards! {
    /// Epochs are committed only on the mark that they follow.
    MarkEquality = "mark_equality",
    /// Nothing is committed under another start's fence.
    Fence = "fence",
    /// A fence is put only over a lower number.
    FenceOrder = "fence_order",
    /// A request without an answer is neither taken for done nor for undone.
    UnknownOutcome = "unknown_outcome",
    /// A table whose `main` no longer holds the mark's snapshot is refused.
    Rollback = "rollback",
    /// A table dropped and made again is another table.
    TableIdentity = "table_identity",
    /// A claim, a segment or a manifest is made only where there is none of its name.
    CreateIfAbsent = "create_if_absent",
    /// A sink hears of an epoch only when its manifest is durable.
    ManifestFirst = "manifest_first",
    /// The outbox of the restored manifest is handed on.
    OutboxRestore = "outbox_restore",
    /// Keyed state is restored.
    StateRestore = "state_restore",
    /// The watermark of each partition is restored.
    WatermarkRestore = "watermark_restore",
    /// Reading goes on at the restored position.
    PositionRestore = "position_restore",
    /// Lateness is judged by the record's own partition.
    OwnPartition = "own_partition",
    /// Windows fire at a cut only, all workers at the same one.
    FireAtCut = "fire_at_cut",
    /// A partition that joins has the watermark of its cut as its floor.
    JoinFloor = "join_floor",
    /// An id is forgotten only when no record can ask for it.
    Horizon = "horizon",
    /// What a manifest names is not collected.
    CollectUnnamed = "collect_unnamed",
    /// A start that is no longer the newest collects nothing.
    CollectAsNewest = "collect_as_newest",
}

/// Whether the guard holds.
#[inline]
pub fn holds(guard: Guard) -> bool {
    #[cfg(feature = "checks")]
    return !switches::is_off(guard);
    #[cfg(not(feature = "checks"))]
    {
        let _ = guard;
        true
    }
}

#[cfg(feature = "checks")]
pub use switches::{without, without_everywhere};

#[cfg(feature = "checks")]
mod switches {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::Guard;

    static EVERYWHERE: AtomicU64 = AtomicU64::new(0);

    thread_local! {
        static HERE: Cell<u64> = const { Cell::new(0) };
    }

    fn bit(guard: Guard) -> u64 {
        1 << guard as u64
    }

    pub fn is_off(guard: Guard) -> bool {
        (EVERYWHERE.load(Ordering::Relaxed) | HERE.get()) & bit(guard) != 0
    }

    /// Does something on this thread without a guard.
    pub fn without<T>(guard: Guard, something: impl FnOnce() -> T) -> T {
        let before = HERE.replace(HERE.get() | bit(guard));
        let done = something();
        HERE.set(before);
        done
    }

    /// For the rest of this process.
    pub fn without_everywhere(guard: Guard) {
        EVERYWHERE.fetch_or(bit(guard), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Once it is switched off everywhere it stays so for the other tests too; none of them asks for it.
    const FOR_EVERYWHERE: Guard = Guard::CollectAsNewest;

    fn off() -> Vec<Guard> {
        Guard::ALL.iter().copied().filter(|guard| *guard != FOR_EVERYWHERE && !holds(*guard)).collect()
    }

    #[test]
    fn a_guard_is_off_while_something_is_done_without_it_and_no_longer() {
        assert_eq!(off(), []);
        for guard in Guard::ALL.iter().copied().filter(|guard| *guard != FOR_EVERYWHERE) {
            assert_eq!(without(guard, off), [guard]);
            assert_eq!(off(), []);
        }
    }

    #[test]
    fn guards_are_switched_off_one_within_another() {
        without(Guard::Fence, || {
            assert_eq!(without(Guard::Horizon, off), [Guard::Fence, Guard::Horizon]);
            assert_eq!(without(Guard::Fence, off), [Guard::Fence], "twice is off as well");
            assert_eq!(off(), [Guard::Fence]);
        });
    }

    #[test]
    fn other_threads_keep_their_guards() {
        let elsewhere = || std::thread::scope(|scope| scope.spawn(off).join().unwrap());
        assert_eq!(without(Guard::Fence, elsewhere), []);
    }

    #[test]
    fn a_guard_that_is_off_everywhere_is_off_on_every_thread_for_good() {
        without_everywhere(FOR_EVERYWHERE);
        let elsewhere = || std::thread::scope(|scope| scope.spawn(|| holds(FOR_EVERYWHERE)).join().unwrap());
        assert!(!holds(FOR_EVERYWHERE) && !elsewhere());
        assert!(!without(FOR_EVERYWHERE, || holds(FOR_EVERYWHERE)), "here too is off as well");
        assert_eq!(off(), [], "and no other");
    }
}
