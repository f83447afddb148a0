//! Tables read by those who didn't write them: PyIceberg writes, floodmark and DuckDB read, and the digests are computed twice,
//! by floodmark and by the Python twin (readers/digest.py).
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use crate::harness::Job;
use crate::harness::tables::rows_of;

/// A table as readers/make_tables.py describes it.
#[derive(Deserialize)]
struct Written {
    metadata: String,
    location: String,
    digest: String,
}

struct Tables {
    folder: tempfile::TempDir,
    written: BTreeMap<String, Written>,
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

fn script(name: &str) -> Command {
    let mut command = Command::new(floodmark_stack::python().unwrap());
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("compose/readers").join(name));
    command
}

fn floodmark(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_floodmark"));
    command.args(arguments);
    command
}

fn tables() -> Tables {
    let folder = tempfile::tempdir().unwrap();
    let json = output(script("make_tables.py").arg(folder.path()));
    Tables { written: serde_json::from_str(&json).unwrap(), folder }
}

#[test]
fn the_python_twin_holds_to_the_vectors() {
    assert!(output(&mut script("test_digest.py")).ends_with("vectors hold"));
}

#[test]
fn tables_of_pyiceberg_have_the_digests_that_the_twin_computes() {
    let tables = tables();
    assert!(!tables.written.is_empty());
    for (name, table) in &tables.written {
        assert_eq!(output(&mut floodmark(&["digest", &table.metadata])), table.digest, "{name} by its metadata file");
        assert_eq!(output(&mut floodmark(&["digest", &table.location])), table.digest, "{name} by its folder");
    }
}

#[test]
fn tables_are_found_by_their_name_in_a_catalog() {
    let tables = tables();
    let catalog = format!("sqlite:{}/catalog.db", tables.folder.path().display());
    let by_name = ["digest", "readers.evolved", "--catalog", &catalog, "--catalog-name", "readers"];
    assert_eq!(output(&mut floodmark(&by_name)), tables.written["evolved"].digest);
}

#[test]
fn duckdb_reads_the_same_digests() {
    let tables = tables();
    for name in ["every_type", "partitioned", "evolved"] {
        let table = &tables.written[name];
        let exported = tables.folder.path().join(format!("{name}.arrow")).to_string_lossy().into_owned();
        assert_eq!(output(script("duckdb_export.py").args([&table.metadata, &exported])), table.digest, "{name}");
        assert_eq!(output(&mut floodmark(&["digest", "--arrow", &exported])), table.digest, "{name}");
        let difference = output(&mut floodmark(&["diff", &table.location, &format!("arrow:{exported}")]));
        assert!(difference.contains("only in a: 0 rows\nonly in b: 0 rows"), "{difference}");
    }
}

#[test]
fn tables_that_differ_end_with_code_1_and_the_rows() {
    let tables = tables();
    let [partitioned, evolved] = ["partitioned", "evolved"].map(|name| tables.written[name].location.as_str());
    let ended = floodmark(&["diff", partitioned, evolved, "--limit", "1", "--json"]).output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let json: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!((&json["only_in_a"]["rows"], &json["only_in_b"]["rows"]), (&19_900.into(), &3.into()));
    assert_eq!(json["only_in_b"]["shown"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_place_without_a_table_ends_with_code_2_and_a_reason() {
    let empty = tempfile::tempdir().unwrap();
    let ended = floodmark(&["digest", &empty.path().to_string_lossy()]).output().unwrap();
    assert_eq!(ended.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("no Iceberg table here"));
}

/// Every type that floodmark writes, partitioned in every way, over several snapshots.
const EVERY_TYPE: &str = r#"
[pipeline]
id = "types"
workers = 2
checkpoint = { interval = "50ms", dir = "file:data/checkpoints" }
[source.lines]
type = "file"
path = "data/lines.ndjson"
on_error = "fail"
[source.lines.schema]
id = "int64"
yes = "bool?"
small = "int32?"
real = "float64?"
price = "decimal(20,4)?"
text = "string?"
bytes = "binary?"
day = "date?"
ms = "timestamp_ms?"
us = "timestamp_us?"
local_ms = "timestamp_ms_ntz?"
local_us = "timestamp_us_ntz?"
[sink.plain]
from = "lines"
type = "iceberg"
table = "shop.plain"
catalog = { type = "sql", uri = "sqlite:data/catalog.db", warehouse = "file:data/warehouse" }
[sink.parts]
from = "lines"
type = "iceberg"
table = "shop.parts"
catalog = { type = "sql", uri = "sqlite:data/catalog.db", warehouse = "file:data/warehouse" }
partition = ["text", "bucket(3, id)", "month(ms)", "truncate(10, small)"]
sort = ["id desc"]
"#;

/// One line in eleven has only its id.
fn line(id: i64) -> String {
    if id % 11 == 0 {
        return format!("{{\"id\":{id}}}\n");
    }
    let (day, second, text) = (1 + id % 28, id % 60, ["", "Überlauf 😀", "a/b=c", "d"][id as usize % 4]);
    let time = format!("2026-0{}-{day:02}T12:00:{second:02}", 1 + id % 3);
    format!(
        concat!(
            r#"{{"id":{id},"yes":{yes},"small":{small},"real":{real},"price":"{sign}{whole}.{cents:04}","text":"{text}","#,
            r#""bytes":"AP9{letter}","day":"2026-02-{day:02}","ms":"{time}.123Z","us":"{time}.123456Z","#,
            r#""local_ms":"{time}.5","local_us":"{time}.000001"}}"#,
            "\n"
        ),
        id = id,
        yes = id % 2 == 0,
        small = id % 50 - 25,
        real = id as f64 / 8.0 - 10.0,
        sign = if id % 3 == 0 { "-" } else { "" },
        whole = id * 1_000_003,
        cents = id % 10_000,
        text = text,
        letter = char::from(b'A' + (id % 26) as u8),
        day = day,
        time = time,
    )
}

/// A job that has written its two tables in three runs.
fn written_by_us() -> Job {
    let job = Job::new(EVERY_TYPE);
    let mut text = String::new();
    for part in 0..3 {
        text.extend((part * 700..(part + 1) * 700).map(line));
        std::fs::write(job.path("data/lines.ndjson"), &text).unwrap();
        job.finish();
    }
    job
}

/// Count and digest that the sink's mark says its rows have.
fn marked(job: &Job, table: &str) -> String {
    let file = job.metadata(table);
    let metadata: serde_json::Value =
        serde_json::from_slice(&std::fs::read(file.trim_start_matches("file://")).unwrap()).unwrap();
    assert!(metadata["snapshots"].as_array().unwrap().len() >= 6, "a fence and rows for each run");
    let mark = metadata["properties"][format!("floodmark.types.{table}")].as_str().unwrap();
    let mark: serde_json::Value = serde_json::from_str(mark).unwrap();
    format!("v1:{}:{}", mark["rows"], mark["digest"].as_str().unwrap())
}

#[test]
fn pyiceberg_and_duckdb_read_our_tables_with_the_digest_of_their_marks() {
    let job = written_by_us();
    for table in ["plain", "parts"] {
        let digest = job.digest(table);
        assert_eq!(rows_of(&digest), 2_100);
        assert_eq!(marked(&job, table), digest, "{table}: the running digest is that of a full scan");
        let exported = job.path(&format!("{table}-exported.arrow")).to_string_lossy().into_owned();
        for reads in ["pyiceberg_export.py", "duckdb_export.py"] {
            let twin = output(script(reads).args([&job.metadata(table), &exported]));
            assert_eq!(twin, digest, "{table}: {reads}, digested by the twin");
            assert_eq!(output(&mut floodmark(&["digest", "--arrow", &exported])), digest, "{table}: {reads}");
        }
    }
    assert_eq!(job.digest("plain"), job.digest("parts"), "layout is no part of it");
}
