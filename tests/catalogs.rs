//! Postgres, REST and S3 take the place of SQLite and local files: the tables are the same, through kills, outages, late and lost answers.
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use floodmark_stack::postgres::Postgres;
use floodmark_stack::proxy::Proxy;
use floodmark_stack::rest_catalog::{Pointers, RestCatalog, Warehouse};
use floodmark_stack::s3::{self, S3};

use crate::harness::log::Log;
use crate::harness::pipelines::Dials;
use crate::harness::status::{Listening, read};
use crate::harness::tables::{Catalog, Digest};
use crate::harness::{FAILED, Job, PATIENCE, Run};

/// What a request that moves a table holds, and no other: in Postgres the values of its statement, over REST its first line.
const POSTGRES_COMMIT: &str = ".metadata.json";
const REST_COMMIT: &str = "POST /v1/namespaces/shop/tables/events ";

/// Longer than any of a client's time-outs.
const AWAY: Duration = Duration::from_secs(30);

fn log() -> Log {
    Log::clickstream(&["--events", "10k", "--event-rate", "100", "--users", "500"])
}

/// A pipeline that waits for more, with another catalog.
fn dials(catalog: String) -> Dials {
    let source = "type = \"file\"\npath = \"data/events\"\nend = \"never\"\ndiscovery_interval = \"200ms\"".into();
    Dials { source, catalog, ..Dials::default() }
}

/// The tables of the SQLite catalog, of the log in two halves.
fn expected(log: &Log) -> BTreeMap<&'static str, Digest> {
    let job = Job::new(&dials(Dials::default().catalog).clicks());
    log.grow(&job, 0, 1000);
    read_to_the_end(&job, &mut job.start(), log);
    job.digests()
}

fn read_to_the_end(job: &Job, run: &mut Run, log: &Log) {
    let records = log.ledger.total("records");
    job.wait_while(run, |job| job.records_seen() == records);
    run.stop();
}

fn first_half_is_read(job: &Job, run: &mut Run) {
    job.wait_while(run, |job| job.rows("events") > 0);
}

/// One kill in the middle, and the tables of SQLite.
fn survives_a_kill(job: &Job, log: &Log) {
    log.grow(job, 0, 500);
    let mut run = job.start();
    first_half_is_read(job, &mut run);
    log.grow(job, 500, 1000);
    run.kill();
    read_to_the_end(job, &mut job.start(), log);
    assert_eq!(job.digests(), expected(log));
}

fn postgres() -> Postgres {
    let postgres = Postgres::start().unwrap();
    postgres.create_database("lake").unwrap();
    postgres
}

/// `at` instead of the server itself, for a proxy.
fn in_postgres(postgres: &Postgres, at: SocketAddr) -> Job {
    let uri = postgres.url("lake").replace(&postgres.address().to_string(), &at.to_string());
    let catalog = format!(r#"{{ type = "sql", uri = "{uri}", warehouse = "file:data/warehouse" }}"#);
    Job::with_catalog(&dials(catalog).clicks(), Catalog::Postgres(postgres.url("lake")))
}

fn rest() -> RestCatalog {
    RestCatalog::start(Pointers::Sqlite, Warehouse::Local).unwrap()
}

fn over_rest(rest: &RestCatalog, at: SocketAddr) -> Job {
    let catalog = format!(r#"{{ type = "rest", uri = "http://{at}" }}"#);
    Job::with_catalog(&dials(catalog).clicks(), Catalog::Rest(rest.url()))
}

#[test]
fn postgres_holds_the_tables_of_sqlite() {
    let postgres = postgres();
    survives_a_kill(&in_postgres(&postgres, postgres.address()), &log());
}

#[test]
fn rest_holds_the_tables_of_sqlite() {
    let rest = rest();
    survives_a_kill(&over_rest(&rest, rest.address()), &log());
}

#[test]
fn s3_holds_tables_and_checkpoints_as_a_disk_does() {
    let (postgres, store) = (postgres(), S3::start().unwrap());
    store.create_bucket("lake").unwrap();
    let (endpoint, url) = (store.endpoint(), postgres.url("lake"));
    let (region, access, secret) = (s3::REGION, s3::ACCESS_KEY, s3::SECRET_KEY);
    let settings = format!(
        r#"s3 = {{ endpoint = "{endpoint}", region = "{region}", access_key = "{access}", secret_key = "{secret}" }}"#
    );
    let dials = Dials {
        pipeline: format!("workers = 2\n{settings}"),
        checkpoint: r#"{ interval = "200ms", dir = "s3://lake/checkpoints" }"#.into(),
        commit_interval: "400ms".into(),
        ..dials(format!(r#"{{ type = "sql", uri = "{url}", warehouse = "s3://lake/warehouse" }}"#))
    };
    survives_a_kill(&Job::with_catalog(&dials.clicks(), Catalog::PostgresAndS3(url, endpoint)), &log());
}

#[test]
fn a_catalog_that_is_away_at_the_start_is_waited_for_if_asked() {
    let (rest, log) = (rest(), log());
    let mut proxy = Proxy::start(rest.address()).unwrap();
    let job = over_rest(&rest, proxy.address());
    log.grow(&job, 0, 1000);
    proxy.go_away();
    let said = job.ends_with(FAILED, &[]);
    assert!(said.contains("not reachable"), "{said}");
    let mut run = job.start_with(&["--wait"]);
    run.wait_until(|run| run.has_said("waiting: "));
    proxy.come_back().unwrap();
    read_to_the_end(&job, &mut run, &log);
    assert_eq!(job.digests(), expected(&log));
}

#[test]
fn a_database_that_is_away_at_the_start_is_named_with_the_reason() {
    let postgres = postgres();
    let mut proxy = Proxy::start(postgres.address()).unwrap();
    let job = in_postgres(&postgres, proxy.address());
    log().grow(&job, 0, 100);
    proxy.go_away();
    let said = job.ends_with(FAILED, &[]);
    let line = said.lines().find(|line| line.starts_with("error: ")).unwrap_or_else(|| panic!("{said}"));
    assert!(line.contains(&proxy.address().to_string()) && line.contains("not reachable: "), "{line}");
    assert!(line.contains("Connection refused") && !line.contains("pool"), "{line}");
    proxy.come_back().unwrap();
    job.start_and_stop();
}

#[test]
fn rows_wait_for_a_catalog_that_is_away_while_running() {
    let (rest, log, listening) = (rest(), log(), Listening::somewhere());
    let mut proxy = Proxy::start(rest.address()).unwrap();
    let job = over_rest(&rest, proxy.address());
    job.change("workers = 2", &format!("workers = 2\n{}", listening.line()));
    log.grow(&job, 0, 500);
    let mut run = job.start();
    first_half_is_read(&job, &mut run);
    proxy.go_away();
    let committed = job.rows("events");
    log.grow(&job, 500, 1000);
    run.wait_until(|run| run.has_said("a sink is away, its rows wait in the outbox"));
    let all = log.ledger.total("records");
    let status = listening.wait_for(&job, &mut run, |status| read(status) == all);
    let waiting = &status["sinks"][0];
    assert!(waiting["waiting_rows"].as_u64() > Some(0) && waiting["away"].is_string(), "reading goes on: {status}");
    assert!(status["outbox"]["bytes"].as_u64() > Some(0) && status["outbox"]["sources_paused"] == false, "{status}");
    assert_eq!(run.ended_within(AWAY), None, "{}", run.said());
    assert_eq!(job.rows("events"), committed);
    proxy.come_back().unwrap();
    read_to_the_end(&job, &mut run, &log);
    assert_eq!(job.digests(), expected(&log));
}

/// A commit that the network keeps until another process has recovered and gone on: it must come to nothing.
fn a_late_commit_comes_to_nothing(job: &Job, proxy: &Proxy, commit: &str) {
    let log = log();
    log.grow(job, 0, 500);
    let mut run = job.start();
    first_half_is_read(job, &mut run);
    let held = proxy.hold(commit);
    log.grow(job, 500, 1000);
    assert!(held.wait_caught(PATIENCE), "{}", run.said());
    run.kill();
    read_to_the_end(job, &mut job.start(), &log);
    held.release();
    assert!(held.wait_answered(PATIENCE));
    assert_eq!(job.digests(), expected(&log));
    // The next start finds the table as it was left.
    job.start_and_stop();
    assert_eq!(job.digests(), expected(&log));
}

#[test]
fn a_commit_that_reaches_postgres_after_the_recovery_comes_to_nothing() {
    let postgres = postgres();
    let proxy = Proxy::start(postgres.address()).unwrap();
    a_late_commit_comes_to_nothing(&in_postgres(&postgres, proxy.address()), &proxy, POSTGRES_COMMIT);
}

#[test]
fn a_commit_that_reaches_the_rest_catalog_after_the_recovery_comes_to_nothing() {
    let rest = rest();
    let proxy = Proxy::start(rest.address()).unwrap();
    a_late_commit_comes_to_nothing(&over_rest(&rest, proxy.address()), &proxy, REST_COMMIT);
}

/// A commit that was done and whose answer nobody heard is not done again.
fn a_lost_answer_doubles_nothing(job: &Job, proxy: &Proxy, commit: &str) {
    let log = log();
    log.grow(job, 0, 500);
    let mut run = job.start();
    first_half_is_read(job, &mut run);
    let lost = proxy.lose_answer(commit);
    log.grow(job, 500, 1000);
    assert!(lost.wait_answered(PATIENCE), "{}", run.said());
    read_to_the_end(job, &mut run, &log);
    assert_eq!(job.digests(), expected(&log));
}

#[test]
fn a_lost_answer_of_postgres_doubles_nothing() {
    let postgres = postgres();
    let proxy = Proxy::start(postgres.address()).unwrap();
    a_lost_answer_doubles_nothing(&in_postgres(&postgres, proxy.address()), &proxy, POSTGRES_COMMIT);
}

#[test]
fn a_lost_answer_of_the_rest_catalog_doubles_nothing() {
    let rest = rest();
    let proxy = Proxy::start(rest.address()).unwrap();
    a_lost_answer_doubles_nothing(&over_rest(&rest, proxy.address()), &proxy, REST_COMMIT);
}
