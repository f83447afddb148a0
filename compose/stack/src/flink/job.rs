//! One job of a cluster: what it is doing, and what is asked of it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::counters::{self, Counters};
use super::rest::{Rest, list, number, text};
use super::trace::reason;
use crate::probe::until_every;
use crate::{Result, StackError};

const PAUSE: Duration = Duration::from_millis(200);
/// Starts that a job may need: the first may meet a cluster that isn't ready for it.
const MOST_FAILURES: usize = 3;

/// A job's state in Flink's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status(String);

impl Status {
    pub(super) fn of(value: &Value) -> Status {
        Status(text(value))
    }

    pub fn is_running(&self) -> bool {
        self.0 == "RUNNING"
    }

    pub fn is_finished(&self) -> bool {
        self.0 == "FINISHED"
    }

    /// Nothing more will happen.
    pub fn is_ended(&self) -> bool {
        ["FINISHED", "FAILED", "CANCELED", "SUSPENDED"].contains(&self.0.as_str())
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Clone, Debug)]
pub struct Job {
    id: String,
    rest: Rest,
}

/// What `Job::look` has seen at once.
struct Seen {
    status: Status,
    all_tasks_run: bool,
    /// Tasks that have no slot yet.
    waiting: u64,
    with_checkpoints: bool,
    counters: Counters,
    failures: Vec<String>,
}

impl Seen {
    fn cause(&self) -> String {
        self.failures.first().map_or_else(|| "no exception is known".to_string(), |cause| format!("cause: {cause}"))
    }
}

impl Job {
    pub(super) fn new(id: String, rest: Rest) -> Job {
        Job { id, rest }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn status(&self) -> Result<Status> {
        Ok(Status::of(&self.get("")?["state"]))
    }

    pub fn counters(&self) -> Result<Counters> {
        let mut counters = Counters::read(&self.rest, &self.id)?;
        counters.read_records(&self.rest, &self.id)?;
        Ok(counters)
    }

    /// The same without the records, which cost a question to each vertex.
    pub fn checkpoints(&self) -> Result<Counters> {
        Counters::read(&self.rest, &self.id)
    }

    /// Records that its Kafka sources haven't fetched yet, as they know; `None` where none has said so.
    pub fn pending(&self) -> Result<Option<u64>> {
        counters::pending(&self.rest, &self.id)
    }

    /// The newest failures, newest first, each as its innermost causes.
    pub fn failures(&self) -> Result<Vec<String>> {
        let answer = self.get("/exceptions")?;
        let entries = list(&answer["exceptionHistory"]["entries"]).iter();
        Ok(entries.map(|entry| reason(&text(&entry["stacktrace"]))).collect())
    }

    /// What its settings came to: those of its checkpoints, and of its execution.
    pub fn settings(&self) -> Result<Value> {
        let (checkpoints, execution) = (self.get("/checkpoints/config")?, self.get("/config")?);
        Ok(json!({ "checkpoints": checkpoints, "execution": execution["execution-config"] }))
    }

    /// All tasks run and, with checkpoints, one is done; or it has ended well.
    pub fn wait_started(&self, limit: Duration) -> Result<()> {
        self.wait(limit, "started", |seen| {
            seen.status.is_finished() || seen.all_tasks_run && (!seen.with_checkpoints || seen.counters.completed > 0)
        })
    }

    /// After a failure: Flink has restored it more than `restores` times, all tasks run again and it has made another checkpoint.
    pub fn wait_restored(&self, restores: u64, limit: Duration) -> Result<()> {
        self.wait(limit, "was restored", |seen| {
            let counters = &seen.counters;
            counters.restores > restores && seen.all_tasks_run && counters.newest > counters.restored_from
        })
    }

    /// So many checkpoints are done since it was submitted.
    pub fn wait_checkpoints(&self, completed: u64, limit: Duration) -> Result<()> {
        self.wait(limit, "made its checkpoints", |seen| seen.counters.completed >= completed)
    }

    /// A bounded job has read all there is.
    pub fn wait_finished(&self, limit: Duration) -> Result<()> {
        self.wait(limit, "finished", |seen| seen.status.is_finished())
    }

    /// Without a savepoint; its checkpoints stay. Returns when it is gone, also when it was before.
    pub fn cancel(&self, limit: Duration) -> Result<()> {
        if self.status()?.is_ended() {
            return Ok(());
        }
        self.rest.ask("PATCH", &format!("/jobs/{}?mode=cancel", self.id), None)?;
        self.wait_ended(limit)
    }

    /// Windows stay open. Returns the savepoint when the job has ended.
    pub fn stop_with_savepoint(&self, limit: Duration) -> Result<PathBuf> {
        self.stop(false, limit)
    }

    /// All windows fire: for a job that has read all there is, and doesn't know it.
    pub fn drain(&self, limit: Duration) -> Result<PathBuf> {
        self.stop(true, limit)
    }

    fn stop(&self, drain: bool, limit: Duration) -> Result<PathBuf> {
        let asked = json!({ "drain": drain, "formatType": "CANONICAL" });
        let trigger = self.rest.ask("POST", &format!("/jobs/{}/stop", self.id), Some(&asked))?;
        let path = format!("/savepoints/{}", text(&trigger["request-id"]));
        let mut operation = Value::Null;
        let done = until_every(PAUSE, limit, || {
            operation = self.get(&path).unwrap_or_default();
            text(&operation["status"]["id"]) == "COMPLETED"
        });
        let location = text(&operation["operation"]["location"]);
        if done && !location.is_empty() {
            self.wait_ended(limit)?;
            return Ok(PathBuf::from(location.trim_start_matches("file:")));
        }
        let refused = text(&operation["operation"]["failure-cause"]["stack-trace"]);
        let state = self.status()?.to_string();
        let cause = if refused.is_empty() { "it isn't done".to_string() } else { reason(&refused) };
        Err(StackError::JobLate { job: self.id.clone(), wanted: "stopped with a savepoint", limit, state, cause })
    }

    fn wait_ended(&self, limit: Duration) -> Result<()> {
        let mut status = self.status()?;
        until_every(PAUSE, limit, || {
            status = self.status().unwrap_or_else(|_| status.clone());
            status.is_ended()
        });
        if status.is_ended() {
            return Ok(());
        }
        let cause = "it was asked to".to_string();
        Err(StackError::JobLate { job: self.id.clone(), wanted: "ended", limit, state: status.to_string(), cause })
    }

    fn has_checkpoints(&self) -> Result<bool> {
        match self.get("/checkpoints/config") {
            // Flink writes the interval of a job without checkpoints as the largest number.
            Ok(config) => Ok(config["interval"].as_i64().is_some_and(|interval| interval > 0 && interval < i64::MAX)),
            // Of such a job it may also know none.
            Err(StackError::Refused { status: 404, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn wait(&self, limit: Duration, wanted: &'static str, is_so: impl Fn(&Seen) -> bool) -> Result<()> {
        let mut last = Ok(None);
        until_every(PAUSE, limit, || {
            last = self
                .look()
                .and_then(|seen| if is_so(&seen) { Ok(None) } else { self.hopeless(&seen).map(|()| Some(seen)) });
            !matches!(last, Ok(Some(_)) | Err(StackError::NoAnswer { .. }))
        });
        match last? {
            None => Ok(()),
            Some(seen) => {
                if seen.waiting > self.rest.slots()?.1 {
                    return Err(self.no_free_slot(&seen)?);
                }
                let (state, cause) = (seen.status.to_string(), seen.cause());
                Err(StackError::JobLate { job: self.id.clone(), wanted, limit, state, cause })
            }
        }
    }

    /// An error if there is no point in waiting on. One that has worked may fail often: it is restored.
    fn hopeless(&self, seen: &Seen) -> Result<()> {
        let has_worked = seen.counters.completed > 0;
        if !has_worked && seen.failures.first().is_some_and(|cause| cause.contains("NoResourceAvailable")) {
            return Err(self.no_free_slot(seen)?);
        }
        if seen.status.is_ended() || !has_worked && seen.failures.len() >= MOST_FAILURES {
            let (state, cause) = (seen.status.to_string(), seen.cause());
            return Err(StackError::JobFailed { job: self.id.clone(), state, cause });
        }
        Ok(())
    }

    fn no_free_slot(&self, seen: &Seen) -> Result<StackError> {
        let (slots, free) = self.rest.slots()?;
        Ok(StackError::NoFreeSlot { job: self.id.clone(), slots, free, cause: seen.cause() })
    }

    fn look(&self) -> Result<Seen> {
        let answer = self.get("")?;
        let vertices = list(&answer["vertices"]);
        let tasks = |vertex: &Value, statuses: [&str; 2]| -> u64 {
            statuses.iter().map(|status| number(&vertex["tasks"][*status])).sum()
        };
        let runs = |vertex| tasks(vertex, ["RUNNING", "FINISHED"]) == number(&vertex["parallelism"]);
        Ok(Seen {
            status: Status::of(&answer["state"]),
            all_tasks_run: !vertices.is_empty() && vertices.iter().all(runs),
            waiting: vertices.iter().map(|vertex| tasks(vertex, ["CREATED", "SCHEDULED"])).sum(),
            // Asked last: while it is set up, a job knows nothing of checkpoints.
            with_checkpoints: self.has_checkpoints()?,
            counters: Counters::read(&self.rest, &self.id)?,
            failures: self.failures()?,
        })
    }

    fn get(&self, path: &str) -> Result<Value> {
        self.rest.get(&format!("/jobs/{}{path}", self.id))
    }
}
