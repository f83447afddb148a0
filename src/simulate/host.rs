//! The simulated computer of one process.
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::Poll;
use std::time::Duration;

use floodmark_state::Files;

use super::executor::{Executor, ProcessId};
use super::files::MemoryFiles;
use crate::host::{Host, Spawned, Task};
use crate::runtime::crank::{Crank, Turning};
use crate::runtime::worker::Step;

/// When simulations begin.
const BEGIN_MS: i64 = 1_767_225_600_000;
/// How long a worker without work rests.
const REST: Duration = Duration::from_millis(2);

#[derive(Clone)]
pub struct SimulatedHost {
    pub executor: Executor,
    pub process: ProcessId,
    /// How far the wall clock, which people set, is off.
    pub skew_ms: Arc<AtomicI64>,
    pub files: Arc<MemoryFiles>,
}

impl Host for SimulatedHost {
    fn now_ms(&self) -> u64 {
        self.executor.now_ms()
    }

    fn wall_ms(&self) -> i64 {
        BEGIN_MS + self.executor.now_ms() as i64 + self.skew_ms.load(Ordering::Relaxed)
    }

    fn token(&self) -> u128 {
        self.executor.chance(|chance| chance.u128(..))
    }

    fn sleep(&self, time: Duration) -> Task {
        Box::pin(self.executor.sleep(time))
    }

    fn spawn(&self, task: Task) -> Spawned {
        let (executor, id) = (self.executor.clone(), self.executor.spawn(self.process, task));
        Spawned::ended_by(move || executor.end(id))
    }

    fn files(&self) -> Arc<dyn Files> {
        self.files.clone()
    }

    fn run(&self, work: Box<dyn FnOnce() + Send>) {
        work();
    }
}

/// A worker as a task: others may come between any two of its steps.
pub fn as_task(host: &Arc<dyn Host>, mut crank: Crank) -> std::io::Result<Turning> {
    let waits = host.clone();
    let turn = async move {
        loop {
            match crank.turn() {
                Step::Busy => pass().await,
                Step::Idle => waits.sleep(REST).await,
                Step::Stopped => return,
            }
        }
    };
    Ok(Turning::Task { _task: host.spawn(Box::pin(turn)) })
}

/// Lets the others go first, perhaps.
pub fn pass() -> impl Future<Output = ()> + Send {
    let mut passed = false;
    std::future::poll_fn(move |context| {
        if std::mem::replace(&mut passed, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
}
