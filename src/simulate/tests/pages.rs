//! docs/INVARIANTS.md is the list.
use std::path::Path;

use floodmark_pipeline::invariants::Invariant;

/// What a running job checks itself, and where.
const IN_A_JOB: [(Invariant, &str); 7] = [
    (Invariant::A1, "`src/runtime/counters.rs`, at every cut"),
    (Invariant::A2, "`src/runtime/counters.rs`, at every cut"),
    (Invariant::C1, "`src/checkpoint/coordinator.rs`, at every cut"),
    (Invariant::C2, "`src/checkpoint/coordinator.rs`, at every cut"),
    (Invariant::C3, "`src/checkpoint/coordinator.rs`, at every cut"),
    (Invariant::W1, "`src/checkpoint/coordinator.rs`, at every cut"),
    (Invariant::W2, "`src/checkpoint/cut.rs`, at every cut"),
];

fn page() -> String {
    let mut page = "# Invariants\n\nWhat must hold whatever happens. Made from `pipeline/src/invariants.rs`; an id means the same for ever. Simulations check them ([TESTING](TESTING.md)), M1 to M5 of simulated tables only;\n\
        the last column says what the running job checks itself: it stops before anything more is committed, and counts it (`floodmark_invariant_violations_total`).\n\n| id | | in a running job |\n|---|---|---|\n"
        .to_owned();
    for invariant in Invariant::ALL {
        let checked = IN_A_JOB.iter().find(|(i, _)| i == invariant).map_or("", |(_, place)| place);
        page += &format!("| {} | {} | {checked} |\n", invariant.id(), invariant.says());
    }
    page
}

#[test]
fn the_page_of_invariants_is_the_list() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/INVARIANTS.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), page(), "UPDATE=1 makes it anew");
}
