//! `compose/native` starts parts that outlive it, says what it can't start, and takes down all that it started.
// Real processes, real time.
#![allow(clippy::disallowed_methods)]
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn native(stack: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_native")).args(words).env("FLOODMARK_STACK", stack).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Also for the user that Postgres runs as.
fn folder() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir().unwrap()
}

fn works_in(folder: &Path) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut working = processes.filter_map(|process| fs::read_link(process.path().join("cwd")).ok());
    working.any(|cwd| cwd.starts_with(folder))
}

#[test]
fn a_part_is_up_with_what_it_needs_until_it_is_taken_down_with_its_data() {
    let folder = folder();
    let stack = folder.path().join("stack");
    let up = native(&stack, &["up", "rest"]);
    assert!(up.status.success(), "{}", said(&up));
    for part in ["postgres", "s3", "rest"] {
        assert!(said(&up).contains(&format!("{part}: up, 127.0.0.1:")), "{}", said(&up));
    }
    let status = said(&native(&stack, &["status"]));
    let states: Vec<&str> = status.lines().skip(1).map(|line| line.split_whitespace().nth(1).unwrap()).collect();
    assert_eq!(states, ["down", "up", "up", "up", "down", "down", "down", "down"], "{status}");
    assert!(said(&native(&stack, &["up", "s3"])).contains("s3: is up already"));
    assert!(said(&native(&stack, &["logs", "postgres"])).contains("ready to accept connections"));
    assert!(works_in(&stack));

    let down = native(&stack, &["down"]);
    assert!(down.status.success(), "{}", said(&down));
    assert!(!works_in(&stack));
    assert!(!stack.exists());
}

#[test]
fn a_part_whose_port_is_in_use_is_refused_and_leaves_nothing() {
    let folder = folder();
    let stack = folder.path().join("stack");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let number = taken.local_addr().unwrap().port();
    let up = native(&stack, &["up", &format!("s3={number}")]);
    assert!(!up.status.success());
    assert!(said(&up).contains(&format!("port {number} is in use")), "{}", said(&up));
    assert!(!stack.join("s3").exists());
}

#[test]
fn what_cannot_run_natively_is_said_by_name() {
    let folder = folder();
    let grafana = native(folder.path(), &["up", "grafana"]);
    assert!(!grafana.status.success());
    assert!(said(&grafana).contains("grafana can't run natively"), "{}", said(&grafana));
    let unknown = native(folder.path(), &["up", "minio"]);
    assert!(said(&unknown).contains("no part minio: there are kafka,"), "{}", said(&unknown));
}
