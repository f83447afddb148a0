//! Bounds of text and bytes as Iceberg's default metrics mode `truncate(16)` keeps them.
//!
//! Doesn't know: files. Keeps: a lower bound is at most, and an upper bound at least, every value of the file; where there is no
//! such short upper bound there is none. Tested: here.
use std::collections::HashMap;

use iceberg::spec::{Datum, PrimitiveLiteral};

const LENGTH: usize = 16;

pub fn lower(bounds: &HashMap<i32, Datum>) -> HashMap<i32, Datum> {
    bounds.iter().map(|(id, datum)| (*id, shortened(datum))).collect()
}

pub fn upper(bounds: &HashMap<i32, Datum>) -> HashMap<i32, Datum> {
    bounds.iter().filter_map(|(id, datum)| Some((*id, raised(datum)?))).collect()
}

fn shortened(datum: &Datum) -> Datum {
    match datum.literal() {
        PrimitiveLiteral::String(s) => Datum::string(s.chars().take(LENGTH).collect::<String>()),
        PrimitiveLiteral::Binary(b) => Datum::binary(b.iter().copied().take(LENGTH)),
        _ => datum.clone(),
    }
}

fn raised(datum: &Datum) -> Option<Datum> {
    match datum.literal() {
        PrimitiveLiteral::String(s) if s.chars().nth(LENGTH).is_some() => {
            let mut kept: Vec<char> = s.chars().take(LENGTH).collect();
            while let Some(last) = kept.pop() {
                if let Some(next) = next_char(last) {
                    kept.push(next);
                    return Some(Datum::string(kept.into_iter().collect::<String>()));
                }
            }
            None
        }
        PrimitiveLiteral::Binary(b) if b.len() > LENGTH => {
            let mut kept = b[..LENGTH].to_vec();
            while let Some(last) = kept.pop() {
                if let Some(next) = last.checked_add(1) {
                    kept.push(next);
                    return Some(Datum::binary(kept));
                }
            }
            None
        }
        _ => Some(datum.clone()),
    }
}

/// The next scalar value; surrogates aren't any.
fn next_char(c: char) -> Option<char> {
    match u32::from(c) {
        0xD7FF => Some('\u{E000}'),
        code => char::from_u32(code + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raised_text(s: &str) -> Option<Datum> {
        raised(&Datum::string(s))
    }

    #[test]
    fn a_short_value_is_its_own_bound() {
        assert_eq!(shortened(&Datum::string("abc")), Datum::string("abc"));
        assert_eq!(raised_text("0123456789abcdef"), Some(Datum::string("0123456789abcdef")));
        assert_eq!(raised(&Datum::long(7)), Some(Datum::long(7)));
    }

    #[test]
    fn a_long_value_is_cut_and_its_upper_bound_raised() {
        assert_eq!(shortened(&Datum::string("0123456789abcdefXYZ")), Datum::string("0123456789abcdef"));
        assert_eq!(raised_text("0123456789abcdefXYZ"), Some(Datum::string("0123456789abcdeg")));
        assert_eq!(raised_text("0123456789abcde\u{10FFFF}X"), Some(Datum::string("0123456789abcdf")));
        assert_eq!(raised_text("0123456789abcde\u{D7FF}X"), Some(Datum::string("0123456789abcde\u{E000}")));
    }

    #[test]
    fn where_nothing_can_be_raised_there_is_no_bound() {
        assert_eq!(raised_text(&"\u{10FFFF}".repeat(17)), None);
        assert_eq!(raised(&Datum::binary(vec![0xFF; 17])), None);
    }
}
