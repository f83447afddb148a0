//! The job as a graph of typed nodes, in topological order: what the pipeline file means once it has been checked.
//!
//! Doesn't know: brokers, catalogs, files, or how the graph was written down. Connectors are found by a node's name elsewhere.
//! Keeps: an input names a node before its reader; every output that can carry rows is taken or waived (`discard`).
use crate::ids::NodeId;
use crate::schema::{Field, FieldType, Schema};
use crate::time::Span;

/// Place of an output in its node: 0 is the main one. The meaning of the others depends on the node's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutputId(pub u8);

impl OutputId {
    pub const MAIN: Self = Self(0);
    pub const SOURCE_ERRORS: Self = Self(1);
    pub const DEDUP_DUPLICATES: Self = Self(1);
    pub const DEDUP_LATE: Self = Self(2);
    pub const WINDOW_LATE: Self = Self(1);
    pub const WINDOW_ERRORS: Self = Self(2);
}

/// One output of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutputRef {
    pub node: NodeId,
    pub output: OutputId,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub pipeline: String,
    /// Number of key groups.
    pub max_parallelism: u16,
    pub nodes: Vec<Node>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub name: String,
    pub inputs: Vec<OutputRef>,
    pub outputs: Vec<Output>,
    pub kind: NodeKind,
}

/// `name` is `None` for the main output, else what stands after the dot in `from = "node.name"`.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    pub name: Option<&'static str>,
    pub schema: Schema,
    /// The user waived it: its rows are counted and go nowhere.
    pub discard: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum NodeKind {
    Source(Source),
    Dedup(Dedup),
    Window(Window),
    Sink,
}

/// Event time and error rules of a source.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    pub event_time: Option<EventTimeFrom>,
    pub bound: Span,
    /// Largest lead of an event time over its own log timestamp; `None`: no test.
    pub max_future: Option<Span>,
    /// Session rule for all windows above: late iff `t ≤ wm`.
    pub late_by_event: bool,
    pub on_error: OnError,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventTimeFrom {
    /// A required timestamp column, by its place in the source's schema.
    Column(usize),
    /// The log's own timestamp.
    Log,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    Output,
    Fail,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Dedup {
    /// Key columns by their place in the input schema.
    pub key: Vec<usize>,
    pub horizon: Span,
    pub bucket: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    pub assigner: Assigner,
    pub key: Vec<usize>,
    pub aggregates: Vec<Aggregate>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Assigner {
    /// A tumbling window is a hopping one whose slide is its size. Windows begin at `offset + k · slide`.
    Hopping {
        size: Span,
        slide: Span,
        offset: Span,
    },
    Session {
        gap: Span,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    /// Name of the output column.
    pub name: String,
    pub function: Function,
    /// Column it is computed over, by its place in the input schema; `None` for `count()`.
    pub column: Option<usize>,
    pub result: FieldType,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    Count,
    Sum,
    Min,
    Max,
    Avg,
}

impl Plan {
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[usize::from(id.0)]
    }

    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.nodes.iter().position(|n| n.name == name).map(|i| NodeId(i as u16))
    }

    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u16).map(NodeId)
    }

    pub fn schema_of(&self, output: OutputRef) -> &Schema {
        &self.node(output.node).outputs[usize::from(output.output.0)].schema
    }

    /// Schema of what a node reads: all its inputs have the same.
    pub fn input_schema(&self, id: NodeId) -> Option<&Schema> {
        self.node(id).inputs.first().map(|input| self.schema_of(*input))
    }

    /// Nodes that read an output.
    pub fn readers(&self, output: OutputRef) -> impl Iterator<Item = NodeId> + '_ {
        self.ids().filter(move |id| self.node(*id).inputs.contains(&output))
    }

    /// Sources above a node, through any path: the ones whose partitions make its watermark.
    pub fn sources_of(&self, id: NodeId) -> Vec<NodeId> {
        let mut found = vec![];
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            let node = self.node(id);
            if matches!(node.kind, NodeKind::Source(_)) && !found.contains(&id) {
                found.push(id);
            }
            open.extend(node.inputs.iter().map(|i| i.node));
        }
        found.sort();
        found
    }
}

/// Columns that late rows carry behind those of the source (DESIGN.md 3).
pub fn late_schema(source: &Schema) -> Schema {
    let mut fields = source.fields.clone();
    fields.extend([
        Field::required("_topic", FieldType::String),
        Field::required("_partition", FieldType::Int32),
        Field::required("_offset", FieldType::Int64),
        Field::required("_watermark", FieldType::TIMESTAMP_MS),
        Field::required("_window_node", FieldType::String),
        Field::nullable("_window_start", FieldType::TIMESTAMP_MS),
        Field::nullable("_window_end", FieldType::TIMESTAMP_MS),
        Field::required("_reason", FieldType::String),
    ]);
    Schema::new(fields)
}

/// Columns of a duplicate: those of the source, its place, and the place of the copy that was kept.
pub fn duplicates_schema(source: &Schema) -> Schema {
    let mut fields = source.fields.clone();
    fields.extend([
        Field::required("_topic", FieldType::String),
        Field::required("_partition", FieldType::Int32),
        Field::required("_offset", FieldType::Int64),
        Field::required("_first_topic", FieldType::String),
        Field::required("_first_partition", FieldType::Int32),
        Field::required("_first_offset", FieldType::Int64),
    ]);
    Schema::new(fields)
}

/// Columns of a record that couldn't be decoded, with its bytes.
pub fn source_errors_schema() -> Schema {
    Schema::new(vec![
        Field::required("_topic", FieldType::String),
        Field::required("_partition", FieldType::Int32),
        Field::required("_offset", FieldType::Int64),
        Field::nullable("_timestamp", FieldType::TIMESTAMP_MS),
        Field::nullable("_key", FieldType::Binary),
        Field::nullable("_value", FieldType::Binary),
        Field::required("_reason", FieldType::String),
        Field::required("_detail", FieldType::String),
    ])
}

/// Columns of a window's row: `window_start, window_end`, keys, aggregates (DESIGN.md 3). A key is nullable where its column is;
/// so is an aggregate over a nullable column, since a window may hold only nulls of it.
pub fn window_schema(input: &Schema, window: &Window) -> Schema {
    let mut fields = vec![
        Field::required("window_start", FieldType::TIMESTAMP_MS),
        Field::required("window_end", FieldType::TIMESTAMP_MS),
    ];
    fields.extend(window.key.iter().map(|i| input.fields[*i].clone()));
    fields.extend(window.aggregates.iter().map(|a| Field {
        name: a.name.clone(),
        ty: a.result,
        nullable: a.function != Function::Count && a.column.is_some_and(|c| input.fields[c].nullable),
    }));
    Schema::new(fields)
}

/// Columns of a window whose aggregate doesn't fit its result type: its place and what happened.
pub fn window_errors_schema(input: &Schema, window: &Window) -> Schema {
    let keys = window.key.iter().map(|i| input.fields[*i].clone());
    let mut fields = vec![
        Field::required("window_start", FieldType::TIMESTAMP_MS),
        Field::required("window_end", FieldType::TIMESTAMP_MS),
    ];
    fields.extend(keys);
    fields.extend([
        Field::required("_window_node", FieldType::String),
        Field::required("_reason", FieldType::String),
        Field::required("_detail", FieldType::String),
    ]);
    Schema::new(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, kind: NodeKind, inputs: &[(u16, OutputId)], outputs: &[&Schema]) -> Node {
        let inputs = inputs.iter().map(|(node, output)| OutputRef { node: NodeId(*node), output: *output }).collect();
        let output = |schema: &&Schema| Output { name: None, schema: (*schema).clone(), discard: false };
        Node { name: name.into(), inputs, outputs: outputs.iter().map(output).collect(), kind }
    }

    fn source() -> NodeKind {
        NodeKind::Source(Source {
            event_time: Some(EventTimeFrom::Log),
            bound: Span(0),
            max_future: None,
            late_by_event: false,
            on_error: OnError::Output,
        })
    }

    fn events() -> Schema {
        Schema::new(vec![Field::required("user", FieldType::String), Field::nullable("cents", FieldType::Int64)])
    }

    fn window(key: usize, aggregates: &[(Function, Option<usize>)]) -> Window {
        let aggregate = |(function, column): &(Function, Option<usize>)| {
            let name = format!("{function:?}").to_lowercase();
            Aggregate { name, function: *function, column: *column, result: FieldType::Int64 }
        };
        let aggregates = aggregates.iter().map(aggregate).collect();
        Window { assigner: Assigner::Session { gap: Span(5) }, key: vec![key], aggregates }
    }

    const USERS: NodeId = NodeId(0);
    const EVENTS: NodeId = NodeId(1);
    const CLEAN: NodeId = NodeId(2);
    const SESSIONS: NodeId = NodeId(3);
    const LAKE: NodeId = NodeId(4);
    const DUPLICATES: NodeId = NodeId(5);

    /// `sessions` reads both sources: `users`, and `events` twice, with its duplicates and without.
    fn plan() -> Plan {
        let (events, main) = (events(), OutputId::MAIN);
        let dedup = NodeKind::Dedup(Dedup { key: vec![0], horizon: Span(100), bucket: Span(10) });
        let sessions = window(0, &[(Function::Count, None)]);
        let rows = window_schema(&events, &sessions);
        let reads = [(EVENTS.0, main), (CLEAN.0, main), (USERS.0, main)];
        let nodes = vec![
            node("users", source(), &[], &[&events]),
            node("events", source(), &[], &[&events, &source_errors_schema()]),
            node("clean", dedup, &[(EVENTS.0, main)], &[&events, &duplicates_schema(&events)]),
            node("sessions", NodeKind::Window(sessions), &reads, &[&rows]),
            node("lake", NodeKind::Sink, &[(SESSIONS.0, main)], &[]),
            node("duplicates", NodeKind::Sink, &[(CLEAN.0, OutputId::DEDUP_DUPLICATES)], &[]),
        ];
        Plan { pipeline: "p".into(), max_parallelism: 128, nodes }
    }

    fn columns(schema: &Schema) -> Vec<String> {
        schema.fields.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_node_is_found_by_its_name() {
        let plan = plan();
        for id in plan.ids() {
            assert_eq!(plan.find(&plan.node(id).name), Some(id));
        }
        assert_eq!(plan.ids().collect::<Vec<_>>(), [USERS, EVENTS, CLEAN, SESSIONS, LAKE, DUPLICATES]);
        assert_eq!(plan.find("nobody"), None);
    }

    #[test]
    fn a_node_reads_the_schema_of_the_output_it_takes() {
        let plan = plan();
        let errors = OutputRef { node: EVENTS, output: OutputId::SOURCE_ERRORS };
        assert_eq!(plan.schema_of(errors), &source_errors_schema());
        assert_eq!(plan.input_schema(CLEAN), Some(&events()));
        assert_eq!(plan.input_schema(DUPLICATES), Some(&duplicates_schema(&events())), "not that of the main output");
        assert_eq!(plan.input_schema(EVENTS), None, "a source reads none");
    }

    #[test]
    fn readers_are_those_of_the_very_output() {
        let plan = plan();
        let readers = |node, output| plan.readers(OutputRef { node, output }).collect::<Vec<_>>();
        assert_eq!(readers(EVENTS, OutputId::MAIN), [CLEAN, SESSIONS]);
        assert_eq!(readers(CLEAN, OutputId::MAIN), [SESSIONS]);
        assert_eq!(readers(CLEAN, OutputId::DEDUP_DUPLICATES), [DUPLICATES]);
        assert_eq!(readers(EVENTS, OutputId::SOURCE_ERRORS), []);
    }

    #[test]
    fn the_sources_of_a_node_are_all_above_it_each_once() {
        let plan = plan();
        assert_eq!(plan.sources_of(LAKE), [USERS, EVENTS], "two ways lead to `events`");
        assert_eq!(plan.sources_of(DUPLICATES), [EVENTS]);
        assert_eq!(plan.sources_of(EVENTS), [EVENTS], "a source is its own");
    }

    #[test]
    fn late_rows_and_duplicates_are_the_columns_of_the_source_and_their_place() {
        let place = ["user string", "cents int64?", "_topic string", "_partition int32", "_offset int64"];
        let (late, duplicates) = (columns(&late_schema(&events())), columns(&duplicates_schema(&events())));
        assert_eq!(late[..5], place);
        let met = ["_watermark timestamp_ms", "_window_node string"];
        let missed = ["_window_start timestamp_ms?", "_window_end timestamp_ms?", "_reason string"];
        assert_eq!(late[5..], [&met[..], &missed].concat());
        assert_eq!(duplicates[..5], place);
        assert_eq!(duplicates[5..], ["_first_topic string", "_first_partition int32", "_first_offset int64"]);
    }

    #[test]
    fn what_could_not_be_decoded_is_told_with_its_place_and_bytes() {
        let place = ["_topic string", "_partition int32", "_offset int64"];
        let record = ["_timestamp timestamp_ms?", "_key binary?", "_value binary?"];
        assert_eq!(
            columns(&source_errors_schema()),
            [&place[..], &record, &["_reason string", "_detail string"]].concat()
        );
    }

    #[test]
    fn an_aggregate_is_null_only_where_a_window_may_hold_nothing_but_nulls() {
        let over = |column| [Function::Count, Function::Sum, Function::Avg].map(|function| (function, column));
        let bounds = ["window_start timestamp_ms", "window_end timestamp_ms"];
        let of = |key, column| columns(&window_schema(&events(), &window(key, &over(column))))[2..].to_vec();
        assert_eq!(columns(&window_schema(&events(), &window(0, &[])))[..2], bounds);
        assert_eq!(of(0, Some(1)), ["user string", "count int64", "sum int64?", "avg int64?"]);
        assert_eq!(of(1, Some(0)), ["cents int64?", "count int64", "sum int64", "avg int64"]);
        let errors = columns(&window_errors_schema(&events(), &window(0, &over(Some(1)))));
        assert_eq!(errors[..2], bounds);
        assert_eq!(errors[2..], ["user string", "_window_node string", "_reason string", "_detail string"]);
    }
}
