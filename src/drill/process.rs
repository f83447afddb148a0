//! A child process: killed, frozen, woken, waited for.
//!
//! Keeps: a process that is let go of is killed, so an error leaves none behind. Tested: tests/drill.rs.
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::DrillError;

/// How often one that is waited for is looked at.
const LOOK: Duration = Duration::from_millis(2);
const SIGKILL: i32 = 9;

pub struct Process(Child);

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Code(i32),
    /// SIGKILL.
    Killed,
    /// Another signal.
    Crashed(i32),
}

impl Process {
    pub fn start(mut command: Command) -> Result<Self, DrillError> {
        command.spawn().map(Self).map_err(DrillError::Spawn)
    }

    /// `None`: it still runs when the time is over.
    pub fn ended_within(&mut self, limit: Duration) -> Result<Option<End>, DrillError> {
        let until = Instant::now() + limit;
        loop {
            if let Some(status) = self.0.try_wait().map_err(DrillError::Spawn)? {
                return Ok(Some(End::of(status)));
            }
            if Instant::now() >= until {
                return Ok(None);
            }
            std::thread::sleep(LOOK);
        }
    }

    pub fn freeze(&self) -> Result<(), DrillError> {
        self.signal(Signal::SIGSTOP)
    }

    pub fn wake(&self) -> Result<(), DrillError> {
        self.signal(Signal::SIGCONT)
    }

    /// SIGKILL: it can't catch it, flush or say goodbye. Tells how it ended: it may have been faster.
    pub fn kill(&mut self) -> Result<End, DrillError> {
        self.0.kill().map_err(DrillError::Spawn)?;
        self.0.wait().map(End::of).map_err(DrillError::Spawn)
    }

    fn signal(&self, signal: Signal) -> Result<(), DrillError> {
        kill(Pid::from_raw(self.0.id() as i32), signal).map_err(|errno| DrillError::Spawn(errno.into()))
    }
}

impl End {
    fn of(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(SIGKILL)) => Self::Killed,
            (None, signal) => Self::Crashed(signal.unwrap_or_default()),
        }
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "code {code}"),
            Self::Killed => f.write_str("SIGKILL"),
            Self::Crashed(signal) => write!(f, "signal {signal}"),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Of one that has ended already neither does anything.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
