//! What the demo found, and how it reads.
//!
//! Doesn't know: how anything was found. Keeps: PASS is printed only if nothing differs; otherwise each difference is named.
//! Tested: here.
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use floodmark_pipeline::digest::Digest;

use super::kills::Kill;
use super::reconcile::Reconciled;
use super::sums::Sum;

pub struct Report {
    pub layers: Vec<Reconciled>,
    pub sums: Vec<Sum>,
    pub digests: Vec<TableDigests>,
    pub kills: Vec<Kill>,
    pub figures: Figures,
    /// The killed run's.
    pub folder: PathBuf,
    /// Name and metadata file of its tables.
    pub tables: Vec<(String, String)>,
}

/// One table three times: full scans of both runs, and what the killed run's mark says.
pub struct TableDigests {
    pub sink: &'static str,
    pub unkilled: Digest,
    pub killed: Digest,
    pub mark: Digest,
}

pub struct Figures {
    pub records: u64,
    pub unkilled_s: f64,
    pub unkilled_cpu_s: f64,
    pub killed_cpu_s: f64,
}

impl TableDigests {
    fn agree(&self) -> bool {
        self.unkilled == self.killed && self.killed == self.mark
    }
}

impl Report {
    /// Everything that isn't as it should be; empty is PASS.
    pub fn differences(&self) -> Vec<String> {
        let mut differences = Vec::new();
        for layer in self.layers.iter().filter(|layer| !layer.is_right()) {
            let mut text = format!("{}: the rows are not those of the log", layer.layer);
            layer.examples.iter().for_each(|example| text += &format!("\n    {example}"));
            differences.push(text);
        }
        for sum in self.sums.iter().filter(|sum| !sum.holds) {
            differences.push(format!("{}: {}: not what the log holds", sum.node, sum.equation));
        }
        for table in self.digests.iter().filter(|table| !table.agree()) {
            let TableDigests { sink, unkilled, killed, mark } = table;
            differences.push(format!("{sink}: unkilled {unkilled}, killed {killed}, its mark {mark}"));
        }
        for (number, kill) in (1..).zip(&self.kills) {
            if !kill.counts() {
                let Kill { visible, all, .. } = kill;
                differences.push(format!("kill {number}: {visible} of {all} rows were visible: it shows nothing"));
            }
        }
        differences
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nrows        expected       rows     unique    missing unexpected")?;
        for Reconciled { layer, expected, rows, unique, missing, unexpected, .. } in &self.layers {
            writeln!(f, "{layer:9} {expected:>10} {rows:>10} {unique:>10} {missing:>10} {unexpected:>10}")?;
        }
        writeln!(f, "\nsums of the last checkpoint")?;
        for Sum { node, equation, holds } in &self.sums {
            writeln!(f, "{node:18} {} {equation}", mark_of(*holds))?;
        }
        writeln!(f, "\ndigests: killed run = unkilled run = mark in the table")?;
        for table in &self.digests {
            writeln!(f, "{:18} {} {}", table.sink, mark_of(table.agree()), table.killed)?;
        }
        self.write_figures(f)?;
        self.write_tables(f)?;
        let differences = self.differences();
        if differences.is_empty() {
            return write!(f, "\nPASS");
        }
        writeln!(f, "\nFAIL")?;
        write!(f, "  {}", differences.join("\n  "))
    }
}

impl Report {
    fn write_figures(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { records, unkilled_s, unkilled_cpu_s, killed_cpu_s } = self.figures;
        let millions = records as f64 / 1e6;
        writeln!(f, "\nfigures")?;
        writeln!(
            f,
            "without a kill   {:.0} events/s, {:.2} CPU-s per million",
            records as f64 / unkilled_s,
            unkilled_cpu_s / millions
        )?;
        writeln!(
            f,
            "killed {} times   {:.2} CPU-s per million, with what was done twice",
            self.kills.len(),
            killed_cpu_s / millions
        )?;
        let mut recoveries: Vec<Duration> = self.kills.iter().map(|kill| kill.recovery).collect();
        recoveries.sort();
        if let (Some(longest), Some(median)) = (recoveries.last(), recoveries.get(recoveries.len() / 2)) {
            let (median, longest) = (median.as_secs_f64(), longest.as_secs_f64());
            writeln!(f, "restart to first new rows visible: median {median:.2} s, longest {longest:.2} s")?;
        }
        Ok(())
    }

    fn write_tables(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nthe tables are in {}", self.folder.join("warehouse").display())?;
        let Some((name, metadata)) = self.tables.iter().find(|(name, _)| name.ends_with(".events")) else {
            return Ok(());
        };
        let metadata = metadata.strip_prefix("file://").unwrap_or(metadata);
        writeln!(
            f,
            "  DuckDB     (in its shell, `duckdb`) install iceberg; load iceberg; select event_type, count(*) from iceberg_scan('{metadata}') group by all;"
        )?;
        writeln!(
            f,
            "  PyIceberg  (pip install 'pyiceberg[sql-sqlite,pyarrow]') from pyiceberg.catalog.sql import SqlCatalog; print(SqlCatalog('floodmark', uri='sqlite:///{}').load_table('{name}').scan().count())",
            self.folder.join("catalog.db").display()
        )
    }
}

fn mark_of(holds: bool) -> &'static str {
    if holds { "ok " } else { "NO " }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let digest = Digest { rows: 2, sum: 7 };
        Report {
            layers: vec![Reconciled { layer: "events", expected: 2, rows: 2, unique: 2, ..Reconciled::default() }],
            sums: vec![Sum { node: "clean".into(), equation: "in 2 = unique 2".into(), holds: true }],
            digests: vec![TableDigests { sink: "lake", unkilled: digest, killed: digest, mark: digest }],
            kills: vec![Kill { visible: 1, all: 2, recovery: Duration::from_millis(250) }],
            figures: Figures { records: 2_000_000, unkilled_s: 4.0, unkilled_cpu_s: 6.0, killed_cpu_s: 8.0 },
            folder: "/demo/killed".into(),
            tables: vec![("shop.events".into(), "file:///demo/killed/warehouse/00001-a.metadata.json".into())],
        }
    }

    #[test]
    fn nothing_differs_is_pass() {
        let text = report().to_string();
        assert!(text.ends_with("\nPASS"), "{text}");
        assert!(text.contains("without a kill   500000 events/s, 3.00 CPU-s per million"), "{text}");
        assert!(text.contains("iceberg_scan('/demo/killed/warehouse/00001-a.metadata.json')"), "{text}");
    }

    #[test]
    fn a_difference_anywhere_is_fail_and_named() {
        let mut reports = [report(), report(), report(), report()];
        reports[0].layers[0].missing = 1;
        reports[0].layers[0].examples = vec!["missing: a".into()];
        reports[1].sums[0].holds = false;
        reports[2].digests[0].mark = Digest { rows: 2, sum: 8 };
        reports[3].kills[0].visible = 2;
        for (report, named) in reports.iter().zip(["missing: a", "in 2 = unique 2", "its mark", "kill 1: 2 of 2"]) {
            let text = report.to_string();
            let (_, verdict) = text.split_once("\nFAIL\n").unwrap();
            assert!(verdict.contains(named), "{verdict}");
        }
    }
}
