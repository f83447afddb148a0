//! Whatever stands in a pipeline file, it is refused or understood.
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::{BASE, parse_text};

/// What trips readers.
const WORDS: [&str; 17] = [
    "\"",
    "[",
    "]",
    "{",
    "}",
    "=",
    ".",
    "${X}",
    "-1",
    "9e99",
    "9999999999999999999",
    "\u{0}",
    "é",
    "'''",
    "#",
    "0s",
    "?",
];

/// Something done to a line of a right file.
#[derive(Clone, Debug)]
enum Harm {
    Remove(Index),
    Twice(Index),
    Swap(Index, Index),
    Cut(Index, Index),
    Insert(Index, Index, String),
}

fn harm() -> impl Strategy<Value = Harm> {
    let text = prop_oneof![select(WORDS.to_vec()).prop_map(str::to_owned), ".{0,12}"];
    prop_oneof![
        any::<Index>().prop_map(Harm::Remove),
        any::<Index>().prop_map(Harm::Twice),
        any::<(Index, Index)>().prop_map(|(a, b)| Harm::Swap(a, b)),
        any::<(Index, Index)>().prop_map(|(a, b)| Harm::Cut(a, b)),
        (any::<Index>(), any::<Index>(), text).prop_map(|(a, b, text)| Harm::Insert(a, b, text)),
    ]
}

fn harmed(harms: &[Harm]) -> String {
    let mut lines: Vec<String> = BASE.lines().map(str::to_owned).collect();
    for harm in harms {
        let n = lines.len();
        match harm {
            Harm::Remove(at) => drop(lines.remove(at.index(n))),
            Harm::Twice(at) => lines.insert(at.index(n), lines[at.index(n)].clone()),
            Harm::Swap(a, b) => lines.swap(a.index(n), b.index(n)),
            Harm::Cut(at, place) => {
                let line = &mut lines[at.index(n)];
                let place = place.index(line.len() + 1);
                line.truncate(line.floor_char_boundary(place));
            }
            Harm::Insert(at, place, text) => {
                let line = &mut lines[at.index(n)];
                let place = place.index(line.len() + 1);
                line.insert_str(line.floor_char_boundary(place), text);
            }
        }
    }
    lines.join("\n")
}

proptest! {
    #[test]
    fn a_file_with_any_mistakes_is_refused_or_understood(harms in prop::collection::vec(harm(), 1..6)) {
        let _ = parse_text(&harmed(&harms)).map_err(|refused| refused.to_string());
    }

    #[test]
    fn any_text_is_refused_or_understood(text in "(?s).{0,200}") {
        let _ = parse_text(&text).map_err(|refused| refused.to_string());
    }
}
