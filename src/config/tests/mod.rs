//! What pipeline files mean, what they are refused for, and that the pages about them are the truth.
mod any_text;
mod meaning;
pub(crate) mod pages;
mod refusals;

use std::path::Path;

use super::model::Pipeline;
use super::{Diagnostics, parse};

const BASE: &str = include_str!("base.toml");

/// Applies a case's edits: `- line` goes, `+ line` comes in its place, `= line` is where the next `+` goes after. Lines are looked for from the last edit on.
pub(crate) fn edited(edits: &str) -> String {
    let mut lines: Vec<&str> = BASE.lines().collect();
    let (mut place, mut last) = (lines.len(), 0);
    for edit in edits.lines().filter(|l| !l.trim().is_empty()) {
        let (sign, line) = (&edit[..1], edit[1..].strip_prefix(' ').unwrap_or_default());
        let found = (last..lines.len()).chain(0..last).find(|i| lines[*i] == line);
        place = match (sign, found) {
            ("+", _) => {
                lines.insert(place, line);
                place + 1
            }
            ("-", Some(found)) => {
                lines.remove(found);
                found
            }
            ("=", Some(found)) => found + 1,
            _ => panic!("base.toml has no line `{line}`"),
        };
        last = place;
    }
    lines.join("\n") + "\n"
}

fn parse_text(text: &str) -> Result<Pipeline, Diagnostics> {
    let env = |name: &str| (name == "SECRET").then(|| "hunter2".to_owned());
    parse(text, Path::new("shop.toml"), &env)
}

fn pipeline(edits: &str) -> Pipeline {
    parse_text(&edited(edits)).unwrap_or_else(|e| panic!("{e}"))
}

/// Compares a file of the repository with what it should be, or writes it when `UPDATE` is set.
pub(crate) fn assert_file(path: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "{} is out of date: run this test with UPDATE=1 and read the difference",
        path.display()
    );
}
