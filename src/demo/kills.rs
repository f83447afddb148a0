//! Runs a job to its end, killing it on the way.
//!
//! A kill comes once so many rows are visible, and a drawn moment later, at most a checkpoint interval: so it may fall into reading, a barrier,
//! a manifest, a data file or a commit.
//! Doesn't know: what the rows are. Keeps: every kill is reported with the rows that were visible; same seed, same targets.
//! Tested: here (targets), tests/demo.rs.
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::job::{Job, Running};
use super::{DemoError, Settings};

/// How often the table is looked at.
const LOOK: Duration = Duration::from_millis(10);
/// A run that shows nothing new for so long is stuck.
const STALLED: Duration = Duration::from_secs(60);
/// Kills are aimed at these shares of the rows. What becomes visible until the kill arrives comes on top.
const AIMED: (f64, f64) = (0.10, 0.75);

/// One kill and the start after it.
#[derive(Clone, Debug)]
pub struct Kill {
    pub visible: u64,
    pub all: u64,
    /// From the start of the next process to the first rows that weren't visible at the kill.
    pub recovery: Duration,
}

impl Kill {
    /// A kill before the first row or after the last one shows nothing.
    pub fn counts(&self) -> bool {
        0 < self.visible && self.visible < self.all
    }
}

struct Aim {
    visible: u64,
    /// Of the checkpoint interval.
    delay: f64,
}

/// Without a kill.
pub async fn run_through(job: &Job, all: u64) -> Result<(), DemoError> {
    let bar = bar(all);
    finish(job, job.start()?, &bar).await
}

pub async fn run_killed(
    job: &Job,
    settings: &Settings,
    all: u64,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<Kill>, DemoError> {
    let bar = bar(all);
    let interval = job.pipeline.settings.checkpoint_interval;
    let mut kills: Vec<Kill> = Vec::new();
    let mut running = job.start()?;
    for (kill, aim) in (1..).zip(aims(settings, all)) {
        if !wait_for(job, &mut running, aim.visible, &bar).await? {
            return Err(DemoError::EndedEarly { kill });
        }
        tokio::time::sleep(interval.mul_f64(aim.delay)).await;
        running.kill()?;
        let visible = job.visible().await?;
        let restarted = Instant::now();
        running = job.start()?;
        wait_for(job, &mut running, visible + 1, &bar).await?;
        let recovery = restarted.elapsed();
        kills.push(Kill { visible, all, recovery });
        bar.suspend(|| {
            say(&format!(
                "  kill {kill}: {visible} of {all} rows visible; new ones {:.2} s after the restart",
                recovery.as_secs_f64()
            ));
        });
    }
    finish(job, running, &bar).await?;
    Ok(kills)
}

/// Where in the run each kill is aimed at: one in each of as many equal parts.
fn aims(settings: &Settings, all: u64) -> Vec<Aim> {
    let part = (AIMED.1 - AIMED.0) / f64::from(settings.kills.max(1));
    (0..settings.kills)
        .map(|kill| {
            let share = AIMED.0 + part * (f64::from(kill) + drawn(settings.seed, kill, 0));
            Aim { visible: (share * all as f64) as u64, delay: drawn(settings.seed, kill, 1) }
        })
        .collect()
}

/// From 0 to below 1.
fn drawn(seed: u64, kill: u32, what: u32) -> f64 {
    let draw = xxh3_64_with_seed(&[kill.to_le_bytes(), what.to_le_bytes()].concat(), seed);
    (draw % 1_000) as f64 / 1_000.0
}

/// Waits until so many rows are visible; false if the run ended before.
async fn wait_for(job: &Job, running: &mut Running, rows: u64, bar: &ProgressBar) -> Result<bool, DemoError> {
    let (mut last, mut since) = (0, Instant::now());
    loop {
        let ended = running.ended()?;
        let visible = job.visible().await?;
        bar.set_position(visible);
        if visible >= rows {
            return Ok(ended.is_none());
        }
        if let Some(status) = ended {
            return if status.success() { Ok(false) } else { Err(failed(job, status)) };
        }
        if visible > last {
            (last, since) = (visible, Instant::now());
        }
        if since.elapsed() > STALLED {
            return Err(DemoError::Stalled { seconds: STALLED.as_secs(), log: job.messages() });
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn finish(job: &Job, mut running: Running, bar: &ProgressBar) -> Result<(), DemoError> {
    loop {
        if let Some(status) = running.ended()? {
            bar.finish_and_clear();
            return if status.success() { Ok(()) } else { Err(failed(job, status)) };
        }
        bar.set_position(job.visible().await?);
        tokio::time::sleep(LOOK).await;
    }
}

fn failed(job: &Job, status: std::process::ExitStatus) -> DemoError {
    DemoError::ChildFailed { what: "run", status, log: job.messages() }
}

/// Shown on a terminal only.
fn bar(all: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("  {bar:40} {human_pos} of {human_len} rows visible, {elapsed}");
    ProgressBar::new(all).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(kills: u32) -> Settings {
        Settings { events: 1_000, kills, dir: "unused".into(), seed: 1 }
    }

    #[test]
    fn kills_are_aimed_at_rising_places_between_10_and_90_percent() {
        for kills in [1, 5, 20] {
            let aims: Vec<u64> = aims(&settings(kills), 1_000_000).iter().map(|aim| aim.visible).collect();
            assert_eq!(aims.len(), kills as usize);
            assert!(aims.is_sorted());
            assert!(aims.iter().all(|aim| (100_000..900_000).contains(aim)));
        }
    }

    #[test]
    fn a_kill_before_the_first_or_after_the_last_row_does_not_count() {
        let kill = |visible| Kill { visible, all: 10, recovery: Duration::ZERO };
        assert_eq!([kill(0), kill(1), kill(9), kill(10)].map(|kill| kill.counts()), [false, true, true, false]);
    }
}
