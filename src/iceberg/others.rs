//! What others did to a table between two commits of ours: rows that they added or deleted are named, since the running digest of the mark is of ours alone.
//!
//! Doesn't know: why they did it. Keeps: it only looks. Files written anew with the same rows (a compaction) are nothing to speak of.
//! Tested: here; with PyIceberg in tests/damage.rs.
use std::fmt;

use iceberg::spec::{Operation, Summary, TableMetadata};

use super::mark::Identity;

/// Records by the summaries of others' snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Others {
    snapshots: u64,
    added: u64,
    /// With the files that held them, or by a delete file each.
    deleted: u64,
}

impl fmt::Display for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { snapshots, added, deleted } = self;
        write!(f, "{snapshots} snapshots of others since our last commit: {added} records added, {deleted} deleted")
    }
}

/// Walks `main` back to the snapshot of the mark, or as far as it is kept. `None`: nothing to speak of.
pub fn since_the_mark(metadata: &TableMetadata, identity: &Identity) -> Option<Others> {
    let ours = identity.stamped_with(metadata)?;
    let mut others = Others::default();
    let mut at = metadata.current_snapshot();
    while let Some(snapshot) = at.filter(|snapshot| snapshot.snapshot_id() != ours) {
        others.count(snapshot.summary());
        at = snapshot.parent_snapshot_id().and_then(|parent| metadata.snapshot_by_id(parent));
    }
    (others.snapshots > 0).then_some(others)
}

impl Others {
    fn count(&mut self, summary: &Summary) {
        let properties = &summary.additional_properties;
        if properties.contains_key("floodmark.sink") || summary.operation == Operation::Replace {
            return;
        }
        let number = |key: &str| properties.get(key).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        self.snapshots += 1;
        self.added += number("added-records");
        self.deleted +=
            ["deleted-records", "added-position-deletes", "added-equality-deletes"].map(number).iter().sum::<u64>();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn a_compaction_and_a_commit_of_another_sink_are_nothing_to_speak_of() {
        let mut others = Others::default();
        for (operation, key, value) in [
            (Operation::Replace, "added-records", "7"),
            (Operation::Append, "floodmark.sink", "late"),
            (Operation::Append, "added-records", "3"),
            (Operation::Overwrite, "deleted-records", "2"),
            (Operation::Delete, "added-position-deletes", "1"),
        ] {
            let additional_properties = HashMap::from([(key.to_owned(), value.to_owned())]);
            others.count(&Summary { operation, additional_properties });
        }
        assert_eq!(others.to_string(), "3 snapshots of others since our last commit: 3 records added, 3 deleted");
    }
}
