//! Path B: `floodmark run` in a process of its own.
//!
//! Doesn't know: Flink. Keeps: it is gone with the value. Tested: tests/flink/main.rs.
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use floodmark_stack::process::{Process, Signal};
use floodmark_stack::{Port, http, until};
use serde_json::Value;

use super::Hit;
use crate::drill::parity::ParityError;
use crate::drill::parity::fault::{FREEZE, Fault};
use crate::drill::parity::tables::Tables;

const NAME: &str = "floodmark";
/// On a machine that JVMs keep busy.
const START_LIMIT: Duration = Duration::from_secs(120);

pub struct Ours {
    file: PathBuf,
    messages: PathBuf,
    /// Held while the process is down.
    port: Port,
    watched: &'static str,
    tables: Tables,
    process: Option<Process>,
    /// What it last said when it came up.
    told: Value,
}

impl Ours {
    /// Nothing runs yet.
    pub fn new(file: PathBuf, messages: PathBuf, port: Port, watched: &'static str, tables: Tables) -> Self {
        Self { file, messages, port, watched, tables, process: None, told: Value::Null }
    }

    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Returns when it reads, and says what it has restored from.
    pub fn start(&mut self) -> Result<Option<String>, ParityError> {
        let mut command = Command::new(std::env::current_exe().map_err(ParityError::Start)?);
        command.arg("run").arg(&self.file);
        self.process = Some(Process::start(command, &self.messages)?);
        let mut status = Value::Null;
        let is_up = |status: &Value| status["phase"].as_str().is_some_and(|phase| phase != "starting");
        until(START_LIMIT, || {
            status = self::status(self.address()).unwrap_or_default();
            is_up(&status) || !self.runs()
        });
        if !is_up(&status) {
            return Err(self.failed("doesn't come up"));
        }
        let restored = status["restored_from"].as_str().map(str::to_owned);
        self.told = status;
        Ok(restored)
    }

    /// Its status when it came up.
    pub fn told(&self) -> &Value {
        &self.told
    }

    pub fn visible(&self) -> Result<u64, ParityError> {
        self.tables.visible(self.watched)
    }

    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// An error if it has ended.
    pub fn must_run(&mut self) -> Result<(), ParityError> {
        if self.runs() { Ok(()) } else { Err(self.failed("has ended before its time")) }
    }

    pub fn strike(&mut self, fault: Fault) -> Result<Hit, ParityError> {
        match fault {
            Fault::Kill | Fault::JobManager => self.kill(),
            Fault::Freeze => self.freeze(),
            Fault::Savepoint => self.stop_and_start(),
            Fault::None | Fault::Broker => {
                Ok(Hit { rows: self.visible()?, seen: "nothing is done to the path itself".into() })
            }
        }
    }

    /// Waits until it ends by itself.
    pub fn finish(&mut self, limit: Duration) -> Result<(), ParityError> {
        let Some(process) = &mut self.process else { return Err(self.failed("doesn't run")) };
        let status = process.wait(limit)?;
        if status.success() { Ok(()) } else { Err(self.failed(&format!("ended with {status}"))) }
    }

    fn kill(&mut self) -> Result<Hit, ParityError> {
        let Some(process) = &mut self.process else { return Err(self.failed("doesn't run")) };
        let status = process.kill()?;
        if status.code().is_some() {
            return Err(self.failed(&format!("had ended before it was killed ({status})")));
        }
        let rows = self.visible()?;
        let restored = self.start()?;
        let restored = restored.ok_or_else(|| self.failed("has restored nothing"))?;
        Ok(Hit { rows, seen: format!("the process was gone ({status}); another has restored {restored}") })
    }

    fn freeze(&mut self) -> Result<Hit, ParityError> {
        let Some(process) = &mut self.process else { return Err(self.failed("doesn't run")) };
        process.pause();
        std::thread::sleep(Duration::from_secs(1));
        let stood = process.is_paused();
        let rows = self.tables.visible(self.watched)?;
        std::thread::sleep(FREEZE - Duration::from_secs(1));
        let still = process.is_paused() && self.tables.visible(self.watched)? == rows;
        process.resume();
        if !(stood && still) {
            return Err(self.failed("wasn't frozen"));
        }
        Ok(Hit { rows, seen: format!("it stood still for {} s, and no row came", FREEZE.as_secs()) })
    }

    fn stop_and_start(&mut self) -> Result<Hit, ParityError> {
        let Some(process) = &mut self.process else { return Err(self.failed("doesn't run")) };
        process.signal(Signal::TERM);
        let status = process.wait(START_LIMIT)?;
        if !status.success() {
            return Err(self.failed(&format!("ended with {status} when it was told to stop")));
        }
        let rows = self.visible()?;
        let restored = self.start()?;
        let restored = restored.ok_or_else(|| self.failed("has restored nothing"))?;
        Ok(Hit { rows, seen: format!("SIGTERM, exit code 0; another has restored {restored}") })
    }

    fn runs(&mut self) -> bool {
        self.process.as_mut().is_some_and(|process| matches!(process.exit_status(), Ok(None)))
    }

    fn failed(&self, what: &str) -> ParityError {
        ParityError::Path { path: NAME, what: what.to_owned(), messages: self.messages.clone() }
    }
}

/// `None` while nobody answers.
pub fn status(address: SocketAddr) -> Option<Value> {
    let answer = http::request(address, "GET", "/status", None).ok()?;
    serde_json::from_str(&answer.body).ok()
}
