//! `floodmark run FILE`: runs a pipeline until its input ends or it is stopped.
//!
//! Exit codes: 0 done or stopped as asked · 1 failed, start it again · 2 the pipeline file or the command line is wrong · 3 refused, a person has to
//! choose · 4 fenced by a newer start, don't restart this one (docs/OPERATING.md). Tested: tests/run_and_stop.rs.
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use crate::config;
use crate::config::model::{Pipeline, SinkConnector};
use crate::job::{self, Failure, Options, Request};
use crate::status::show::{Screen, show};
use crate::status::{Status, serve, summary};

const FAILED: u8 = 1;
const REFUSED: u8 = 3;
const FENCED: u8 = 4;

/// A second signal within this time is the first one told twice, as `timeout` and a terminal's process group do.
const SAME_SIGNAL: Duration = Duration::from_millis(300);

/// How long a job that was told to stop at once may take for it.
const ABORT_LIMIT: Duration = Duration::from_secs(3);

#[derive(Args, Debug)]
pub struct RunArgs {
    /// The pipeline file
    file: PathBuf,
    /// Go on from this manifest or savepoint of the checkpoint directory instead of the newest
    #[arg(long, value_name = "PATH")]
    from: Option<String>,
    /// When stopped, fire all open windows first: records of theirs that a later run reads are late
    #[arg(long)]
    drain: bool,
    /// Wait for catalogs and brokers that are away at the start
    #[arg(long)]
    wait: bool,
    /// Go on although this sink lacks rows that were committed to it, or holds some of an unknown state or of another pipeline (may be given several times)
    #[arg(long, value_name = "SINK")]
    accept_gap: Vec<String>,
    /// Give up the rows that wait for a sink that has left the pipeline file (may be given several times)
    #[arg(long, value_name = "SINK")]
    forget: Vec<String>,
    /// Begin this node anew, without what it remembers (may be given several times)
    #[arg(long, value_name = "NODE")]
    reset: Vec<String>,
    /// When stopped, wait so long for the last checkpoint and the sinks; what is not committed then waits for the next start
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = humantime::parse_duration)]
    stop_within: Duration,
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
    let pipeline = match config::load(&args.file) {
        Ok(pipeline) => pipeline,
        Err(diagnostics) => return super::refuse(&diagnostics),
    };
    let screen = Screen::new(args.log == LogForm::Text && has_terminal(&pipeline));
    start_log(args.log, screen.clone());
    end_on_panic();
    let options = Options {
        from: args.from,
        drain: args.drain,
        wait: args.wait,
        accept_gap: args.accept_gap,
        forget: args.forget,
        reset: args.reset,
        stop_within: args.stop_within,
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            super::say(&format_args!("error: can't start: {error}"));
            return ExitCode::from(FAILED);
        }
    };
    let (status, watched) = watch::channel(Status::starting(&pipeline.plan.pipeline));
    let ended = runtime.block_on(run_job(pipeline, options, &status, screen.clone()));
    runtime.shutdown_background();
    screen.clear();
    say_how_it_ended(args.log, &watched.borrow(), &ended);
    exit_code(&ended)
}

async fn run_job(
    pipeline: Pipeline,
    options: Options,
    status: &watch::Sender<Status>,
    screen: Screen,
) -> Result<(), Failure> {
    let (requests, receiver) = unbounded_channel();
    if let Some(address) = pipeline.settings.listen {
        let listener = serve::bind(address).await.map_err(|error| Failure::Failed(error.to_string()))?;
        tracing::info!("status at http://{address}/status, /metrics, /healthz");
        tokio::spawn(serve::serve(listener, status.subscribe(), requests.clone()));
    }
    tokio::spawn(show(status.subscribe(), screen));
    tokio::spawn(listen_for_signals(requests));
    job::run(pipeline, options, receiver, status).await
}

/// Half a job must not go on as if nothing were: a panic anywhere ends the process, as a crash does.
fn end_on_panic() {
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        say(panic);
        super::say(
            &"error: this is a bug in floodmark; started again, the job goes on from the last complete checkpoint",
        );
        std::process::exit(i32::from(FAILED));
    }));
}

/// A live line has a terminal to itself: rows on the same one would tear it.
fn has_terminal(pipeline: &Pipeline) -> bool {
    let prints_rows = pipeline.sinks.values().any(|s| matches!(s.connector, SinkConnector::Stdout));
    std::io::stderr().is_terminal() && !(prints_rows && std::io::stdout().is_terminal())
}

fn say_how_it_ended(form: LogForm, status: &Status, ended: &Result<(), Failure>) {
    match (form, ended) {
        (LogForm::Json, Ok(())) => tracing::info!(status = serde_json::to_string(status).ok(), "ended"),
        (LogForm::Json, Err(failure)) => tracing::error!("{failure}"),
        (LogForm::Text, ended) => {
            summary::text(status).into_iter().for_each(|text| super::say(&text));
            ended.as_ref().err().into_iter().for_each(|failure| super::say(&format_args!("error: {failure}")));
        }
    }
}

fn exit_code(ended: &Result<(), Failure>) -> ExitCode {
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(_)) => ExitCode::from(super::EXIT_USAGE),
        Err(Failure::Refused(_) | Failure::Stuck(_)) => ExitCode::from(REFUSED),
        Err(Failure::Fenced(_)) => ExitCode::from(FENCED),
        Err(Failure::Failed(_)) => ExitCode::from(FAILED),
    }
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
        let told_again = async {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
            }
        };
        let _: Result<(), _> = tokio::time::timeout(SAME_SIGNAL, told_again).await;
    }
    tokio::time::sleep(ABORT_LIMIT).await;
    super::say(&"error: stopped at once, as asked, in the middle of something");
    std::process::exit(i32::from(FAILED));
}

fn start_log(form: LogForm, screen: Screen) {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "floodmark=info".into());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(move || screen.writer()).with_target(false);
    // It would say by a panicking print that a line couldn't be printed.
    let log = log.log_internal_errors(false);
    match form {
        LogForm::Text => log.with_ansi(std::io::stderr().is_terminal()).init(),
        LogForm::Json => log.json().init(),
    }
}
