//! Turns the crank of a worker on a thread of its own: commands in, reports out, and a rest when there is nothing to do.
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;

use super::exchange::Bell;
use super::part::{FromWorker, ToWorker, WorkerError};
use super::worker::{Step, Worker};
use crate::steps::{self, Point};

/// Longest rest of a worker without work: how soon it sees new records in a quiet log.
const REST: Duration = Duration::from_millis(2);

/// Starts the thread. It ends on [`ToWorker::Stop`], on an error (reported), or when the other side is gone.
pub fn start(
    mut worker: Worker,
    bell: Arc<Bell>,
    commands: Receiver<ToWorker>,
    reports: UnboundedSender<FromWorker>,
) -> std::io::Result<JoinHandle<()>> {
    let id = worker.id();
    std::thread::Builder::new().name(format!("worker-{}", id.0)).spawn(move || {
        if let Err(error) = run(&mut worker, &bell, &commands, &reports) {
            // Nobody left to tell means that the job is over.
            let _ = reports.send(FromWorker::Failed { worker: id, error });
        }
    })
}

fn run(
    worker: &mut Worker,
    bell: &Bell,
    commands: &Receiver<ToWorker>,
    reports: &UnboundedSender<FromWorker>,
) -> Result<(), WorkerError> {
    loop {
        for command in commands.try_iter() {
            if matches!(command, ToWorker::Barrier { .. }) {
                steps::reached(Point::Barrier);
            }
            worker.command(command)?;
        }
        let step = worker.step()?;
        for report in worker.reports() {
            if matches!(report, FromWorker::Part(_)) {
                steps::reached(Point::Part);
            }
            if reports.send(report).is_err() {
                return Ok(());
            }
        }
        match step {
            Step::Busy => {}
            Step::Idle => bell.wait(REST),
            Step::Stopped => return Ok(()),
        }
    }
}
