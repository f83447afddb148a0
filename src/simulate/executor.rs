//! Polls the tasks of simulated processes on one thread, one at a time, in an order that follows from the seed; its time passes only when nobody can go on.
//!
//! Doesn't know: what the tasks do. Keeps: nothing of a process that is frozen or dead is polled; one seed, one order. Tested: here.
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::host::Task;

/// Number of a process, in the order of their starts.
pub type ProcessId = usize;
type TaskId = u64;

/// A clone is the same executor.
#[derive(Clone)]
pub struct Executor {
    inner: Arc<Mutex<Inner>>,
    woken: Woken,
}

/// Tasks that can go on, in the order in which they were woken.
type Woken = Arc<Mutex<Vec<TaskId>>>;

struct Inner {
    now_ms: u64,
    chance: fastrand::Rng,
    tasks: BTreeMap<TaskId, Slot>,
    /// By the time they are due at and the order in which they were set.
    timers: BTreeMap<(u64, u64), Waker>,
    frozen: BTreeSet<ProcessId>,
    next: u64,
}

struct Slot {
    process: ProcessId,
    /// `None` while it is being polled, and for the task that is the process itself.
    task: Option<Task>,
    waker: Waker,
    is_woken: Arc<AtomicBool>,
}

/// What a process runs until it ends. It stays on this thread, so whoever turns the executor keeps it.
pub type Program<E> = Pin<Box<dyn Future<Output = E>>>;

/// What a step came to.
pub enum Stepped<E> {
    On,
    Ended(ProcessId, E),
}

struct Chosen {
    id: TaskId,
    process: ProcessId,
    task: Option<Task>,
    waker: Waker,
}

struct WakeTask {
    id: TaskId,
    /// It is among the woken ones.
    is_woken: Arc<AtomicBool>,
    woken: Woken,
}

impl Wake for WakeTask {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_woken.swap(true, Ordering::Relaxed) {
            lock(&self.woken).push(self.id);
        }
    }
}

/// A panic in a task ends the simulation: what it leaves is not looked at.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Executor {
    pub fn new(seed: u64) -> Self {
        let inner = Inner {
            now_ms: 0,
            chance: fastrand::Rng::with_seed(seed),
            tasks: BTreeMap::new(),
            timers: BTreeMap::new(),
            frozen: BTreeSet::new(),
            next: 0,
        };
        Self { inner: Arc::new(Mutex::new(inner)), woken: Arc::default() }
    }

    pub fn now_ms(&self) -> u64 {
        lock(&self.inner).now_ms
    }

    /// The one source of chance of a simulation.
    pub fn chance<T>(&self, draw: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
        draw(&mut lock(&self.inner).chance)
    }

    pub fn spawn(&self, process: ProcessId, task: Task) -> TaskId {
        self.add(process, Some(task))
    }

    /// Makes room for a process, whose program is given to each [`step`](Self::step).
    pub fn begin(&self, process: ProcessId) {
        self.add(process, None);
    }

    fn add(&self, process: ProcessId, task: Option<Task>) -> TaskId {
        let mut inner = lock(&self.inner);
        let id = inner.number();
        let is_woken = Arc::new(AtomicBool::new(true));
        let waker = Arc::new(WakeTask { id, is_woken: is_woken.clone(), woken: self.woken.clone() }).into();
        inner.tasks.insert(id, Slot { process, task, waker, is_woken });
        lock(&self.woken).push(id);
        id
    }

    pub fn end(&self, task: TaskId) {
        // Dropped after the lock is let go: what a task holds may end tasks of its own.
        let ended = lock(&self.inner).tasks.remove(&task);
        drop(ended);
    }

    /// All of a process is gone at once.
    pub fn kill(&self, process: ProcessId) {
        let mut killed = vec![];
        {
            let mut inner = lock(&self.inner);
            let ids: Vec<_> =
                inner.tasks.iter().filter(|(_, slot)| slot.process == process).map(|(id, _)| *id).collect();
            killed.extend(ids.iter().filter_map(|id| inner.tasks.remove(id)));
            inner.frozen.remove(&process);
        }
        drop(killed);
    }

    pub fn freeze(&self, process: ProcessId) {
        lock(&self.inner).frozen.insert(process);
    }

    pub fn thaw(&self, process: ProcessId) {
        lock(&self.inner).frozen.remove(&process);
    }

    pub fn sleep(&self, time: Duration) -> Sleep {
        let due_ms = self.now_ms() + time.as_millis() as u64;
        Sleep { executor: self.clone(), due_ms, key: None }
    }

    /// Polls one task that can go on. `None`: there is none before time passes.
    pub fn step<E>(&self, programs: &mut BTreeMap<ProcessId, Program<E>>) -> Option<Stepped<E>> {
        let Chosen { id, process, task, waker } = self.choose()?;
        let mut context = Context::from_waker(&waker);
        let Some(mut task) = task else {
            let polled = programs.get_mut(&process).map(|program| program.as_mut().poll(&mut context));
            let Some(Poll::Ready(end)) = polled else { return Some(Stepped::On) };
            programs.remove(&process);
            self.kill(process);
            return Some(Stepped::Ended(process, end));
        };
        let polled = task.as_mut().poll(&mut context);
        let mut inner = lock(&self.inner);
        match polled {
            Poll::Ready(()) => drop(inner.tasks.remove(&id)),
            // It may have been ended by what it did.
            Poll::Pending => {
                if let Some(slot) = inner.tasks.get_mut(&id) {
                    slot.task = Some(task);
                }
            }
        }
        Some(Stepped::On)
    }

    fn choose(&self) -> Option<Chosen> {
        let mut inner = lock(&self.inner);
        let mut woken = lock(&self.woken);
        let Inner { tasks, frozen, chance, .. } = &mut *inner;
        loop {
            let at = if frozen.is_empty() {
                (!woken.is_empty()).then(|| chance.usize(0..woken.len()))?
            } else {
                let is_ready = |id: &TaskId| tasks.get(id).is_none_or(|slot| !frozen.contains(&slot.process));
                chance.choice(
                    woken.iter().enumerate().filter(|(_, id)| is_ready(id)).map(|(at, _)| at).collect::<Vec<_>>(),
                )?
            };
            let id = woken.remove(at);
            // Who has ended may have been woken before.
            let Some(slot) = tasks.get_mut(&id) else { continue };
            slot.is_woken.store(false, Ordering::Relaxed);
            return Some(Chosen { id, process: slot.process, task: slot.task.take(), waker: slot.waker.clone() });
        }
    }

    /// When the next timer is due.
    pub fn due_ms(&self) -> Option<u64> {
        lock(&self.inner).timers.keys().next().map(|(due, _)| *due)
    }

    /// Time passes up to there, and whoever waited for it can go on.
    pub fn advance(&self, to_ms: u64) {
        let mut inner = lock(&self.inner);
        inner.now_ms = inner.now_ms.max(to_ms);
        let now_ms = inner.now_ms;
        let later = inner.timers.split_off(&(now_ms + 1, 0));
        let due = std::mem::replace(&mut inner.timers, later);
        drop(inner);
        due.into_values().for_each(Waker::wake);
    }
}

impl Inner {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// Over when the executor's time has come there.
pub struct Sleep {
    executor: Executor,
    due_ms: u64,
    key: Option<(u64, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let executor = self.executor.clone();
        let mut inner = lock(&executor.inner);
        if inner.now_ms >= self.due_ms {
            return Poll::Ready(());
        }
        let key = self.key.unwrap_or_else(|| (self.due_ms, inner.number()));
        self.key = Some(key);
        inner.timers.insert(key, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            lock(&self.executor.inner).timers.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::host::pass;
    use super::*;

    /// What two processes do, each three times with a rest in between.
    fn order(seed: u64, frozen: Option<ProcessId>) -> Vec<(ProcessId, u64)> {
        let (executor, done) = (Executor::new(seed), Arc::new(Mutex::new(vec![])));
        for process in [0, 1] {
            let (executor_of_it, done) = (executor.clone(), done.clone());
            let task = async move {
                for _ in 0..3 {
                    pass().await;
                    lock(&done).push((process, executor_of_it.now_ms()));
                    executor_of_it.sleep(Duration::from_millis(10)).await;
                }
            };
            executor.spawn(process, Box::pin(task));
        }
        frozen.into_iter().for_each(|process| executor.freeze(process));
        loop {
            if executor.step::<()>(&mut BTreeMap::new()).is_none() {
                let Some(due_ms) = executor.due_ms() else { break };
                executor.advance(due_ms);
            }
        }
        lock(&done).clone()
    }

    #[test]
    fn one_seed_is_one_order_and_seeds_differ() {
        assert_eq!(order(1, None), order(1, None));
        assert!((2..20).any(|seed| order(seed, None) != order(1, None)));
    }

    #[test]
    fn time_passes_only_when_nobody_can_go_on() {
        let times: Vec<_> = order(1, None).into_iter().map(|(_, at)| at).collect();
        assert_eq!(times, [0, 0, 10, 10, 20, 20]);
    }

    #[test]
    fn a_frozen_process_does_nothing() {
        assert_eq!(order(1, Some(0)), [(1, 0), (1, 10), (1, 20)]);
    }
}
