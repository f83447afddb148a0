//! The snapshot of a commit: its summary, its place after the base, and the requests that put it on `main`.
//!
//! Doesn't know: files beyond their counts. Keeps: retention settings of `main` stay as they are; totals go on from the base's; its time
//! is never before the base's last change, since a table refuses one that lies far behind.
//! Tested: tests.rs beside it.
use std::collections::HashMap;

use floodmark_pipeline::ids::Epoch;
use floodmark_pipeline::mark::{Mark, RunningDigest};
use iceberg::spec::{MAIN_BRANCH, Operation, Snapshot, SnapshotSummaryCollector, Summary, TableMetadata};
use iceberg::{Result, TableRequirement, TableUpdate};

use super::manifest::Added;
use super::mark::{Identity, Stamped};

/// Offsets go into the summary only while they are this short: summaries stay in the metadata for as long as their snapshots.
const OFFSETS_LENGTH: usize = 1_000;

/// Running total, what adds to it, what takes from it.
const TOTALS: [(&str, &str, &str); 6] = [
    ("total-data-files", "added-data-files", "deleted-data-files"),
    ("total-delete-files", "added-delete-files", "removed-delete-files"),
    ("total-records", "added-records", "deleted-records"),
    ("total-files-size", "added-files-size", "removed-files-size"),
    ("total-position-deletes", "added-position-deletes", "removed-position-deletes"),
    ("total-equality-deletes", "added-equality-deletes", "removed-equality-deletes"),
];

/// One snapshot to be put on `main`, together with the mark.
#[derive(Clone, Debug)]
pub struct Change {
    pub snapshot_id: i64,
    pub added: Vec<Added>,
    /// The mark that is in force once the change is.
    pub mark: Mark,
    /// The epoch of the mark before it.
    pub previous: Option<Epoch>,
    /// Of the rows added.
    pub delta: RunningDigest,
}

impl Change {
    /// What must hold of the table, and what is to be changed, with the manifests already written.
    pub fn requests(
        &self,
        base: &TableMetadata,
        manifest_list: &str,
        now_ms: i64,
    ) -> Result<(Vec<TableRequirement>, Vec<TableUpdate>)> {
        let head = base.current_snapshot_id();
        let requirements = vec![
            TableRequirement::UuidMatch { uuid: base.uuid() },
            TableRequirement::RefSnapshotIdMatch { r#ref: MAIN_BRANCH.to_owned(), snapshot_id: head },
        ];
        let sequence_number = base.next_sequence_number();
        let snapshot = Snapshot::builder()
            .with_snapshot_id(self.snapshot_id)
            .with_parent_snapshot_id(head)
            .with_sequence_number(sequence_number)
            .with_timestamp_ms(now_ms.max(base.last_updated_ms()))
            .with_manifest_list(manifest_list)
            .with_summary(self.summary(base))
            .with_schema_id(base.current_schema_id())
            .build();
        let stamped = serde_json::to_string(&Stamped::new(&self.mark, self.snapshot_id, sequence_number))?;
        let property = (Identity::of(&self.mark).property(), stamped);
        // The builder is the only way to the retention settings of `main`, which each commit sends anew.
        let changed = base.clone().into_builder(None).set_branch_snapshot(snapshot, MAIN_BRANCH)?;
        let changed = changed.set_properties(HashMap::from([property]))?.build()?;
        Ok((requirements, changed.changes))
    }

    fn summary(&self, base: &TableMetadata) -> Summary {
        let mut files = SnapshotSummaryCollector::default();
        for added in &self.added {
            for file in &added.files {
                files.add_file(file, base.current_schema().clone(), added.spec.clone());
            }
        }
        let mut properties = files.build();
        let before = base.current_snapshot().map(|head| &head.summary().additional_properties);
        let number = |properties: &HashMap<String, String>, key: &str| properties.get(key).and_then(|v| v.parse::<u64>().ok());
        for (total, adds, takes) in TOTALS {
            // A base whose writer left the total out has none to go on from.
            let Some(last) = before.map_or(Some(0), |summary| number(summary, total)) else {
                continue;
            };
            let now = last + number(&properties, adds).unwrap_or(0);
            let now = now.saturating_sub(number(&properties, takes).unwrap_or(0));
            properties.insert(total.to_owned(), now.to_string());
        }
        properties.extend(self.marks().map(|(key, value)| (format!("floodmark.{key}"), value)));
        Summary { operation: Operation::Append, additional_properties: properties }
    }

    fn marks(&self) -> impl Iterator<Item = (&'static str, String)> {
        let Mark { pipeline, sink, epoch, fence, offsets, event_time_watermark, .. } = &self.mark;
        let offsets: Vec<_> = offsets.iter().map(|(partition, offset)| format!("{partition}={offset}")).collect();
        let offsets = Some(offsets.join(",")).filter(|o| !o.is_empty() && o.len() <= OFFSETS_LENGTH);
        [
            ("pipeline", Some(pipeline.clone())),
            ("sink", Some(sink.clone())),
            ("max-committed-checkpoint-id", epoch.map(|e| e.checkpoint.to_string())),
            ("previous-checkpoint-id", self.previous.map(|e| e.checkpoint.to_string())),
            ("incarnation", fence.map(|f| f.number.to_string())),
            ("event-time-watermark", event_time_watermark.map(|w| w.0.to_string())),
            ("rows", Some(self.delta.rows.to_string())),
            ("digest", Some(format!("{:032x}", self.delta.sum))),
            ("offsets", offsets),
        ]
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)))
    }
}

#[cfg(test)]
#[path = "snapshot_tests.rs"]
mod tests;
