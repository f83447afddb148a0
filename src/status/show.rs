//! Shows a status to whoever watches: a line that stays on a terminal, or a log line now and then; notices as they come up.
//!
//! Doesn't know: how a status comes about. Keeps: log lines and the live line don't tear each other.
// Who looks at a terminal is in no simulation.
#![allow(clippy::disallowed_methods)]
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::sync::watch;

use super::{Status, line};

const LIVE: Duration = Duration::from_millis(500);
const LOG: Duration = Duration::from_secs(10);
/// Steps of the progress bar.
const STEPS: u64 = 1_000;

/// Where a job shows itself: standard error, with a live line if it is a terminal.
#[derive(Clone)]
pub struct Screen {
    bar: Option<ProgressBar>,
}

impl Screen {
    pub fn new(live: bool) -> Self {
        Self { bar: live.then(|| ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr())) }
    }

    /// A writer for log lines.
    pub fn writer(&self) -> ScreenWriter {
        ScreenWriter(self.clone())
    }

    /// Takes the live line away.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn draw(bar: &ProgressBar, status: &Status) {
        let template =
            if status.progress.is_some() { "{bar:20} {percent:>3}% {wide_msg}" } else { "{spinner} {wide_msg}" };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_position((status.progress.unwrap_or(0.0) * STEPS as f64) as u64);
        bar.set_message(line::live(status));
        bar.tick();
    }
}

pub struct ScreenWriter(Screen);

impl Write for ScreenWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &self.0.bar {
            Some(bar) => bar.suspend(|| io::stderr().write(bytes)),
            None => io::stderr().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Shows until the job is gone.
pub async fn show(mut status: watch::Receiver<Status>, screen: Screen) {
    let mut tick = tokio::time::interval(if screen.bar.is_some() { LIVE } else { LOG });
    tick.tick().await;
    let mut said = BTreeSet::new();
    loop {
        tokio::select! {
            changed = status.changed() => match changed {
                Ok(()) => say_new(&status.borrow_and_update(), &mut said),
                Err(_) => return,
            },
            _ = tick.tick() => {
                let status = status.borrow();
                match &screen.bar {
                    Some(bar) => Screen::draw(bar, &status),
                    None => line::log(&status),
                }
            }
        }
    }
}

/// A notice is said when it comes up, and again when it comes back.
fn say_new(status: &Status, said: &mut BTreeSet<String>) {
    for notice in status.notices.iter().filter(|n| !said.contains(&n.about)) {
        tracing::warn!("{}", notice.text);
    }
    *said = status.notices.iter().map(|n| n.about.clone()).collect();
}
