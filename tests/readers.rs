//! Tables read by those who didn't write them: PyIceberg writes, floodmark and DuckDB read, and the digests are computed twice,
//! by floodmark and by the Python twin (readers/digest.py).
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

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
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/readers").join(name));
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
