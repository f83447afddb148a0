//! Parts of the checked result in the words of the pipeline file.
//!
//! Doesn't know: who shows them (fingerprints, `explain`).
use std::fmt;

use floodmark_pipeline::plan::{Function, Node, OutputRef, Plan};
use floodmark_pipeline::schema::Schema;

use super::model::{Origin, PartitionField, SortField, Transform};

pub fn function_name(function: Function) -> &'static str {
    match function {
        Function::Count => "count",
        Function::Sum => "sum",
        Function::Min => "min",
        Function::Max => "max",
        Function::Avg => "avg",
    }
}

/// Where a column comes from, as the file writes it; `None` for the field of its own name.
pub fn place_of(origin: &Origin, column: &str) -> Option<String> {
    Some(match origin {
        Origin::Path(path) if path.as_slice() == [column] => return None,
        Origin::Path(path) => path.join("."),
        Origin::Topic => "kafka.topic".into(),
        Origin::Partition => "kafka.partition".into(),
        Origin::Offset => "kafka.offset".into(),
        Origin::Timestamp => "kafka.timestamp".into(),
        Origin::Key => "kafka.key".into(),
        Origin::Header(name) => format!("kafka.header.{name}"),
    })
}

/// Inputs as `from` writes them.
pub fn from(plan: &Plan, node: &Node) -> Vec<String> {
    let write = |input: &OutputRef| {
        let source = plan.node(input.node);
        match source.outputs[usize::from(input.output.0)].name {
            None => source.name.clone(),
            Some(output) => format!("{}.{output}", source.name),
        }
    };
    node.inputs.iter().map(write).collect()
}

pub fn column_names(schema: &Schema, columns: &[usize]) -> String {
    columns.iter().map(|i| schema.fields[*i].name.as_str()).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for PartitionField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let column = &self.column;
        match self.transform {
            Transform::Identity => f.write_str(column),
            Transform::Year => write!(f, "year({column})"),
            Transform::Month => write!(f, "month({column})"),
            Transform::Day => write!(f, "day({column})"),
            Transform::Hour => write!(f, "hour({column})"),
            Transform::Bucket(n) => write!(f, "bucket({n}, {column})"),
            Transform::Truncate(width) => write!(f, "truncate({width}, {column})"),
        }
    }
}

impl fmt::Display for SortField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = if self.descending { "desc" } else { "asc" };
        write!(f, "{} {direction} nulls {}", self.column, if self.nulls_last { "last" } else { "first" })
    }
}
