//! `start` and `end` of a source: words, a timestamp, or offsets.
//!
//! Doesn't know: logs. Keeps: what a kind of log can't answer is refused. Tested: config/tests.
use std::collections::BTreeMap;
use std::ops::Range;

use chrono::DateTime;
use toml::de::DeValue;

use super::diagnostic::{Diagnostic, did_you_mean};
use super::error_id::ErrorId;
use super::keys::{POSITION, later};
use super::model::{End, Start};
use super::source::LogKind;
use super::table::{At, Table, as_integer, in_file_order, not_yet};

type Offsets = BTreeMap<(String, i32), i64>;

enum Position {
    Word(String),
    TimestampMs(i64),
    Offsets(Offsets),
}

pub fn start(table: &Table<'_>, kind: Option<LogKind>) -> Start {
    let allowed: &[&str] = if kind == Some(LogKind::Kafka) { &["earliest", "latest"] } else { &["earliest"] };
    match read(table, "start", allowed, kind) {
        Some(Position::Word(word)) if word == "latest" => Start::Latest,
        Some(Position::TimestampMs(ms)) => Start::TimestampMs(ms),
        Some(Position::Offsets(offsets)) => Start::Offsets(offsets),
        _ => Start::Earliest,
    }
}

pub fn end(table: &Table<'_>, kind: Option<LogKind>) -> End {
    match read(table, "end", &["never", "latest"], kind) {
        Some(Position::Word(word)) if word == "never" => End::Never,
        Some(Position::Word(_)) => End::Latest,
        Some(Position::TimestampMs(ms)) => End::TimestampMs(ms),
        Some(Position::Offsets(offsets)) => End::Offsets(offsets),
        None if kind == Some(LogKind::Kafka) => End::Never,
        None => End::Latest,
    }
}

fn read(table: &Table<'_>, key: &str, words: &[&str], kind: Option<LogKind>) -> Option<Position> {
    if !table.has(key) {
        return None;
    }
    let found = table.raw(key)?;
    let add = |diagnostic| {
        table.cx.problems.add(diagnostic);
        None
    };
    match found.value {
        DeValue::String(text) if words.contains(&text.as_ref()) => Some(Position::Word(text.to_string())),
        DeValue::String(text) => match later(key, text) {
            Some(id) => add(not_yet(id, format!("{key} = {}", table.cx.written(&found.span)), found.span)
                .note(format!("in this version: {}, a timestamp or offsets", words.join(", ")))),
            None => add(Diagnostic::new(
                ErrorId::NOT_ALLOWED,
                format!("`{key}` can't be {}", table.cx.written(&found.span)),
            )
            .at(found.span, did_you_mean(text, words.iter().copied()))
            .note(format!("allowed: {}", words.join(", ")))),
        },
        DeValue::Table(_) if kind.is_some_and(|k| k != LogKind::Kafka) => add(Diagnostic::new(
            ErrorId::BAD_POSITION,
            format!("`{key}` of such a source can't be a timestamp or an offset"),
        )
        .at(found.span, "")
        .note(format!("allowed: {}", words.join(", ")))),
        DeValue::Table(_) => {
            let title = format!("`{key}` of {}", table.name);
            let inner = table.table(key, title, &POSITION)?;
            inner.refuse_unknown(&[]);
            position(&inner)
        }
        _ => {
            table.key(key).into_iter().for_each(|k| table.wrong_type(&found, k));
            None
        }
    }
}

fn position(table: &Table<'_>) -> Option<Position> {
    match (table.raw("timestamp"), table.raw("offsets")) {
        (Some(timestamp), None) => timestamp_ms(table, &timestamp).map(Position::TimestampMs),
        (None, Some(found)) => offsets(table, &found).map(Position::Offsets),
        (Some(timestamp), Some(offsets)) => {
            table.cx.problems.add(
                Diagnostic::new(ErrorId::EXCLUSIVE_KEYS, "`timestamp` and `offsets` exclude each other")
                    .at(timestamp.span, "")
                    .related(offsets.span, ""),
            );
            None
        }
        (None, None) => {
            table.missing("timestamp");
            None
        }
    }
}

/// A TOML date-time with its zone, the same as a string, or milliseconds.
fn timestamp_ms(table: &Table<'_>, found: &At<&DeValue<'_>>) -> Option<i64> {
    let ms = match found.value {
        DeValue::Integer(_) => as_integer(found.value),
        DeValue::Datetime(time) => iso(&time.to_string()),
        DeValue::String(text) => iso(text),
        _ => None,
    };
    if ms.is_none() {
        table.cx.problems.add(
            Diagnostic::new(ErrorId::BAD_POSITION, "`timestamp` is not a time")
                .at(found.span.clone(), "")
                .note("allowed: 2026-01-01T00:00:00Z (the zone is needed), or milliseconds since 1970"),
        );
    }
    ms
}

fn iso(text: &str) -> Option<i64> {
    DateTime::parse_from_rfc3339(text).ok().map(|t| t.timestamp_millis())
}

fn offsets(table: &Table<'_>, found: &At<&DeValue<'_>>) -> Option<Offsets> {
    let mut offsets = Offsets::new();
    for (topic, partitions) in in_file_order(found.value.as_table().or_else(|| bad_offset(table, &found.span))?) {
        let partitions = partitions.value.as_table().or_else(|| bad_offset(table, &partitions.span))?;
        for (partition, offset) in in_file_order(partitions) {
            let number = partition.value.parse::<i32>().ok().filter(|p| *p >= 0);
            match (number, as_integer(offset.value).filter(|o| *o >= 0)) {
                (Some(p), Some(o)) => {
                    offsets.insert((topic.value.to_owned(), p), o);
                }
                _ => return bad_offset(table, &(partition.span.start..offset.span.end)),
            }
        }
    }
    Some(offsets)
}

fn bad_offset<T>(table: &Table<'_>, span: &Range<usize>) -> Option<T> {
    table.cx.problems.add(
        Diagnostic::new(ErrorId::BAD_POSITION, "`offsets` is topic, partition and offset")
            .at(span.clone(), "")
            .note("for example: offsets = { \"events\" = { 0 = 17, 1 = 4 } }"),
    );
    None
}

/// Offsets of a topic that the source doesn't read are a slip.
pub fn check_topics(table: &Table<'_>, topics: &[String], start: &Start, end: &End) {
    let named = |offsets: &Offsets| offsets.keys().map(|(topic, _)| topic.clone()).find(|t| !topics.contains(t));
    let starts = if let Start::Offsets(offsets) = start { named(offsets) } else { None };
    let ends = if let End::Offsets(offsets) = end { named(offsets) } else { None };
    for (key, topic) in [("start", starts), ("end", ends)] {
        let Some(topic) = topic else { continue };
        table.cx.problems.add(
            Diagnostic::new(
                ErrorId::BAD_POSITION,
                format!("`{key}` has offsets of `{topic}`, which {} doesn't read", table.name),
            )
            .at(table.span_of(key), did_you_mean(&topic, topics.iter().map(String::as_str)))
            .note(format!("topics: {}", topics.join(", "))),
        );
    }
}
