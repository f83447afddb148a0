//! What all services have in common: a folder, a log in it, a process that can be stopped and started again on the same data.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use crate::error::Doing;
use crate::guard::Guard;
use crate::process::{Process, Signal};
use crate::{Result, StackError, until};

/// How long a service may take to answer. Generous: a busy machine isn't a failure.
const START_LIMIT: Duration = Duration::from_secs(90);

pub struct Service {
    name: &'static str,
    stop_signal: Signal,
    /// Dropped before its folder.
    process: Option<Process>,
    folder: TempDir,
    _guard: Guard,
}

impl Service {
    /// Makes the folder; nothing runs yet.
    pub fn new(name: &'static str, stop_signal: Signal) -> Result<Service> {
        let folder = tempfile::Builder::new()
            .prefix(&format!("floodmark-{name}-"))
            // Postgres runs as a user of its own and must reach its data.
            .permissions(Permissions::from_mode(0o755))
            .tempdir()
            .doing(format!("make a folder for {name}"))?;
        let guard = Guard::of_folder(folder.path().as_os_str())?;
        Ok(Service { name, stop_signal, process: None, folder, _guard: guard })
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts it and returns when `ready` says yes.
    pub fn start(&mut self, command: Command, ready: impl FnMut() -> bool) -> Result<()> {
        self.start_within(START_LIMIT, command, ready)
    }

    pub fn start_within(&mut self, limit: Duration, command: Command, mut ready: impl FnMut() -> bool) -> Result<()> {
        let process = Process::start(command, &self.folder().join("log"))?;
        let process = self.process.insert(process.stopped_by(self.stop_signal));
        let mut ended = None;
        let answered = until(limit, || {
            ended = process.exit_status().ok().flatten();
            ended.is_some() || ready()
        });
        let service = self.name;
        match ended {
            Some(status) => Err(StackError::Ended { service, status, log: process.output_tail() }),
            None if answered => Ok(()),
            None => Err(StackError::NotReady { service, limit, log: process.output_tail() }),
        }
    }

    /// Stops it; its data and ports stay.
    pub fn stop(&mut self) -> Result<()> {
        self.process.take().map_or(Ok(()), |mut process| process.stop().map(drop))
    }

    /// SIGSTOP, until `resume`.
    pub fn pause(&mut self) {
        self.process.iter_mut().for_each(Process::pause);
    }

    pub fn is_paused(&self) -> bool {
        self.process.as_ref().is_some_and(Process::is_paused)
    }

    pub fn resume(&mut self) {
        self.process.iter_mut().for_each(Process::resume);
    }

    /// SIGKILL; its data and ports stay.
    pub fn kill(&mut self) -> Result<()> {
        self.process.take().map_or(Ok(()), |mut process| process.kill().map(drop))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(process) = &self.process
            && thread::panicking()
        {
            eprintln!("--- {}: the end of its log\n{}", self.name, process.output_tail());
        }
    }
}
