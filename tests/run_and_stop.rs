//! A running job as its owner sees it: stopped, stopped twice, asked how it is, saved and gone on from. Exit codes as in docs/OPERATING.md.
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use floodmark_stack::process::{Process, Signal};
use floodmark_stack::{Port, until};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(60);
/// Two signals less than 300 ms apart are one.
const LATER: Duration = Duration::from_millis(600);
const ENDLESS: &str = "rate = 5000";
/// All of it is soon read, and the job waits for more.
const SHORT: &str = "events = 2000\nend = \"never\"";

/// A folder with a pipeline file in it, whose one sink writes files to `out`.
struct Job {
    folder: tempfile::TempDir,
    port: Port,
}

impl Job {
    fn of(records: &str) -> Self {
        let (folder, port) = (tempfile::tempdir().unwrap(), Port::reserve().unwrap());
        let file = format!(
            r#"
[pipeline]
id = "clicks"
workers = 2
state = "memory"
checkpoint = {{ interval = "100ms", dir = "file:checkpoints" }}
listen = "{}"
[source.events]
type = "generator"
workload = "clickstream"
poison = "0"
{records}
event_time = {{ field = "event_time_ms" }}
watermark = {{ bound = "5s" }}
discard = ["errors"]
schema = {{ event_id = "string", event_time_ms = "timestamp_ms" }}
[dedup.clean]
from = "events"
key = ["event_id"]
horizon = "24h"
discard = ["duplicates", "late"]
[sink.out]
from = "clean"
type = "file"
dir = "file:out"
"#,
            port.address()
        );
        std::fs::write(folder.path().join("clicks.toml"), file).unwrap();
        Self { folder, port }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_floodmark"));
        command.current_dir(self.folder.path()).args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Process {
        let all = [&["run", "clicks.toml", "--log", "json"], arguments].concat();
        Process::start(self.command(&all), &self.path("log")).unwrap()
    }

    fn ended(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Status code and body of a page; nothing while nobody answers.
    fn get(&self, page: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(self.port.address()).ok()?;
        write!(stream, "GET {page} HTTP/1.1\r\nHost: floodmark\r\nConnection: close\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
    }

    fn status(&self) -> Option<Value> {
        serde_json::from_str(&self.get("/status")?.1).ok()
    }

    fn wait_for(&self, what: impl Fn(&Value) -> bool) {
        let seen = until(LIMIT, || self.status().is_some_and(|status| what(&status)));
        assert!(seen, "{:?}\n{}", self.status(), std::fs::read_to_string(self.path("log")).unwrap_or_default());
    }

    /// Until rows are in the sink.
    fn wait_for_a_commit(&self) {
        self.wait_for(|status| status["sinks"][0]["rows"].as_u64().is_some_and(|rows| rows > 0));
    }

    /// The status that the last run ended with.
    fn last_status(&self) -> Value {
        let log = std::fs::read_to_string(self.path("log")).unwrap();
        let mut entries = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let ended = entries.rfind(|entry| entry["fields"]["message"] == "ended");
        serde_json::from_str(ended.expect(&log)["fields"]["status"].as_str().unwrap()).unwrap()
    }

    /// Ids of the visible rows, each once however often it is there, and how many rows there are.
    fn rows(&self) -> (usize, usize) {
        let mut ids = vec![];
        for entry in std::fs::read_dir(self.path("out")).unwrap().flatten() {
            if entry.path().extension().is_some_and(|e| e == "ndjson") {
                let text = std::fs::read_to_string(entry.path()).unwrap();
                let id = |line: &str| serde_json::from_str::<Value>(line).unwrap()["event_id"].to_string();
                ids.extend(text.lines().map(id));
            }
        }
        let rows = ids.len();
        ids.sort();
        ids.dedup();
        (ids.len(), rows)
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Puts a sink's folder out of reach, and back.
fn take_away(folder: &Path) {
    std::fs::rename(folder, folder.with_extension("away")).unwrap();
    std::fs::write(folder, "not a folder").unwrap();
}

fn give_back(folder: &Path) {
    std::fs::remove_file(folder).unwrap();
    std::fs::rename(folder.with_extension("away"), folder).unwrap();
}

#[test]
fn sigterm_ends_an_endless_job_with_code_0_and_every_row_committed() {
    let job = Job::of(ENDLESS);
    let mut process = job.run(&[]);
    job.wait_for_a_commit();
    assert_eq!(process.stop().unwrap().code(), Some(0), "{}", process.output_tail());
    let status = job.last_status();
    let (unique, rows) = job.rows();
    assert_eq!(status["nodes"][1]["counters"]["unique"], unique);
    assert_eq!(rows, unique);
    assert_eq!((&status["phase"], &status["sinks"][0]["waiting_rows"]), (&"ended".into(), &0.into()));
}

#[test]
fn a_stop_ends_in_time_though_a_sink_is_away_and_the_next_start_commits_what_waits() {
    let job = Job::of(ENDLESS);
    let mut process = job.run(&["--stop-within", "2s"]);
    job.wait_for_a_commit();
    take_away(&job.path("out"));
    job.wait_for(|status| status["sinks"][0]["away"].is_string() && status["sinks"][0]["waiting_rows"] != 0);
    let (code, why) = job.get("/healthz").unwrap();
    assert_eq!((code, why.starts_with("sink out is away")), (503, true), "{why}");
    assert_eq!(process.stop().unwrap().code(), Some(0), "{}", process.output_tail());
    assert!(process.output_tail().contains("these rows stay in the outbox, and the next start commits them"));
    let unique = job.last_status()["nodes"][1]["counters"]["unique"].as_u64().unwrap();
    give_back(&job.path("out"));
    assert!((job.rows().0 as u64) < unique);

    let mut process = job.run(&[]);
    job.wait_for(|status| status["sinks"][0]["rows"].as_u64().is_some_and(|rows| rows >= unique));
    assert_eq!(process.stop().unwrap().code(), Some(0));
    let (unique, rows) = job.rows();
    assert_eq!(job.last_status()["nodes"][1]["counters"]["unique"], unique);
    assert_eq!(rows, unique);
}

#[test]
fn a_second_signal_stops_at_once_with_code_1() {
    let job = Job::of(ENDLESS);
    let mut process = job.run(&[]);
    job.wait_for_a_commit();
    take_away(&job.path("out"));
    job.wait_for(|status| status["sinks"][0]["away"].is_string());
    process.signal(Signal::TERM);
    job.wait_for(|status| status["phase"] == "stopping");
    std::thread::sleep(LATER);
    process.signal(Signal::INT);
    assert_eq!(process.wait(LIMIT).unwrap().code(), Some(1));
    assert!(process.output_tail().contains("stopped at once, as asked"), "{}", process.output_tail());
}

#[test]
fn a_signal_told_twice_is_one() {
    let job = Job::of(ENDLESS);
    let mut process = job.run(&[]);
    job.wait_for_a_commit();
    // As `timeout` does: to the process, and to its group.
    process.signal(Signal::TERM);
    process.signal(Signal::TERM);
    assert_eq!(process.wait(LIMIT).unwrap().code(), Some(0), "{}", process.output_tail());
}

#[test]
fn what_is_served_tells_of_one_job() {
    let job = Job::of(ENDLESS);
    let mut process = job.run(&[]);
    job.wait_for_a_commit();
    assert_eq!(job.get("/healthz"), Some((200, "ok\n".into())));
    let (code, metrics) = job.get("/metrics").unwrap();
    assert_eq!(code, 200);
    assert!(
        metrics.contains("floodmark_node_records_total{node=\"clean\",kind=\"dedup\",what=\"unique\"} "),
        "{metrics}"
    );
    let status = job.status().unwrap();
    assert_eq!((&status["pipeline"], &status["phase"]), (&"clicks".into(), &"running".into()));
    assert_eq!(status["nodes"][1]["has_event_time"], true);
    assert_eq!(job.get("/elsewhere").unwrap().0, 404);
    process.stop().unwrap();
}

#[test]
fn a_savepoint_is_whole_and_gone_on_from_without_loss_or_duplicate() {
    let job = Job::of(SHORT);
    let mut process = job.run(&[]);
    job.wait_for(|status| {
        status["sinks"][0]["rows"].as_u64() > Some(0) && status["nodes"][0]["counters"]["read"] == 2000
    });
    let taken = job.ended(&["savepoint", "clicks.toml", "before-upgrade"]);
    assert!(taken.status.success(), "{}", text(&taken.stderr));
    assert!(text(&taken.stdout).ends_with("--from savepoints/before-upgrade\n"), "{}", text(&taken.stdout));
    assert!(job.path("out/_floodmark/out/tags/floodmark-before-upgrade").exists());
    let again = job.ended(&["savepoint", "clicks.toml", "before-upgrade"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("there is a savepoint before-upgrade already"), "{}", text(&again.stderr));
    process.kill().unwrap();
    let before = job.rows();

    for folder in ["manifests", "state", "segments"] {
        std::fs::remove_dir_all(job.path("checkpoints").join(folder)).ok();
    }
    let listed = job.ended(&["checkpoints", "clicks.toml"]);
    assert!(text(&listed.stdout).contains("savepoints/before-upgrade"), "{}", text(&listed.stdout));
    let mut process = job.run(&["--from", "savepoints/before-upgrade"]);
    job.wait_for(|status| status["checkpoint"]["completed"].as_u64() > Some(8));
    let status = job.status().unwrap();
    assert_eq!(status["restored_from"], "savepoints/before-upgrade/manifest");
    assert_eq!(status["nodes"][0]["counters"]["read"], 2000, "not read again");
    assert_eq!(process.stop().unwrap().code(), Some(0), "{}", process.output_tail());
    assert_eq!(job.rows(), before);
    assert!(job.path("checkpoints/savepoints/before-upgrade/manifest").exists(), "never collected");
}

#[test]
fn checkpoints_are_listed_with_what_waits_and_each_can_be_named_to_go_on_from() {
    let job = Job::of(SHORT);
    let mut process = job.run(&[]);
    job.wait_for(|status| status["nodes"][0]["counters"]["read"] == 2000 && status["sinks"][0]["waiting_rows"] == 0);
    job.wait_for(|status| status["checkpoint"]["completed"].as_u64() > Some(8));
    process.kill().unwrap();

    let listed = job.ended(&["checkpoints", "clicks.toml"]);
    let page = text(&listed.stdout).to_owned();
    let head: Vec<_> = page.lines().next().unwrap().split("  ").map(str::trim).filter(|c| !c.is_empty()).collect();
    assert_eq!(head, ["id", "start", "age", "state", "rows waiting", "restored from", "path"]);
    assert!(page.lines().count() > 5, "as many as are retained: {page}");
    let ids = page.lines().skip(1).map(|line| line.split(' ').next().unwrap().parse::<u64>().unwrap());
    assert!(ids.clone().is_sorted_by(|a, b| a > b), "{page}");

    let json: Value = serde_json::from_slice(&job.ended(&["checkpoints", "clicks.toml", "--json"]).stdout).unwrap();
    let entries = json.as_array().unwrap();
    assert_eq!(entries.iter().map(|e| e["checkpoint"].as_u64().unwrap()).collect::<Vec<_>>(), ids.collect::<Vec<_>>());
    assert_eq!((&entries[0]["incarnation"], &entries[0]["restored_from"]), (&1.into(), &Value::Null));
    let path = entries[0]["path"].as_str().unwrap();
    assert!(page.lines().nth(1).unwrap().ends_with(path), "{page}");

    let mut process = job.run(&["--from", path]);
    job.wait_for(|status| status["restored_from"] == path);
    assert_eq!(process.stop().unwrap().code(), Some(0), "{}", process.output_tail());
    let (unique, rows) = job.rows();
    assert_eq!(unique, rows);
}

#[test]
fn a_savepoint_that_the_sink_has_left_behind_is_refused_with_code_3() {
    let job = Job::of(ENDLESS);
    let mut process = job.run(&[]);
    job.wait_for_a_commit();
    assert!(job.ended(&["savepoint", "clicks.toml", "old"]).status.success());
    assert_eq!(process.stop().unwrap().code(), Some(0));
    let refused = job.ended(&["run", "clicks.toml", "--from", "savepoints/old"]);
    assert_eq!(refused.status.code(), Some(3), "{}", text(&refused.stderr));
}

#[test]
fn what_the_command_line_gets_wrong_ends_with_code_2_and_starts_nothing() {
    let job = Job::of(ENDLESS);
    let missing = job.ended(&["run", "clicks.toml", "--from", "savepoints/none"]);
    assert_eq!(missing.status.code(), Some(2), "{}", text(&missing.stderr));
    assert!(text(&missing.stderr).contains("--from savepoints/none: not found in file:checkpoints"));
    let gap = job.ended(&["run", "clicks.toml", "--accept-gap", "nobody"]);
    assert_eq!(gap.status.code(), Some(2), "{}", text(&gap.stderr));
    assert!(text(&gap.stderr).contains("--accept-gap nobody: the pipeline file has no such sink"));
    assert!(!job.path("out").join("_floodmark").exists());
    assert_eq!(job.ended(&["run", "none.toml"]).status.code(), Some(2));
    let named = job.ended(&["savepoint", "clicks.toml", "../x"]);
    assert_eq!(named.status.code(), Some(2), "{}", text(&named.stderr));
}

#[test]
fn a_savepoint_of_a_job_that_does_not_run_says_so() {
    let job = Job::of(ENDLESS);
    let nobody = job.ended(&["savepoint", "clicks.toml", "a"]);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(text(&nobody.stderr).contains(&format!("nobody answers at {}", job.port.address())));
    assert_eq!(text(&job.ended(&["checkpoints", "clicks.toml"]).stdout), "no checkpoints in file:checkpoints\n");
    let file = std::fs::read_to_string(job.path("clicks.toml")).unwrap();
    let deaf: Vec<_> = file.lines().filter(|line| !line.starts_with("listen")).collect();
    std::fs::write(job.path("clicks.toml"), deaf.join("\n")).unwrap();
    let deaf = job.ended(&["savepoint", "clicks.toml", "a"]);
    assert_eq!(deaf.status.code(), Some(2));
    assert!(text(&deaf.stderr).contains("`listen` is not set in [pipeline]"));
}
