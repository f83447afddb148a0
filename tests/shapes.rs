//! Jobs of another shape than the click pipeline: made records, hopping windows, rows as files, two sinks into one table.
use std::fs;

use crate::harness::Job;
use crate::harness::dice::Dice;
use crate::harness::kills::{finish_through_kills, timed};
use crate::harness::log::{Ledger, generate};
use crate::harness::pipelines::{Dials, sqlite};
use crate::harness::tables::{duckdb, rows_of, sum_of};

/// 20,000 records in two partitions, none of them late: a window holds all that belongs to it.
const RECORDS: [&str; 14] = [
    "--events",
    "20000",
    "--partitions",
    "2",
    "--event-rate",
    "100",
    "--users",
    "500",
    "--late",
    "0",
    "--seed",
    "4",
    "--poison",
    "0.0005",
];

fn generator() -> String {
    let mut source = "type = \"generator\"\nworkload = \"clickstream\"".to_owned();
    for dial in RECORDS.chunks(2) {
        let (name, value) = (dial[0].trim_start_matches("--").replace('-', "_"), dial[1]);
        source += &format!("\n{name} = \"{value}\"");
    }
    source
}

/// Made records → dedup → hopping windows; what dedup keeps also as files; all records and those kept in one table.
fn shapes(batch_rows: usize) -> String {
    let catalog = sqlite();
    format!(
        r#"[pipeline]
id = "shapes"
workers = 2
batch_rows = {batch_rows}
checkpoint = {{ interval = "50ms", dir = "file:data/checkpoints" }}

[source.made]
{}
event_time = {{ field = "event_time_ms" }}
watermark = {{ bound = "5s" }}
discard = ["errors"]

[source.made.schema]
event_id = "string"
user_id = "string"
event_type = "string"
product_id = "string"
price_cents = "int64?"
event_time_ms = "timestamp_ms"
source = "string"

[dedup.clean]
from = "made"
key = ["event_id"]
horizon = "24h"
discard = ["duplicates", "late"]

[window.hops]
from = "clean"
type = "hopping"
size = "20s"
slide = "5s"
key = ["event_type"]
aggregates = {{ events = "count()", revenue_cents = "sum(price_cents)" }}
discard = ["errors", "late"]

[sink.rows]
from = "clean"
type = "file"
dir = "file:data/rows"

[sink.events]
from = "clean"
type = "iceberg"
table = "shop.events"
catalog = {catalog}

[sink.hops_table]
from = "hops"
type = "iceberg"
table = "shop.hops"
catalog = {catalog}

[sink.kept]
from = "clean"
type = "iceberg"
table = "shop.both"
catalog = {catalog}

[sink.all]
from = "made"
type = "iceberg"
table = "shop.both"
catalog = {catalog}
"#,
        generator()
    )
}

fn finished() -> Job {
    let job = Job::new(&shapes(4096));
    job.finish();
    job
}

#[test]
fn kills_change_neither_files_nor_a_table_that_two_sinks_share() {
    let unkilled = Job::new(&shapes(200));
    let whole_run = timed(&unkilled);
    let (rows, tables) = (unkilled.rows_in("data/rows"), ["events", "hops", "both"]);
    assert_eq!(rows.len() as u64, unkilled.rows("events"), "files hold what the table holds");
    assert!(rows.windows(2).all(|pair| pair[0] != pair[1]), "each event once");
    for seed in [1, 2] {
        let job = Job::new(&shapes(200));
        finish_through_kills(&job, &mut Dice::new(seed), 6, whole_run * 2 / 3);
        assert_eq!(job.rows_in("data/rows"), rows, "seed {seed}");
        for table in tables {
            assert_eq!(job.digest(table), unkilled.digest(table), "seed {seed}: {table}");
        }
    }
}

#[test]
fn a_table_of_two_sinks_holds_the_rows_of_both_and_a_mark_for_each() {
    let job = finished();
    let all = rows_of(&job.digest("both")) - job.rows("events");
    assert_eq!(all, job.rows("events") + resent(), "one row for each event, and one for each copy");
    let metadata: serde_json::Value =
        serde_json::from_slice(&fs::read(job.metadata("both").trim_start_matches("file://")).unwrap()).unwrap();
    let marked = |sink: &str| {
        let mark = metadata["properties"][format!("floodmark.shapes.{sink}")].as_str().unwrap();
        let mark: serde_json::Value = serde_json::from_str(mark).unwrap();
        format!("v1:{}:{}", mark["rows"], mark["digest"].as_str().unwrap())
    };
    assert_eq!(marked("kept"), job.digest("events"));
    assert_eq!(sum_of(&marked("kept"), &marked("all")), job.digest("both"), "each mark's digest is of its own rows");
}

/// Copies in the log, as the ledger of the same records in files counts them.
fn resent() -> u64 {
    let job = Job::new("");
    generate(&job, &[&["clickstream", "--to", "file:data/events"], &RECORDS[..]].concat());
    Ledger::read(&job.path("ledger.json")).total("resent")
}

#[test]
fn records_made_on_the_spot_are_those_of_the_same_dials_in_files() {
    let job = Job::new(&Dials::default().clicks());
    generate(&job, &[&["clickstream", "--to", "file:data/events"], &RECORDS[..]].concat());
    job.finish();
    let without_meta = |job: &Job| job.digest_with("events", &["--without-meta"]).unwrap();
    assert_eq!(without_meta(&finished()), without_meta(&job));
    assert_eq!(job.rows("late"), 0);
}

/// DuckDB counts the rows of the events table into the same windows.
#[test]
fn hopping_windows_hold_what_another_counts_into_them() {
    let job = finished();
    let query = "select (epoch_ms(event_time_ms) // 5000 - hop) * 5000 as start, event_type, count(*), \
        sum(price_cents)::bigint from t, range(4) as hops(hop) group by all order by all";
    let expected = duckdb(&job.metadata("events"), query);
    let rows = "select epoch_ms(window_start), event_type, events, revenue_cents from t order by all";
    assert_eq!(duckdb(&job.metadata("hops"), rows), expected);
    assert!(expected.lines().count() > 100, "{expected}");
    let width = "select distinct epoch_ms(window_end) - epoch_ms(window_start) from t";
    assert_eq!(duckdb(&job.metadata("hops"), width), "20000");
}
