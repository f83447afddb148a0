//! `[source.NAME]`: a table over the log, and a view with the columns of the schema over it.
//!
//! The table has what the log holds, with the time attribute and its watermark; the view gives columns their names and types, and stops the job at a record
//! that isn't right, or, where that was accepted, passes over it.
//! Doesn't know: who reads the view. Keeps: without `--accept-loss on_error` no record that the schema refuses goes by without a word.
//! Tested: flink_sql/tests.rs, tests/flink_sql.rs.
mod columns;
mod kafka;
mod properties;

use floodmark_pipeline::ids::NodeId;
use floodmark_pipeline::plan::{EventTimeFrom, NodeKind, OnError, OutputId, Source};

use super::job::Job;
use super::sql::{interval, name, text, with};
use crate::config::model::{End, KafkaConfig, SourceConfig, SourceConnector, Start};
use columns::Columns;

/// Columns that every source view has beside the schema's.
pub const PLACE: [&str; 3] = ["_topic", "_partition", "_offset"];
/// The time attribute, where there is one.
pub const TIME: &str = "_time";

const RETENTION: &str = "where the log has lost records that a restored job wants to read, Flink goes on at another offset without a word. floodmark refuses";

const LENIENT: &str = "Flink's json is more lenient. It takes numbers in quotes, cuts the fraction off an integer, rounds a decimal or makes it null where it doesn't fit, takes what isn't `true` for false, and numbers, arrays and objects for strings; text of a time needs its seconds, and `Z` as its zone. A record without value (a tombstone) is passed over silently. floodmark calls each of these an error";

pub fn statements(job: &Job<'_>, id: NodeId) -> Vec<String> {
    let (NodeKind::Source(source), Some(config)) = (&job.node(id).kind, job.pipeline.sources.get(&id)) else {
        return vec![];
    };
    let node = job.node(id).name.as_str();
    let lenient = on_error(job, id, source);
    if config.format.unknown_fields_are_errors {
        job.give_up(
            node,
            "unknown_fields",
            "Flink's json skips fields that the schema doesn't name",
            "such fields are skipped",
        );
    }
    let Some(log) = log_of(job, node, source, config) else { return vec![] };
    let columns = Columns::of(job, node, config, matches!(log, Log::Kafka(_)), lenient);
    let table = table(job, node, source, config, &log, &columns);
    vec![table, view(node, source, &columns, lenient)]
}

/// True where records that can't be decoded are skipped.
fn on_error(job: &Job<'_>, id: NodeId, source: &Source) -> bool {
    let node = job.node(id).name.as_str();
    if source.on_error == OnError::Fail {
        return false;
    }
    if job.is_given_up("on_error") {
        job.note(node, "on_error", "given up: records that can't be decoded are skipped silently, and what can't be read of a column that may be null is null");
        return true;
    }
    let rows = if job.is_read(id, OutputId::SOURCE_ERRORS) { ", so its errors output has no rows" } else { "" };
    job.note(
        node,
        "on_error",
        &format!("Flink can't hand on a record that can't be decoded. The job stops at it{rows}. `--accept-loss on_error` skips such records silently"),
    );
    false
}

enum Log {
    Kafka(KafkaConfig),
    Files(String),
}

fn log_of(job: &Job<'_>, node: &str, source: &Source, config: &SourceConfig) -> Option<Log> {
    let instead = "write the records to Kafka and say so: --kafka";
    if let Some((brokers, topic)) = job.options.kafka.get(node) {
        job.note(node, "type", "read from Kafka, as asked by --kafka. Rows have topic, partition and offset of there");
        let (brokers, topics) = (brokers.clone(), vec![topic.clone()]);
        return Some(Log::Kafka(KafkaConfig { brokers, topics, properties: Default::default() }));
    }
    match &config.connector {
        SourceConnector::Kafka(kafka) => Some(Log::Kafka(kafka.clone())),
        SourceConnector::Generator(generator) => {
            let instead = format!(
                "floodmark generate {} --to kafka://HOST:PORT/TOPIC, and --kafka {node}=HOST:PORT/TOPIC here",
                generator.workload
            );
            job.refuse(node, "workload", "Flink doesn't have floodmark's generators", &instead);
            None
        }
        SourceConnector::File(file) if file.path.contains(['*', '?', '[']) => {
            job.refuse(
                node,
                "path",
                "Flink reads a folder or a file, not a glob",
                &format!("name the folder, or {instead} {node}=HOST:PORT/TOPIC"),
            );
            None
        }
        SourceConnector::File(file) => {
            let why = format!(
                "Flink has one watermark over all files of a source: what it reads of a second file is late by the first. Better {instead} {node}=HOST:PORT/TOPIC"
            );
            let lost = "one watermark over all files. Only a single file has the same late rows";
            if source.event_time.is_some() && !job.give_up(node, "path", &why, lost) {
                return None;
            }
            job.note(node, "path", "records of late rows have no line number here: their _offset is -1");
            Some(Log::Files(super::place::absolute(job, &file.path)))
        }
    }
}

fn table(job: &Job<'_>, node: &str, source: &Source, config: &SourceConfig, log: &Log, columns: &Columns) -> String {
    let mut lines = columns.raw.clone();
    let mut options = match log {
        Log::Kafka(kafka) => kafka::options(job, node, kafka, config, columns),
        Log::Files(path) => files(config, path),
    };
    job.note(node, "format", LENIENT);
    if let Some(from) = &source.event_time {
        let time = match from {
            EventTimeFrom::Column(column) => columns.values[*column].clone(),
            EventTimeFrom::Log => name(&columns.timestamp),
        };
        lines.push(format!("{} AS CAST({time} AS TIMESTAMP(3))", name(TIME)));
        lines.push(format!("WATERMARK FOR {time} AS {}", watermark(job, node, source, columns), time = name(TIME)));
        if matches!(log, Log::Kafka(_)) {
            options.extend(kafka::watermark_options(node, config));
        }
    }
    format!(
        "CREATE TEMPORARY TABLE {} (\n  {}\n) {}",
        name(&format!("{node}.log")),
        lines.join(",\n  "),
        with(&options)
    )
}

/// One millisecond less than floodmark's. Flink fires a session one millisecond before its end, so with this one it fires at it, as ours does; the late
/// predicate adds the millisecond again.
fn watermark(job: &Job<'_>, node: &str, source: &Source, columns: &Columns) -> String {
    let bound = if source.bound.0 == 0 { String::new() } else { format!(" - {}", interval(source.bound.0)) };
    let own = format!("{}{bound} - {}", name(TIME), interval(1));
    match columns.too_far_ahead(source) {
        Some(ahead) => {
            job.note(
                node,
                "max_future",
                "a record beyond it moves no watermark, and counts as one that can't be decoded (on_error)",
            );
            format!("CASE WHEN {ahead} THEN CAST(NULL AS TIMESTAMP(3)) ELSE {own} END")
        }
        None => own,
    }
}

fn files(config: &SourceConfig, path: &str) -> Vec<(String, String)> {
    let mut options = vec![option("connector", "filesystem"), option("path", path), option("format", "json")];
    if config.end == End::Never {
        options.push(option("source.monitor-interval", &format!("{} ms", config.discovery_interval.as_millis())));
    }
    options
}

pub fn option(key: &str, value: &str) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

fn view(node: &str, source: &Source, columns: &Columns, lenient: bool) -> String {
    let mut select: Vec<String> =
        columns.names.iter().zip(&columns.values).map(|(column, value)| aliased(value, column)).collect();
    select.extend(columns.place.iter().zip(PLACE).map(|(value, column)| aliased(value, column)));
    if source.event_time.is_some() {
        select.push(name(TIME));
    }
    let mut faults = columns.faults.clone();
    if let Some(ahead) = columns.too_far_ahead(source) {
        faults.push((ahead, "event time too far ahead of the log timestamp".to_owned()));
    }
    let checked = match (faults.is_empty(), lenient) {
        (true, _) => String::new(),
        (false, true) => {
            let all: Vec<_> = faults.iter().map(|(fault, _)| format!("NOT ({fault})")).collect();
            format!("\nWHERE {}", all.join("\n  AND "))
        }
        (false, false) => {
            // A text that isn't a truth value stops the job, and stands in its message.
            let stop = |(fault, why): &(String, String)| {
                format!(
                    "  WHEN {fault} THEN CAST({} || {} AS BOOLEAN)\n",
                    text(&format!("{why}: ")),
                    columns.where_it_is
                )
            };
            format!("\nWHERE CASE\n{}  ELSE TRUE END", faults.iter().map(stop).collect::<String>())
        }
    };
    format!(
        "CREATE TEMPORARY VIEW {} AS\nSELECT\n  {}\nFROM {}{checked}",
        name(node),
        select.join(",\n  "),
        name(&format!("{node}.log"))
    )
}

fn aliased(value: &str, column: &str) -> String {
    let column = name(column);
    if value == column { column } else { format!("{value} AS {column}") }
}

pub fn notes_of_start(job: &Job<'_>, node: &str, start: &Start) {
    job.note(node, "start", RETENTION);
    if *start == Start::Latest {
        job.note(
            node,
            "start",
            "of a partition without records at the first start, Flink keeps no offset before its first checkpoint",
        );
    }
}
