//! Cases that other programs play: kills of the real one, the crash matrix, parsers under any bytes, mutants.
//!
//! Doesn't know: what they do. Keeps: a program that can't be run is an error, and none of its cases counts.
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use floodmark::drill::kills::Tally;
use floodmark_stack::broker::Broker;
use floodmark_stack::rest_catalog::{Pointers, RestCatalog, Warehouse};

use super::counts::{Count, Proof};

/// Kills between two looks at the time.
const KILLS_AT_ONCE: u64 = 20;
/// Parts into which the mutants are cut.
const SHARDS: u64 = 60;
/// The least that a parser is given.
const FEWEST_CASES: u64 = 2_000;
/// Bodies of the parsers' tests, and about how many cases a second each plays.
const PARSERS: [(&str, u64); 7] = [
    ("decode::json::tests::any_bytes_are_a_row_or_an_error", 20_000),
    ("config::tests::any_text::a_file_with_any_mistakes_is_refused_or_understood", 1_000),
    ("checkpoint::manifest::tests::bytes_with_the_right_digest_are_a_manifest_or_an_error", 20_000),
    ("checkpoint::dir::tests::a_changed_segment_is_an_error", 500),
    ("decode::scan::tests::eight_bytes_at_a_time_find_what_one_at_a_time_would", 100_000),
    ("window::tests::any_stored_bytes_are_a_window_or_an_error", 20_000),
    ("record::tests::bytes_with_the_right_checksum_are_a_record_or_an_error", 20_000),
];

pub fn kills(count: &mut Count, proof: &Proof, budget: Duration) -> Result<(), String> {
    let broker = Broker::start().map_err(|error| error.to_string())?;
    let rest = RestCatalog::start(Pointers::Sqlite, Warehouse::Local).map_err(|error| error.to_string())?;
    let folder = proof.folder.join("kills");
    let began = Instant::now();
    while began.elapsed() < budget {
        let mut drill = Command::new(env!("CARGO_BIN_EXE_floodmark"));
        drill.args(["drill", "kills", "--n", &(count.cases + KILLS_AT_ONCE).to_string(), "--dir"]).arg(&folder);
        drill.args(["--brokers", &broker.address(), "--rest", &rest.url()]);
        let status = drill.status().map_err(|error| error.to_string())?;
        if !matches!(status.code(), Some(0 | 1)) {
            return Err(format!("the drill ended with {status}"));
        }
        let bytes = std::fs::read(folder.join("counted.json")).map_err(|error| error.to_string())?;
        let tally: Tally = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
        count.cases = tally.counted();
        count.faults = tally.counted();
        count.played = format!("{}, {} within rows", tally.line(), tally.within);
        count.failures = tally.failures;
    }
    Ok(())
}

/// The whole of it, once a commit.
pub fn matrix(count: &mut Count, _: &Proof, _: Duration) -> Result<(), String> {
    if count.cases > 0 && count.failures.is_empty() {
        return Ok(());
    }
    let (passed, said) = test(&["--test", "all"], "steps::", &[("MATRIX", "all")])?;
    let cells = said.lines().filter_map(|line| line.split("matrix: ").nth(1)?.split(' ').next()?.parse::<u64>().ok());
    *count = Count { cases: cells.sum(), ..Count::default() };
    count.faults = count.cases;
    count.failures = if passed { vec![] } else { failed_tests(&said) };
    count.played = "every point × what can happen × first run, recovery × 1, 3 workers".into();
    Ok(())
}

pub fn fuzz(count: &mut Count, _: &Proof, budget: Duration) -> Result<(), String> {
    let each = budget.as_secs() / PARSERS.len() as u64;
    for (name, cases_a_second) in PARSERS {
        let cases = (each * cases_a_second).max(FEWEST_CASES);
        let (passed, said) = test(&["--lib"], name, &[("PROPTEST_CASES", &cases.to_string())])?;
        if !said.contains("test result: ok. 1 passed") && passed {
            return Err(format!("no test {name}:\n{said}"));
        }
        count.cases += cases;
        if !passed {
            count.failures.extend(failed_tests(&said));
        }
    }
    count.played = format!("{} parsers under any bytes", PARSERS.len());
    Ok(())
}

/// One shard after another; each is a few minutes.
pub fn mutants(count: &mut Count, proof: &Proof, budget: Duration) -> Result<(), String> {
    let began = Instant::now();
    while began.elapsed() < budget && count.shards < SHARDS {
        let folder = proof.folder.join("mutants");
        let shard = format!("{}/{SHARDS}", count.shards);
        let mut program = Command::new("scripts/mutants");
        program.arg(&shard).arg(&folder);
        let status = clean(&mut program).status().map_err(|error| error.to_string())?;
        // 2: some were missed; 3: some took too long.
        if !matches!(status.code(), Some(0 | 2 | 3)) {
            return Err(format!("scripts/mutants {shard} ended with {status}"));
        }
        let lines = |name: &str| lines_of(&folder.join("mutants.out").join(name));
        let missed = lines("missed.txt");
        let caught = lines("caught.txt").len() + lines("timeout.txt").len();
        count.cases += (caught + missed.len()) as u64;
        count.failures.extend(missed);
        count.shards += 1;
        count.played = format!("shards 0..{} of {SHARDS}", count.shards);
    }
    Ok(())
}

fn lines_of(file: &Path) -> Vec<String> {
    std::fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn failed_tests(said: &str) -> Vec<String> {
    said.lines().filter(|line| line.starts_with("test ") && line.ends_with("FAILED")).map(str::to_owned).collect()
}

/// Whether the tests of this name pass, and all they have said.
fn test(target: &[&str], name: &str, variables: &[(&str, &str)]) -> Result<(bool, String), String> {
    let mut cargo = Command::new("cargo");
    // One package alone has other features of its dependencies, and they would be built anew.
    cargo.args(["test", "--release", "--workspace"]).args(target).args([name, "--", "--nocapture"]);
    cargo.envs(variables.iter().copied());
    let output = clean(&mut cargo).output().map_err(|error| error.to_string())?;
    let said = [output.stdout, output.stderr].concat();
    Ok((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

/// Without what `cargo bench` tells its programs: build scripts look at it, and a dozen crates would be built anew.
fn clean(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
    command
}
