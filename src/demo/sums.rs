//! Every event accounted for: the sums of DESIGN's promise 3, from the last manifest's counters, against the ledger.
//!
//! The engine checks its own sums at each checkpoint; here they are checked again, and against numbers that it never saw.
//! Doesn't know: tables' content beyond row counts. Tested: here.
use floodmark_pipeline::plan::NodeKind;

use super::reconcile::Reconciled;
use crate::checkpoint::manifest::Manifest;
use crate::config::model::Pipeline;
use crate::runtime::counters::{self, NodeCounters};
use crate::workload::ledger::Counts;

/// One equation, as it is printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sum {
    pub node: String,
    pub equation: String,
    pub holds: bool,
}

pub fn sums(pipeline: &Pipeline, manifest: &Manifest, counts: &Counts, layers: &[Reconciled]) -> Vec<Sum> {
    let of =
        |name: &str| manifest.nodes.iter().find(|node| node.name == name).map(|node| node.counters).unwrap_or_default();
    let mut sums = Vec::new();
    for node in &pipeline.plan.nodes {
        let c = of(&node.name);
        let (equation, holds) = match node.kind {
            NodeKind::Source(_) => source(c, counts),
            NodeKind::Dedup(_) => dedup(c, counts),
            NodeKind::Window(_) => window(c, counts),
            NodeKind::Sink => sink(c),
        };
        sums.push(Sum { node: node.name.clone(), equation, holds });
    }
    let in_order: Vec<NodeCounters> = pipeline.plan.nodes.iter().map(|node| of(&node.name)).collect();
    let edges = counters::check(&pipeline.plan, &in_order);
    let equation =
        edges.as_ref().map_or_else(ToString::to_string, |()| "out of each node = into its readers".to_owned());
    sums.push(Sum { node: "edges".to_owned(), equation, holds: edges.is_ok() });
    sums.push(tables(&in_order, pipeline, layers));
    sums
}

fn source(c: NodeCounters, counts: &Counts) -> (String, bool) {
    let equation = format!("read {} = decoded {} + errors {}", c.records_in, c.records_out, c.errors);
    let closes = c.records_in == c.records_out + c.errors;
    (equation, closes && c.records_in == counts.records && c.errors == counts.poison)
}

fn dedup(c: NodeCounters, counts: &Counts) -> (String, bool) {
    let NodeCounters { records_in, records_out, duplicates, late, .. } = c;
    let equation = format!("in {records_in} = unique {records_out} + duplicates {duplicates} + beyond horizon {late}");
    let closes = records_in == records_out + duplicates + late;
    (equation, closes && records_out == counts.events && duplicates == counts.resent && late == 0)
}

/// Both windows of the example put a record into one window.
fn window(c: NodeCounters, counts: &Counts) -> (String, bool) {
    let equation = format!("in {} = counted {} + late {}", c.records_in, c.counted, c.late);
    let closes = c.records_in == c.windows && c.windows == c.counted + c.late;
    (equation, closes && c.records_in == counts.events && c.late == counts.late)
}

fn sink(c: NodeCounters) -> (String, bool) {
    (format!("in {} = rows in the outbox {}", c.records_in, c.records_out), c.records_in == c.records_out)
}

/// What left the engine by its outbox is what stands in the tables.
fn tables(counters: &[NodeCounters], pipeline: &Pipeline, layers: &[Reconciled]) -> Sum {
    let sinks = pipeline.plan.nodes.iter().zip(counters).filter(|(node, _)| matches!(node.kind, NodeKind::Sink));
    let sent: u64 = sinks.map(|(_, c)| c.records_out).sum();
    let held: u64 = layers.iter().map(|layer| layer.rows).sum();
    let equation = format!("out of all outboxes {sent} = rows in all tables {held}");
    Sum { node: "tables".to_owned(), equation, holds: sent == held }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts() -> Counts {
        Counts { records: 10, events: 7, late: 2, resent: 2, poison: 1, ..Counts::default() }
    }

    #[test]
    fn a_sum_that_closes_on_other_numbers_than_the_ledgers_does_not_hold() {
        let right = NodeCounters { records_in: 10, records_out: 9, errors: 1, ..NodeCounters::default() };
        assert_eq!(source(right, &counts()), ("read 10 = decoded 9 + errors 1".to_owned(), true));
        let closes = NodeCounters { records_in: 10, records_out: 8, errors: 2, ..NodeCounters::default() };
        assert!(!source(closes, &counts()).1);
    }

    #[test]
    fn duplicates_that_went_on_are_seen() {
        let right = NodeCounters { records_in: 9, records_out: 7, duplicates: 2, ..NodeCounters::default() };
        assert!(dedup(right, &counts()).1);
        let passed = NodeCounters { records_in: 9, records_out: 8, duplicates: 1, ..NodeCounters::default() };
        assert!(!dedup(passed, &counts()).1);
    }

    #[test]
    fn late_rows_belong_to_a_windows_sum() {
        let right = NodeCounters { records_in: 7, windows: 7, counted: 5, late: 2, ..NodeCounters::default() };
        assert_eq!(window(right, &counts()), ("in 7 = counted 5 + late 2".to_owned(), true));
        assert!(!window(NodeCounters { late: 1, ..right }, &counts()).1);
    }
}
