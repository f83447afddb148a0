//! `[source.NAME]`.
//!
//! Doesn't know: who reads the source. Keeps: a setting that can't be in force for this kind of log is refused, not ignored. Tested: config/tests.
use std::collections::BTreeMap;
use std::time::Duration;

use floodmark_pipeline::plan::{EventTimeFrom, OnError, Source};
use floodmark_pipeline::schema::{FieldType, Schema};
use floodmark_pipeline::time::Span;

use super::diagnostic::{Diagnostic, did_you_mean};
use super::error_id::ErrorId;
use super::kafka_properties;
use super::keys::{EVENT_TIME, FILE_SOURCE, GENERATOR, KAFKA, WATERMARK};
use super::model::{End, FileConfig, GeneratorConfig, JsonFormat, KafkaConfig, SourceConfig, SourceConnector};
use super::position;
use super::schema;
use super::sink::bad_address;
use super::table::{At, Table};

/// A source as read. Where something is wrong, a stand-in is in its place that is never used: the file is refused.
pub struct SourceDraft {
    /// `None` where the schema is at fault.
    pub schema: Option<Schema>,
    pub node: Source,
    pub config: SourceConfig,
    pub bound_given: bool,
    pub has_event_time: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum LogKind {
    Kafka,
    File,
    Generator,
}

pub fn read(table: &mut Table<'_>) -> SourceDraft {
    let kind = table.choice("type").and_then(|t| match t.value.as_str() {
        "kafka" => Some(LogKind::Kafka),
        "file" => Some(LogKind::File),
        "generator" => Some(LogKind::Generator),
        _ => None,
    });
    let groups = [&KAFKA, &FILE_SOURCE, &GENERATOR];
    match kind {
        Some(LogKind::Kafka) => table.allow(&KAFKA),
        Some(LogKind::File) => table.allow(&FILE_SOURCE),
        Some(LogKind::Generator) => table.allow(&GENERATOR),
        None => groups.into_iter().for_each(|g| table.allow(g)),
    }
    if kind.is_some_and(|k| k != LogKind::Generator) {
        table.refuse_unknown(&groups);
    }
    table.choice("format");
    let connector = connector(table, kind);
    let columns = table
        .table("schema", format!("[{}.schema]", table.name.trim_matches(['[', ']'])), &schema::FREE)
        .and_then(|t| schema::read(&t, kind == Some(LogKind::File)));
    let times = event_time(table, kind, columns.as_ref().map(|(schema, _)| schema));
    let start = position::start(table, kind);
    let end = position::end(table, kind);
    let topics = match &connector {
        SourceConnector::Kafka(kafka) => kafka.topics.as_slice(),
        _ => &[],
    };
    position::check_topics(table, topics, &start, &end);
    if end != End::Never {
        refuse_what_needs_no_end(table);
    }
    let word = |key: &str, word: &str| table.choice(key).is_some_and(|c| c.value == word);
    let (schema, origins) = columns.unzip();
    SourceDraft {
        node: Source {
            event_time: times.from,
            bound: times.bound.unwrap_or_default(),
            max_future: times.max_future,
            late_by_event: word("lateness", "event"),
            on_error: if word("on_error", "fail") { OnError::Fail } else { OnError::Output },
        },
        config: SourceConfig {
            connector,
            format: JsonFormat {
                schema: schema.clone().unwrap_or_default(),
                origins: origins.unwrap_or_default(),
                unknown_fields_are_errors: word("unknown_fields", "error"),
            },
            start,
            end,
            idle: times.idle,
            align_ms: times.align.map(|d| d.as_millis() as i64),
            discovery_interval: table.duration("discovery_interval").map_or(Duration::MAX, |d| d.value),
        },
        schema,
        bound_given: times.bound.is_some(),
        has_event_time: table.has("event_time"),
    }
}

/// A log that is read to fixed ends is looked at once, at the start.
fn refuse_what_needs_no_end(table: &Table<'_>) {
    if table.has("discovery_interval") {
        table.no_effect(
            "discovery_interval",
            "this log is read to fixed ends: what it has is listed once, at the start",
        );
    }
    let watermark = table.has("watermark").then(|| table.table("watermark", watermark_title(table), &WATERMARK));
    if let Some(watermark) = watermark.flatten().filter(|w| w.has("idle")) {
        watermark.no_effect("idle", "this log is read to fixed ends: a partition that has nothing more has ended");
    }
}

fn watermark_title(table: &Table<'_>) -> String {
    format!("[{}.watermark]", table.name.trim_matches(['[', ']']))
}

fn connector(table: &Table<'_>, kind: Option<LogKind>) -> SourceConnector {
    match kind {
        Some(LogKind::File) => {
            let path = table.text("path");
            if let Some(empty) = path.as_ref().filter(|path| path.value.is_empty()) {
                bad_address(
                    table,
                    "path",
                    empty,
                    "",
                    "a file, a folder with all files below it, or a pattern: \"data/*.ndjson\"",
                );
            }
            SourceConnector::File(FileConfig { path: path.map(|p| p.value).unwrap_or_default() })
        }
        Some(LogKind::Generator) => SourceConnector::Generator(generator(table)),
        Some(LogKind::Kafka) => SourceConnector::Kafka(kafka(table)),
        None => SourceConnector::File(FileConfig { path: String::new() }),
    }
}

fn kafka(table: &Table<'_>) -> KafkaConfig {
    let mut topics: Vec<String> = vec![];
    for topic in table.texts("topic") {
        if topics.contains(&topic.value) {
            table.cx.problems.add(
                Diagnostic::new(ErrorId::DUPLICATE_NAME, format!("topic `{}` is listed twice", topic.value))
                    .at(topic.span, "remove it"),
            );
            continue;
        }
        topics.push(topic.value);
    }
    KafkaConfig {
        brokers: table.text("brokers").map(|b| b.value).unwrap_or_default(),
        topics,
        properties: kafka_properties::read(table),
    }
}

fn generator(table: &Table<'_>) -> GeneratorConfig {
    let dials = table.entries().into_iter().filter(|(k, _)| table.key(k.value).is_none());
    let options = dials.filter_map(|(k, v)| Some((k.value.to_owned(), table.scalar(&v)?.value)));
    GeneratorConfig {
        workload: table.text("workload").map(|w| w.value).unwrap_or_default(),
        options: options.collect::<BTreeMap<_, _>>(),
    }
}

#[derive(Default)]
struct Times {
    from: Option<EventTimeFrom>,
    bound: Option<Span>,
    idle: Option<Duration>,
    align: Option<Duration>,
    max_future: Option<Span>,
}

fn event_time(table: &Table<'_>, kind: Option<LogKind>, schema: Option<&Schema>) -> Times {
    let title = |key: &str| format!("[{}.{key}]", table.name.trim_matches(['[', ']']));
    let mut times = Times::default();
    if table.has("event_time") {
        times.from =
            table.table("event_time", title("event_time"), &EVENT_TIME).and_then(|t| event_time_from(&t, kind, schema));
    } else {
        if table.has("watermark") {
            table.no_effect("watermark", "without `event_time` there is nothing to make a watermark of");
        }
        return times;
    }
    let by_log = times.from == Some(EventTimeFrom::Log);
    let has_lead = kind != Some(LogKind::File) && !by_log;
    times.max_future = has_lead.then_some(Span(3_600_000));
    let Some(watermark) =
        table.has("watermark").then(|| table.table("watermark", title("watermark"), &WATERMARK)).flatten()
    else {
        return times;
    };
    watermark.refuse_unknown(&[]);
    let span = |d: At<Duration>| Span(d.value.as_millis() as i64);
    times.bound = watermark.duration("bound").map(span);
    times.idle = watermark.duration("idle").map(|d| d.value);
    times.align = watermark.duration("align").map(|d| d.value);
    if watermark.has("max_future") {
        let asked = watermark.duration("max_future").map(span);
        match (kind, by_log) {
            (Some(LogKind::File), _) => {
                watermark.no_effect("max_future", "files keep no log timestamp to compare with")
            }
            (_, true) => {
                watermark.no_effect("max_future", "the event time is the log timestamp: it is never ahead of it")
            }
            _ => times.max_future = asked,
        }
    }
    times
}

fn event_time_from(table: &Table<'_>, kind: Option<LogKind>, schema: Option<&Schema>) -> Option<EventTimeFrom> {
    table.refuse_unknown(&[]);
    let log = table.choice("from");
    let Some(field) = table.text("field") else {
        match (log, kind) {
            (Some(from), Some(LogKind::File)) => {
                table.cx.problems.add(
                    Diagnostic::new(ErrorId::EVENT_TIME_COLUMN, "files keep no log timestamp")
                        .at(from.span, "")
                        .note("name a column: event_time = { field = \"…\" }"),
                );
            }
            (Some(_), _) => return Some(EventTimeFrom::Log),
            (None, _) if !table.has("from") && !table.has("field") => table.missing("field"),
            (None, _) => {}
        }
        return None;
    };
    if table.has("from") {
        table.cx.problems.add(
            Diagnostic::new(ErrorId::EXCLUSIVE_KEYS, "`field` and `from` exclude each other")
                .at(table.span_of("from"), "the log's timestamp")
                .related(table.span_of("field"), "a column"),
        );
        return None;
    }
    let schema = schema?;
    let Some(index) = schema.index_of(&field.value) else {
        let names: Vec<&str> = schema.fields.iter().map(|f| f.name.as_str()).collect();
        table.cx.problems.add(
            Diagnostic::new(ErrorId::UNKNOWN_COLUMN, format!("no column `{}` in the schema", field.value))
                .at(field.span, did_you_mean(&field.value, names.iter().copied()))
                .note(format!("columns: {}", names.join(", "))),
        );
        return None;
    };
    let column = &schema.fields[index];
    if column.nullable || !matches!(column.ty, FieldType::Timestamp { utc: true, .. }) {
        let null = if column.nullable { "?" } else { "" };
        table.cx.problems.add(
            Diagnostic::new(ErrorId::EVENT_TIME_COLUMN, format!("`{}` can't be the event time", field.value))
                .at(field.span, format!("it is {}{null}", column.ty))
                .note("allowed: timestamp_ms and timestamp_us, without `?`; a record without it then goes to the errors output"),
        );
        return None;
    }
    Some(EventTimeFrom::Column(index))
}
