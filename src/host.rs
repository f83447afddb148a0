//! What a job has of the computer that it runs on: time, chance, tasks, working files, and other threads for what takes long. The real one is here.
//!
//! Whoever decides anything in a job asks nobody else for these, so that with another host (simulate/host.rs) one seed is one run.
//! Doesn't know: jobs. Keeps: what is spawned ends with whoever holds it.
// It is the one that others ask.
#![allow(clippy::disallowed_methods)]
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use floodmark_state::{Files, LocalDisk};
use tokio::sync::oneshot;

/// Something that goes on by itself.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

pub trait Host: Send + Sync {
    /// Milliseconds of a clock that never goes back.
    fn now_ms(&self) -> u64;

    /// Milliseconds since 1970, as far as the computer knows.
    fn wall_ms(&self) -> i64;

    /// A number that nobody else has.
    fn token(&self) -> u128;

    fn sleep(&self, time: Duration) -> Task;

    /// Goes on beside whoever asks for it.
    fn spawn(&self, task: Task) -> Spawned;

    /// The disk that working files lie on.
    fn files(&self) -> Arc<dyn Files>;

    /// Does what a disk may hold up, without holding up anybody else.
    fn run(&self, work: Box<dyn FnOnce() + Send>);
}

/// A task: it ends when this is dropped, if it hasn't before.
pub struct Spawned(Option<Box<dyn FnOnce() + Send>>);

impl Spawned {
    pub fn ended_by(end: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(end)))
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(|end| end());
    }
}

/// The result of `work`, which is done elsewhere; `None`: it panicked.
pub async fn elsewhere<T: Send + 'static>(host: &dyn Host, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (done, result) = oneshot::channel();
    // Whoever waited may be gone; then nobody needs the result.
    host.run(Box::new(move || drop(done.send(work()))));
    result.await.ok()
}

/// This computer, on tokio.
pub struct Computer {
    since: Instant,
}

impl Default for Computer {
    fn default() -> Self {
        Self { since: Instant::now() }
    }
}

impl Host for Computer {
    fn now_ms(&self) -> u64 {
        self.since.elapsed().as_millis() as u64
    }

    fn wall_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn token(&self) -> u128 {
        uuid::Uuid::new_v4().as_u128()
    }

    fn sleep(&self, time: Duration) -> Task {
        Box::pin(tokio::time::sleep(time))
    }

    fn spawn(&self, task: Task) -> Spawned {
        let task = tokio::spawn(task);
        Spawned::ended_by(move || task.abort())
    }

    fn files(&self) -> Arc<dyn Files> {
        Arc::new(LocalDisk)
    }

    fn run(&self, work: Box<dyn FnOnce() + Send>) {
        tokio::task::spawn_blocking(work);
    }
}
