//! A real Flink cluster does what a drill asks of it, and says by name what it can't do.
//!
//! One test at a time, and none beside other tests: JVMs starve on two cores. All limits are those of a machine that is busy with something else.
// Real processes, real time.
#![allow(clippy::disallowed_methods)]
use std::error::Error;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, id};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use floodmark_stack::broker::Broker;
use floodmark_stack::flink::{Cluster, Options, Program};
use floodmark_stack::postgres::Postgres;
use floodmark_stack::{StackError, fetched, python, until};
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

type Outcome = Result<(), Box<dyn Error>>;

const LIMIT: Duration = Duration::from_secs(300);
/// For what never happens: it is waited for to its end.
const SHORT: Duration = Duration::from_secs(3);

/// One cluster at a time, also after a test that failed.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// JVMs that this process has started and that haven't ended.
fn own_jvms() -> usize {
    let is_own = |process: &Path| {
        let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
        let (name, rest) = stat.rsplit_once(')').unwrap_or_default();
        let parent = rest.split(' ').nth(2).and_then(|parent| parent.parse().ok());
        name.ends_with("(java") && parent == Some(id())
    };
    fs::read_dir("/proc").into_iter().flatten().flatten().filter(|process| is_own(&process.path())).count()
}

fn leaves_nothing(cluster: Cluster) {
    let folders = [cluster.folder().to_path_buf(), cluster.task_manager_folder(0).to_path_buf()];
    assert_ne!(own_jvms(), 0);
    drop(cluster);
    assert_eq!(own_jvms(), 0);
    assert!(folders.iter().all(|folder| !folder.exists()));
}

/// Counts without end, with a checkpoint a second.
fn counting() -> Program {
    let script = "
CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '200', 'fields.n.max' = '9');
CREATE TABLE nowhere (n BIGINT, c BIGINT) WITH ('connector' = 'blackhole');
-- Each group has a count: there is state.
INSERT INTO nowhere SELECT n, COUNT(*) FROM numbers GROUP BY n;
";
    Program::sql(script).with("execution.checkpointing.interval", "1 s")
}

#[test]
fn a_killed_task_manager_is_missed_and_when_there_is_another_the_job_is_restored() -> Outcome {
    let _alone = alone();
    let mut cluster = Cluster::start(Options::default())?;
    let job = cluster.run(&counting(), LIMIT)?;
    cluster.kill_task_manager(0)?;
    let missed = job.wait_restored(0, SHORT).unwrap_err();
    assert!(matches!(missed, StackError::JobLate { .. } | StackError::NoFreeSlot { .. }), "{missed}");
    cluster.start_task_manager(0)?;
    job.wait_restored(0, LIMIT)?;
    let counters = job.counters()?;
    assert_eq!(counters.restores, 1);
    assert!(counters.newest > counters.restored_from, "{counters:?}");
    assert!(!job.failures()?.is_empty());
    leaves_nothing(cluster);
    Ok(())
}

#[test]
fn a_killed_job_manager_is_missed_and_its_job_goes_on_from_where_it_was_when_submitted_again() -> Outcome {
    let _alone = alone();
    // A TaskManager notices only by this limit that the JobManager is another one.
    let options = Options::default().with("parallelism.default", "2").with("heartbeat.timeout", "10 s");
    let mut cluster = Cluster::start(options)?;
    let first = cluster.run(&counting(), LIMIT)?;
    assert_eq!(first.settings()?["checkpoints"]["interval"], 1000);
    assert_eq!(first.settings()?["execution"]["job-parallelism"], 2);
    assert!(cluster.settings()?.contains(&("parallelism.default".to_string(), "2".to_string())));
    cluster.kill_job_manager()?;
    assert!(matches!(first.wait_checkpoints(1000, SHORT), Err(StackError::NoAnswer { .. })));

    cluster.start_job_manager()?;
    assert!(cluster.jobs()?.is_empty());
    let checkpoint = cluster.newest_checkpoint(&first).ok_or("no checkpoint")?;
    let second = cluster.run(&counting().from(&checkpoint), LIMIT)?;
    let counters = second.counters()?;
    assert_ne!(counters.restores, 0);
    assert_eq!(counters.restored_from.map(|from| from.path), Some(checkpoint.display().to_string()));

    let savepoint = second.stop_with_savepoint(LIMIT)?;
    assert!(savepoint.join("_metadata").exists());
    assert!(second.status()?.is_finished());
    assert!(until(LIMIT, || cluster.slots().is_ok_and(|slots| slots == (2, 2))));
    Ok(())
}

/// Refused at once, or when it has tried, and not there any more.
fn refused(cluster: &Cluster, program: &Program) -> Result<StackError, Box<dyn Error>> {
    let error = cluster.run(program, LIMIT).err().ok_or("it ran")?;
    for (job, status) in cluster.jobs()? {
        assert!(status.is_ended(), "{} is {status}", job.id());
    }
    Ok(error)
}

#[test]
fn programs_that_cannot_run_are_refused_with_their_reason_and_leave_no_job() -> Outcome {
    let _alone = alone();
    let cluster = Cluster::start(Options::default().with("slot.request.timeout", "5000"))?;

    let no_jar = cluster.folder().join("no.jar");
    fs::write(&no_jar, "text")?;
    let error = refused(&cluster, &Program::jar(&no_jar, "Main"))?;
    assert!(matches!(&error, StackError::NotSubmitted { reason, .. } if reason.contains("no.jar")), "{error}");
    let error = refused(&cluster, &Program::jar(fetched("flink-runner/runner.jar")?, "Main"))?;
    assert!(matches!(&error, StackError::NotSubmitted { reason, .. } if reason.contains("Main")), "{error}");
    let error = refused(&cluster, &Program::sql("INSERT INTO nothing SELECT 1;"))?;
    assert!(matches!(&error, StackError::NotSubmitted { output, .. } if output.contains("nothing")), "{error}");

    let greedy = counting().with("parallelism.default", "3");
    let error = refused(&cluster, &greedy)?;
    assert!(matches!(error, StackError::NoFreeSlot { slots: 2, .. }), "{error}");

    let missing = "
CREATE TABLE missing (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'file:///missing/folder', 'format' = 'csv');
CREATE TABLE nowhere (n BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO nowhere SELECT n FROM missing;
";
    let error = refused(&cluster, &Program::sql(missing).with("execution.checkpointing.interval", "1 s"))?;
    assert!(matches!(&error, StackError::JobFailed { cause, .. } if cause.contains("/missing/folder")), "{error}");
    leaves_nothing(cluster);
    Ok(())
}

#[test]
fn a_port_in_use_is_named_and_nothing_stays() -> Outcome {
    let _alone = alone();
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let number = taken.local_addr()?.port();
    let options = Options { web_port: Some(number), ..Options::default() };
    let error = Cluster::start(options).err().ok_or("it started")?;
    assert_eq!(error.to_string(), format!("port {number} is in use"));
    // Taken after it was found free: Flink finds out.
    let late = Options::default().with("rest.bind-port", &number.to_string());
    let error = Cluster::start(late).err().ok_or("it started")?;
    assert!(matches!(&error, StackError::Ended { log, .. } if log.contains(&number.to_string())), "{error}");
    assert_eq!(own_jvms(), 0);
    Ok(())
}

const EVENTS: i64 = 4000;

fn produce(broker: &Broker, numbers: std::ops::Range<i64>) -> Outcome {
    let producer: BaseProducer = ClientConfig::new().set("bootstrap.servers", broker.address()).create()?;
    for number in numbers {
        let event = format!(r#"{{"id": "event-{number:05}", "amount": {number}}}"#);
        let record = BaseRecord::<(), str>::to("events").partition((number % 2) as i32).payload(&event);
        producer.send(record).map_err(|(error, _)| error)?;
    }
    producer.flush(LIMIT)?;
    Ok(())
}

fn rows(catalog: &str, limit: Duration) -> Result<Vec<String>, Box<dyn Error>> {
    let mut read = Command::new(python()?);
    read.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/read_table.py"));
    read.args([catalog, "lake", "shop.events", &EVENTS.to_string(), &limit.as_secs().to_string()]);
    let output = read.output()?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let rows = String::from_utf8(output.stdout)?;
    if output.status.success() { Ok(rows.lines().map(str::to_string).collect()) } else { Err(errors.into()) }
}

#[test]
fn from_kafka_to_iceberg_through_a_killed_task_manager_each_row_arrives_once() -> Outcome {
    let _alone = alone();
    let broker = Broker::start()?;
    broker.create_topic("events", 2)?;
    let postgres = Postgres::start()?;
    postgres.create_database("lake")?;
    let mut cluster = Cluster::start(Options::default().with("parallelism.default", "2"))?;
    let (kafka, pointers) = (broker.address(), postgres.jdbc_url("lake"));
    let warehouse = cluster.folder().join("warehouse");
    let script = format!(
        "
CREATE TABLE events (id STRING, amount BIGINT) WITH ('connector' = 'kafka', 'topic' = 'events', 'format' = 'json',
    'properties.bootstrap.servers' = '{kafka}', 'scan.startup.mode' = 'earliest-offset');
CREATE CATALOG lake WITH ('type' = 'iceberg', 'catalog-impl' = 'org.apache.iceberg.jdbc.JdbcCatalog', 'uri' = '{pointers}',
    'jdbc.schema-version' = 'V1', 'warehouse' = 'file://{}');
CREATE DATABASE lake.shop;
CREATE TABLE lake.shop.events (id STRING, amount BIGINT) WITH ('format-version' = '2');
SET 'execution.checkpointing.interval' = '1 s';
BEGIN STATEMENT SET;
INSERT INTO lake.shop.events SELECT id, amount FROM events;
END;
",
        warehouse.display()
    );
    produce(&broker, 0..EVENTS / 2)?;
    let job = cluster.run(&Program::sql(script), LIMIT)?;
    produce(&broker, EVENTS / 2..EVENTS * 3 / 4)?;
    cluster.kill_task_manager(0)?;
    produce(&broker, EVENTS * 3 / 4..EVENTS)?;
    cluster.start_task_manager(0)?;
    job.wait_restored(0, LIMIT)?;

    let catalog = postgres.url("lake").replace("postgres://", "postgresql+psycopg2://");
    assert_eq!(rows(&catalog, LIMIT)?.len() as i64, EVENTS);
    assert_eq!(job.counters()?.restores, 1);
    job.stop_with_savepoint(LIMIT)?;
    let expected: Vec<String> = (0..EVENTS).map(|number| format!(r#"["event-{number:05}", {number}]"#)).collect();
    assert_eq!(rows(&catalog, Duration::ZERO)?, expected);
    Ok(())
}
