//! `floodmark savepoint FILE NAME`: has the running job take a savepoint.
//!
//! Asks through the job's `listen` address, since only the job can take one. Exit code 0: it is durable and every table is tagged; 1: it isn't.
//! Doesn't know: how a savepoint is taken. Tested: tests/run_and_stop.rs.
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use crate::checkpoint::savepoint::{SavepointError, check_name};
use crate::config;
use crate::job::Savepoint;

const FAILED: u8 = 1;
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

#[derive(Args, Debug)]
pub struct SavepointArgs {
    /// The pipeline file that the job runs
    file: PathBuf,
    /// Name of the savepoint
    name: String,
}

#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error(
        "{file}: `listen` is not set in [pipeline], so a running job can't be asked: add listen = \"127.0.0.1:8080\" and restart it"
    )]
    NotListening { file: String },
    #[error(transparent)]
    Name(#[from] SavepointError),
    #[error("nobody answers at {address}: is the job running? A savepoint is taken by the running job ({error})")]
    Nobody { address: SocketAddr, error: reqwest::Error },
    #[error(
        "the answer broke off, and whether the savepoint was taken is not known: `floodmark checkpoints FILE` shows it ({0})"
    )]
    Unknown(reqwest::Error),
    #[error("{0}")]
    Refused(String),
    #[error("can't start: {0}")]
    Runtime(std::io::Error),
}

pub fn run(args: &SavepointArgs) -> ExitCode {
    let pipeline = match config::load(&args.file) {
        Ok(pipeline) => pipeline,
        Err(diagnostics) => return super::refuse(&diagnostics),
    };
    let file = args.file.display().to_string();
    match take(pipeline.settings.listen, &file, &args.name) {
        Ok(savepoint) => super::print(&format!(
            "savepoint {} is checkpoint {}\nto go on from it: floodmark run {file} --from {}\n",
            savepoint.name, savepoint.checkpoint, savepoint.path
        )),
        Err(error @ (AskError::NotListening { .. } | AskError::Name(_))) => super::fail(&error),
        Err(error) => {
            super::say(&format_args!("error: {error}"));
            ExitCode::from(FAILED)
        }
    }
}

fn take(listen: Option<SocketAddr>, file: &str, name: &str) -> Result<Savepoint, AskError> {
    check_name(name)?;
    let address = listen.ok_or_else(|| AskError::NotListening { file: file.to_owned() })?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(AskError::Runtime)?;
    runtime.block_on(ask(address, name))
}

/// Waits as long as it takes: a large state is not copied in a moment.
async fn ask(address: SocketAddr, name: &str) -> Result<Savepoint, AskError> {
    // The job is on this machine or in this network: no proxy is asked.
    let client =
        reqwest::Client::builder().no_proxy().connect_timeout(CONNECT_LIMIT).build().map_err(AskError::Unknown)?;
    let sent = client.post(format!("http://{address}/savepoint/{name}")).send().await;
    let answer = sent.map_err(|error| match error.is_connect() {
        true => AskError::Nobody { address, error },
        false => AskError::Unknown(error),
    })?;
    if answer.status().is_success() {
        return answer.json().await.map_err(AskError::Unknown);
    }
    let why = answer.text().await.map_err(AskError::Unknown)?;
    Err(AskError::Refused(why.trim_end().to_owned()))
}
