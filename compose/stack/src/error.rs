//! What can go wrong with a service. Shown whole, log included, also where a test unwraps it.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

pub type Result<T> = std::result::Result<T, StackError>;

#[derive(thiserror::Error)]
pub enum StackError {
    #[error("{} is missing: run scripts/fetch-stack", path.display())]
    NotFetched { path: PathBuf },
    #[error("{what} is missing: run scripts/setup")]
    NotInstalled { what: &'static str },
    #[error("{what} needs Java {version} or newer: there is none in JAVA_HOME, on the path, or in /usr/lib/jvm")]
    NoJava { what: &'static str, version: u32 },
    #[error("{service} doesn't answer after {limit:?}; the end of its log:\n{log}")]
    NotReady { service: &'static str, limit: Duration, log: String },
    #[error("{service} ended while it started ({status}); the end of its log:\n{log}")]
    Ended { service: &'static str, status: ExitStatus, log: String },
    #[error("still running after {limit:?}; the end of its output:\n{log}")]
    StillRunning { limit: Duration, log: String },
    #[error("{command} failed ({status}):\n{output}")]
    Failed { command: String, status: ExitStatus, output: String },
    #[error("port {number} is in use")]
    PortInUse { number: u16 },
    #[error("no free port between {first} and {last}")]
    NoFreePort { first: u16, last: u16 },
    #[error("cannot {doing}: {source}")]
    Io { doing: String, source: io::Error },
    #[error(transparent)]
    Kafka(#[from] KafkaError),
    #[error("the broker refused topic {topic}: {code}")]
    Topic { topic: String, code: RDKafkaErrorCode },
    #[error("the store refused bucket {name}: {status:?}")]
    Bucket { name: String, status: Option<u16> },
    #[error("the broker doesn't show topic {topic} as asked after {limit:?}")]
    TopicNotSettled { topic: String, limit: Duration },
    #[error("Flink didn't take the program: {reason}\nthe end of what was printed:\n{output}")]
    NotSubmitted { reason: String, output: String },
    #[error("job {job} waits for a free slot: the cluster has {slots}, free are {free}; {cause}")]
    NoFreeSlot { job: String, slots: u64, free: u64, cause: String },
    #[error("job {job} is {state} instead of running; {cause}")]
    JobFailed { job: String, state: String, cause: String },
    #[error("job {job} {wanted} not within {limit:?}: it is {state}; {cause}")]
    JobLate { job: String, wanted: &'static str, limit: Duration, state: String, cause: String },
    #[error("Flink's JobManager doesn't answer {request}: {source}")]
    NoAnswer { request: String, source: io::Error },
    #[error("Flink's JobManager refused {request} ({status}): {answer}")]
    Refused { request: String, status: u16, answer: String },
}

/// A test that unwraps prints `Debug`: the log's lines shouldn't come out escaped.
impl fmt::Debug for StackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Says what was being done when the system refused.
pub(crate) trait Doing<T> {
    fn doing(self, doing: impl Into<String>) -> Result<T>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, doing: impl Into<String>) -> Result<T> {
        self.map_err(|source| StackError::Io { doing: doing.into(), source })
    }
}
