//! `floodmark demo`, small: the real program kills the real program.
use std::process::{Command, Output};

fn demo(dir: &std::path::Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_floodmark"));
    command.args(["demo", "--dir"]).arg(dir).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn a_run_killed_twice_has_the_rows_of_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let output = demo(folder.path(), &["--events", "600k", "--kills", "2", "--seed", "7"]);
    let report = text(&output.stdout);
    assert!(output.status.success(), "{report}\n{}", text(&output.stderr));
    assert!(report.ends_with("\nPASS\n"), "{report}");
    for layer in ["events", "per type", "sessions", "late", "errors"] {
        let line = report.lines().find(|line| line.starts_with(layer)).unwrap_or_default();
        assert!(line.ends_with("          0          0"), "{line}");
    }
}

#[test]
fn a_folder_of_someone_else_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine"), "x").unwrap();
    let output = demo(folder.path(), &["--events", "1000"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("the demo clears its folder; name another with --dir"));
    assert!(folder.path().join("mine").exists());
}
