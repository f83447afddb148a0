//! A path's timeline: what a reader of its table sees, its newest checkpoint and its lag, looked at all the time.
//!
//! Doesn't know: what it looks at. Keeps: looking never fails a run; what can't be seen is missing. Tested: here.
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;

const PAUSE: Duration = Duration::from_millis(200);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// Since the feed began.
    pub at_ms: u64,
    /// Records in the topic.
    pub written: u64,
    /// Rows of the watched table that a reader sees.
    pub rows: Option<u64>,
    /// The newest complete one.
    pub checkpoint: Option<u64>,
    /// Records in the topic that aren't read yet.
    pub lag: Option<u64>,
}

pub struct Watch {
    samples: Arc<Mutex<Vec<Sample>>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// `look` fills in all but the time.
    pub fn start(began: Instant, mut look: impl FnMut() -> Sample + Send + 'static) -> Self {
        let (samples, over) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (to, until) = (Arc::clone(&samples), Arc::clone(&over));
        let thread = std::thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                let at_ms = began.elapsed().as_millis() as u64;
                let sample = Sample { at_ms, ..look() };
                to.lock().unwrap_or_else(PoisonError::into_inner).push(sample);
                std::thread::sleep(PAUSE);
            }
        });
        Self { samples, over, thread: Some(thread) }
    }

    pub fn end(mut self) -> Vec<Sample> {
        self.stop();
        std::mem::take(&mut self.samples.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn stop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // One that has panicked has nothing more to say.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop();
    }
}

/// From `at_ms` to the first sample with more rows than `rows`.
pub fn new_rows_after_ms(samples: &[Sample], at_ms: u64, rows: u64) -> Option<u64> {
    let later = samples.iter().filter(|sample| sample.at_ms >= at_ms);
    let first = later.into_iter().find(|sample| sample.rows.is_some_and(|seen| seen > rows))?;
    Some(first.at_ms - at_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_until_it_is_ended() {
        let mut rows = 0;
        let watch = Watch::start(Instant::now(), move || {
            rows += 1;
            Sample { rows: Some(rows), ..Sample::default() }
        });
        std::thread::sleep(PAUSE * 3);
        let samples = watch.end();
        assert!(samples.len() > 1);
        assert!(samples.is_sorted_by_key(|sample| (sample.at_ms, sample.rows)), "{samples:?}");
    }

    #[test]
    fn new_rows_count_from_the_hit_on() {
        let sample = |at_ms, rows| Sample { at_ms, rows, ..Sample::default() };
        let samples = [sample(1, Some(7)), sample(5, Some(5)), sample(8, None), sample(9, Some(6))];
        assert_eq!(new_rows_after_ms(&samples, 4, 5), Some(5));
        assert_eq!(new_rows_after_ms(&samples, 4, 6), None);
    }
}
