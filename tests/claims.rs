//! docs/CLAIMS.md by mode: the matrix there is made of docs/claims.toml, and names every promise of README.md and every invariant.
//!
//! Doesn't know: whether a test shows what it is named for. Keeps: a test that is named is there; a mode that no test runs is *missing*.
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use floodmark_pipeline::invariants::Invariant;
use serde::Deserialize;

const SOURCES: [&str; 3] = ["file", "kafka", "generator"];
const STATES: [&str; 2] = ["memory", "rocksdb"];
/// By their names in claims.toml, and above their columns.
const SINKS: [(&str, &str); 5] = [
    ("sqlite", "tables: SQLite"),
    ("postgres", "tables: Postgres"),
    ("rest", "tables: REST"),
    ("s3", "tables and checkpoints on S3"),
    ("files", "files"),
];
const BEGIN: &str = "<!-- Made of claims.toml by tests/claims.rs: UPDATE=1 makes it anew. -->\n";
const END: &str = "<!-- So far. -->\n";
/// The section of README.md whose paragraphs begin with a promise in bold.
const PROMISES: &str = "## What it promises, and on what that rests";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Claims {
    tests: toml::Table,
    promise: Vec<Promise>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Promise {
    readme: Option<String>,
    invariant: Option<String>,
    says: Option<String>,
    /// `NAME`, or `NAME: MODES` where it shows this in some of its modes only.
    shown_by: Vec<String>,
}

/// A source and a state.
type Way = (&'static str, &'static str);

/// One test that shows a promise, in one column.
type Shown = (String, BTreeSet<Way>);

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap()
}

fn claims() -> Claims {
    toml::from_str(&read("docs/claims.toml")).unwrap()
}

impl Claims {
    /// `file: test`, and its modes.
    fn test(&self, name: &str) -> (&str, Vec<&str>) {
        let test = self.tests.get(name).unwrap_or_else(|| panic!("no test is called {name}"));
        let modes = test["modes"].as_array().unwrap().iter().map(|mode| mode.as_str().unwrap());
        (test["test"].as_str().unwrap(), modes.collect())
    }

    /// Tests that show a promise and run this sink (`simulated` and `any` are columns too), with the ways in which they do.
    fn shown(&self, promise: &Promise, column: &str) -> Vec<Shown> {
        let mut all = vec![];
        for shown in &promise.shown_by {
            let (name, only) = shown.split_once(": ").unwrap_or((shown, "* × * × *"));
            let (_, modes) = self.test(name);
            let runs: BTreeSet<Way> = modes.iter().flat_map(|mode| ways(mode, column)).collect();
            let counts = if SINKS.iter().any(|(sink, _)| *sink == column) { ways(only, column) } else { runs.clone() };
            let ways: BTreeSet<Way> = runs.intersection(&counts).copied().collect();
            if !ways.is_empty() {
                all.push((name.to_owned(), ways));
            }
        }
        all
    }
}

fn all_ways() -> BTreeSet<Way> {
    SOURCES.iter().flat_map(|source| STATES.map(|state| (*source, state))).collect()
}

/// What a mode of claims.toml says of one column.
fn ways(mode: &str, column: &str) -> BTreeSet<Way> {
    let parts: Vec<&str> = mode.split(" × ").collect();
    let [source, state, sink] = parts[..] else {
        assert!(["simulated", "any"].contains(&mode), "{mode} is no mode");
        return if mode == column { all_ways() } else { BTreeSet::new() };
    };
    let fits = |part: &str, known: &str| part == "*" || part == known;
    let known = |part: &str, all: &[&str]| assert!(part == "*" || all.contains(&part), "{part} of {mode} is nothing");
    known(source, &SOURCES);
    known(state, &STATES);
    known(sink, &SINKS.map(|(name, _)| name));
    if !fits(sink, column) || !SINKS.iter().any(|(name, _)| *name == column) {
        return BTreeSet::new();
    }
    all_ways().into_iter().filter(|(a, b)| fits(source, a) && fits(state, b)).collect()
}

/// ` (kafka, file × memory)`; nothing where it is all of them.
fn told(ways: &BTreeSet<Way>) -> String {
    if *ways == all_ways() {
        return String::new();
    }
    if let Some(state) = STATES.iter().find(|state| *ways == BTreeSet::from(SOURCES.map(|source| (source, **state)))) {
        return (*state).to_owned();
    }
    let of = |source: &&str| {
        let states: Vec<&str> = ways.iter().filter(|(s, _)| s == source).map(|(_, state)| *state).collect();
        match states[..] {
            [] => None,
            [state] => Some(format!("{source} × {state}")),
            _ => Some((*source).to_owned()),
        }
    };
    SOURCES.iter().filter_map(of).collect::<Vec<_>>().join(", ")
}

/// The tests that show it, and the ways in which none does. `is_owed`: it is a matter of modes at all.
fn cell(shown: &[Shown], is_owed: bool) -> String {
    let in_brackets = |ways| Some(told(ways)).filter(|told| !told.is_empty()).map(|told| format!(" ({told})"));
    let named = shown.iter().map(|(name, ways)| format!("`{name}`{}", in_brackets(ways).unwrap_or_default()));
    let mut parts: Vec<String> = named.collect();
    let covered: BTreeSet<Way> = shown.iter().flat_map(|(_, ways)| ways).copied().collect();
    let missing: BTreeSet<Way> = all_ways().difference(&covered).copied().collect();
    if is_owed && !missing.is_empty() {
        let what = Some(told(&missing)).filter(|told| !told.is_empty()).map(|told| format!(": {told}"));
        parts.push(format!("*missing*{}", what.unwrap_or_default()));
    }
    parts.join("<br>")
}

fn matrix(claims: &Claims) -> String {
    let mut page = format!(
        "{BEGIN}\n## Promises, by mode\n\nA column is a sink, a cell all six of {} × {}, or those in parentheses. A *missing* cell is not known to be wrong: nobody has looked.\n\n| promise |",
        SOURCES.join(", "),
        STATES.join(", ")
    );
    let columns = || SINKS.into_iter().chain([("simulated", "simulated"), ("any", "whatever the mode")]);
    columns().for_each(|(_, title)| page += &format!(" {title} |"));
    page += &format!("\n|---|{}\n", "---|".repeat(columns().count()));
    let mut before = None;
    for promise in &claims.promise {
        let says = match (&promise.readme, &promise.invariant) {
            (_, Some(id)) => format!("{id}: {}", invariant(id).says()),
            (Some(readme), None) if before != Some(readme) => {
                format!("**{readme}**<br>{}", promise.says.as_deref().unwrap_or_default())
            }
            _ => promise.says.clone().unwrap_or_default(),
        };
        before = promise.readme.as_ref();
        page += &format!("| {says} |");
        let is_of_modes = columns().any(|(name, _)| name != "any" && !claims.shown(promise, name).is_empty());
        for (name, _) in columns() {
            let is_owed = is_of_modes && name != "any";
            page += &format!(" {} |", cell(&claims.shown(promise, name), is_owed));
        }
        page.push('\n');
    }
    page += "\n| name | test | modes |\n|---|---|---|\n";
    for name in claims.tests.keys() {
        let (test, modes) = claims.test(name);
        page += &format!("| {name} | `{test}` | {} |\n", modes.join("; "));
    }
    page + "\n" + END
}

fn invariant(id: &str) -> Invariant {
    let found = Invariant::ALL.iter().find(|invariant| invariant.id() == id);
    *found.unwrap_or_else(|| panic!("there is no invariant {id}"))
}

/// Bold words that paragraphs of the section begin with.
fn promises_of_the_readme() -> Vec<String> {
    let readme = read("README.md");
    let section = readme.split_once(PROMISES).unwrap_or_else(|| panic!("no {PROMISES} in README.md")).1;
    let section = section.split("\n## ").next().unwrap();
    let bold = section.lines().filter_map(|line| line.strip_prefix("**")?.split_once("**"));
    bold.map(|(promise, _)| promise.to_owned()).collect()
}

#[test]
fn the_matrix_of_claims_is_made_of_what_is_told_of_each_test() {
    let path = root().join("docs/CLAIMS.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("where the matrix begins");
    let (_, after) = rest.split_once(END).expect("where it ends");
    let right = format!("{before}{}{after}", matrix(&claims()));
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &right).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap() == right,
        "docs/CLAIMS.md is not what docs/claims.toml says: UPDATE=1 makes it anew"
    );
}

#[test]
fn every_promise_and_every_invariant_has_its_row() {
    let claims = claims();
    let told = promises_of_the_readme();
    assert!(told.len() >= 4, "{told:?}");
    let rows: BTreeSet<&str> = claims.promise.iter().filter_map(|promise| promise.readme.as_deref()).collect();
    assert_eq!(rows, told.iter().map(String::as_str).collect(), "rows, and promises of README.md");
    let rows: Vec<&str> = claims.promise.iter().filter_map(|promise| promise.invariant.as_deref()).collect();
    assert_eq!(rows, Invariant::ALL.iter().map(|invariant| invariant.id()).collect::<Vec<_>>());
}

#[test]
fn every_test_of_the_matrix_is_there_and_shows_something() {
    let claims = claims();
    let mut files: BTreeMap<&Path, String> = BTreeMap::new();
    let used: BTreeSet<&str> = claims
        .promise
        .iter()
        .flat_map(|promise| &promise.shown_by)
        .map(|name| name.split(": ").next().unwrap())
        .collect();
    let known: BTreeSet<&str> = claims.tests.keys().map(String::as_str).collect();
    assert_eq!(used, known, "names that promises have for tests, and names that tests have");
    for name in claims.tests.keys() {
        let (file, test) = claims.test(name).0.split_once(": ").unwrap();
        let text = files.entry(Path::new(file)).or_insert_with(|| read(file));
        assert!(text.contains(&format!("fn {test}(")), "{file} has no test {test}");
    }
}
