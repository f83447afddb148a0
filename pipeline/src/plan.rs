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
