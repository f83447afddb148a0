//! Path A: the printed job on a Flink cluster of its own.
//!
//! Doesn't know: floodmark. Keeps: the cluster is gone with the value. Tested: tests/flink/main.rs.
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use floodmark_stack::flink::{Cluster, Job, Options, Program};
use floodmark_stack::until;
use serde_json::{Value, json};

use super::Hit;
use crate::drill::parity::ParityError;
use crate::drill::parity::fault::{FREEZE, Fault};
use crate::drill::parity::services::keep;
use crate::drill::parity::tables::Tables;

const NAME: &str = "Flink";
/// On a machine that is busy with the other path.
const LIMIT: Duration = Duration::from_secs(300);
/// A log of more records gets JVMs that take their time to become fast, and more memory.
const SMALL: u64 = 100_000;

pub struct Flink {
    cluster: Cluster,
    script: String,
    job: Arc<Mutex<Job>>,
    was_submitted_again: bool,
    watched: &'static str,
    tables: Tables,
    /// Where what it has printed is kept when the run is over.
    log: PathBuf,
}

impl Flink {
    /// Returns when the job runs and has made a checkpoint.
    pub fn start(
        options: Options,
        script: String,
        log: PathBuf,
        watched: &'static str,
        tables: Tables,
    ) -> Result<Self, ParityError> {
        let cluster = Cluster::start(options)?;
        let job = cluster.run(&Program::sql(&script), LIMIT)?;
        let job = Arc::new(Mutex::new(job));
        Ok(Self { cluster, script, job, was_submitted_again: false, watched, tables, log })
    }

    /// The job that there is now: another after a submission.
    pub fn job(&self) -> Job {
        self.job.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn job_from_now_on(&self) -> Arc<Mutex<Job>> {
        Arc::clone(&self.job)
    }

    /// Copies what JobManager and TaskManager have printed.
    pub fn keep_logs(&self, to: &Path) -> Result<(), ParityError> {
        keep(self.cluster.folder(), &self.log)?;
        keep(self.cluster.task_manager_folder(0), &to.join("flink-taskmanager.log"))
    }

    pub fn settings(&self) -> Result<Value, ParityError> {
        let cluster: serde_json::Map<String, Value> =
            self.cluster.settings()?.into_iter().map(|(key, value)| (key, Value::String(value))).collect();
        Ok(json!({ "job": self.job().settings()?, "cluster": cluster }))
    }

    pub fn visible(&self) -> Result<u64, ParityError> {
        self.tables.visible(self.watched)
    }

    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// An error if it has ended.
    pub fn must_run(&self) -> Result<(), ParityError> {
        let job = self.job();
        let status = job.status()?;
        if !status.is_ended() {
            return Ok(());
        }
        let cause = job.failures()?.into_iter().next().unwrap_or_else(|| "no failure is known".into());
        Err(self.failed(format!("its job is {status} before its time: {cause}")))
    }

    pub fn strike(&mut self, fault: Fault) -> Result<Hit, ParityError> {
        match fault {
            Fault::Kill => self.kill_task_manager(),
            Fault::JobManager => self.kill_job_manager(),
            Fault::Freeze => self.freeze(),
            Fault::Savepoint => self.stop_and_start(),
            Fault::None | Fault::Broker => {
                Ok(Hit { rows: self.visible()?, seen: "nothing is done to the path itself".into() })
            }
        }
    }

    /// Waits until the job has ended by itself. One that was submitted again doesn't: a bounded Kafka source that comes from a checkpoint of another job is
    /// never told that there are no more partitions. It is drained when the watched table shows all `rows`.
    pub fn finish(&self, rows: u64, limit: Duration) -> Result<(), ParityError> {
        if !self.was_submitted_again {
            return Ok(self.job().wait_finished(limit)?);
        }
        let mut seen = 0;
        until(limit, || {
            seen = self.visible().unwrap_or(seen);
            seen >= rows
        });
        if seen < rows {
            let what = format!("Flink shows {seen} of {rows} rows, submitted again");
            return Err(ParityError::Late { limit_s: limit.as_secs(), what });
        }
        self.job().drain(LIMIT)?;
        Ok(())
    }

    fn kill_task_manager(&mut self) -> Result<Hit, ParityError> {
        let job = self.job();
        let before = job.checkpoints()?.restores;
        self.cluster.kill_task_manager(0)?;
        let rows = self.visible()?;
        self.cluster.start_task_manager(0)?;
        job.wait_restored(before, LIMIT)?;
        let after = job.checkpoints()?;
        let from = after.restored_from.map(|checkpoint| checkpoint.id).unwrap_or_default();
        let seen = format!(
            "the TaskManager was gone; another has restored checkpoint {from}, restores {before} → {}",
            after.restores
        );
        Ok(Hit { rows, seen })
    }

    fn kill_job_manager(&mut self) -> Result<Hit, ParityError> {
        let job = self.job();
        self.cluster.kill_job_manager()?;
        let rows = self.visible()?;
        self.cluster.start_job_manager()?;
        if !self.cluster.jobs()?.is_empty() {
            return Err(self.failed("its JobManager still knows jobs".into()));
        }
        self.wait_until_old_tasks_are_gone()?;
        let checkpoint = self.cluster.newest_checkpoint(&job);
        let checkpoint = checkpoint.ok_or_else(|| self.failed("has no checkpoint to go on from".into()))?;
        let after = self.submit_from(&checkpoint)?;
        Ok(Hit {
            rows,
            seen: format!("the JobManager was gone, its job forgotten, its tasks ended; submitted again, {after}"),
        })
    }

    /// They outlive their JobManager until they miss it, and give back their slots then.
    fn wait_until_old_tasks_are_gone(&self) -> Result<(), ParityError> {
        let mut slots = (0, 0);
        let are_gone = until(LIMIT, || {
            slots = self.cluster.slots().unwrap_or_default();
            slots.0 > 0 && slots.0 == slots.1
        });
        let (all, free) = slots;
        if are_gone { Ok(()) } else { Err(self.failed(format!("has {free} of {all} slots free: old tasks live on"))) }
    }

    fn freeze(&mut self) -> Result<Hit, ParityError> {
        self.cluster.pause_task_manager(0);
        std::thread::sleep(Duration::from_secs(1));
        let stood = self.cluster.is_task_manager_paused(0);
        let rows = self.visible()?;
        std::thread::sleep(FREEZE - Duration::from_secs(1));
        let still = self.cluster.is_task_manager_paused(0) && self.visible()? == rows;
        self.cluster.resume_task_manager(0);
        if !(stood && still) {
            return Err(self.failed("wasn't frozen".into()));
        }
        Ok(Hit { rows, seen: format!("the TaskManager stood still for {} s, and no row came", FREEZE.as_secs()) })
    }

    fn stop_and_start(&mut self) -> Result<Hit, ParityError> {
        let savepoint = self.job().stop_with_savepoint(LIMIT)?;
        let rows = self.visible()?;
        let after = self.submit_from(&savepoint)?;
        Ok(Hit { rows, seen: format!("stopped with a savepoint; submitted from it, {after}") })
    }

    fn submit_from(&mut self, state: &Path) -> Result<String, ParityError> {
        let job = self.cluster.run(&Program::sql(&self.script).from(state), LIMIT)?;
        let counters = job.checkpoints()?;
        if counters.restores == 0 {
            return Err(self.failed(format!("the job submitted from {} has restored nothing", state.display())));
        }
        let from = counters.restored_from.map(|checkpoint| checkpoint.id).unwrap_or_default();
        let seen = format!("restored checkpoint {from} as job {}", job.id());
        *self.job.lock().unwrap_or_else(PoisonError::into_inner) = job;
        self.was_submitted_again = true;
        Ok(seen)
    }

    fn failed(&self, what: String) -> ParityError {
        ParityError::Path { path: NAME, what, messages: self.log.clone() }
    }
}

/// A cluster for so many records.
pub fn options(records: u64, fault: Fault) -> Options {
    let mut options = Options::default();
    if records > SMALL {
        options = Options { heap_mib: 1_024, managed_mib: 768, starts_fast: false, ..options };
    }
    match fault {
        // A TaskManager finds out only by this limit that its JobManager is another one.
        Fault::JobManager => options.with("heartbeat.timeout", "10 s"),
        _ => options,
    }
}
