//! What of each node its state depends on, by its key in the pipeline file: a manifest keeps it, and a later start compares (DESIGN.md 7).
//!
//! Not in here, and so free to change: workers, intervals, retention, memory, idle, align, addresses and credentials (a topic and a table are known by their
//! own ids), `start`, `discard`, what happens to errors. Each column of a source is a part of its own, `schema.NAME`: one that was added and may be null,
//! so that its value ends with `?`, and that stands in no `key` is compatible too.
//! Doesn't know: what is done about a difference. Keeps: no secret is in a fingerprint. Tested: config/tests.
use std::collections::BTreeMap;

use floodmark_pipeline::ids::NodeId;
use floodmark_pipeline::plan::{Assigner, EventTimeFrom, Node, NodeKind, Source, Window};
use floodmark_pipeline::schema::Schema;

use super::model::{Fingerprint, Pipeline, SinkConnector, SourceConfig, SourceConnector};
use super::value::show_span;
use super::words::{column_names, from, function_name, place_of};

type Parts = BTreeMap<String, String>;

/// Fingerprints by node name; `lines` is where each node stands in the file.
pub fn of(pipeline: &Pipeline, lines: &BTreeMap<String, usize>) -> BTreeMap<String, Fingerprint> {
    let one = |id: NodeId| {
        let node = pipeline.plan.node(id);
        let line = lines.get(&node.name).copied().unwrap_or_default();
        (node.name.clone(), Fingerprint { parts: parts(pipeline, id, node).into(), line })
    };
    pipeline.plan.ids().map(one).collect()
}

fn parts(pipeline: &Pipeline, id: NodeId, node: &Node) -> Parts {
    let plan = &pipeline.plan;
    let mut parts = Parts::new();
    let mut add = |key: &str, value: String| drop(parts.insert(key.to_owned(), value));
    if !node.inputs.is_empty() {
        add("from", from(plan, node).join(", "));
    }
    let keys = |key: &[usize]| plan.input_schema(id).map(|s| column_names(s, key)).unwrap_or_default();
    match &node.kind {
        NodeKind::Source(source) => {
            // All state is spread by it, and every file has a source.
            add("max_parallelism", plan.max_parallelism.to_string());
            if let Some(config) = pipeline.sources.get(&id) {
                source_parts(source, config, &mut add);
            }
        }
        NodeKind::Dedup(dedup) => {
            add("type", "dedup".into());
            add("key", keys(&dedup.key));
            add("horizon", show_span(dedup.horizon));
            add("bucket", show_span(dedup.bucket));
        }
        NodeKind::Window(window) => {
            add("key", keys(&window.key));
            window_parts(window, plan.input_schema(id), &mut add);
        }
        NodeKind::Sink => match pipeline.sinks.get(&id).map(|s| &s.connector) {
            Some(SinkConnector::Iceberg(iceberg)) => {
                add("type", "iceberg".into());
                add("table", format!("{}.{}", iceberg.namespace.join("."), iceberg.table));
            }
            Some(SinkConnector::File { dir }) => {
                add("type", "file".into());
                add("dir", dir.to_string());
            }
            Some(SinkConnector::Stdout) | None => add("type", "stdout".into()),
        },
    }
    parts
}

fn source_parts(source: &Source, config: &SourceConfig, add: &mut impl FnMut(&str, String)) {
    match &config.connector {
        SourceConnector::Kafka(kafka) => {
            add("type", "kafka".into());
            add("topic", kafka.topics.join(", "));
        }
        SourceConnector::File(file) => {
            add("type", "file".into());
            add("path", file.path.clone());
        }
        SourceConnector::Generator(generator) => {
            add("type", "generator".into());
            add("workload", generator.workload.clone());
            let dials = generator.options.iter().filter(|(dial, _)| *dial != "rate");
            dials.for_each(|(dial, value)| add(dial, value.clone()));
        }
    }
    add("format", "json".into());
    for (field, origin) in config.format.schema.fields.iter().zip(&config.format.origins) {
        let null = if field.nullable { "?" } else { "" };
        let place = place_of(origin, &field.name).map(|p| format!("{p} as ")).unwrap_or_default();
        add(&format!("schema.{}", field.name), format!("{place}{}{null}", field.ty));
    }
    match &source.event_time {
        Some(EventTimeFrom::Column(i)) => add("event_time", config.format.schema.fields[*i].name.clone()),
        Some(EventTimeFrom::Log) => add("event_time", "log".into()),
        None => return,
    }
    add("watermark.bound", show_span(source.bound));
    add("watermark.max_future", source.max_future.map_or("none".into(), show_span));
    add("lateness", if source.late_by_event { "event" } else { "window" }.into());
}

fn window_parts(window: &Window, input: Option<&Schema>, add: &mut impl FnMut(&str, String)) {
    match window.assigner {
        Assigner::Session { gap } => {
            add("type", "session".into());
            add("gap", show_span(gap));
        }
        Assigner::Hopping { size, slide, offset } => {
            add("type", if size == slide { "tumbling" } else { "hopping" }.into());
            add("size", show_span(size));
            add("slide", show_span(slide));
            add("offset", show_span(offset));
        }
    }
    for aggregate in &window.aggregates {
        let column = aggregate.column.and_then(|c| input.map(|i| i.fields[c].name.as_str())).unwrap_or_default();
        let call = format!("{}({column}) {}", function_name(aggregate.function), aggregate.result);
        add(&format!("aggregates.{}", aggregate.name), call);
    }
}
