//! Turns the crank of a worker, on a thread of its own or (for simulations) as a task: commands in, reports out, and a rest when there is nothing to do.
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;

use super::exchange::Bell;
use super::part::{FromWorker, ToWorker, WorkerError};
use super::worker::{Step, Worker};
use crate::host::{Host, Spawned};
use crate::steps::{self, Point};

/// Longest rest of a worker without work: how soon it sees new records in a quiet log.
const REST: Duration = Duration::from_millis(2);

/// A worker and its ends of the channels. Its crank is turned until [`ToWorker::Stop`], an error (reported), or until the other side is gone.
pub struct Crank {
    pub worker: Worker,
    pub bell: Arc<Bell>,
    pub commands: Receiver<ToWorker>,
    pub reports: UnboundedSender<FromWorker>,
}

/// Who turns a crank; what it is dropped with.
pub enum Turning {
    Thread(JoinHandle<()>),
    Task { _task: Spawned },
}

/// On a thread of its own.
pub fn on_thread(_: &Arc<dyn Host>, mut crank: Crank) -> std::io::Result<Turning> {
    let name = format!("worker-{}", crank.worker.id().0);
    let turn = move || loop {
        match crank.turn() {
            Step::Busy => {}
            Step::Idle => crank.bell.wait(REST),
            Step::Stopped => return,
        }
    };
    std::thread::Builder::new().name(name).spawn(turn).map(Turning::Thread)
}

impl Crank {
    /// One step. `Stopped`: there will be no other.
    pub fn turn(&mut self) -> Step {
        self.try_turn().unwrap_or_else(|error| {
            // Nobody left to tell means that the job is over.
            let _ = self.reports.send(FromWorker::Failed { worker: self.worker.id(), error });
            Step::Stopped
        })
    }

    fn try_turn(&mut self) -> Result<Step, WorkerError> {
        for command in self.commands.try_iter() {
            if matches!(command, ToWorker::Barrier { .. }) {
                steps::reached(Point::Barrier);
            }
            self.worker.command(command)?;
        }
        let step = self.worker.step()?;
        for report in self.worker.reports() {
            if matches!(report, FromWorker::Part(_)) {
                steps::reached(Point::Part);
            }
            if self.reports.send(report).is_err() {
                return Ok(Step::Stopped);
            }
        }
        Ok(step)
    }
}
