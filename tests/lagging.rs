//! A job that lags says so where its owner looks: which partition holds the watermark, which sink is behind, and that it is over.
mod harness;

use std::fs;
use std::io::Write;

use floodmark_stack::Port;
use harness::status::status;
use harness::{Job, Run};
use serde_json::Value;

/// Events by minute, from files that may grow; windows go to a folder.
fn job(port: &Port) -> Job {
    let job = Job::new(&format!(
        r#"
[pipeline]
id = "lagging"
checkpoint = {{ interval = "50ms", dir = "file:data/checkpoints" }}
listen = "{}"

[source.events]
type = "file"
path = "data/events"
end = "never"
event_time = {{ field = "at" }}
watermark = {{ bound = "0s" }}
discard = ["errors"]
schema = {{ user = "string", at = "timestamp_ms" }}

[window.minutes]
from = "events"
type = "tumbling"
size = "1m"
key = ["user"]
aggregates = {{ events = "count()" }}
discard = ["late", "errors"]

[sink.out]
from = "minutes"
type = "file"
dir = "file:data/out"
commit_interval = "50ms"
"#,
        port.address()
    ));
    fs::create_dir(job.path("data/events")).unwrap();
    job
}

fn append(job: &Job, file: &str, minutes: impl IntoIterator<Item = i64>) {
    let path = job.path(&format!("data/events/{file}.ndjson"));
    let mut file = fs::File::options().create(true).append(true).open(path).unwrap();
    for minute in minutes {
        writeln!(file, "{{\"user\":\"a\",\"at\":{}}}", minute * 60_000).unwrap();
    }
}

fn wait_for(run: &mut Run, port: &Port, what: impl Fn(&Value) -> bool) {
    run.wait_until(|_| status(port.address()).is_some_and(|status| what(&status)));
}

fn node<'a>(status: &'a Value, name: &str) -> &'a Value {
    let nodes = status["nodes"].as_array().unwrap();
    nodes.iter().find(|node| node["name"] == name).unwrap_or(&Value::Null)
}

fn held_by(status: &Value, partition: &str) -> bool {
    node(status, "minutes")["held_by"].as_str().is_some_and(|name| name.contains(partition))
}

fn noticed(status: &Value, text: &str) -> bool {
    status["notices"].as_array().unwrap().iter().any(|notice| notice["text"].as_str().unwrap().contains(text))
}

#[test]
fn the_partition_that_holds_the_watermark_is_named_until_it_has_caught_up() {
    let port = Port::reserve().unwrap();
    let job = job(&port);
    append(&job, "fast", 0..20);
    append(&job, "slow", 0..5);
    let mut run = job.start();
    wait_for(&mut run, &port, |status| {
        held_by(status, "slow") && node(status, "minutes")["watermark_ms"] == 4 * 60_000
    });
    wait_for(&mut run, &port, |status| noticed(status, "slow.ndjson-0 is quiet and holds the watermark"));
    append(&job, "slow", 5..40);
    wait_for(&mut run, &port, |status| {
        held_by(status, "fast") && node(status, "minutes")["watermark_ms"] == 19 * 60_000 && !noticed(status, "slow")
    });
    run.stop();
}

#[test]
fn a_sink_that_is_behind_is_named_until_it_has_caught_up() {
    let port = Port::reserve().unwrap();
    let job = job(&port);
    append(&job, "events", 0..5);
    let mut run = job.start();
    wait_for(&mut run, &port, |status| status["sinks"][0]["rows"] == 4);
    // A file in the place of the folder: the sink is out of reach.
    fs::rename(job.path("data/out"), job.path("data/away")).unwrap();
    fs::write(job.path("data/out"), "").unwrap();
    append(&job, "events", 5..10);
    wait_for(&mut run, &port, |status| {
        let sink = &status["sinks"][0];
        sink["waiting_rows"] == 5 && noticed(status, "out is away")
    });
    fs::remove_file(job.path("data/out")).unwrap();
    fs::rename(job.path("data/away"), job.path("data/out")).unwrap();
    wait_for(&mut run, &port, |status| {
        let sink = &status["sinks"][0];
        sink["rows"] == 9 && sink["waiting_rows"] == 0 && !noticed(status, "out is away")
    });
    run.stop();
}
