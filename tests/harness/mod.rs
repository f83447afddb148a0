//! A pipeline in a folder of its own, run by the real program: started, killed, paused, waited for, and its tables looked at.
//!
//! Everything goes through the command line and the files that a user has too.
//! Doesn't know: the engine. Keeps: no process outlives its test (`floodmark_stack::process`).
pub mod audit;
pub mod broker;
pub mod dice;
pub mod disk;
pub mod kills;
pub mod log;
pub mod pipelines;
pub mod status;
pub mod tables;
pub mod trickle;

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use floodmark::steps::{ORDERS, Point};
use floodmark_stack::process::{Process, Signal};
use floodmark_stack::until;
use tables::Catalog;
use tempfile::TempDir;

/// How long anything may take before a test gives up. Generous: a busy machine isn't a failure.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Exit codes of `floodmark run`, as docs/OPERATING.md has them.
pub const FAILED: i32 = 1;
pub const REFUSED: i32 = 3;
pub const FENCED: i32 = 4;

/// A pipeline file, its data and its checkpoints.
pub struct Job {
    folder: TempDir,
    runs: Cell<usize>,
    catalog: Catalog,
}

impl Job {
    pub fn new(pipeline: &str) -> Job {
        Job::with_catalog(pipeline, Catalog::Sqlite)
    }

    pub fn with_catalog(pipeline: &str, catalog: Catalog) -> Job {
        let folder = tempfile::Builder::new().prefix("floodmark-job-").tempdir().unwrap();
        let job = Job { folder, runs: Cell::new(0), catalog };
        fs::create_dir(job.path("data")).unwrap();
        job.edit(pipeline);
        job
    }

    /// Puts another pipeline file in the place of the one there is.
    pub fn edit(&self, pipeline: &str) {
        fs::write(self.path("pipeline.toml"), pipeline).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Rows in the visible files of a file sink, sorted; none while there is no folder.
    pub fn rows_in(&self, folder: &str) -> Vec<String> {
        let files = fs::read_dir(self.path(folder)).into_iter().flatten().map(|entry| entry.unwrap().path());
        let texts = files.filter(|path| path.is_file()).map(|file| fs::read_to_string(file).unwrap());
        let mut rows: Vec<_> = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
        rows.sort();
        rows
    }

    pub fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_floodmark"));
        command.args(arguments).current_dir(self.folder.path()).env("RUST_LOG", "floodmark=info").env("NO_COLOR", "1");
        command
    }

    pub fn start(&self) -> Run {
        self.start_with(&[])
    }

    pub fn start_with(&self, options: &[&str]) -> Run {
        self.launch(options, None, |command| command)
    }

    /// Starts it with an order that it finds at its first step.
    pub fn start_ordered(&self, order: Order) -> Run {
        self.launch(&[], Some(order), |command| command)
    }

    /// Starts it in surroundings that the test makes for the command.
    pub fn start_in(&self, options: &[&str], surroundings: impl FnOnce(Command) -> Command) -> Run {
        self.launch(options, None, surroundings)
    }

    fn launch(&self, options: &[&str], order: Option<Order>, surroundings: impl FnOnce(Command) -> Command) -> Run {
        self.runs.set(self.runs.get() + 1);
        let output = self.path(&format!("output-{}", self.runs.get()));
        let orders = self.path(&format!("orders-{}", self.runs.get()));
        order.iter().for_each(|order| order.put(&orders));
        let mut command = self.command(&[&["run", "pipeline.toml"], options].concat());
        command.env(ORDERS, &orders);
        Run { process: Process::start(surroundings(command), &output).unwrap(), output, orders }
    }

    /// Runs to the end of the input.
    pub fn finish(&self) {
        self.ends_with(0, &[]);
    }

    /// Starts it and waits for it to end with this code; gives what it said.
    pub fn ends_with(&self, code: i32, options: &[&str]) -> String {
        self.start_with(options).ends_with(code)
    }

    /// The pipeline file with one text in the place of another that stands in it.
    pub fn change(&self, from: &str, to: &str) {
        let file = fs::read_to_string(self.path("pipeline.toml")).unwrap();
        assert!(file.contains(from), "no {from} in {file}");
        self.edit(&file.replacen(from, to, 1));
    }

    /// What another command than `run` prints, and its exit code.
    pub fn ask(&self, arguments: &[&str]) -> (Code, String) {
        let output = self.command(arguments).output().unwrap();
        let printed = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&printed).into_owned())
    }

    /// Waits until `yes`, as long as `run` is alive.
    pub fn wait_while(&self, run: &mut Run, mut yes: impl FnMut(&Job) -> bool) {
        run.wait_until(|_| yes(self));
    }

    /// Waits until this many checkpoints more are complete.
    pub fn wait_for_checkpoints(&self, run: &mut Run, more: usize) {
        for _ in 0..more {
            let before = self.newest_manifest();
            self.wait_while(run, |job| job.newest_manifest() > before);
        }
    }

    /// Starts it, and stops it when it has taken a checkpoint.
    pub fn start_and_stop(&self) {
        let mut run = self.start();
        self.wait_for_checkpoints(&mut run, 2);
        run.stop();
    }

    /// None while there is none.
    pub fn newest_manifest(&self) -> Option<PathBuf> {
        published(&self.path("data/checkpoints/manifests")).max()
    }
}

/// What a process does at the `visits`th time that it comes to a point.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    point: Point,
    visits: u64,
    action: &'static str,
}

impl Order {
    pub fn kill(point: Point, visits: u64) -> Order {
        Order { point, visits, action: "kill" }
    }

    /// To stand still until it is resumed.
    pub fn stop(point: Point) -> Order {
        Order { point, visits: 1, action: "stop" }
    }

    pub fn panic(point: Point) -> Order {
        Order { point, visits: 1, action: "panic" }
    }

    /// To fail there, or to lose the answer.
    pub fn fail(point: Point) -> Order {
        Order { point, visits: 1, action: "fail" }
    }

    fn put(&self, file: &Path) {
        let Order { point, visits, action } = self;
        let unseen = file.with_extension("new");
        fs::write(&unseen, format!("{point} {visits} {action}")).unwrap();
        fs::rename(unseen, file).unwrap();
    }
}

/// One start of a job.
pub struct Run {
    process: Process,
    output: PathBuf,
    orders: PathBuf,
}

/// How a run has ended: its exit code, or none after a SIGKILL.
pub type Code = Option<i32>;

impl Run {
    /// Waits for its end.
    pub fn wait(&mut self) -> Code {
        let status = self.process.wait(PATIENCE).unwrap();
        assert!(status.code().is_some() || status.signal() == Some(9), "{status}: {}", self.said());
        status.code()
    }

    /// Waits until `yes`, as long as it is alive.
    pub fn wait_until(&mut self, mut yes: impl FnMut(&Run) -> bool) {
        let mut ended = None;
        let reached = until(PATIENCE, || {
            ended = self.ended();
            ended.is_some() || yes(self)
        });
        assert!(ended.is_none(), "it ended with code {ended:?}: {}", self.said());
        assert!(reached, "not reached in {PATIENCE:?}: {}", self.said());
    }

    /// Whether it has ended by itself within a time.
    pub fn ended_within(&mut self, limit: Duration) -> Option<Code> {
        let mut ended = None;
        until(limit, || {
            ended = self.ended();
            ended.is_some()
        });
        ended
    }

    pub fn ended(&mut self) -> Option<Code> {
        self.process.exit_status().unwrap().map(|status| status.code())
    }

    /// Whether an order kills it before `over`.
    pub fn is_killed_before(&mut self, mut over: impl FnMut() -> bool) -> bool {
        let mut ended = None;
        let reached = until(PATIENCE, || {
            ended = self.ended();
            ended.is_some() || over()
        });
        assert!(reached, "neither killed nor over in {PATIENCE:?}: {}", self.said());
        assert!(ended.flatten().is_none(), "it ended with code {ended:?}: {}", self.said());
        ended.is_some()
    }

    pub fn kill(&mut self) {
        self.process.kill().unwrap();
    }

    /// The most memory that it has had, as the kernel counts it; 0 once it has ended.
    pub fn peak_memory_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = peak.and_then(|peak| peak.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kib.unwrap_or(0) << 10
    }

    /// Has it do something at the next visits of a step point.
    pub fn order(&mut self, order: Order) {
        order.put(&self.orders);
    }

    /// Has it stand still at a point, and waits until it does.
    pub fn stand_still_at(&mut self, point: Point) {
        self.order(Order::stop(point));
        self.wait_until_it_stands_still();
    }

    pub fn wait_until_it_stands_still(&mut self) {
        assert!(self.stands_still_before_its_end(), "it ended: {}", self.said());
    }

    /// Waits until an order stops it; false where it comes to its end first.
    pub fn stands_still_before_its_end(&mut self) -> bool {
        let over = until(PATIENCE, || self.process.is_paused() || self.ended().is_some());
        assert!(over, "neither in {PATIENCE:?}: {}", self.said());
        self.process.is_paused()
    }

    pub fn pause(&mut self) {
        self.process.pause();
    }

    pub fn resume(&mut self) {
        self.process.resume();
    }

    /// Memory that it has now, as the kernel counts it; 0 once it has ended.
    pub fn memory_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap_or_default();
        let now = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = now.and_then(|now| now.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kib.unwrap_or(0) << 10
    }

    /// Waits for its end with this code; gives what it said.
    pub fn ends_with(mut self, code: i32) -> String {
        let ended = self.wait();
        let said = self.said();
        assert_eq!(ended, Some(code), "{said}");
        said
    }

    /// Asks it to stop, as a supervisor does, and waits for a good end.
    pub fn stop(&mut self) {
        self.ask_to_stop();
        let code = self.wait();
        assert_eq!(code, Some(0), "{}", self.said());
    }

    pub fn ask_to_stop(&mut self) {
        self.process.signal(Signal::TERM);
    }

    /// All it has printed.
    pub fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.output).unwrap_or_default()).into_owned()
    }

    pub fn has_said(&self, text: &str) -> bool {
        self.said().contains(text)
    }
}

/// Newest file of a folder by name.
pub fn newest(folder: &Path) -> PathBuf {
    published(folder).max().unwrap_or_else(|| panic!("{} is empty", folder.display()))
}

/// Files under their last names: one that a kill has left half written has a `#` in its name.
fn published(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let paths = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    paths.filter(|path| !path.to_string_lossy().contains('#'))
}
