//! What each node did with its records, as sums that must close (DESIGN.md 1.3).
//!
//! Counters are cumulative over the pipeline's life, taken at each node's own cut, added up over workers, and stand in the manifest.
//! Keeps: a sum that doesn't close is a violation that names the node; it stops the job.
use floodmark_pipeline::ids::NodeId;
use floodmark_pipeline::invariants::{Invariant, Violation};
use floodmark_pipeline::plan::{NodeKind, Plan};

/// Counters of one node. Which of them move depends on its kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounters {
    /// Records read (source) or taken from the inputs.
    pub records_in: u64,
    /// Rows of the main output.
    pub records_out: u64,
    pub errors: u64,
    pub duplicates: u64,
    pub cross_partition_duplicates: u64,
    /// Dedup: records beyond the horizon. Window: late rows, one for each window missed.
    pub late: u64,
    /// How often a record was counted into a window.
    pub counted: u64,
    /// Windows of all records taken: what `counted` and `late` must add up to.
    pub windows: u64,
    /// Fields that aren't in the schema.
    pub unknown_fields: u64,
}

impl NodeCounters {
    pub fn plus(self, other: Self) -> Self {
        Self {
            records_in: self.records_in + other.records_in,
            records_out: self.records_out + other.records_out,
            errors: self.errors + other.errors,
            duplicates: self.duplicates + other.duplicates,
            cross_partition_duplicates: self.cross_partition_duplicates + other.cross_partition_duplicates,
            late: self.late + other.late,
            counted: self.counted + other.counted,
            windows: self.windows + other.windows,
            unknown_fields: self.unknown_fields + other.unknown_fields,
        }
    }
}

impl NodeCounters {
    /// In the order in which a manifest stores them; later ones are appended.
    pub fn to_list(self) -> [u64; 9] {
        [
            self.records_in,
            self.records_out,
            self.errors,
            self.duplicates,
            self.cross_partition_duplicates,
            self.late,
            self.counted,
            self.windows,
            self.unknown_fields,
        ]
    }

    /// What an older manifest doesn't hold is 0.
    pub fn from_list(list: &[u64]) -> Self {
        let at = |place: usize| list.get(place).copied().unwrap_or(0);
        Self {
            records_in: at(0),
            records_out: at(1),
            errors: at(2),
            duplicates: at(3),
            cross_partition_duplicates: at(4),
            late: at(5),
            counted: at(6),
            windows: at(7),
            unknown_fields: at(8),
        }
    }
}

/// Checks the sums of all nodes at one cut. `counters` are in the order of the plan.
pub fn check(plan: &Plan, counters: &[NodeCounters]) -> Result<(), Violation> {
    for id in plan.ids() {
        check_node(plan, id, counters)?;
    }
    Ok(())
}

fn check_node(plan: &Plan, id: NodeId, counters: &[NodeCounters]) -> Result<(), Violation> {
    use Invariant::{A1, A2};
    let node = plan.node(id);
    let c = &counters[usize::from(id.0)];
    let equal = |invariant, left: &str, left_value: u64, right: &str, right_value: u64| {
        if left_value == right_value {
            return Ok(());
        }
        let what = format!("{}: {left} = {left_value}, but {right} = {right_value}", node.name);
        Err(Violation::new(invariant, what))
    };
    match node.kind {
        NodeKind::Source(_) => equal(A1, "read", c.records_in, "decoded + errors", c.records_out + c.errors)?,
        NodeKind::Dedup(_) => equal(
            A1,
            "in",
            c.records_in,
            "unique + duplicates + beyond horizon",
            c.records_out + c.duplicates + c.late,
        )?,
        NodeKind::Window(_) => {
            equal(A1, "in × windows of a record", c.windows, "counted + late rows", c.counted + c.late)?
        }
        NodeKind::Sink => equal(A1, "in", c.records_in, "rows in the outbox", c.records_out)?,
    }
    if node.inputs.is_empty() {
        return Ok(());
    }
    let sent = node.inputs.iter().map(|i| sent_by(plan, counters, i.node, i.output.0)).sum();
    equal(A2, "in", c.records_in, "out of its inputs", sent)
}

/// Rows that an output has handed on.
fn sent_by(plan: &Plan, counters: &[NodeCounters], node: NodeId, output: u8) -> u64 {
    let c = &counters[usize::from(node.0)];
    match (&plan.node(node).kind, output) {
        (_, 0) => c.records_out,
        (NodeKind::Source(_), _) | (NodeKind::Window(_), 2) => c.errors,
        (NodeKind::Dedup(_), 1) => c.duplicates,
        _ => c.late,
    }
}
