//! `[source.NAME.schema]`: columns, their types, and where each comes from.
//!
//! Doesn't know: formats. Keeps: no column has a name that the engine or Iceberg uses itself. Tested: config/tests.
use std::ops::Range;

use floodmark_pipeline::schema::{Field, FieldType, Schema};
use toml::de::DeValue;

use super::diagnostic::{Diagnostic, did_you_mean};
use super::error_id::ErrorId;
use super::keys::{FIELD, Group};
use super::model::Origin;
use super::table::{At, Table};
use super::value::field_type;

pub const TYPES: [&str; 11] = [
    "bool",
    "int32",
    "int64",
    "float64",
    "decimal(p,s)",
    "string",
    "binary",
    "date",
    "timestamp_ms",
    "timestamp_us",
    "timestamp_ms_ntz",
];

/// A group without keys: the names in a schema are the user's.
pub const FREE: Group = Group { title: "", text: "", keys: &[] };

const METADATA: [&str; 6] =
    ["kafka.topic", "kafka.partition", "kafka.offset", "kafka.timestamp", "kafka.key", "kafka.header.NAME"];

/// Columns in the order of the file, or `None` when something is wrong with one of them.
pub fn read(table: &Table<'_>, is_file: bool) -> Option<(Schema, Vec<Origin>)> {
    let mut columns: Vec<(Field, Origin)> = vec![];
    let mut whole = true;
    for (key, value) in table.entries() {
        let name_is_free = check_name(table, &key, &columns);
        match column(table, &key, &value, is_file) {
            Some(column) if name_is_free => columns.push(column),
            _ => whole = false,
        }
    }
    if columns.is_empty() && whole {
        let diagnostic = Diagnostic::new(ErrorId::MISSING_KEY, format!("{} has no column", table.name));
        table.cx.problems.add(diagnostic.at(table.span.clone(), "").note("for example: event_id = \"string\""));
        return None;
    }
    let (fields, origins) = columns.into_iter().unzip();
    whole.then(|| (Schema::new(fields), origins))
}

fn check_name(table: &Table<'_>, key: &At<&str>, before: &[(Field, Origin)]) -> bool {
    let name = key.value;
    let problem = if is_reserved(name) {
        Diagnostic::new(ErrorId::RESERVED_COLUMN, format!("`{name}` is a reserved column name"))
            .at(key.span.clone(), "")
            .note("names with a leading `_` are the engine's, `pos` and `file_path` are Iceberg's")
            .note(format!("another name for it: renamed = {{ path = \"{name}\", type = … }}"))
    } else if let Some((other, _)) = before.iter().find(|(f, _)| f.name.eq_ignore_ascii_case(name)) {
        Diagnostic::new(ErrorId::DUPLICATE_COLUMN, format!("`{name}` and `{}` differ only by case", other.name))
            .at(key.span.clone(), "")
            .note("Trino, Spark and DuckDB can't tell such columns apart")
    } else {
        return true;
    };
    table.cx.problems.add(problem);
    false
}

pub fn is_reserved(name: &str) -> bool {
    name.is_empty() || name.starts_with('_') || name == "pos" || name == "file_path"
}

fn column(table: &Table<'_>, key: &At<&str>, value: &At<&DeValue<'_>>, is_file: bool) -> Option<(Field, Origin)> {
    let name = key.value;
    match value.value {
        DeValue::String(text) => {
            let (ty, nullable) = parse_type(table, text, &value.span)?;
            Some((Field { name: name.into(), ty, nullable }, Origin::Path(vec![name.into()])))
        }
        DeValue::Table(inner) => {
            let title = format!("`{name}` of {}", table.name);
            let long = Table::new(table.cx, title, key.span.clone(), inner, &FIELD);
            long.refuse_unknown(&[]);
            long_form(&long, name, is_file)
        }
        other => {
            table.cx.problems.add(
                Diagnostic::new(ErrorId::WRONG_TYPE, format!("the type of `{name}` must be a string or a table"))
                    .at(value.span.clone(), format!("this is of type {}", other.type_str()))
                    .note(format!("for example: {name} = \"int64?\"")),
            );
            None
        }
    }
}

fn parse_type(table: &Table<'_>, text: &str, span: &Range<usize>) -> Option<(FieldType, bool)> {
    let parsed = field_type(text);
    if parsed.is_none() {
        let bare = text.trim_end_matches('?');
        let label = match bare {
            "int" | "integer" | "bigint" | "long" => "did you mean `int64`?".to_owned(),
            "double" | "float" => "did you mean `float64`?".to_owned(),
            "boolean" => "did you mean `bool`?".to_owned(),
            "timestamp" => "did you mean `timestamp_ms` or `timestamp_us`?".to_owned(),
            "varchar" | "text" | "str" => "did you mean `string`?".to_owned(),
            _ => did_you_mean(bare, TYPES),
        };
        table.cx.problems.add(
            Diagnostic::new(ErrorId::NOT_A_TYPE, format!("{} is not a type", table.cx.written(span)))
                .at(span.clone(), label)
                .note("types: bool, int32, int64, float64, decimal(p,s) with s ≤ p ≤ 38, string, binary, date,")
                .note("timestamp_ms, timestamp_us, timestamp_ms_ntz, timestamp_us_ntz; with `?` where it may be null"),
        );
    }
    parsed
}

fn long_form(long: &Table<'_>, name: &str, is_file: bool) -> Option<(Field, Origin)> {
    let given = match long.text("type") {
        Some(text) => Some(parse_type(long, &text.value, &text.span)?),
        None => None,
    };
    let Some(from) = long.text("from") else {
        let Some((ty, nullable)) = given else {
            if !long.has("type") {
                long.missing("type");
            }
            return None;
        };
        return Some((Field { name: name.into(), ty, nullable }, Origin::Path(path(long, name)?)));
    };
    if long.has("path") {
        long.cx.problems.add(
            Diagnostic::new(ErrorId::EXCLUSIVE_KEYS, "`path` and `from` exclude each other")
                .at(long.span_of("path"), "place in the document")
                .related(long.span_of("from"), "metadata"),
        );
        return None;
    }
    metadata(long, name, &from, given, is_file)
}

/// Keys of the document down to the field. A string is cut at its dots, a list is taken as it is.
fn path(long: &Table<'_>, name: &str) -> Option<Vec<String>> {
    let Some(found) = long.raw("path") else { return Some(vec![name.to_owned()]) };
    let parts = long.texts("path");
    let parts: Vec<String> = match found.value.as_str() {
        Some(_) => parts.first()?.value.split('.').map(str::to_owned).collect(),
        None => parts.into_iter().map(|p| p.value).collect(),
    };
    if parts.is_empty() || parts.iter().any(String::is_empty) {
        long.cx.problems.add(
            Diagnostic::new(ErrorId::NOT_ALLOWED, "`path` has an empty part")
                .at(found.span, "")
                .note("for example: path = \"user.id\", or path = [\"user\", \"home.city\"]"),
        );
        return None;
    }
    Some(parts)
}

fn metadata(
    long: &Table<'_>,
    name: &str,
    from: &At<String>,
    given: Option<(FieldType, bool)>,
    is_file: bool,
) -> Option<(Field, Origin)> {
    let refuse = |message: String, label: String| {
        let allowed = if is_file { &METADATA[..3] } else { &METADATA[..] };
        let diagnostic = Diagnostic::new(ErrorId::METADATA, message).at(from.span.clone(), label);
        long.cx.problems.add(diagnostic.note(format!("allowed here: {}", allowed.join(", "))));
    };
    let text_or_bytes: &[FieldType] = &[FieldType::String, FieldType::Binary];
    let (origin, types, may_be_null) = match from.value.as_str() {
        "kafka.topic" => (Origin::Topic, &[FieldType::String][..], false),
        "kafka.partition" => (Origin::Partition, &[FieldType::Int32][..], false),
        "kafka.offset" => (Origin::Offset, &[FieldType::Int64][..], false),
        "kafka.timestamp" => (Origin::Timestamp, &[FieldType::TIMESTAMP_MS][..], true),
        "kafka.key" => (Origin::Key, text_or_bytes, true),
        other => match other.strip_prefix("kafka.header.").filter(|h| !h.is_empty()) {
            Some(header) => (Origin::Header(header.to_owned()), text_or_bytes, true),
            None => {
                refuse(format!("unknown metadata {}", long.cx.written(&from.span)), did_you_mean(other, METADATA));
                return None;
            }
        },
    };
    if is_file && !matches!(origin, Origin::Topic | Origin::Partition | Origin::Offset) {
        refuse(format!("files have no {}", long.cx.written(&from.span)), String::new());
        return None;
    }
    let (ty, nullable) = match (given, types) {
        (Some(given), _) => given,
        (None, [only]) => (*only, false),
        (None, _) => {
            long.missing("type");
            return None;
        }
    };
    if !types.contains(&ty) || (nullable && !may_be_null) {
        let spelled: Vec<String> = types.iter().map(FieldType::to_string).collect();
        let optional = if may_be_null { ", with `?` where it may be absent" } else { "; it is never null" };
        long.cx.problems.add(
            Diagnostic::new(ErrorId::METADATA, format!("`{}` doesn't have this type", from.value))
                .at(long.span_of("type"), "")
                .note(format!("allowed: {}{optional}", spelled.join(", "))),
        );
        return None;
    }
    Some((Field { name: name.into(), ty, nullable }, origin))
}
