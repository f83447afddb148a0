//! What a node reads, as one view.
//!
//! Doesn't know: what is done with it. Keeps: the same inputs are the same view, so that the planner computes them once. Tested: flink_sql/tests.rs.
use floodmark_pipeline::ids::NodeId;
use floodmark_pipeline::plan::OutputRef;

use super::job::Job;
use super::source::{PLACE, TIME};
use super::sql::{name, names};

/// The view of an output, named as the pipeline file names it.
pub fn view_of(job: &Job<'_>, output: OutputRef) -> String {
    let node = job.node(output.node);
    match node.outputs.get(usize::from(output.output.0)).and_then(|o| o.name) {
        None => node.name.clone(),
        Some(output) => format!("{}.{output}", node.name),
    }
}

/// Columns of what an operator reads: the schema's, the record's place, and its time where it has one.
pub fn columns(job: &Job<'_>, id: NodeId) -> Vec<String> {
    let schema = job.plan().input_schema(id).cloned().unwrap_or_default();
    let mut columns: Vec<String> = schema.fields.into_iter().map(|field| field.name).collect();
    columns.extend(PLACE.map(str::to_owned));
    if job.has_time(id) {
        columns.push(TIME.to_owned());
    }
    columns
}

pub fn column_list(columns: &[String]) -> String {
    names(columns.iter().map(String::as_str))
}

/// What an operator reads: the view of its input, or one over all of them.
pub fn of_operator(job: &Job<'_>, id: NodeId, out: &mut Vec<String>) -> String {
    let node = job.node(id);
    if let [only] = node.inputs.as_slice() {
        return view_of(job, *only);
    }
    job.shared_view("input", &node.inputs, || {
        let view = format!("{}.input", node.name);
        let list = column_list(&columns(job, id));
        let parts: Vec<_> =
            node.inputs.iter().map(|input| format!("SELECT {list}\nFROM {}", name(&view_of(job, *input)))).collect();
        out.push(format!("CREATE TEMPORARY VIEW {} AS\n{}", name(&view), parts.join("\nUNION ALL\n")));
        view
    })
}
