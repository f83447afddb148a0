//! Is the job well? What `/healthz` answers.
//!
//! Not well means that a person or a supervisor should look: it isn't reading yet, checkpoints don't complete, or a sink is away.
//! Doesn't know: HTTP. Tested: tests.rs beside it.
use super::units::age;
use super::{Phase, Status};

/// Without a complete checkpoint for so long, and ten intervals, a job isn't well.
const STALE_MS: u64 = 60_000;

/// `Err` says why not.
pub fn check(status: &Status) -> Result<(), String> {
    match status.phase {
        Phase::Starting => return Err("starting".into()),
        Phase::Ended => return Err("ended".into()),
        Phase::Running | Phase::Stopping => {}
    }
    let since = status.checkpoint.age_ms.unwrap_or(status.uptime_ms);
    if since >= STALE_MS.max(10 * status.checkpoint.interval_ms) {
        return Err(format!("no checkpoint has completed for {}", age(since)));
    }
    match status.sinks.iter().find_map(|s| Some((s, s.away.as_ref()?))) {
        Some((sink, why)) => Err(format!("sink {} is away: {why}", sink.name)),
        None => Ok(()),
    }
}
