//! A job that lags says so where its owner looks: which partition holds the watermark, which sink is behind, and that it is over.
use std::fs;
use std::io::Write;

use serde_json::Value;

use crate::harness::Job;
use crate::harness::status::Listening;

/// Events by minute, from files that may grow; windows go to a folder.
fn job(listening: &Listening) -> Job {
    let job = Job::new(&format!(
        r#"
[pipeline]
id = "lagging"
checkpoint = {{ interval = "50ms", dir = "file:data/checkpoints" }}
{}

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
discard = ["late"]

[sink.out]
from = "minutes"
type = "file"
dir = "file:data/out"
commit_interval = "50ms"
"#,
        listening.line()
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
    let listening = Listening::somewhere();
    let job = job(&listening);
    append(&job, "fast", 0..20);
    append(&job, "slow", 0..5);
    let mut run = job.start();
    listening.wait_for(&job, &mut run, |status| {
        held_by(status, "slow") && node(status, "minutes")["watermark_ms"] == 4 * 60_000
    });
    listening.wait_for(&job, &mut run, |status| noticed(status, "slow.ndjson-0 is quiet and holds the watermark"));
    append(&job, "slow", 5..40);
    listening.wait_for(&job, &mut run, |status| {
        held_by(status, "fast") && node(status, "minutes")["watermark_ms"] == 19 * 60_000 && !noticed(status, "slow")
    });
    run.stop();
}

#[test]
fn a_sink_that_is_behind_is_named_until_it_has_caught_up() {
    let listening = Listening::somewhere();
    let job = job(&listening);
    append(&job, "events", 0..5);
    let mut run = job.start();
    listening.wait_for(&job, &mut run, |status| status["sinks"][0]["rows"] == 4);
    // A file in the place of the folder: the sink is out of reach.
    fs::rename(job.path("data/out"), job.path("data/away")).unwrap();
    fs::write(job.path("data/out"), "").unwrap();
    append(&job, "events", 5..10);
    listening.wait_for(&job, &mut run, |status| {
        let sink = &status["sinks"][0];
        sink["waiting_rows"] == 5 && noticed(status, "out is away")
    });
    fs::remove_file(job.path("data/out")).unwrap();
    fs::rename(job.path("data/away"), job.path("data/out")).unwrap();
    listening.wait_for(&job, &mut run, |status| {
        let sink = &status["sinks"][0];
        sink["rows"] == 9 && sink["waiting_rows"] == 0 && !noticed(status, "out is away")
    });
    run.stop();
}
