//! Every pipeline file of docs/examples is run as it stands, in a folder of its own; only the broker's address is the test's.
//!
//! Asserts on rows that come out. That the files are accepted at all is src/config/tests/pages.rs.
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use floodmark_stack::broker::Broker;
use floodmark_stack::process::Process;
use floodmark_stack::until;
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(120);

fn example(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/examples").join(name)).unwrap()
}

fn floodmark(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_floodmark"));
    command.current_dir(folder).args(arguments);
    command
}

fn succeed(folder: &Path, arguments: &[&str]) -> Output {
    let output = floodmark(folder, arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Rows of a sink's table; `None` where there is no table yet.
fn rows(folder: &Path, sink: &str) -> Option<u64> {
    let output = floodmark(folder, &["digest", "--pipeline", "pipeline.toml", sink, "--json"]).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    json["rows"].as_u64()
}

/// Runs an example that reads Kafka until its table has `expected` rows, and stops it as a person would.
fn run_on_kafka(broker: &Broker, name: &str, expected: u64) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = example(name).replace("localhost:9092", &broker.address());
    fs::write(folder.path().join("pipeline.toml"), text).unwrap();
    let command = floodmark(folder.path(), &["run", "pipeline.toml"]);
    let mut process = Process::start(command, &folder.path().join("output")).unwrap();
    until(LIMIT, || rows(folder.path(), "lake") == Some(expected));
    let status = process.stop().unwrap();
    assert!(status.success(), "{status}: {}", process.output_tail());
    assert_eq!(rows(folder.path(), "lake"), Some(expected), "{}", process.output_tail());
    folder
}

fn generate_to(broker: &Broker, workload: &str, topic: &str, arguments: &[&str]) {
    let to = format!("kafka://{}/{topic}", broker.address());
    succeed(Path::new("."), &[&["generate", workload, "--to", &to], arguments].concat());
}

#[test]
fn minimal_prints_each_line_of_its_file_and_none_again_at_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("pipeline.toml"), example("minimal.toml")).unwrap();
    fs::create_dir(folder.path().join("data")).unwrap();
    fs::write(folder.path().join("data/lines.ndjson"), "{\"id\":1,\"name\":\"a\"}\n{\"id\":2}\n").unwrap();
    let output = succeed(folder.path(), &["run", "pipeline.toml"]);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(printed, "{\"id\":1,\"name\":\"a\"}\n{\"id\":2,\"name\":null}\n");
    for _ in 0..2 {
        let output = succeed(folder.path(), &["run", "pipeline.toml"]);
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "");
    }
}

#[test]
fn minimal_stops_at_the_first_line_that_is_not_right() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("pipeline.toml"), example("minimal.toml")).unwrap();
    fs::create_dir(folder.path().join("data")).unwrap();
    fs::write(folder.path().join("data/lines.ndjson"), "{\"id\":1}\n{\"id\":\"two\"}\n").unwrap();
    let output = floodmark(folder.path(), &["run", "pipeline.toml"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "another start would find the same");
    assert!(String::from_utf8_lossy(&output.stderr).contains("id: expected int64"));
}

#[test]
fn clickstream_fills_its_tables_with_what_the_ledger_says() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("pipeline.toml"), example("clickstream.toml")).unwrap();
    let to = ["--to", "file:data/events", "--ledger", "ledger.json"];
    succeed(folder.path(), &[&["generate", "clickstream", "--events", "100000"], &to[..]].concat());
    succeed(folder.path(), &["run", "pipeline.toml"]);
    let ledger = fs::read_to_string(folder.path().join("ledger.json")).unwrap();
    let ledger: serde_json::Value = serde_json::from_str(&ledger).unwrap();
    let total = |count: &str| ledger["total"][count].as_u64();
    assert_eq!(rows(folder.path(), "lake"), total("events"));
    assert_eq!(rows(folder.path(), "bad"), total("poison"));
    assert_eq!(rows(folder.path(), "late"), total("late").map(|late| 2 * late), "late for both windows");
    for sink in ["per_type_lake", "sessions_lake"] {
        assert!(rows(folder.path(), sink) > Some(0), "{sink}");
    }
}

#[test]
fn roster_and_orders_bring_what_kafka_holds_into_their_tables() {
    let broker = Broker::start().unwrap();
    generate_to(&broker, "roster", "roster.updates", &["--events", "12000", "--partitions", "4"]);
    run_on_kafka(&broker, "roster.toml", 12_000);
    generate_to(&broker, "orders", "orders", &["--events", "1000", "--partitions", "3", "--seed", "17"]);
    let folder = run_on_kafka(&broker, "orders.toml", 1_000);
    let output = succeed(folder.path(), &["digest", "--pipeline", "pipeline.toml", "lake", "--as", "orders"]);
    let digest = String::from_utf8(output.stdout).unwrap();
    assert_eq!(digest.trim(), "5780efc5f0fb50058cfb68e2501a52c2f6a01e6e1f7cc96e3cff301507629d88");
}

#[test]
fn no_example_is_left_out() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/examples");
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let tested = ["clickstream.toml", "minimal.toml", "orders.toml", "roster.toml"].map(str::to_owned);
    assert_eq!(names.collect::<BTreeSet<_>>(), BTreeSet::from(tested));
}

/// systemd isn't the first process everywhere a test runs, so the unit is judged by systemd's own checker and its command line is run by hand.
#[test]
fn the_systemd_unit_is_right_for_systemd_and_its_command_runs() {
    let folder = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_floodmark");
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/floodmark.service");
    let text = fs::read_to_string(unit).unwrap().replace("/usr/bin/floodmark", program);
    let instance = folder.path().join("floodmark@minimal.service");
    fs::write(&instance, &text).unwrap();
    let checked = Command::new("systemd-analyze").arg("verify").arg(&instance).output().unwrap();
    let complaints = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(checked.status.success() && complaints.is_empty(), "{complaints}");

    fs::write(folder.path().join("minimal.toml"), example("minimal.toml")).unwrap();
    fs::create_dir(folder.path().join("data")).unwrap();
    fs::write(folder.path().join("data/lines.ndjson"), "{\"id\":1}\n").unwrap();
    let command = text.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let command = command.replace("/etc/floodmark/%i.toml", "minimal.toml");
    let arguments: Vec<&str> = command.split(' ').skip(1).collect();
    succeed(folder.path(), &arguments);
}
