//! What a table holds against what it must hold, as sets.
//!
//! Doesn't know: what a row is. Keeps: equal counts of different rows don't pass. Tested: here.
use std::fmt::Display;

/// Most rows named of each kind.
const SHOWN: usize = 3;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    pub layer: &'static str,
    pub expected: u64,
    pub rows: u64,
    pub unique: u64,
    /// Expected and not there.
    pub missing: u64,
    /// There and not expected.
    pub unexpected: u64,
    /// The first that are missing, unexpected or there more than once.
    pub examples: Vec<String>,
}

impl Reconciled {
    pub fn is_right(&self) -> bool {
        self.rows == self.expected && self.unique == self.rows && self.missing == 0 && self.unexpected == 0
    }
}

/// `expected` holds each row once.
pub fn reconcile<T: Ord + Display>(layer: &'static str, mut expected: Vec<T>, mut found: Vec<T>) -> Reconciled {
    let rows = found.len() as u64;
    expected.sort_unstable();
    found.sort_unstable();
    let twice = found.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| format!("twice: {}", pair[0]));
    let twice: Vec<String> = twice.take(SHOWN).collect();
    found.dedup();
    let missing = without(&expected, &found);
    let unexpected = without(&found, &expected);
    let named = |what: &str, rows: &[&T]| -> Vec<String> {
        rows.iter().take(SHOWN).map(|row| format!("{what}: {row}")).collect()
    };
    Reconciled {
        layer,
        expected: expected.len() as u64,
        rows,
        unique: found.len() as u64,
        missing: missing.len() as u64,
        unexpected: unexpected.len() as u64,
        examples: [named("missing", &missing), named("unexpected", &unexpected), twice].concat(),
    }
}

/// What `these` have and `those` haven't; both are sorted.
fn without<'a, T: Ord>(these: &'a [T], those: &[T]) -> Vec<&'a T> {
    let mut those = those.iter().peekable();
    these
        .iter()
        .filter(|this| {
            while those.next_if(|that| that < this).is_some() {}
            those.peek() != Some(this)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_rows_in_any_order_are_right() {
        assert!(reconcile("events", vec![3, 1, 2], vec![2, 3, 1]).is_right());
    }

    #[test]
    fn equal_counts_of_other_rows_are_not() {
        let found = reconcile("events", vec![1, 2, 3], vec![1, 2, 4]);
        assert_eq!((found.rows, found.missing, found.unexpected), (3, 1, 1));
        assert_eq!(found.examples, ["missing: 3", "unexpected: 4"]);
        assert!(!found.is_right());
    }

    #[test]
    fn a_row_that_is_there_twice_is_named() {
        let found = reconcile("events", vec![1, 2], vec![1, 2, 2]);
        assert_eq!((found.rows, found.unique, found.missing, found.unexpected), (3, 2, 0, 0));
        assert_eq!(found.examples, ["twice: 2"]);
        assert!(!found.is_right());
    }
}
