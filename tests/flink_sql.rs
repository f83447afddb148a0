//! `floodmark flink-sql`, as a user sees it: the whole job for each example, and what is refused.
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A place for what the examples keep in SQLite, which Flink can't use.
const CATALOG: [&str; 4] = ["--catalog-uri", "postgres://flink@localhost:5432/lake", "--warehouse", "file:///lake"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn floodmark(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_floodmark"));
    command.current_dir(root()).env("SHAPES_SECRET", "geheim").args(["flink-sql"]).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Compares what is printed with tests/flink_sql/NAME.sql, or writes that when `UPDATE` is set.
fn assert_printed(file: &str, arguments: &[&str]) {
    let output = floodmark(&[&[file], arguments].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let printed = text(&output.stdout).replace(&root().display().to_string(), "/here");
    let name = Path::new(file).file_stem().unwrap();
    let snapshot = root().join("tests/flink_sql").join(name).with_extension("sql");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&snapshot, &printed).unwrap();
    }
    let expected = std::fs::read_to_string(&snapshot).unwrap_or_default();
    assert!(printed == expected, "{} differs; now:\n{printed}", snapshot.display());
}

#[test]
fn the_clickstream_is_printed() {
    let kafka = ["--kafka", "events=localhost:9092/events"];
    assert_printed("docs/examples/clickstream.toml", &[&kafka[..], &CATALOG[..]].concat());
}

#[test]
fn tables_that_take_a_topic_as_it_is_are_printed() {
    assert_printed("docs/examples/orders.toml", &CATALOG);
    assert_printed("docs/examples/roster.toml", &CATALOG);
}

#[test]
fn a_file_without_event_time_is_read_as_a_file() {
    assert_printed("docs/examples/minimal.toml", &[]);
}

#[test]
fn what_the_examples_do_not_have_is_printed() {
    assert_printed("tests/flink_sql/shapes.toml", &[]);
}

#[test]
fn no_example_is_left_out() {
    let examples = std::fs::read_dir(root().join("docs/examples")).unwrap().map(|entry| entry.unwrap().path());
    let printed =
        |path: &PathBuf| root().join("tests/flink_sql").join(path.file_stem().unwrap()).with_extension("sql").exists();
    let missing: Vec<_> = examples.filter(|path| !printed(path)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn what_flink_has_no_form_of_is_refused_with_its_line() {
    let output = floodmark(&["docs/examples/clickstream.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let said = text(&output.stderr);
    for part in [
        "error[F201]: `path` of `events` can't be printed as a Flink job\n  --> docs/examples/clickstream.toml:10:1",
        "--kafka events=HOST:PORT/TOPIC",
        "`--accept-loss path` gives it up",
        "error[F201]: `uri` of `lake` can't be printed as a Flink job",
        "SQLITE_BUSY",
    ] {
        assert!(said.contains(part), "{part}:\n{said}");
    }
}

#[test]
fn what_is_given_up_stands_in_the_job() {
    let output = floodmark(&[&["docs/examples/clickstream.toml", "--accept-loss", "path"], &CATALOG[..]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        text(&output.stdout).contains("\n-- path: given up: one watermark over all files."),
        "{}",
        text(&output.stdout)
    );
}

#[test]
fn a_job_is_written_where_it_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("job.sql");
    let output = floodmark(&["docs/examples/minimal.toml", "--output", path.to_str().unwrap()]);
    assert!(output.status.success() && output.stdout.is_empty(), "{}", text(&output.stderr));
    assert!(std::fs::read_to_string(&path).unwrap().ends_with("END;\n"));
    let nowhere = floodmark(&["docs/examples/minimal.toml", "--output", "no/such/folder/job.sql"]);
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(text(&nowhere.stderr).contains("can't write no/such/folder/job.sql"), "{}", text(&nowhere.stderr));
}

#[test]
fn a_wrong_file_is_refused_as_check_refuses_it() {
    let output = floodmark(&["no/such.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).starts_with("error[F001]: can't read no/such.toml"));
}

#[test]
fn the_answers_to_all_keys_are_printed() {
    let output = floodmark(&["--print-reference"]);
    let page = std::fs::read(root().join("docs/FLINK_SQL.md")).unwrap();
    assert!(output.stdout == page);
}
