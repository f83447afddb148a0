//! What `floodmark flink-sql` prints runs on a real Flink, and its tables are floodmark's, also when both are killed (`floodmark drill parity`); so are
//! those of the programs in compose/flink.
//!
//! One test at a time, and none beside other tests: JVMs starve on two cores. All limits are those of a machine that is busy with something else.
// Real processes, real time.
#![allow(clippy::disallowed_methods)]
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use floodmark_stack::broker::Broker;
use floodmark_stack::fetched;
use floodmark_stack::flink::{Cluster, Job, Options, Program};
use floodmark_stack::postgres::Postgres;
use serde_json::Value;
use tempfile::TempDir;

mod rows;
mod tuned;
mod windows;

const LIMIT: Duration = Duration::from_secs(900);

/// One cluster at a time, also after a test that failed.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kafka, Flink, a catalog for each of the two engines, and a folder to work in.
struct Stack {
    broker: Broker,
    postgres: Postgres,
    cluster: Cluster,
    folder: TempDir,
}

impl Stack {
    fn start() -> Stack {
        let (broker, postgres) = (Broker::start().unwrap(), Postgres::start().unwrap());
        ["ours", "flinks"].iter().for_each(|name| postgres.create_database(name).unwrap());
        let cluster = Cluster::start(Options::default()).unwrap();
        let folder = tempfile::Builder::new().prefix("floodmark-flink-").tempdir().unwrap();
        Stack { broker, postgres, cluster, folder }
    }

    fn floodmark(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_floodmark"));
        let output = command.current_dir(&self.folder).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn generate(&self, workload: &str, topic: &str, dials: &[&str]) {
        let to = format!("kafka://{}/{topic}", self.broker.address());
        self.floodmark(&[&["generate", workload, "--to", &to], dials].concat());
    }

    /// Has the cluster run the job of a file, with Flink's own catalog and warehouse.
    fn hand_over(&self, file: &Path) -> Job {
        let warehouse = format!("file://{}", self.folder.path().join("flinks").display());
        let (uri, cluster) = (self.postgres.url("flinks"), format!("http://{}", self.cluster.address()));
        let runner = fetched("flink-runner/runner.jar").unwrap();
        let id = self.floodmark(&[
            "flink-sql",
            file.to_str().unwrap(),
            "--warehouse",
            &warehouse,
            "--catalog-uri",
            &uri,
            "--run",
            &cluster,
            "--runner",
            runner.to_str().unwrap(),
        ]);
        let mut jobs = self.cluster.jobs().unwrap().into_iter().map(|(job, _)| job);
        jobs.find(|job| job.id() == id.trim()).unwrap_or_else(|| panic!("the cluster has no job {id}"))
    }

    fn digest(&self, catalog: &str, table: &str) -> String {
        let uri = self.postgres.url(catalog);
        self.floodmark(&["digest", &format!("shop.{table}"), "--catalog", &uri, "--without-meta"])
    }

    /// One of compose/flink over a topic, with Flink's own catalog and warehouse.
    fn program(&self, class: &str, topic: &str, dials: &[(&str, &str)]) -> Program {
        let warehouse = format!("file://{}", self.folder.path().join("flinks").display());
        let (brokers, uri) = (self.broker.address(), self.postgres.jdbc_url("flinks"));
        let places = [("brokers", &*brokers), ("topic", topic), ("catalog-uri", &uri), ("warehouse", &warehouse)];
        let program = Program::jar(fetched("flink-runner/runner.jar").unwrap(), class);
        let told =
            |program: Program, (name, value): &(&str, &str)| program.argument(&format!("--{name}")).argument(value);
        places.iter().chain(dials).fold(program, told).with("execution.checkpointing.interval", "1 s")
    }

    fn write(&self, pipeline: &str) -> PathBuf {
        let file = self.folder.path().join("pipeline.toml");
        fs::write(&file, pipeline).unwrap();
        file
    }

    /// Runs a file and a program of Flink's to the end of their topic.
    fn both_run(&self, file: &Path, program: &Program) {
        self.floodmark(&["run", file.to_str().unwrap()]);
        self.cluster.run(program, LIMIT).unwrap().wait_finished(LIMIT).unwrap();
    }

    fn are_equal(&self, tables: &[&str]) {
        for table in tables {
            assert_eq!(self.digest("flinks", table), self.digest("ours", table), "{table}");
        }
    }

    /// Runs a file with both to the end of its topics, and compares the tables.
    fn both_give(&self, pipeline: &str, tables: &[&str]) {
        let file = self.write(pipeline);
        self.floodmark(&["run", file.to_str().unwrap()]);
        self.hand_over(&file).wait_finished(LIMIT).unwrap();
        self.are_equal(tables);
    }
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/examples").join(name).with_extension("toml")
}

/// The clickstream example over a topic that is read to its end, with our catalog in Postgres.
fn clickstream(stack: &Stack, topic: &str, keys: &str) -> String {
    let text = fs::read_to_string(example("clickstream")).unwrap();
    let source = format!(
        "type = \"kafka\"\nbrokers = \"{}\"\ntopic = \"{topic}\"\nend = \"latest\"\n{keys}",
        stack.broker.address()
    );
    let text = text.replace("type = \"file\"\npath = \"data/events\"", &source);
    text.replace("sqlite:data/catalog.db", &stack.postgres.url("ours"))
}

#[test]
fn with_both_killed_in_the_middle_flink_floodmark_and_the_oracle_hold_the_same() {
    let _alone = alone();
    let folder = tempfile::Builder::new().prefix("floodmark-parity-").tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_floodmark"));
    command.args(["drill", "parity", "--class", "D1", "--fault", "kill", "--at", "50%", "--events", "20k"]);
    command.args(["--predict", "all tables are equal", "--dir"]).arg(folder.path());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("\nPASS\n"), "{said}");

    let run = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let record: Value = serde_json::from_slice(&fs::read(run.join("run.json")).unwrap()).unwrap();
    let tables = record["tables"].as_array().unwrap();
    let names: Vec<&str> = tables.iter().map(|table| table["table"].as_str().unwrap()).collect();
    assert_eq!(names, ["shop.events", "shop.per_type", "shop.sessions"]);
    for table in tables {
        let digests = table["digests"].as_array().unwrap();
        assert_eq!(digests.len(), 5, "two readers of each side, and the oracle: {table}");
        assert!(digests.iter().all(|read| read["digest"] == digests[0]["digest"]), "{table}");
        assert!(!digests[0]["digest"].as_str().unwrap().starts_with("v1:0:"), "{table}");
    }
    let faults = record["faults"].as_array().unwrap();
    assert_eq!(faults.iter().map(|struck| &struck["path"]).collect::<Vec<_>>(), ["flink", "floodmark"]);
    assert!(faults.iter().all(|struck| struck["new_rows_after_ms"].is_u64()), "{faults:?}");
    assert_eq!(record["in_force"]["flink"]["job"]["checkpoints"]["mode"], "exactly_once");
    for left in ["report.html", "prediction.txt", "pipeline.toml", "job.sql", "logs/floodmark.log", "logs/kafka-1.log"]
    {
        assert!(run.join(left).exists(), "{left}");
    }
}

#[test]
fn with_one_partition_and_one_worker_the_late_rows_are_floodmarks() {
    let _alone = alone();
    let stack = Stack::start();
    let dials = ["--events", "20000", "--partitions", "1", "--poison", "0", "--event-rate", "200", "--users", "500"];
    stack.generate("clickstream", "one", &dials);
    // With a bound below the disorder, records are late for some windows and not for others.
    let text = clickstream(&stack, "one", "lateness = \"event\"").replace("workers = 2", "workers = 1");
    stack.both_give(&text.replace("bound = \"5s\"", "bound = \"1s\""), &["events", "per_type", "sessions", "late"]);
}
