//! `floodmark drill kills`: the program kills and freezes itself over a real broker, SQLite and a REST catalog, and counts.
use floodmark_stack::rest_catalog::{Pointers, RestCatalog, Warehouse};

use crate::harness::Job;
use crate::harness::broker::broker;

/// What `make test` counts.
const BLOWS: u64 = 30;

#[test]
fn kills_and_freezes_change_nothing_and_are_counted_on() {
    let (folder, rest) = (Job::new(""), RestCatalog::start(Pointers::Sqlite, Warehouse::Local).unwrap());
    let (brokers, uri) = (broker().address(), rest.url());
    let drill = |n: u64, seed: &str| {
        let n = n.to_string();
        let arguments = ["drill", "kills", "--n", &n, "--seed", seed, "--events", "60k", "--dir", "drill"];
        folder.ask(&[&arguments[..], &["--brokers", &brokers, "--rest", &uri]].concat())
    };
    let (code, said) = drill(BLOWS / 3, "1");
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = drill(BLOWS, "1");
    assert_eq!(code, Some(0), "{said}");
    let counted = counted(&said);
    assert!(counted >= BLOWS, "{said}");
    assert!(said.contains("none failed: with 95 % certainty fewer than "), "{said}");

    let (code, again) = drill(BLOWS, "1");
    assert!(code == Some(0) && !again.contains("wrote "), "all of it is counted: {again}");
    let (code, other) = drill(BLOWS, "2");
    assert!(code == Some(2) && other.contains("counts the kills of other settings"), "{other}");
}

/// Kills, kills at steps and freezes of the last line that tells them.
fn counted(said: &str) -> u64 {
    let line = said.lines().rfind(|line| line.contains(" rounds: ")).unwrap_or_default();
    let words: Vec<_> = line.split([' ', ';']).collect();
    let before = |word: &str| {
        let place = words.iter().position(|w| w.trim_end_matches(',') == word);
        place.and_then(|place| words[place - 1].parse::<u64>().ok()).unwrap_or_else(|| panic!("no {word}: {line}"))
    };
    before("kills") + before("at") + before("freezes")
}
