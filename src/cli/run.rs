//! `floodmark run FILE`: runs a pipeline until its input ends or it is stopped.
//!
//! Exit codes: 0 done or stopped as asked · 1 failed, start it again · 2 the pipeline file or the command line is wrong · 3 refused to start, a person
//! has to choose · 4 fenced by a newer start, don't restart this one.
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::config;
use crate::job::{self, Failure, Options, Request};

const FAILED: u8 = 1;
const REFUSED: u8 = 3;
const FENCED: u8 = 4;

#[derive(Args, Debug)]
pub struct RunArgs {
    /// The pipeline file
    file: PathBuf,
    /// Go on from this manifest or savepoint of the checkpoint directory instead of the newest
    #[arg(long, value_name = "PATH")]
    from: Option<String>,
    /// When stopped, fire all open windows first
    #[arg(long)]
    drain: bool,
    /// Wait for catalogs and brokers that are away at the start
    #[arg(long)]
    wait: bool,
    /// Go on although this sink lacks rows that were committed to it, or holds some of an unknown state
    #[arg(long, value_name = "SINK")]
    accept_gap: Vec<String>,
    /// Give up the rows that wait for a sink that has left the pipeline file
    #[arg(long, value_name = "SINK")]
    forget: Vec<String>,
    /// Begin this node anew, without what it remembers
    #[arg(long, value_name = "NODE")]
    reset: Vec<String>,
    /// How log lines look
    #[arg(long, value_enum, default_value_t = LogForm::Text)]
    log: LogForm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogForm {
    Text,
    Json,
}

pub fn run(args: RunArgs) -> ExitCode {
    start_log(args.log);
    let pipeline = match config::load(&args.file) {
        Ok(pipeline) => pipeline,
        Err(diagnostics) => return super::refuse(&diagnostics),
    };
    let options = Options {
        from: args.from,
        drain: args.drain,
        wait: args.wait,
        accept_gap: args.accept_gap,
        forget: args.forget,
        reset: args.reset,
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: can't start: {error}");
            return ExitCode::from(FAILED);
        }
    };
    let (requests, receiver) = unbounded_channel();
    let ended = runtime.block_on(async {
        tokio::spawn(listen_for_signals(requests));
        job::run(pipeline, options, receiver).await
    });
    runtime.shutdown_background();
    report(ended)
}

fn report(ended: Result<(), Failure>) -> ExitCode {
    let Err(failure) = ended else { return ExitCode::SUCCESS };
    eprintln!("error: {failure}");
    ExitCode::from(match failure {
        Failure::Refused(_) => REFUSED,
        Failure::Fenced(_) => FENCED,
        Failure::Failed(_) => FAILED,
    })
}

/// The first SIGINT or SIGTERM asks for a graceful stop, the second for an immediate one.
async fn listen_for_signals(requests: UnboundedSender<Request>) {
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        tracing::warn!("signals can't be caught: a stop will be an abrupt one");
        return;
    };
    for request in [Request::Stop, Request::Abort] {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        if requests.send(request).is_err() {
            return;
        }
    }
}

fn start_log(form: LogForm) {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "floodmark=info".into());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    match form {
        LogForm::Text => log.init(),
        LogForm::Json => log.json().init(),
    }
}
