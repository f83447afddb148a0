//! What the tables must hold at the end of a simulation: what the oracle says, with the decisions that the engine recorded.
use std::collections::{BTreeMap, BTreeSet};

use floodmark_oracle::{Floor, Record};
use floodmark_pipeline::ids::PartitionName;
use floodmark_pipeline::invariants::{Invariant, Violation};

use super::log::{SOURCE, TOPIC, Topic};
use super::world::Tables;
use crate::checkpoint::manifest::{Decision, DecisionKind};

/// Rows that are told of at most.
const TOLD: usize = 3;

/// What the tables must hold.
#[derive(Default)]
pub struct Expected {
    tables: Tables,
    /// Of errors the oracle says how many there are, and not how they are told.
    counts: BTreeMap<String, usize>,
}

/// What every sink must hold.
///
/// # Errors
/// What the oracle doesn't understand of the file.
pub fn expected(file: &str, topic: &Topic, decisions: &[(PartitionName, Decision)]) -> Result<Expected, String> {
    let record = |(partition, offset, entry): (i32, i64, super::log::Entry)| Record {
        source: SOURCE.into(),
        topic: TOPIC.into(),
        partition,
        offset,
        timestamp_ms: Some(entry.timestamp_ms),
        value: Some(entry.value.into_bytes()),
        ..Record::default()
    };
    let log: Vec<_> = topic.records().into_iter().map(record).collect();
    let floors: Vec<_> = decisions.iter().filter_map(|(name, decision)| floor(name, decision)).collect();
    let outputs = floodmark_oracle::expected(file, &log, &floors)?;
    let mut expected = Expected::default();
    for (sink, inputs) in inputs_of_sinks(file)? {
        let mut rows: Vec<_> =
            inputs.iter().flat_map(|input| outputs.get(input).cloned().unwrap_or_default()).collect();
        if inputs.iter().any(|input| input.ends_with(".errors")) {
            expected.counts.insert(sink, rows.len());
        } else {
            rows.sort();
            expected.tables.insert(sink, rows);
        }
    }
    Ok(expected)
}

/// A recorded decision, as the oracle knows it.
pub fn floor(name: &PartitionName, decision: &Decision) -> Option<Floor> {
    let reason = match decision.kind {
        DecisionKind::Joined => "joined",
        DecisionKind::Returned => "returned",
        DecisionKind::Idle | DecisionKind::Ended => return None,
    };
    Some(Floor {
        source: name.source.to_string(),
        topic: name.topic.to_string(),
        partition: name.partition,
        from_offset: decision.offset,
        watermark_ms: decision.watermark?.0,
        reason: reason.into(),
    })
}

fn inputs_of_sinks(file: &str) -> Result<BTreeMap<String, Vec<String>>, String> {
    let file: toml::Table = toml::from_str(file).map_err(|error| error.to_string())?;
    let sinks = file.get("sink").and_then(toml::Value::as_table).into_iter().flatten();
    let inputs = |from: &toml::Value| match from {
        toml::Value::Array(all) => all.iter().filter_map(toml::Value::as_str).map(str::to_owned).collect(),
        one => one.as_str().map(str::to_owned).into_iter().collect(),
    };
    Ok(sinks.map(|(name, sink)| (name.clone(), sink.get("from").map(inputs).unwrap_or_default())).collect())
}

pub fn compared(tables: &Tables, expected: &Result<Expected, String>) -> Vec<Violation> {
    let expected = match expected {
        Ok(expected) => expected,
        Err(why) => return vec![Violation::new(Invariant::O1, why.clone())],
    };
    let mut violations = vec![];
    for (sink, right) in &expected.counts {
        let found = tables.get(sink).map_or(0, Vec::len);
        if found != *right {
            violations.push(Violation::new(Invariant::O1, format!("{sink}: {found} rows, and {right} were expected")));
        }
    }
    for (sink, right) in &expected.tables {
        let found = tables.get(sink).map_or(&[][..], Vec::as_slice);
        if found != right.as_slice() {
            let (missing, unexpected) = (less(right, found), less(found, right));
            let what =
                format!("{sink}: {} missing {missing:#?}, {} unexpected {unexpected:#?}", missing.1, unexpected.1);
            violations.push(Violation::new(Invariant::O1, what));
        }
    }
    violations
}

/// Rows by which all tables together differ from what they must hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    pub missing: usize,
    /// More often there than they should be.
    pub repeated: usize,
    /// That nobody expects at all.
    pub strange: usize,
}

pub fn differences(tables: &Tables, expected: &Result<Expected, String>) -> Differences {
    let mut found = Differences::default();
    for (sink, right) in expected.iter().flat_map(|expected| &expected.tables) {
        let rows = tables.get(sink).map_or(&[][..], Vec::as_slice);
        found.missing += less(right, rows).1;
        let known: BTreeSet<&String> = right.iter().collect();
        let (repeated, strange): (Vec<_>, Vec<_>) = rows.iter().cloned().partition(|row| known.contains(row));
        found.repeated += less(&repeated, right).1;
        found.strange += strange.len();
    }
    found
}

/// What `all` has more of than `taken`: some of it, and how much. Both are sorted.
fn less(all: &[String], taken: &[String]) -> (Vec<String>, usize) {
    let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
    all.iter().for_each(|row| *counts.entry(row).or_default() += 1);
    taken.iter().for_each(|row| *counts.entry(row).or_default() -= 1);
    let more: Vec<_> = counts.into_iter().filter(|(_, n)| *n > 0).collect();
    let number = more.iter().map(|(_, n)| *n as usize).sum();
    (more.into_iter().take(TOLD).map(|(row, n)| format!("{n} × {row}")).collect(), number)
}

/// Where the outside was harmed and nobody noticed: no survivor of dedup may be there twice.
pub fn nothing_twice(tables: &Tables) -> Vec<Violation> {
    let rows = tables.get("rows").map_or(&[][..], Vec::as_slice);
    let twice = rows.windows(2).find(|pair| pair[0] == pair[1]);
    twice.map(|pair| Violation::new(Invariant::M4, format!("rows: twice {}", pair[0]))).into_iter().collect()
}
