//! Key groups as ranges: of id hashes, and of value keys.
//!
//! Keeps: the ranges of disjoint key groups are disjoint, and those of all groups cover everything.
use std::ops::{Range, RangeInclusive};

use floodmark_pipeline::hash::KeyHash;

/// Hashes whose key group is in `groups`; `None` if it is empty.
pub(crate) fn hashes(groups: &Range<u16>, max_parallelism: u16) -> Option<RangeInclusive<KeyHash>> {
    if groups.is_empty() {
        return None;
    }
    let first = |group: u16| (u128::from(group) << 64).div_ceil(u128::from(max_parallelism)) << 64;
    let last = if groups.end >= max_parallelism { u128::MAX } else { first(groups.end) - 1 };
    Some(KeyHash(first(groups.start))..=KeyHash(last))
}

/// A value's key in its family: big-endian, so that order follows key groups.
pub(crate) fn value_key(key_group: u16, key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(2 + key.len());
    out.extend(key_group.to_be_bytes());
    out.extend(key);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hashes_of_a_group_are_those_that_name_it() {
        for max in [1u16, 7, 128, 32_768] {
            for group in [0, max / 2, max - 1] {
                let range = hashes(&(group..group + 1), max).unwrap();
                for edge in [*range.start(), *range.end()] {
                    assert_eq!(edge.key_group(max), group, "{group} of {max}");
                }
                if group > 0 {
                    assert_eq!(KeyHash(range.start().0 - 1).key_group(max), group - 1);
                }
            }
        }
        assert!(hashes(&(3..3), 128).is_none());
    }
}
