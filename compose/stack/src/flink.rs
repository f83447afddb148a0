//! A real Flink cluster: a JobManager and its TaskManagers, each a process, in session mode without high availability.
//!
//! A killed TaskManager's work is restored by Flink itself; a killed JobManager forgets its jobs, and whoever wants one back submits it again from its newest
//! checkpoint, which stays. Programs go in by Flink's own `flink run` (see `program`), everything else by the REST API (see `job`).
//! Doesn't know: what the jobs compute, Kafka, Iceberg.
//! Keeps: a start, a submission or a wait that fails leaves nothing running: the job is cancelled, the processes are gone with the value.
//! Tested: compose/stack/tests/flink.rs.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::Doing;
use crate::process::Signal;
use crate::service::Service;
use crate::{Port, Result, StackError};

mod conf;
mod counters;
mod job;
mod program;
mod rest;
mod trace;

pub use conf::{Backend, Options};
pub use counters::{Checkpoint, Counters, Records};
pub use job::{Job, Status};
pub use program::Program;

use rest::Rest;

/// For a JVM to start. Alone it takes five seconds.
const START_LIMIT: Duration = Duration::from_secs(300);

pub struct Cluster {
    // In this order they are dropped: the JobManager's folder holds what all of them write to.
    task_managers: Vec<TaskManager>,
    job_manager: Service,
    options: Options,
    rpc: Port,
    web: Port,
    started: u32,
}

struct TaskManager {
    service: Service,
    /// Its place among the cluster's TaskManagers; its name changes with each start.
    running_as: Option<String>,
}

impl Cluster {
    /// Returns when the JobManager answers and every TaskManager has offered its slots.
    pub fn start(options: Options) -> Result<Cluster> {
        let web = options.web_port.map_or_else(Port::reserve, Port::given)?;
        let mut cluster = Cluster {
            task_managers: Vec::new(),
            job_manager: Service::new("flink-jobmanager", Signal::TERM)?,
            options,
            rpc: Port::reserve()?,
            web,
            started: 0,
        };
        for folder in ["conf", "checkpoints", "savepoints", "tmp"] {
            fs::create_dir(cluster.folder().join(folder)).doing(format!("make {folder}"))?;
        }
        let conf = conf::config_yaml(&cluster.options, cluster.rpc.number(), cluster.web.number(), cluster.folder());
        fs::write(cluster.folder().join("conf/config.yaml"), conf).doing("write config.yaml")?;
        fs::write(cluster.folder().join("conf/log4j.properties"), conf::LOGGING).doing("write log4j.properties")?;
        cluster.start_job_manager()?;
        for place in 0..cluster.options.task_managers {
            let service = Service::new("flink-taskmanager", Signal::TERM)?;
            cluster.task_managers.push(TaskManager { service, running_as: None });
            cluster.start_task_manager(place)?;
        }
        Ok(cluster)
    }

    /// Checkpoints, savepoints, configuration and the JobManager's log; gone with the value.
    pub fn folder(&self) -> &Path {
        self.job_manager.folder()
    }

    pub fn task_manager_folder(&self, place: usize) -> &Path {
        self.task_managers[place].service.folder()
    }

    /// Of the REST API and the web page.
    pub fn address(&self) -> SocketAddr {
        self.web.address()
    }

    /// Also after a kill. Jobs of the one before aren't known to it.
    pub fn start_job_manager(&mut self) -> Result<()> {
        let mut java = conf::java(&self.options, self.folder(), &["-Xmx512m"])?;
        java.args(["org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint", "--configDir", "conf"]);
        let rest = self.rest();
        self.job_manager.start_within(START_LIMIT, java, || rest.get("/overview").is_ok())
    }

    /// SIGKILL.
    pub fn kill_job_manager(&mut self) -> Result<()> {
        self.job_manager.kill()
    }

    /// Also after a kill. It has a new name: under its old one the JobManager would later take it for the dead one and drop it.
    pub fn start_task_manager(&mut self, place: usize) -> Result<()> {
        self.started += 1;
        let name = format!("tm-{place}-{}", self.started);
        let java = conf::task_manager(&self.options, self.folder(), &name)?;
        let rest = self.rest();
        let offered = || rest.task_managers().is_ok_and(|there| there.contains(&name));
        let task_manager = &mut self.task_managers[place];
        task_manager.service.start_within(START_LIMIT, java, offered)?;
        task_manager.running_as = Some(name);
        Ok(())
    }

    /// SIGKILL.
    pub fn kill_task_manager(&mut self, place: usize) -> Result<()> {
        self.task_managers[place].running_as = None;
        self.task_managers[place].service.kill()
    }

    /// SIGSTOP, until `resume_task_manager`.
    pub fn pause_task_manager(&mut self, place: usize) {
        self.task_managers[place].service.pause();
    }

    pub fn is_task_manager_paused(&self, place: usize) -> bool {
        self.task_managers[place].service.is_paused()
    }

    pub fn resume_task_manager(&mut self, place: usize) {
        self.task_managers[place].service.resume();
    }

    /// What `flink run` takes; returns when the JobManager has it, with the job or jobs that it became.
    pub fn submit(&self, program: &Program) -> Result<Vec<Job>> {
        let ids = program::submit(&self.options, self.folder(), program)?;
        Ok(ids.into_iter().map(|id| Job::new(id, self.rest())).collect())
    }

    /// Submits a program of one job and returns when that works: all tasks run and, with checkpoints, the first is done. A bounded one may have ended well.
    pub fn run(&self, program: &Program, limit: Duration) -> Result<Job> {
        let mut jobs = self.submit(program)?;
        let Some(job) = jobs.pop().filter(|_| jobs.is_empty()) else {
            jobs.iter().for_each(|job| drop(job.cancel(limit)));
            let reason = format!("it became {} jobs instead of one", jobs.len());
            return Err(StackError::NotSubmitted { reason, output: String::new() });
        };
        match job.wait_started(limit) {
            Ok(()) => Ok(job),
            Err(error) => {
                // Whatever it is by now, nobody waits for it any more.
                let _ = job.cancel(limit);
                Err(error)
            }
        }
    }

    /// All jobs that this JobManager has seen.
    pub fn jobs(&self) -> Result<Vec<(Job, Status)>> {
        let listed = self.rest().jobs()?;
        Ok(listed.into_iter().map(|(id, status)| (Job::new(id, self.rest()), status)).collect())
    }

    /// Slots in all, and those that are free.
    pub fn slots(&self) -> Result<(u64, u64)> {
        self.rest().slots()
    }

    /// The newest complete checkpoint of a job, also of one that the JobManager has forgotten.
    pub fn newest_checkpoint(&self, job: &Job) -> Option<PathBuf> {
        let folders = fs::read_dir(self.folder().join("checkpoints").join(job.id())).ok()?;
        let numbered = folders.flatten().filter_map(|folder| {
            let number: u64 = folder.file_name().to_str()?.strip_prefix("chk-")?.parse().ok()?;
            folder.path().join("_metadata").exists().then(|| (number, folder.path()))
        });
        numbered.max().map(|(_, path)| path)
    }

    /// What the JobManager's settings came to, defaults left out, as it says itself.
    pub fn settings(&self) -> Result<Vec<(String, String)>> {
        self.rest().settings()
    }

    fn rest(&self) -> Rest {
        Rest::new(self.web.address())
    }
}
