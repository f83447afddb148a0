//! A child process in a process group of its own, with its output in a file.
//!
//! Serves the services and a floodmark under test alike: it can be stopped, killed, paused at any moment.
//! Keeps: when the value is gone, so is the process, and so it is when the test process dies first.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

pub use rustix::process::Signal;
use rustix::process::{Pid, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::error::Doing;
use crate::guard::Guard;
use crate::{Result, StackError, until};

/// How long a process may take to end after it was asked to.
const STOP_LIMIT: Duration = Duration::from_secs(20);
/// The same for one whose data nobody wants any more (SeaweedFS would take 16 s).
const DROP_LIMIT: Duration = Duration::from_secs(3);
const TAIL_LINES: usize = 40;

pub struct Process {
    child: Child,
    output: PathBuf,
    stop_signal: Signal,
    _guard: Guard,
}

impl Process {
    /// Starts `command`; what it prints is added to the file `output`.
    pub fn start(mut command: Command, output: &Path) -> Result<Process> {
        let file = File::options().create(true).append(true).open(output);
        let file = file.doing(format!("open {}", output.display()))?;
        let errors = file.try_clone().doing("share the output file")?;
        let child = command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .spawn()
            .doing(format!("start {}", command.get_program().display()))?;
        let guard = Guard::of_process_group(child.id())?;
        Ok(Process { child, output: output.to_path_buf(), stop_signal: Signal::TERM, _guard: guard })
    }

    /// Stops with this signal instead of SIGTERM.
    pub fn stopped_by(mut self, signal: Signal) -> Process {
        self.stop_signal = signal;
        self
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub fn exit_status(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().doing("ask for the exit status")
    }

    /// Waits until it ends by itself.
    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        until(limit, || !matches!(self.child.try_wait(), Ok(None)));
        match self.exit_status()? {
            Some(status) => Ok(status),
            None => Err(StackError::StillRunning { limit, log: self.output_tail() }),
        }
    }

    /// Asks it to stop, waits, and kills it if it doesn't.
    pub fn stop(&mut self) -> Result<ExitStatus> {
        self.stop_within(STOP_LIMIT)
    }

    fn stop_within(&mut self, limit: Duration) -> Result<ExitStatus> {
        self.signal(self.stop_signal);
        self.resume();
        match self.wait(limit) {
            Err(StackError::StillRunning { .. }) => self.kill(),
            ended => ended,
        }
    }

    /// SIGKILL.
    pub fn kill(&mut self) -> Result<ExitStatus> {
        self.signal(Signal::KILL);
        self.child.wait().doing("wait for a killed process")
    }

    /// SIGSTOP: it stands still until `resume`.
    pub fn pause(&mut self) {
        self.signal(Signal::STOP);
    }

    /// Whether it stands still after a SIGSTOP, its own or ours.
    pub fn is_paused(&self) -> bool {
        let looking = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(&self.child)), looking).is_ok_and(|status| status.is_some())
    }

    pub fn resume(&mut self) {
        self.signal(Signal::CONT);
    }

    /// Only while it wasn't waited for: afterwards its number may be another's.
    pub fn signal(&mut self, signal: Signal) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill_process_group(Pid::from_child(&self.child), signal);
        }
    }

    /// The last lines that it printed.
    pub fn output_tail(&self) -> String {
        let bytes = fs::read(&self.output).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.stop_within(DROP_LIMIT);
    }
}

/// Runs a command to its end; its output is part of the error.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    let name = command.get_program().display().to_string();
    let done = command.stdin(Stdio::null()).output().doing(format!("start {name}"))?;
    let output = String::from_utf8_lossy(&done.stdout).into_owned();
    if done.status.success() {
        return Ok(output);
    }
    let output = output + &String::from_utf8_lossy(&done.stderr);
    Err(StackError::Failed { command: name, status: done.status, output })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn shell(script: &str, output: &Path) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::start(command, output).unwrap()
    }

    #[test]
    fn a_paused_process_stands_still_until_it_is_resumed_and_can_be_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        // Nothing is started once it is up: a shell that waits for a child to begin can't be stopped while that is.
        let mut process =
            shell("exec 2>/dev/null; trap 'echo bye; exit 7' TERM; sleep 1000 & echo up; wait; wait", &output);
        assert!(until(Duration::from_secs(10), || process.output_tail() == "up"));
        assert!(!process.is_paused());
        process.pause();
        assert!(until(Duration::from_secs(10), || process.is_paused()));
        process.signal(Signal::TERM);
        assert_eq!(process.exit_status().unwrap(), None);
        assert_eq!(process.stop().unwrap().code(), Some(7));
        assert_eq!(process.output_tail(), "up\nbye");
    }

    #[test]
    fn a_killed_process_takes_its_group_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        let mut process = shell("sleep 1000 & echo up; wait", &output);
        assert!(until(Duration::from_secs(10), || process.output_tail() == "up"));
        assert_eq!(process.kill().unwrap().signal(), Some(9));
        let group = Pid::from_child(&process.child);
        let gone = || rustix::process::test_kill_process_group(group).is_err();
        assert!(until(Duration::from_secs(10), gone));
    }
}
