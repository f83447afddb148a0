//! Keys of the pipeline file that no other test of a running job turns: each does what the reference says. Which test shows which key: docs/CLAIMS.md.
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde_json::Value;

use crate::harness::broker::broker;
use crate::harness::pipelines::{kafka, sqlite};
use crate::harness::status::{Listening, read};
use crate::harness::{FAILED, Job};

/// 2026-01-01T00:00:00Z.
const BASE_MS: i64 = 1_767_225_600_000;
const FILE: &str = "type = \"file\"\npath = \"data/events\"";
const EVENT_TIME: &str = "event_time = { field = \"at\" }\nwatermark = { bound = \"0s\" }";
const ID_AND_TIME: &str = "schema = { id = \"int64\", at = \"timestamp_ms\" }";

/// One source, `events`, whose bad records go to `bad`; `nodes` are the sections behind it.
fn pipeline(settings: &str, source: &str, nodes: &str) -> String {
    format!(
        r#"[pipeline]
id = "keys"
checkpoint = {{ interval = "50ms", dir = "file:data/checkpoints" }}
{settings}
[source.events]
{source}
[sink.bad]
from = "events.errors"
type = "file"
dir = "file:bad"
{nodes}"#
    )
}

/// Rows of a node as files in a folder of its name.
fn to_files(node: &str) -> String {
    format!("[sink.{node}_files]\nfrom = \"{node}\"\ntype = \"file\"\ndir = \"file:{node}\"\n")
}

/// A job that has read these lines to their end.
fn finished(source: &str, nodes: &str, lines: &str) -> Job {
    let job = Job::new(&pipeline("", &format!("{FILE}\n{source}"), nodes));
    give(&job, lines);
    job.finish();
    job
}

fn give(job: &Job, lines: &str) {
    fs::create_dir_all(job.path("data/events")).unwrap();
    fs::write(job.path("data/events/a.json"), lines).unwrap();
}

/// One line for each second after the base: ids are 0, 1, 2 …
fn at_seconds(seconds: &[i64]) -> String {
    let line = |(id, second): (usize, &i64)| format!("{{\"id\":{id},\"at\":{}}}\n", BASE_MS + second * 1_000);
    seconds.iter().enumerate().map(line).collect()
}

fn values(job: &Job, folder: &str, column: &str) -> Vec<Value> {
    let value = |row: &String| serde_json::from_str::<Value>(row).unwrap()[column].clone();
    job.rows_in(folder).iter().map(value).collect()
}

#[test]
fn columns_come_from_their_path_with_their_type() {
    let schema = r#"[source.events.schema]
id = { type = "int64", path = "order.id" }
dotted = { type = "string", path = ["a.b", "c"] }
price = "decimal(10,2)"
file = { from = "kafka.topic" }
line = { from = "kafka.offset" }
"#;
    let line = r#"{"order":{"id":7},"a.b":{"c":"x"},"price":"12.5"}"#;
    let job = finished(schema, &to_files("events"), &format!("{line}\n{line}\n"));
    let row = |line| format!(r#"{{"id":7,"dotted":"x","price":12.50,"file":"a.json","line":{line}}}"#);
    assert_eq!(job.rows_in("events"), [row(0), row(1)]);
}

#[test]
fn a_field_that_the_schema_does_not_name_is_an_error_where_the_file_says_so() {
    let lines = "{\"id\":1}\n{\"id\":2,\"more\":0}\n";
    for (key, rows, bad) in [("unknown_fields = \"ignore\"", 2, 0), ("unknown_fields = \"error\"", 1, 1)] {
        let job = finished(&format!("schema = {{ id = \"int64\" }}\n{key}"), &to_files("events"), lines);
        assert_eq!((job.rows_in("events").len(), job.rows_in("bad").len()), (rows, bad), "{key}");
    }
}

fn windows(keys: &str) -> String {
    format!(
        "[window.counted]\nfrom = \"events\"\n{keys}\naggregates = {{ events = \"count()\" }}\n{}{}",
        to_files("counted"),
        "[sink.late_files]\nfrom = \"counted.late\"\ntype = \"file\"\ndir = \"file:late\"\n"
    )
}

#[test]
fn a_record_is_late_by_its_window_or_by_itself() {
    let windows = windows("type = \"tumbling\"\nsize = \"10s\"");
    for (key, late) in [("lateness = \"window\"", vec![]), ("lateness = \"event\"", vec![2])] {
        let source = format!("{key}\n{EVENT_TIME}\n{ID_AND_TIME}");
        let job = finished(&source, &windows, &at_seconds(&[5, 8, 6]));
        assert_eq!(values(&job, "late", "id"), late, "{key}");
    }
}

#[test]
fn windows_begin_at_their_offset() {
    let source = format!("{EVENT_TIME}\n{ID_AND_TIME}");
    for (keys, starts) in [
        ("type = \"tumbling\"\nsize = \"10s\"\noffset = \"3s\"", vec!["00:00:03Z", "00:00:13Z"]),
        (
            "type = \"hopping\"\nsize = \"20s\"\nslide = \"10s\"\noffset = \"3s\"",
            vec!["23:59:53Z", "00:00:03Z", "00:00:13Z"],
        ),
    ] {
        let job = finished(&source, &windows(keys), &at_seconds(&[5, 12, 13]));
        let mut found = values(&job, "counted", "window_start");
        found.sort_by_key(|start| start.as_str().map(str::to_owned));
        let found: Vec<_> = found.iter().map(|start| start.as_str().unwrap().rsplit('T').next().unwrap()).collect();
        assert_eq!(found, starts, "{keys}");
    }
}

/// Ids of two hours, one a minute: a wide bucket keeps them all until its whole width has gone by.
#[test]
fn dedup_forgets_in_slices_of_its_bucket() {
    let minutes: Vec<i64> = (0..120).map(|minute| minute * 60).collect();
    for (bucket, remembered) in [("1m", 60..=62), ("1h", 100..=120)] {
        let listening = Listening::somewhere();
        let source = format!("{FILE}\nend = \"never\"\n{EVENT_TIME}\n{ID_AND_TIME}");
        let dedup = format!(
            "[dedup.clean]\nfrom = \"events\"\nkey = [\"id\"]\nhorizon = \"1h\"\nbucket = \"{bucket}\"\ndiscard = [\"duplicates\", \"late\"]\n"
        );
        let job = Job::new(&pipeline(&listening.line(), &source, &(dedup + &to_files("clean"))));
        give(&job, &at_seconds(&minutes));
        let mut run = job.start();
        let entries = |status: &Value| {
            let nodes = status["nodes"].as_array().unwrap();
            nodes.iter().find(|node| node["name"] == "clean").unwrap()["state_entries"].as_u64().unwrap()
        };
        // What the last watermark has made expire goes at the cut after it.
        listening.wait_for(&job, &mut run, |status| read(status) == 120 && remembered.contains(&entries(status)));
        run.stop();
    }
}

fn table(keys: &str) -> String {
    format!(
        "[sink.table]\nfrom = \"events\"\ntype = \"iceberg\"\ntable = \"shop.events\"\ncatalog = {}\n{keys}\n",
        sqlite()
    )
}

fn metadata(job: &Job) -> Value {
    serde_json::from_slice(&fs::read(job.metadata("events").trim_start_matches("file://")).unwrap()).unwrap()
}

#[test]
fn a_new_table_has_its_properties_and_files_of_the_size_asked_for() {
    let seconds: Vec<i64> = (0..60_000).collect();
    let data_files = |keys: &str| {
        let source = format!("{EVENT_TIME}\n{ID_AND_TIME}\ndiscard = []");
        let job = finished(&source, &table(keys), &at_seconds(&seconds));
        assert_eq!(job.rows("events"), 60_000, "{keys}");
        let largest = fs::read_dir(job.path("data/warehouse/shop/events/data")).unwrap();
        let largest = largest.map(|file| file.unwrap().metadata().unwrap().len()).max().unwrap();
        (largest, metadata(&job)["properties"]["owner"].clone())
    };
    let (whole, owner) = data_files("properties = { \"owner\" = \"clicks\" }");
    assert_eq!(owner, "clicks");
    let (part, nobody) = data_files("target_file_size = \"16KiB\"");
    assert_eq!(nobody, Value::Null);
    assert!(part * 2 < whole, "{part} bytes and {whole}");
}

/// Nothing is ever wrong, so no row comes; the table's mark moves on all the same, if it is asked to soon enough.
#[test]
fn a_mark_is_committed_without_rows_after_its_interval() {
    let errors = |interval: &str| {
        table(&format!("mark_interval = \"{interval}\"\ncommit_interval = \"50ms\""))
            .replace("\"events\"", "\"events.errors\"")
    };
    let snapshots_after = |interval: &str| {
        let source = format!("{FILE}\nend = \"never\"\ndiscovery_interval = \"50ms\"\n{ID_AND_TIME}");
        let job = Job::new(&pipeline("", &source, &(errors(interval) + &to_files("events"))));
        give(&job, "");
        let mut run = job.start();
        for id in 1..=5 {
            fs::write(job.path(&format!("data/events/{id}.json")), at_seconds(&[1])).unwrap();
            job.wait_while(&mut run, |job| job.rows_in("events").len() == id);
            job.wait_for_checkpoints(&mut run, 4);
        }
        run.kill();
        metadata(&job)["snapshots"].as_array().unwrap().len()
    };
    assert_eq!(snapshots_after("20m"), 2, "the fence and the first mark");
    assert!(snapshots_after("100ms") > 4, "one for each file");
}

#[test]
fn a_table_is_found_under_the_name_of_its_catalog() {
    let named = table("").replace("type = \"sql\",", "type = \"sql\", name = \"mine\",");
    let job = finished(ID_AND_TIME, &named, &at_seconds(&[1, 2]));
    let by_name =
        |name: &str| job.ask(&["digest", "shop.events", "--catalog", "sqlite:data/catalog.db", "--catalog-name", name]);
    assert!(by_name("mine").1.starts_with("v1:2:"), "{:?}", by_name("mine"));
    assert!(by_name("floodmark").1.contains("the catalog has no table shop.events"), "{:?}", by_name("floodmark"));
}

/// A catalog that gives out a token and its configuration, is away for everything else, and keeps what it was asked.
struct Clerk {
    address: String,
    asked: JoinHandle<Vec<String>>,
}

impl Clerk {
    fn start() -> Clerk {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked = std::thread::spawn(move || {
            let mut asked = vec![];
            loop {
                let (mut stream, _) = listener.accept().unwrap();
                stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                let (request, body) = read_request(&mut stream);
                let first = request.lines().next().unwrap().to_owned();
                let (status, answer) = match first.split(' ').nth(1).unwrap() {
                    path if path.ends_with("/token") => ("200 OK", r#"{"access_token":"given","token_type":"bearer"}"#),
                    path if path.starts_with("/v1/config") => ("200 OK", r#"{"defaults":{},"overrides":{}}"#),
                    _ => ("503 Service Unavailable", ""),
                };
                write!(
                    stream,
                    "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{answer}",
                    answer.len()
                )
                .unwrap();
                asked.push(format!("{request}{body}"));
                if status.starts_with("503") {
                    return asked;
                }
            }
        });
        Clerk { address, asked }
    }

    /// All it was asked by a job with this catalog, up to the first thing it had no answer to.
    fn asked_by(self, catalog: &str) -> Vec<String> {
        let catalog = format!(r#"{{ type = "rest", uri = "http://{}", {catalog} }}"#, self.address);
        let catalog = catalog.replace("ADDRESS", &self.address);
        let job = Job::new(&pipeline("", &format!("{FILE}\n{ID_AND_TIME}"), &table("").replace(&sqlite(), &catalog)));
        give(&job, "");
        let said = job.ends_with(FAILED, &[]);
        assert!(said.contains("not reachable: 503 Service Unavailable"), "{said}");
        self.asked.join().unwrap()
    }
}

/// Head and body of a request, names of headers in small letters.
fn read_request(stream: &mut impl Read) -> (String, String) {
    let mut bytes = vec![];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return (format!("{head}\r\n"), body.to_owned());
            }
        }
        let mut more = [0; 4096];
        let read = stream.read(&mut more).unwrap();
        assert_ne!(read, 0, "{text}");
        bytes.extend_from_slice(&more[..read]);
    }
}

#[test]
fn a_rest_catalog_is_asked_with_its_token_for_its_warehouse_under_its_prefix() {
    let asked = Clerk::start().asked_by(r#"token = "secret", warehouse = "lake", prefix = "ws""#);
    assert!(asked[0].starts_with("GET /v1/config?warehouse=lake HTTP/1.1"), "{asked:?}");
    assert!(asked[1].starts_with("GET /v1/ws/namespaces/shop/tables/events HTTP/1.1"), "{asked:?}");
    assert!(asked.iter().all(|request| request.contains("authorization: Bearer secret")), "{asked:?}");
}

#[test]
fn a_rest_catalogs_token_is_asked_for_with_the_credential_where_the_file_says() {
    let asked = Clerk::start()
        .asked_by(r#"credential = "me:word", token_uri = "http://ADDRESS/elsewhere/token", scope = "all""#);
    assert!(asked[0].starts_with("POST /elsewhere/token HTTP/1.1"), "{asked:?}");
    for part in ["grant_type=client_credentials", "client_id=me", "client_secret=word", "scope=all"] {
        assert!(asked[0].contains(part), "{part}: {asked:?}");
    }
    assert!(asked[1..].iter().all(|request| request.contains("authorization: Bearer given")), "{asked:?}");
}

/// Ten records in each of two partitions: ids from 0 and from 100, one a second by the log's timestamp, with key and header.
fn ten_each(topic: &str) {
    broker().create_topic(topic, 2).unwrap();
    for partition in 0..2 {
        (0..10).for_each(|n| send(topic, partition, i64::from(partition) * 100 + n, BASE_MS + n * 1_000, BASE_MS));
    }
}

fn send(topic: &str, partition: i32, id: i64, timestamp_ms: i64, at_ms: i64) {
    let producer: BaseProducer = ClientConfig::new().set("bootstrap.servers", broker().address()).create().unwrap();
    let (key, value) = (format!("k{id}"), format!("{{\"id\":{id},\"at\":{at_ms}}}"));
    let headers = OwnedHeaders::new().insert(Header { key: "trace", value: Some("t") });
    let record = BaseRecord::to(topic).partition(partition).key(&key).payload(&value).timestamp(timestamp_ms);
    producer.send(record.headers(headers)).unwrap();
    producer.flush(Duration::from_secs(60)).unwrap();
}

/// Ids that a job reads from the topic with these keys of its source.
fn ids_read(topic: &str, keys: &str) -> Vec<Value> {
    let source = format!("{}\n{keys}\n{ID_AND_TIME}", kafka(&broker().address(), topic));
    let job = Job::new(&pipeline("", &source, &to_files("events")));
    job.finish();
    let mut ids = values(&job, "events", "id");
    ids.sort_by_key(Value::as_i64);
    ids
}

#[test]
fn reading_begins_and_ends_where_the_file_says() {
    let topic = "keys-ends";
    ten_each(topic);
    let offsets = format!(
        "start = {{ offsets = {{ \"{topic}\" = {{ 0 = 2, 1 = 8 }} }} }}\nend = {{ offsets = {{ \"{topic}\" = {{ 0 = 5, 1 = 9 }} }} }}"
    );
    assert_eq!(ids_read(topic, &offsets), [2, 3, 4, 108]);
    let times = "start = { timestamp = 2026-01-01T00:00:07Z }\nend = { timestamp = 1767225609000 }";
    assert_eq!(ids_read(topic, times), [7, 8, 107, 108]);
    assert_eq!(ids_read(topic, "start = \"latest\"\nend = \"latest\""), [0; 0]);
    assert_eq!(ids_read(topic, "end = \"latest\"").len(), 20);
}

#[test]
fn a_job_that_begins_at_the_latest_reads_what_comes_from_then_on() {
    let topic = "keys-latest";
    ten_each(topic);
    let source = format!("{}\nstart = \"latest\"\n{ID_AND_TIME}", kafka(&broker().address(), topic));
    let job = Job::new(&pipeline("", &source, &to_files("events")));
    let mut run = job.start();
    job.wait_for_checkpoints(&mut run, 1);
    send(topic, 0, 55, BASE_MS, BASE_MS);
    job.wait_while(&mut run, |job| !job.rows_in("events").is_empty());
    run.stop();
    assert_eq!(values(&job, "events", "id"), [55]);
}

#[test]
fn columns_hold_what_kafka_keeps_beside_a_record() {
    let topic = "keys-columns";
    ten_each(topic);
    let schema = r#"[source.events.schema]
id = "int64"
topic = { from = "kafka.topic" }
partition = { from = "kafka.partition" }
offset = { from = "kafka.offset" }
time = { from = "kafka.timestamp" }
key = { type = "string", from = "kafka.key" }
trace = { type = "string?", from = "kafka.header.trace" }
none = { type = "string?", from = "kafka.header.none" }
"#;
    let source = format!("{}\nend = \"latest\"\n{schema}", kafka(&broker().address(), topic));
    let job = Job::new(&pipeline("", &source, &to_files("events")));
    job.finish();
    let row = concat!(
        r#"{"id":103,"topic":"keys-columns","partition":1,"offset":3,"time":"2026-01-01T00:00:03Z","#,
        r#""key":"k103","trace":"t","none":null}"#
    );
    let rows = job.rows_in("events");
    assert!(rows.len() == 20 && rows.contains(&row.to_owned()), "{rows:?}");
}

#[test]
fn the_logs_own_timestamp_may_be_the_event_time() {
    let topic = "keys-log-time";
    ten_each(topic);
    let keys = "end = \"latest\"\nevent_time = { from = \"log\" }\nwatermark = { bound = \"0s\" }";
    let source = format!("{}\n{keys}\n{ID_AND_TIME}", kafka(&broker().address(), topic));
    let job = Job::new(&pipeline("", &source, &windows("type = \"tumbling\"\nsize = \"5s\"")));
    job.finish();
    assert_eq!(values(&job, "counted", "events"), [10, 10], "by `at` all were in one window");
}

#[test]
fn an_event_time_too_far_ahead_of_its_log_is_an_error() {
    let topic = "keys-future";
    broker().create_topic(topic, 1).unwrap();
    for (id, ahead_ms) in [(1, 0), (2, 9_000), (3, 11_000)] {
        send(topic, 0, id, BASE_MS, BASE_MS + ahead_ms);
    }
    let keys =
        "end = \"latest\"\nevent_time = { field = \"at\" }\nwatermark = { bound = \"0s\", max_future = \"10s\" }";
    let source = format!("{}\n{keys}\n{ID_AND_TIME}", kafka(&broker().address(), topic));
    let job = Job::new(&pipeline("", &source, &to_files("events")));
    job.finish();
    assert_eq!(values(&job, "events", "id"), [1, 2]);
    assert_eq!(values(&job, "bad", "_offset"), [2]);
}

#[test]
fn properties_reach_the_kafka_client() {
    let topic = "keys-properties";
    ten_each(topic);
    // The broker listens on an address of version 4.
    let keys = "end = \"latest\"\nproperties = { \"broker.address.family\" = \"v6\" }";
    let source = format!("{}\n{keys}\n{ID_AND_TIME}", kafka(&broker().address(), topic));
    let job = Job::new(&pipeline("", &source, &to_files("events")));
    let said = job.ends_with(FAILED, &[]);
    assert!(said.contains("not reachable"), "{said}");
}
