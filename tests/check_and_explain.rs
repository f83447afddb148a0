//! `floodmark check` and `floodmark explain`, as a user sees them.
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn floodmark(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_floodmark"));
    command.current_dir(root()).args(arguments).output().unwrap()
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Compares what `explain` prints with tests/explain/NAME.txt, or writes that when `UPDATE` is set.
fn assert_explained(file: &str) {
    let output = floodmark(&["explain", file]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let name = Path::new(file).file_stem().unwrap();
    let snapshot = root().join("tests/explain").join(name).with_extension("txt");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&snapshot, &output.stdout).unwrap();
    }
    let expected = std::fs::read_to_string(&snapshot).unwrap_or_default();
    assert!(text(&output.stdout) == expected, "{} differs; now:\n{}", snapshot.display(), text(&output.stdout));
}

#[test]
fn the_clickstream_is_explained() {
    assert_explained("docs/examples/clickstream.toml");
}

#[test]
fn a_job_from_kafka_to_a_rest_catalog_is_explained() {
    assert_explained("tests/explain/everything.toml");
}

#[test]
fn a_right_file_is_summed_up() {
    let output = floodmark(&["check", "docs/examples/roster.toml"]);
    assert!(output.status.success());
    assert_eq!(
        text(&output.stdout),
        "docs/examples/roster.toml: OK. Pipeline `roster`: 1 source, 0 dedups, 0 windows, 1 sink. \
         `floodmark explain docs/examples/roster.toml` shows what it does.\n"
    );
}

#[test]
fn a_wrong_file_ends_with_exit_code_2() {
    for command in ["check", "explain"] {
        let output = floodmark(&[command, "no/such.toml"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).starts_with("error[F001]: can't read no/such.toml"));
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn the_reference_is_printed() {
    let output = floodmark(&["check", "--print-reference"]);
    let page = std::fs::read(root().join("docs/PIPELINE_FILE.md")).unwrap();
    assert!(output.stdout == page);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    for arguments in [&["check", "--print-reference"][..], &["explain", "docs/examples/clickstream.toml"]] {
        // A pipe that nobody reads from any more.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_floodmark"));
        let output = command.current_dir(root()).args(arguments).stdout(writer).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {}", text(&output.stderr));
    }
}
