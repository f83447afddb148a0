//! A job that tells how it is: its `/status`, asked over HTTP as a person's browser does.
use floodmark_stack::Port;
use serde_json::Value;

use super::tables::block_on;
use super::{Job, Run};

/// The address that a job listens on.
pub struct Listening(Port);

impl Listening {
    pub fn somewhere() -> Listening {
        Listening(Port::reserve().unwrap())
    }

    /// What the pipeline file says about it.
    pub fn line(&self) -> String {
        format!("listen = \"{}\"", self.0.address())
    }

    /// `None` while nobody answers.
    pub fn status(&self) -> Option<Value> {
        block_on(async { reqwest::get(format!("http://{}/status", self.0.address())).await.ok()?.json().await.ok() })
    }

    /// Waits for a status that is so, as long as `run` is alive.
    pub fn wait_for(&self, job: &Job, run: &mut Run, yes: impl Fn(&Value) -> bool) -> Value {
        let mut seen = None;
        job.wait_while(run, |_| {
            seen = self.status();
            seen.as_ref().is_some_and(&yes)
        });
        seen.unwrap()
    }
}

/// Records that a source has read, by the counters of a status; none before the first one is told.
pub fn read(status: &Value) -> u64 {
    status["nodes"][0]["counters"]["read"].as_u64().unwrap_or(0)
}
