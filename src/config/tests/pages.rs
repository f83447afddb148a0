//! The reference is what the reader does; the examples are right.
use std::path::Path;

use super::super::keys::GROUPS;
use super::super::{load, reference};
use super::{assert_file, edited, parse_text};

#[test]
fn the_reference_is_up_to_date() {
    assert_file("docs/PIPELINE_FILE.md", &reference::page());
}

#[test]
fn every_example_is_accepted() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/examples");
    let mut names: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort();
    assert!(names.len() >= 4);
    for path in names {
        load(&path).unwrap_or_else(|e| panic!("{e}"));
    }
}

/// Keys that allow one value only.
const WITHOUT_EFFECT: [&str; 2] = ["[source.NAME] format", "[sink.NAME] type = \"iceberg\" mode"];

/// One case for each key: edits of base.toml that set it; where it needs company, below `---` the edits without it.
const EFFECTS: &str = include_str!("effects.txt");

#[test]
fn every_key_changes_what_the_file_means() {
    let cases: Vec<(&str, &str)> = EFFECTS.split("\n### ").skip(1).filter_map(|c| c.split_once('\n')).collect();
    let meaning = |edits: &str| {
        let pipeline = parse_text(&edited(edits)).unwrap_or_else(|e| panic!("{edits}\n{e}"));
        format!("{:?} {:?} {:?} {:?}", pipeline.plan, pipeline.settings, pipeline.sources, pipeline.sinks)
    };
    for (key, edits) in &cases {
        let (with, without) = edits.split_once("---\n").unwrap_or((edits, ""));
        assert!(meaning(with) != meaning(without), "{key} has no effect");
    }
    for group in GROUPS {
        for key in group.keys {
            let name = format!("{} {}", group.title, key.name);
            let covered = cases.iter().any(|(key, _)| *key == name);
            assert!(covered != WITHOUT_EFFECT.contains(&name.as_str()), "no case for {name}");
        }
    }
}
