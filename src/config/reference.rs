//! docs/PIPELINE_FILE.md, printed from the table of keys.
//!
//! Doesn't know: files. Tested: config/tests (the page in the repository is this text).
use std::fmt::Write;

use super::keys::{Default, GROUPS, Group, Key, Kind, LATER};
use super::value::{show_duration, show_size};

const HEAD: &str = "\
# The pipeline file

One TOML file is the whole job. Its sections are nodes with names, unique over all sections; the order of sections doesn't matter.
`floodmark check FILE` tells what is wrong with a file, `floodmark explain FILE` what it means. Each refusal has an id, explained in
[ERRORS.md](ERRORS.md). Examples that run: [examples](examples).

Durations are a whole number and a unit: `250ms`, `5s`, `10m`, `24h`, `7d`. Sizes: `512B`, `64KiB`, `64MiB`, `2GiB`.
`${VAR}` in any string is taken from the environment (`$${` is `${` itself); what it stands for is never printed.
Relative paths begin at the working directory.

This page is printed from the code by `floodmark check --print-reference`; don't edit it.
";

/// The whole page.
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    for group in GROUPS {
        section(&mut page, group);
    }
    page.push_str("\n## Later\n\nKnown, and refused by an id of their own until they come:\n\n");
    for (place, word, id) in LATER {
        let what = match *place {
            "section" => format!("`[{word}.NAME]`"),
            "key" => format!("`{word} = …`"),
            "sink type" => format!("`type = \"{word}\"` of a sink"),
            "source type" => format!("`type = \"{word}\"` of a source"),
            key => format!("`{key} = \"{word}\"`"),
        };
        line(&mut page, &format!("- {what}: [{id}](ERRORS.md#{anchor})", id = id.0, anchor = id.0.to_lowercase()));
    }
    page
}

/// Appends a line. Writing to a string can't fail.
fn line(page: &mut String, text: &str) {
    let _ = writeln!(page, "{text}");
}

fn section(page: &mut String, group: &Group) {
    line(page, &format!("\n## {}\n\n{}\n", group.title, group.text));
    line(page, "| key | value | default | what it does | example |\n|---|---|---|---|---|");
    for key in group.keys {
        let example = key.example.replace('|', "\\|");
        line(page, &format!("| `{}` | {} | {} | {} | `{example}` |", key.name, value(key), default(key), key.text));
    }
}

fn value(key: &Key) -> String {
    match key.kind {
        Kind::Text => "string".into(),
        Kind::Texts => "string or list of strings".into(),
        Kind::Duration(0) => "duration".into(),
        Kind::Duration(least) => {
            format!("duration, at least {}", show_duration(std::time::Duration::from_millis(least)))
        }
        Kind::Size(least) => format!("size, at least {}", show_size(least)),
        Kind::Integer(least, largest) => format!("integer, {least} to {largest}"),
        Kind::Choice(words) => words.iter().map(|w| format!("`\"{w}\"`")).collect::<Vec<_>>().join(", "),
        Kind::Table { forms } => forms.into(),
    }
}

fn default(key: &Key) -> String {
    match key.default {
        Default::Required => "**required**".into(),
        Default::Absent => "none".into(),
        Default::Value(text) => format!("`{text}`"),
        Default::Derived(text) => text.into(),
    }
}
