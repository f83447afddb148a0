//! What a job has counted, as the REST API tells it.
//!
//! Records are counted by the tasks that run now: a restore sets them back. Checkpoints and restores are counted by the JobManager, since the submission.

use std::collections::BTreeMap;

use serde_json::Value;

use super::rest::{Rest, list, number, text};
use crate::{Result, StackError};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    /// Times that the job was set back to a checkpoint; a submission from one counts.
    pub restores: u64,
    pub completed: u64,
    pub failed: u64,
    pub in_progress: u64,
    pub newest: Option<Checkpoint>,
    pub restored_from: Option<Checkpoint>,
    /// Of each operator, all its subtasks together.
    pub records: BTreeMap<String, Records>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Checkpoint {
    pub id: u64,
    pub path: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Records {
    pub read: u64,
    pub written: u64,
}

impl Counters {
    pub(super) fn read(rest: &Rest, job: &str) -> Result<Counters> {
        let answer = match rest.get(&format!("/jobs/{job}/checkpoints")) {
            // A job without checkpoints, or one that is still set up.
            Err(StackError::Refused { status: 404, .. }) => return Ok(Counters::default()),
            answer => answer?,
        };
        let (counts, latest) = (&answer["counts"], &answer["latest"]);
        Ok(Counters {
            restores: number(&counts["restored"]),
            completed: number(&counts["completed"]),
            failed: number(&counts["failed"]),
            in_progress: number(&counts["in_progress"]),
            newest: checkpoint(&latest["completed"]),
            restored_from: checkpoint(&latest["restored"]),
            records: BTreeMap::new(),
        })
    }

    pub(super) fn read_records(&mut self, rest: &Rest, job: &str) -> Result<()> {
        let answer = rest.get(&format!("/jobs/{job}"))?;
        for vertex in list(&answer["vertices"]) {
            let path = format!("/jobs/{job}/vertices/{}/subtasks/metrics", text(&vertex["id"]));
            let known = rest.get(&path)?;
            let names = list(&known).iter().map(|metric| text(&metric["id"]));
            // An operator's own: `NAME.numRecordsIn`. The task's are the sums of what crosses its borders, and have no name before them.
            let names: Vec<String> =
                names.filter(|name| name.ends_with(".numRecordsIn") || name.ends_with(".numRecordsOut")).collect();
            if names.is_empty() {
                continue;
            }
            let values = rest.get(&format!("{path}?get={}&agg=sum", encoded(&names.join(","))))?;
            for metric in list(&values) {
                let name = text(&metric["id"]);
                let Some((operator, which)) = name.rsplit_once('.') else { continue };
                let records = self.records.entry(operator.to_string()).or_default();
                let sum = metric["sum"].as_f64().unwrap_or_default() as u64;
                match which {
                    "numRecordsIn" => records.read = sum,
                    _ => records.written = sum,
                }
            }
        }
        Ok(())
    }

    /// Records that the sources have read, those whose operators Flink names `Source…`.
    pub fn read_by_sources(&self) -> u64 {
        let sources = self.records.iter().filter(|(name, _)| name.starts_with("Source"));
        sources.map(|(_, records)| records.read.max(records.written)).sum()
    }
}

/// Sum over the sources.
pub(super) fn pending(rest: &Rest, job: &str) -> Result<Option<u64>> {
    let answer = rest.get(&format!("/jobs/{job}"))?;
    let mut pending = None;
    for vertex in list(&answer["vertices"]).iter().filter(|vertex| text(&vertex["name"]).starts_with("Source")) {
        let path = format!("/jobs/{job}/vertices/{}/subtasks/metrics", text(&vertex["id"]));
        let known = rest.get(&path)?;
        let names = list(&known).iter().map(|metric| text(&metric["id"]));
        let names: Vec<String> = names.filter(|name| name.ends_with(".pendingRecords")).collect();
        if names.is_empty() {
            continue;
        }
        let values = rest.get(&format!("{path}?get={}&agg=sum", encoded(&names.join(","))))?;
        let sum: f64 = list(&values).iter().filter_map(|metric| metric["sum"].as_f64()).sum();
        pending = Some(pending.unwrap_or(0) + sum as u64);
    }
    Ok(pending)
}

/// Operators are named after the SQL that they run.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

fn checkpoint(value: &Value) -> Option<Checkpoint> {
    let id = value["id"].as_u64()?;
    Some(Checkpoint { id, path: text(&value["external_path"]).trim_start_matches("file:").to_string() })
}
