//! Not faster than asked.
//!
//! Doesn't know: what is paced.
//! Keeps: record i is due i / rate seconds after the start; what was missed is caught up, so the mean rate holds.
//! Tested: here.
use std::time::{Duration, Instant};

/// Shorter rests aren't worth a sleep.
const SHORTEST_REST: Duration = Duration::from_millis(1);

pub struct Pace {
    started: Instant,
    per_second: f64,
}

impl Pace {
    pub fn start(per_second: f64) -> Self {
        Pace { started: Instant::now(), per_second }
    }

    /// How long to rest before the record at `index`.
    pub fn rest_before(&self, index: u64) -> Option<Duration> {
        rest(index as f64 / self.per_second, self.started.elapsed())
    }
}

fn rest(due_s: f64, elapsed: Duration) -> Option<Duration> {
    let rest = Duration::try_from_secs_f64(due_s).unwrap_or(Duration::MAX).checked_sub(elapsed)?;
    (rest >= SHORTEST_REST).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_is_overdue_does_not_rest() {
        assert_eq!(rest(1.0, Duration::from_secs(2)), None);
        assert_eq!(rest(1.0, Duration::from_millis(750)), Some(Duration::from_millis(250)));
    }
}
