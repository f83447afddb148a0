//! What a run leaves behind as JSON: what went in, what was in force, what happened, what came out.
//!
//! Doesn't know: how it reads as a page (`report`). Keeps: every figure that is printed of a run stands in its record. Tested: here, report.rs.
use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::Settings;
use super::compare::{Compared, Difference, Read};
use super::fault::Struck;
use super::watch::Sample;
use crate::workload::dials::Dials;

/// Pinned versions of the stack: part, package client, package.
const VERSIONS: &str = include_str!("../../../scripts/versions");
const PARTS: [&str; 4] = ["kafka", "flink", "flink-connectors", "python"];

#[derive(Clone, Debug, Serialize)]
pub struct Record {
    /// Also the name of its folder.
    pub run: String,
    pub began: String,
    pub settings: Settings,
    pub dials: Dials,
    pub versions: Vec<String>,
    /// By path: its settings as the running job has told them.
    pub in_force: BTreeMap<&'static str, Value>,
    pub feed_records_per_second: f64,
    pub faults: Vec<Struck>,
    /// By path.
    pub timeline: BTreeMap<&'static str, Vec<Sample>>,
    /// By path: since the feed began, until all rows of the watched table were visible.
    pub all_rows_after_ms: BTreeMap<&'static str, u64>,
    /// Flink's own, at the end.
    pub checkpoints_of_flink: Value,
    pub tables: Vec<Compared>,
    pub checks: Vec<Check>,
    /// What is told and not judged.
    pub told: Vec<String>,
    /// Why there is no verdict.
    pub error: Option<String>,
    pub took_s: f64,
}

/// Something that must hold besides equal tables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    pub what: String,
    pub holds: bool,
}

impl Record {
    pub fn begin(run: &str, began: &str, settings: &Settings) -> Self {
        Self {
            run: run.to_owned(),
            began: began.to_owned(),
            settings: settings.clone(),
            dials: settings.class.dials(settings),
            versions: versions(),
            in_force: BTreeMap::new(),
            feed_records_per_second: 0.0,
            faults: Vec::new(),
            timeline: BTreeMap::new(),
            all_rows_after_ms: BTreeMap::new(),
            checkpoints_of_flink: Value::Null,
            tables: Vec::new(),
            checks: Vec::new(),
            told: Vec::new(),
            error: None,
            took_s: 0.0,
        }
    }

    pub fn check(&mut self, holds: bool, what: String) {
        self.checks.push(Check { what, holds });
    }

    /// What isn't as it must be; with none of it the run has passed.
    pub fn failures(&self) -> Vec<String> {
        let unequal = self.tables.iter().filter(|table| !table.is_right());
        let unequal = unequal.map(|table| format!("{} isn't equal where it must be", table.table));
        let broken = self.checks.iter().filter(|check| !check.holds).map(|check| format!("not so: {}", check.what));
        unequal.chain(broken).chain(self.error.clone()).collect()
    }

    pub fn verdict(&self) -> &'static str {
        if self.error.is_some() {
            "NO VERDICT"
        } else if self.failures().is_empty() {
            "PASS"
        } else {
            "FAIL"
        }
    }
}

/// What a terminal shows of it.
impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for table in &self.tables {
            writeln!(f, "\n{}: {}", table.table, if table.is_equal() { "equal" } else { "different" })?;
            for Read { side, reader, digest } in &table.digests {
                writeln!(f, "  {side:10} {reader:10} {digest}")?;
            }
            for Difference { sides: [a, b], only_in: [in_a, in_b], .. } in &table.differences {
                writeln!(f, "  {in_a} rows only of {a}, {in_b} only of {b}")?;
            }
        }
        writeln!(f)?;
        for Check { what, holds } in &self.checks {
            writeln!(f, "{} {what}", if *holds { "ok" } else { "NO" })?;
        }
        for told in &self.told {
            writeln!(f, "-- {told}")?;
        }
        Ok(())
    }
}

fn versions() -> Vec<String> {
    let of_the_stack = VERSIONS.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let of_the_stack =
        of_the_stack.filter(|words| words.len() == 3 && PARTS.contains(&words[0]) && words[1] != "image");
    let ours = format!("floodmark {}", env!("CARGO_PKG_VERSION"));
    std::iter::once(ours).chain(of_the_stack.map(|words| format!("{} {}", words[0], words[2]))).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::drill::parity::class::Must;
    use crate::drill::parity::fault::Fault;

    /// A run of which all is known.
    pub fn record() -> Record {
        let mut record = Record::begin("run-1", "2026-01-01T00:00:00Z", &Settings::default());
        let read = |side, reader| Read { side, reader, digest: "v1:9:0a".into() };
        record.tables.push(Compared {
            table: "shop.events".into(),
            must: Must::AllBeEqual,
            digests: vec![read("flink", "PyIceberg"), read("floodmark", "DuckDB"), read("oracle", "")],
            differences: vec![],
        });
        record.faults.push(Struck {
            path: "flink",
            fault: Fault::Kill,
            share: 0.5,
            at_ms: 500,
            rows: 4,
            seen: "it was <gone>".into(),
            new_rows_after_ms: Some(250),
        });
        let sample =
            |at_ms, rows| Sample { at_ms, written: 9, rows: Some(rows), checkpoint: Some(rows), lag: Some(9 - rows) };
        record.timeline.insert("flink", vec![sample(0, 0), sample(500, 4), sample(1_000, 9)]);
        record.check(true, "restores".into());
        record
    }

    #[test]
    fn it_has_passed_only_with_equal_tables_and_all_checks() {
        assert_eq!(record().verdict(), "PASS");
        let (mut unequal, mut broken, mut failed) = (record(), record(), record());
        unequal.tables[0].digests[2].digest = "v1:9:0b".into();
        broken.checks[0].holds = false;
        failed.error = Some("no Kafka".into());
        assert_eq!([&unequal, &broken, &failed].map(Record::verdict), ["FAIL", "FAIL", "NO VERDICT"]);
        assert_eq!(unequal.failures(), ["shop.events isn't equal where it must be"]);
        unequal.tables[0].must = Must::OursBeRight;
        assert_eq!(unequal.verdict(), "FAIL", "ours is not the oracle's");
        unequal.tables[0].digests[1].digest = "v1:9:0b".into();
        assert_eq!(unequal.verdict(), "PASS");
    }

    #[test]
    fn the_versions_are_those_that_ran() {
        let versions = versions();
        for of in ["floodmark ", "flink apache-flink-libraries==1.20.", "kafka org.apache.kafka:kafka_2.13:"] {
            assert!(versions.iter().any(|version| version.starts_with(of)), "{of}: {versions:?}");
        }
    }
}
