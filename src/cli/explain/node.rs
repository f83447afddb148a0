//! One node in words: what it is, what it reads and keeps, what it promises.
//!
//! Doesn't know: the tree around it.
use std::time::Duration;

use floodmark_pipeline::ids::NodeId;
use floodmark_pipeline::plan::{Assigner, Dedup, EventTimeFrom, NodeKind, OnError, Source, Window};
use floodmark_pipeline::schema::Schema;

use crate::config::model::{
    CatalogConfig, End, IcebergConfig, Pipeline, SinkConfig, SinkConnector, SourceConfig, SourceConnector, Start,
};
use crate::config::value::{redacted, show_duration, show_span};
use crate::config::words::{column_names, function_name, place_of};

/// What stands behind the node's name, and the lines below it.
pub fn describe(pipeline: &Pipeline, id: NodeId) -> (String, Vec<String>) {
    let plan = &pipeline.plan;
    let input = plan.input_schema(id).cloned().unwrap_or_default();
    match &plan.node(id).kind {
        NodeKind::Source(source) => match pipeline.sources.get(&id) {
            Some(config) => describe_source(source, config),
            None => ("source".into(), vec![]),
        },
        NodeKind::Dedup(dedup) => describe_dedup(dedup, &input),
        NodeKind::Window(window) => describe_window(window, &input),
        NodeKind::Sink => match pipeline.sinks.get(&id) {
            Some(config) => describe_sink(pipeline, config, &input),
            None => ("sink".into(), vec![]),
        },
    }
}

/// Widest line of a list, without what the tree puts before it.
const LIST_WIDTH: usize = 100;

/// `label` and what it lists, on as many lines as that needs.
fn list(label: &str, items: &[String]) -> Vec<String> {
    let mut lines = vec![format!("{label:<11}")];
    for (i, item) in items.iter().enumerate() {
        let comma = if i + 1 < items.len() { "," } else { "" };
        let room = lines.last().is_none_or(|line| line.len() + item.len() < LIST_WIDTH);
        if !room {
            lines.push(" ".repeat(11));
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(&format!(" {item}{comma}"));
        }
    }
    lines
}

fn describe_source(source: &Source, config: &SourceConfig) -> (String, Vec<String>) {
    let what = match &config.connector {
        SourceConnector::Kafka(kafka) => format!("Kafka {} at {}", kafka.topics.join(", "), kafka.brokers),
        SourceConnector::File(file) => format!("files {}", file.path),
        SourceConnector::Generator(generator) => {
            let dials = generator.options.iter().map(|(k, v)| format!(", {k} {v}")).collect::<String>();
            format!("generated {}{dials}", generator.workload)
        }
    };
    let fields = config.format.schema.fields.iter().zip(&config.format.origins);
    let columns: Vec<String> = fields
        .map(|(field, origin)| match place_of(origin, &field.name) {
            Some(place) => format!("{field} (from {place})"),
            None => field.to_string(),
        })
        .collect();
    let unknown = if config.format.unknown_fields_are_errors { "errors" } else { "skipped and counted" };
    let on_error = match source.on_error {
        OnError::Output => "to the errors output",
        OnError::Fail => "stop the job",
    };
    let mut details = list("columns", &columns);
    details.extend([
        format!("reads       {}, {}", start(&config.start), end(&config.end)),
        format!("errors      records that can't be decoded {on_error}; fields not named here are {unknown}"),
    ]);
    details.extend(times(source, config));
    (format!("source, {what}, json"), details)
}

fn times(source: &Source, config: &SourceConfig) -> Vec<String> {
    let from = match &source.event_time {
        None => return vec!["event time  none".into()],
        Some(EventTimeFrom::Log) => "the log's timestamp",
        Some(EventTimeFrom::Column(i)) => config.format.schema.fields[*i].name.as_str(),
    };
    let mut lines = vec![format!("event time  {from}, out of order by up to {}", show_span(source.bound))];
    if source.late_by_event {
        lines.push("lateness    a record is late for all windows when its own time has passed".into());
    }
    if let Some(span) = source.max_future {
        lines.push(format!("max_future  more than {} ahead of its log timestamp is an error", show_span(span)));
    }
    let idle = config.idle.map_or("off".into(), |d| format!("after {} at a partition's end", show_duration(d)));
    lines.push(format!("idle        {idle}"));
    if let Some(ms) = config.align_ms {
        let lead = show_duration(Duration::from_millis(ms.unsigned_abs()));
        lines.push(format!("align       partitions more than {lead} ahead wait"));
    }
    lines
}

fn start(start: &Start) -> String {
    match start {
        Start::Earliest => "from the first record".into(),
        Start::Latest => "from the end of the log as it is at the first start".into(),
        Start::TimestampMs(ms) => format!("from log timestamp {}", floodmark_pipeline::time::EventTime(*ms)),
        Start::Offsets(offsets) => format!("from {}", positions(offsets)),
    }
}

fn end(end: &End) -> String {
    match end {
        End::Never => "for ever".into(),
        End::Latest => "to the end as it is at the start".into(),
        End::TimestampMs(ms) => format!("to log timestamp {}", floodmark_pipeline::time::EventTime(*ms)),
        End::Offsets(offsets) => format!("to {}", positions(offsets)),
    }
}

fn positions(offsets: &std::collections::BTreeMap<(String, i32), i64>) -> String {
    let one = |((topic, partition), offset): (&(String, i32), &i64)| format!("{topic}-{partition} offset {offset}");
    offsets.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn describe_dedup(dedup: &Dedup, input: &Schema) -> (String, Vec<String>) {
    let kind = format!("dedup by {}, first one stays", column_names(input, &dedup.key));
    let state = format!(
        "state       a 128-bit hash and the first place of every key of the last {}, forgotten in slices of {}",
        show_span(dedup.horizon),
        show_span(dedup.bucket),
    );
    (kind, vec![state])
}

fn describe_window(window: &Window, input: &Schema) -> (String, Vec<String>) {
    let (shape, state) = match window.assigner {
        Assigner::Session { gap } => {
            let gap = show_span(gap);
            (format!("sessions with a gap of {gap}"), "one entry for each open session".to_owned())
        }
        Assigner::Hopping { size, slide, offset } => {
            let kind = if size == slide { "tumbling windows of" } else { "hopping windows of" };
            let step = if size == slide { String::new() } else { format!(" every {}", show_span(slide)) };
            let offset = if offset.0 == 0 { String::new() } else { format!(", offset {}", show_span(offset)) };
            (format!("{kind} {}{step}{offset}", show_span(size)), "one entry for each open window and key".to_owned())
        }
    };
    let aggregates: Vec<String> = window
        .aggregates
        .iter()
        .map(|a| {
            let column = a.column.map_or("", |c| input.fields[c].name.as_str());
            format!("{} {} = {}({column})", a.name, a.result, function_name(a.function))
        })
        .collect();
    let mut details = list("computes", &aggregates);
    details.push(format!("state       {state}"));
    let key = column_names(input, &window.key);
    let by = if key.is_empty() { "over all rows".to_owned() } else { format!("by {key}") };
    (format!("{shape}, {by}"), details)
}

fn describe_sink(pipeline: &Pipeline, config: &SinkConfig, input: &Schema) -> (String, Vec<String>) {
    let columns: Vec<String> = input.fields.iter().map(ToString::to_string).collect();
    let mut details = list("columns", &columns);
    let what = match &config.connector {
        SinkConnector::Iceberg(iceberg) => {
            details.extend(table_layout(iceberg));
            details.push(format!("commits     every {}", show_duration(config.commit_interval)));
            let rests_on = match &iceberg.catalog {
                CatalogConfig::Sql { uri, .. } => {
                    format!("the compare-and-set of the SQL catalog {}", redacted(&uri.0))
                }
                CatalogConfig::Rest { uri, .. } => {
                    format!("the snapshot assertion of the REST catalog {}", redacted(uri))
                }
            };
            details
                .push(format!("guarantee   exactly once: rows and their mark are one snapshot; rests on {rests_on}"));
            format!("Iceberg table {}.{}", iceberg.namespace.join("."), iceberg.table)
        }
        SinkConnector::File { dir } => {
            details.push(format!("commits     every {}", show_duration(config.commit_interval)));
            details.push("guarantee   exactly once by name: files appear when their mark is durable; rests on create-if-absent of the folder's store".into());
            format!("NDJSON files in {dir}")
        }
        SinkConnector::Stdout => {
            details.push(format!("prints      every {}", show_duration(config.commit_interval)));
            details.push(
                "guarantee   at least once: after a crash, rows printed since the last checkpoint are printed again"
                    .into(),
            );
            "stdout".into()
        }
    };
    if !matches!(config.connector, SinkConnector::Stdout) {
        details.push(format!("            and on the outbox in {}", pipeline.settings.checkpoint_dir));
    }
    (format!("sink, {what}"), details)
}

fn table_layout(iceberg: &IcebergConfig) -> Vec<String> {
    let mut lines = vec![];
    if !iceberg.partition.is_empty() {
        let fields: Vec<String> = iceberg.partition.iter().map(ToString::to_string).collect();
        lines.push(format!("partition   {}", fields.join(", ")));
    }
    if !iceberg.sort.is_empty() {
        let fields: Vec<String> = iceberg.sort.iter().map(ToString::to_string).collect();
        lines.push(format!("sort        {}", fields.join(", ")));
    }
    lines
}
