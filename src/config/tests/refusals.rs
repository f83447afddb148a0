//! Every mistake has its exact answer, in refusals.txt.
use std::path::Path;

use super::super::{ErrorId, load};
use super::{assert_file, edited, parse_text};

const CASES: &str = include_str!("refusals.txt");

#[test]
fn every_mistake_has_its_exact_answer() {
    let mut sections = CASES.split("\n### ");
    let mut answered = sections.next().unwrap_or_default().to_owned();
    for case in sections {
        let (name, edits) = case.split_once('\n').unwrap();
        let edits = edits.split("\n---").next().unwrap().trim_end();
        let answer = match parse_text(&edited(edits)) {
            Ok(_) => "accepted".to_owned(),
            Err(diagnostics) => diagnostics.to_string(),
        };
        assert!(answer != "accepted", "`{name}` is accepted");
        answered += &format!("\n### {name}\n{edits}\n---\n{answer}\n");
    }
    assert_file("src/config/tests/refusals.txt", &answered);
}

#[test]
fn every_id_has_a_case_and_a_page() {
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/ERRORS.md")).unwrap_or_default();
    for ErrorId(id) in ErrorId::ALL {
        assert!(page.contains(&format!("\n## {id}\n")), "docs/ERRORS.md has no section {id}");
        // F001 is tested below, F109 where the command line is read, F201 where a file is printed for Flink.
        assert!(["F001", "F109", "F201"].contains(id) || CASES.contains(&format!("error[{id}]")), "no case for {id}");
    }
    let sections = page.lines().filter_map(|l| l.strip_prefix("## "));
    let unknown: Vec<_> = sections.filter(|s| !ErrorId::ALL.iter().any(|id| id.0 == *s)).collect();
    assert!(unknown.is_empty(), "docs/ERRORS.md explains ids that don't exist: {unknown:?}");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let answer = load(Path::new("no/such.toml")).unwrap_err().to_string();
    assert_eq!(
        answer,
        "error[F001]: can't read no/such.toml\n |\n = there is no such file\n\n1 error in no/such.toml; docs/ERRORS.md explains its id"
    );
}
