//! Whether a log is still the one that was read, and still has what comes next.
//!
//! Pure: the caller has the stored position and asked the log. Doesn't know: what is done about it.
//! For logs whose positions and bounds have one unit (Kafka: offsets); files check their content.
//!
//! Sound while running, too: a topic's id never comes back, so if it is the expected one *after* a cut, every record before the cut is of that topic.
use floodmark_pipeline::ids::PartitionName;

use super::{PartitionInfo, SourceError};

/// `identity` is what the log was called when `offset` was stored; an empty one on either side says nothing.
pub fn check(offset: i64, identity: &str, found: &PartitionInfo) -> Result<(), SourceError> {
    if !identity.is_empty() && !found.identity.is_empty() && identity != found.identity {
        return Err(SourceError::Recreated {
            partition: found.name.clone(),
            expected: identity.to_owned(),
            found: found.identity.clone(),
        });
    }
    bounds(&found.name, offset, found.start, found.end)
}

/// Whether reading can go on at `offset` in a log that reaches from `start` to before `end`.
pub fn bounds(partition: &PartitionName, offset: i64, start: i64, end: i64) -> Result<(), SourceError> {
    let partition = || partition.clone();
    if offset < start {
        Err(SourceError::BelowStart { partition: partition(), offset, start })
    } else if offset > end {
        Err(SourceError::AboveEnd { partition: partition(), offset, end })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(identity: &str) -> PartitionInfo {
        let name = PartitionName { source: "events".into(), topic: "t".into(), partition: 3 };
        PartitionInfo { name, identity: identity.into(), start: 10, end: 20 }
    }

    #[test]
    fn any_offset_from_the_start_up_to_the_end_can_be_read_on() {
        for offset in [10, 15, 20] {
            assert!(check(offset, "a", &log("a")).is_ok(), "{offset}");
        }
    }

    #[test]
    fn an_offset_below_the_start_names_the_gap() {
        let error = check(7, "a", &log("a")).map_err(|e| e.to_string());
        assert_eq!(
            error,
            Err("events:t-3: offset 7 is no longer in the log, which begins at 10: 3 records are gone".to_owned())
        );
    }

    #[test]
    fn an_offset_above_the_end_is_another_log() {
        assert!(matches!(check(21, "a", &log("a")), Err(SourceError::AboveEnd { offset: 21, end: 20, .. })));
    }

    #[test]
    fn another_id_under_the_same_name_is_refused_even_where_the_offset_exists() {
        assert!(matches!(check(15, "a", &log("b")), Err(SourceError::Recreated { .. })));
    }

    #[test]
    fn a_log_without_an_id_is_judged_by_its_offsets_alone() {
        assert!(check(15, "", &log("b")).is_ok());
        assert!(check(15, "a", &log("")).is_ok());
        assert!(check(5, "a", &log("")).is_err());
    }
}
