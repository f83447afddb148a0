//! The house rules that a machine can check, over the whole tree.
//!
//! Each rule collects what breaks it and shows all of it, so that one run is enough to mend them.
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use floodmark::config::ErrorId;
use floodmark::steps::Point;

const MOST_LINES: usize = 500;
/// Without comments and empty lines.
const MOST_LINES_OF_THE_ORACLE: usize = 600;
/// Folders that hold our code and texts.
const TREES: [&str; 8] = ["src", "pipeline", "state", "tests", "benches", "docs", "scripts", "compose"];
/// All that the pure machine may use; it must not even be able to reach a clock, a file or a thread pool.
const PIPELINE_MAY_USE: [&str; 8] = [
    "arrow-array",
    "arrow-buffer",
    "arrow-schema",
    "arrow-select",
    "foldhash",
    "hashbrown",
    "thiserror",
    "xxhash-rust",
];

struct Source {
    /// From the root.
    name: String,
    text: String,
}

impl Source {
    fn is_test(&self) -> bool {
        let parts: Vec<&str> = self.name.split(['/', '.']).collect();
        let is_test =
            |part: &&str| ["tests", "benches", "conformance", "vectors"].contains(part) || part.ends_with("_tests");
        parts.iter().any(is_test)
    }

    /// What ships: the text up to the test module at its end.
    fn shipped(&self) -> &str {
        if self.is_test() {
            return "";
        }
        self.text.find("#[cfg(test)]\nmod ").map_or(&self.text, |tests| &self.text[..tests])
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn walk(folder: &Path, ending: &str, to: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            walk(&path, ending, to);
        } else if path.to_string_lossy().ends_with(ending) {
            let name = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
            to.extend(fs::read_to_string(&path).ok().map(|text| Source { name, text }));
        }
    }
}

fn files(ending: &str) -> Vec<Source> {
    let mut files = Vec::new();
    TREES.iter().for_each(|tree| walk(&root().join(tree), ending, &mut files));
    files.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(!files.is_empty());
    files
}

fn assert_none(broken: Vec<String>, rule: &str) {
    assert!(broken.is_empty(), "{rule}\n  {}", broken.join("\n  "));
}

/// `FILE:LINE` of every shipped line that holds one of the words.
fn shipped_lines_with(words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for source in files(".rs") {
        for (line, text) in (1..).zip(source.shipped().lines()) {
            let code = text.split("//").next().unwrap_or_default();
            if words.iter().any(|word| code.contains(word)) {
                found.push(format!("{}:{line}: {}", source.name, text.trim()));
            }
        }
    }
    found
}

#[test]
fn every_file_says_what_it_is_for() {
    let silent = files(".rs").into_iter().filter(|source| !source.text.starts_with("//! "));
    assert_none(silent.map(|source| source.name).collect(), "these begin without a `//!` header:");
}

#[test]
fn files_are_short() {
    let long = files(".rs").into_iter().map(|source| (source.shipped().lines().count(), source.name));
    let long = long.filter(|(lines, _)| *lines > MOST_LINES).map(|(lines, name)| format!("{name}: {lines}"));
    assert_none(long.collect(), "these have more than 500 lines without tests:");
}

/// Whoever doubts a result reads all of it.
#[test]
fn the_oracle_stays_small() {
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    let own = files(".rs").into_iter().filter(|source| source.name.starts_with("pipeline/oracle/src/"));
    let lines: usize = own.map(|source| source.text.lines().filter(is_code).count()).sum();
    assert!((1..=MOST_LINES_OF_THE_ORACLE).contains(&lines), "{lines} lines of code");
}

#[test]
fn every_file_of_tests_is_run() {
    let main = fs::read_to_string(root().join("tests/main.rs")).unwrap();
    let names = fs::read_dir(root().join("tests")).unwrap().map(|entry| entry.unwrap().file_name());
    let modules = names.filter_map(|name| name.to_str()?.strip_suffix(".rs").map(str::to_owned));
    let left_out = modules.filter(|name| name != "main" && !main.contains(&format!("\nmod {name};")));
    assert_none(left_out.collect(), "tests/main.rs doesn't name these:");
}

#[test]
fn errors_are_answered_and_not_unwrapped() {
    assert_none(shipped_lines_with(&[".unwrap()", ".expect(\"", "panic!("]), "an error is to be returned here:");
}

#[test]
fn nothing_is_left_to_do() {
    let words = ["todo!", "unimplemented!", "dbg!"];
    assert_none(shipped_lines_with(&words), "these are unfinished:");
    let ignored = files(".rs").into_iter().filter(|source| {
        // This file names it.
        source.name != "tests/tidy.rs" && source.text.lines().any(|line| line.trim_start().starts_with("#[ignore"))
    });
    assert_none(ignored.map(|source| source.name).collect(), "a test that doesn't run shows nothing:");
}

#[test]
fn no_path_belongs_to_one_machine() {
    let mut found = Vec::new();
    for ending in [".rs", ".toml", ".md", ".py", ".txt"] {
        for source in files(ending) {
            for (line, text) in (1..).zip(source.text.lines()) {
                let home = ["/root/", "/home/", "/Users/", "/work/"].iter().any(|home| text.contains(home));
                if home && source.name != "tests/tidy.rs" {
                    found.push(format!("{}:{line}: {}", source.name, text.trim()));
                }
            }
        }
    }
    assert_none(found, "these name a folder of one machine:");
}

#[test]
fn unsafe_code_stands_with_the_foreign_library_it_calls() {
    let allowed = ["src/kafka/native.rs"];
    let found = shipped_lines_with(&["unsafe {", "unsafe impl", "unsafe fn"]);
    let elsewhere = found.into_iter().filter(|line| !allowed.iter().any(|file| line.starts_with(file)));
    assert_none(elsewhere.collect(), "unsafe outside the one file of a foreign library:");
}

#[test]
fn every_error_id_has_a_page_and_a_test() {
    let pages = fs::read_to_string(root().join("docs/ERRORS.md")).unwrap();
    let mut tests = Vec::new();
    for ending in [".rs", ".txt"] {
        walk(&root().join("src/config/tests"), ending, &mut tests);
    }
    let mut broken = Vec::new();
    for ErrorId(id) in ErrorId::ALL {
        if !pages.contains(&format!("\n## {id}\n")) {
            broken.push(format!("{id} has no section in docs/ERRORS.md"));
        }
        if !tests.iter().any(|test| test.text.contains(id)) {
            broken.push(format!("{id} has no case in src/config/tests"));
        }
    }
    assert_none(broken, "an error that no one explains, or that no test reaches:");
}

#[test]
fn every_step_point_has_its_place_its_line_and_its_crash() {
    let protocol = fs::read_to_string(root().join("docs/PROTOCOL.md")).unwrap();
    let code: Vec<Source> = files(".rs").into_iter().filter(|source| !source.name.starts_with("src/steps")).collect();
    let mut broken = Vec::new();
    for point in Point::ALL {
        let place = format!("Point::{point:?}");
        let names = |source: &&Source| {
            source.shipped().match_indices(&place).any(|(at, _)| ends(source.shipped(), at + place.len()))
        };
        if !code.iter().any(|source| names(&source)) {
            broken.push(format!("{place} stands nowhere in the code"));
        }
        if !protocol.contains(&format!("`{point}`")) {
            broken.push(format!("`{point}` has no line in docs/PROTOCOL.md"));
        }
    }
    let crashes = code.iter().find(|source| source.name == "tests/steps.rs");
    if !crashes.is_some_and(|source| source.text.contains("Point::ALL.iter()")) {
        broken.push("tests/steps.rs doesn't go through Point::ALL".into());
    }
    assert_none(broken, "a step that no one can stop at, or that nobody explains:");
}

#[test]
fn every_key_of_the_pipeline_file_has_its_claim() {
    let reference = fs::read_to_string(root().join("docs/PIPELINE_FILE.md")).unwrap();
    let claims = fs::read_to_string(root().join("docs/CLAIMS.md")).unwrap();
    let mut broken = Vec::new();
    for section in reference.split("\n## ").skip(1) {
        let title = section.lines().next().unwrap();
        let keys = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        let claim = claims.lines().find(|line| line.starts_with(&format!("| {title} |"))).unwrap_or_default();
        // A key is followed by its test, or by another key that has the same.
        let shown = |key: &str| [":", ","].iter().any(|next| claim.contains(&format!("`{key}`{next}")));
        broken.extend(keys.filter(|key| !shown(key)).map(|key| format!("{title} {key}")));
    }
    assert_none(broken, "keys without a test of the running job in docs/CLAIMS.md:");
}

#[test]
fn every_test_that_a_claim_names_is_there() {
    let claims = fs::read_to_string(root().join("docs/CLAIMS.md")).unwrap();
    let code: String = files(".rs").into_iter().map(|source| source.text).collect();
    let mut broken = Vec::new();
    for named in claims.split('`').skip(1).step_by(2) {
        let (path, test) = named.split_once(": ").unwrap_or((named, named));
        if path.ends_with(".rs") && !root().join(path).exists() {
            broken.push(path.to_owned());
        }
        let is_test = test.matches('_').count() > 2
            && test.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if is_test && !code.contains(&format!("fn {test}(")) {
            broken.push(test.to_owned());
        }
    }
    assert_none(broken, "docs/CLAIMS.md names what isn't there:");
}

/// No longer name goes on at `at`.
fn ends(text: &str, at: usize) -> bool {
    !text[at..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

#[test]
fn the_pure_machine_depends_on_nothing_that_touches_the_world() {
    let manifest: toml::Table = fs::read_to_string(root().join("pipeline/Cargo.toml")).unwrap().parse().unwrap();
    let used = manifest["dependencies"].as_table().unwrap().keys().map(String::as_str);
    let foreign: BTreeSet<&str> = used.filter(|name| !PIPELINE_MAY_USE.contains(name)).collect();
    assert_none(foreign.into_iter().map(str::to_owned).collect(), "not on the list of floodmark-pipeline:");
}

/// Every crate with the features that it is built with, of the program alone or with its tests.
fn built(with: &[&str]) -> BTreeSet<String> {
    let tree = ["tree", "--offline", "--locked", "--prefix", "none", "--format", "{p} [{f}]"];
    let output = Command::new(env!("CARGO")).current_dir(root()).args(tree).args(with).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let name = |line: &str| line.replace(" (*)", "").replace(" (proc-macro)", "");
    lines.lines().map(name).filter(|line| !line.starts_with("floodmark")).collect()
}

/// A feature that a test's crate turns on in a crate of the program has all that stands on it built twice.
#[test]
fn the_program_and_its_tests_share_one_build() {
    let program = built(&["--edges", "normal,build"]);
    let with_tests = built(&["--workspace", "--edges", "normal,build,dev"]);
    let twice: Vec<_> = program.difference(&with_tests).cloned().collect();
    assert_none(twice, "these have other features with the tests; ask for the same in Cargo.toml:");
}

#[test]
fn every_link_in_the_docs_leads_somewhere() {
    let mut pages = Vec::new();
    walk(&root().join("docs"), ".md", &mut pages);
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    pages.push(Source { name: "README.md".into(), text: readme });
    let mut dead = Vec::new();
    for page in &pages {
        let folder = root().join(&page.name).parent().unwrap().to_owned();
        for link in page.text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or_default();
            if !file.is_empty() && !file.contains("://") && !folder.join(file).exists() {
                dead.push(format!("{}: {link}", page.name));
            }
        }
    }
    assert_none(dead, "links to nothing:");
}

#[test]
fn every_java_file_says_what_it_is_for() {
    let mut java = Vec::new();
    walk(&root().join("compose"), ".java", &mut java);
    assert!(!java.is_empty());
    let is_preamble = |line: &&str| line.is_empty() || line.starts_with("package ") || line.starts_with("import ");
    let says = |source: &&Source| {
        source.text.lines().find(|line| !is_preamble(line)).is_some_and(|line| line.starts_with("/**"))
    };
    let silent = java.iter().filter(|source| !says(source));
    assert_none(silent.map(|source| source.name.clone()).collect(), "these begin without a comment on their class:");
}

/// Maven compiles against what its pom.xml names, Flink runs with what scripts/versions names.
#[test]
fn the_programs_for_flink_are_compiled_against_what_they_run_with() {
    let pom = fs::read_to_string(root().join("compose/flink/pom.xml")).unwrap();
    let versions = fs::read_to_string(root().join("scripts/versions")).unwrap();
    let inner = |text: &str, tag: &str| {
        let (_, rest) = text.split_once(&format!("<{tag}>")).unwrap_or_else(|| panic!("no <{tag}> in {text}"));
        rest.split_once("</").unwrap().0.to_owned()
    };
    let flink = inner(&pom, "flink.version");
    assert!(versions.contains(&format!("apache-flink-libraries=={flink}\n")), "Flink {flink}");
    let dependencies: Vec<&str> = pom.split("<dependency>").skip(1).collect();
    assert!(!dependencies.is_empty());
    for dependency in dependencies {
        let [group, artifact, version] = ["groupId", "artifactId", "version"].map(|tag| inner(dependency, tag));
        // Flink's own parts are inside its libraries.
        let named = format!(" {group}:{artifact}:{version}\n");
        assert!(version == "${flink.version}" || versions.contains(&named), "{named}");
    }
}
