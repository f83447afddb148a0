//! Traps: which request is caught, and where it is in its life.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::lock;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Hold,
    LoseAnswer,
}

/// A trap goes through these once, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Set,
    Caught,
    Released,
    /// The service has answered what was caught (or closed the connection).
    Answered,
}

/// One request that is caught, or will be.
pub struct Trap {
    kind: Kind,
    pattern: Vec<u8>,
    stage: Mutex<Stage>,
    moved: Condvar,
}

impl Trap {
    /// Waits for a request to be caught; false when the limit has passed.
    pub fn wait_caught(&self, limit: Duration) -> bool {
        self.wait(Stage::Caught, limit)
    }

    /// Waits until the service has answered the caught request, whether or not anybody hears it.
    pub fn wait_answered(&self, limit: Duration) -> bool {
        self.wait(Stage::Answered, limit)
    }

    /// Sends a held request on its way.
    pub fn release(&self) {
        self.advance(Stage::Released);
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn caught(&self) {
        self.advance(Stage::Caught);
    }

    pub(super) fn answered(&self) {
        self.advance(Stage::Answered);
    }

    pub(super) fn wait_released(&self) {
        let stage = lock(&self.stage);
        drop(self.moved.wait_while(stage, |stage| *stage < Stage::Released));
    }

    fn advance(&self, to: Stage) {
        let mut stage = lock(&self.stage);
        *stage = to.max(*stage);
        self.moved.notify_all();
    }

    fn wait(&self, wanted: Stage, limit: Duration) -> bool {
        let stage = lock(&self.stage);
        let waited = self.moved.wait_timeout_while(stage, limit, |stage| *stage < wanted);
        *waited.unwrap_or_else(PoisonError::into_inner).0 >= wanted
    }
}

/// All traps of a proxy. Each catches one request.
#[derive(Default)]
pub struct Traps {
    set: Mutex<Vec<Arc<Trap>>>,
    sprung: Mutex<Vec<Arc<Trap>>>,
}

impl Traps {
    pub fn set(&self, kind: Kind, pattern: &[u8]) -> Arc<Trap> {
        let stage = Mutex::new(Stage::Set);
        let trap = Arc::new(Trap { kind, pattern: pattern.to_vec(), stage, moved: Condvar::new() });
        lock(&self.set).push(trap.clone());
        trap
    }

    /// The trap whose pattern ends in `chunk`; it may have begun in `before`, the bytes that came earlier.
    pub fn spring(&self, before: &[u8], chunk: &[u8]) -> Option<Arc<Trap>> {
        let mut set = lock(&self.set);
        let at = set.iter().position(|trap| ends_in_chunk(&trap.pattern, before, chunk))?;
        let trap = set.remove(at);
        lock(&self.sprung).push(trap.clone());
        trap.caught();
        Some(trap)
    }

    pub fn release_all(&self) {
        for trap in lock(&self.sprung).drain(..) {
            trap.release();
        }
    }
}

fn ends_in_chunk(pattern: &[u8], before: &[u8], chunk: &[u8]) -> bool {
    if pattern.is_empty() {
        return true;
    }
    let overlap = before.len().min(pattern.len() - 1);
    let bytes = [&before[before.len() - overlap..], chunk].concat();
    bytes.windows(pattern.len()).any(|window| window == pattern)
}
