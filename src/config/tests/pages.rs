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
pub(crate) const WITHOUT_EFFECT: [&str; 2] = ["[source.NAME] format", "[sink.NAME] type = \"iceberg\" mode"];

/// One case for each key: edits of base.toml that set it; where it needs company, below `---` the edits without it.
pub(crate) const EFFECTS: &str = include_str!("effects.txt");

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

/// A setting that nothing reads is followed by nothing. (What reads it does with it, the tests beside that show.)
#[test]
fn every_setting_is_read_by_something_that_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let model = std::fs::read_to_string(root.join("config/model.rs")).unwrap();
    let fields = model.lines().filter_map(|l| l.strip_prefix("    pub ")?.split_once(':')).map(|(name, _)| name);
    let fields: Vec<_> = fields.filter(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')).collect();
    assert!(fields.len() > 40, "{fields:?}");
    let running = code(&root).into_iter().filter(|(path, _)| {
        // What checks or explains a file doesn't run it; `run` opens the address to listen on.
        !path.starts_with(root.join("config")) && (!path.starts_with(root.join("cli")) || path.ends_with("run.rs"))
    });
    let running: Vec<String> = running.map(|(_, text)| text).collect();
    let reads = |field: &str| running.iter().any(|text| mentions(text, field));
    let unread: Vec<_> = fields.into_iter().filter(|field| !reads(field)).collect();
    assert!(unread.is_empty(), "nothing that runs reads {unread:?}");
}

/// `.field`, and not as a part of a longer word or a call.
fn mentions(text: &str, field: &str) -> bool {
    let access = format!(".{field}");
    let is_end = |c: Option<char>| !c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_' || c == '(');
    text.match_indices(&access).any(|(at, _)| is_end(text[at + access.len()..].chars().next()))
}

/// All files of code below a folder, without their tests.
fn code(folder: &Path) -> Vec<(std::path::PathBuf, String)> {
    let mut found = vec![];
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = entry.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if name.contains("test") {
            continue;
        }
        if entry.is_dir() {
            found.extend(code(&entry));
        } else if entry.extension().is_some_and(|e| e == "rs") {
            let text = std::fs::read_to_string(&entry).unwrap();
            found.push((entry, text.split("#[cfg(test)]").next().unwrap_or_default().to_owned()));
        }
    }
    found
}
