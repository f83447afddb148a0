//! Every key of the pipeline file, in one table: the reader takes names, types, defaults and limits from it, docs/PIPELINE_FILE.md is printed from it.
//!
//! Doesn't know: what a key leads to. Keeps: what the reference says and what the reader does can't differ.
//! Tested: config/tests (the reference is up to date; each key's example changes the result).
mod operator;
mod pipeline;
mod sink;
mod source;

pub use operator::*;
pub use pipeline::*;
pub use sink::*;
pub use source::*;

use super::error_id::ErrorId;

/// What is written behind the `=`.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Text,
    /// One string, or a list of them.
    Texts,
    /// Least value in milliseconds.
    Duration(u64),
    /// Least value in bytes.
    Size(u64),
    /// Least and largest value.
    Integer(i64, i64),
    /// The allowed words.
    Choice(&'static [&'static str]),
    /// A table, or one of the other forms that `forms` names.
    Table {
        forms: &'static str,
    },
}

/// What holds when the key isn't there.
#[derive(Clone, Copy, Debug)]
pub enum Default {
    Required,
    /// Nothing: the feature is off.
    Absent,
    /// As if this text had been written.
    Value(&'static str),
    /// Follows from something else, as told here.
    Derived(&'static str),
}

#[derive(Clone, Copy, Debug)]
pub struct Key {
    pub name: &'static str,
    pub kind: Kind,
    pub default: Default,
    /// A value other than the default, as TOML.
    pub example: &'static str,
    pub text: &'static str,
}

/// A group of keys: those of one table of the file, or those that one `type` adds to it.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// How the table is written, and for what type.
    pub title: &'static str,
    pub text: &'static str,
    pub keys: &'static [Key],
}

const fn key(name: &'static str, kind: Kind, default: Default, example: &'static str, text: &'static str) -> Key {
    Key { name, kind, default, example, text }
}

const FROM: Key = key(
    "from",
    Kind::Texts,
    Default::Required,
    r#"["events", "more_events"]"#,
    "What it reads: a node, or one of its named outputs (`\"per_type.late\"`). Several must have one schema.",
);
const DISCARD: Key = key(
    "discard",
    Kind::Texts,
    Default::Absent,
    r#"["late"]"#,
    "Named outputs whose rows nobody wants: they are counted and go nowhere. An output that can carry rows is taken or discarded.",
);

/// In the order of the reference.
pub const GROUPS: &[Group] = &[
    PIPELINE,
    CHECKPOINT,
    S3,
    SOURCE,
    KAFKA,
    FILE_SOURCE,
    GENERATOR,
    FIELD,
    EVENT_TIME,
    WATERMARK,
    POSITION,
    DEDUP,
    WINDOW,
    TUMBLING,
    HOPPING,
    SESSION,
    SINK,
    ICEBERG,
    FILE_SINK,
    CATALOG,
    SQL_CATALOG,
    REST_CATALOG,
];

/// Sections whose nodes have names.
pub const SECTIONS: [&str; 5] = ["pipeline", "source", "dedup", "window", "sink"];

/// What a later version will have, refused by a name of its own: (place, word, id). The place is a key whose value is the word, or `section` or `key`.
pub const LATER: &[(&str, &str, ErrorId)] = &[
    ("section", "gate", ErrorId::LATER_GATE),
    ("section", "filter", ErrorId::LATER_GATE),
    ("key", "filter", ErrorId::LATER_GATE),
    ("key", "where", ErrorId::LATER_GATE),
    ("key", "allowed_lateness", ErrorId::LATER_ALLOWED_LATENESS),
    ("mode", "upsert", ErrorId::LATER_UPSERT),
    ("sink type", "kafka", ErrorId::LATER_SINK),
    ("sink type", "clickhouse", ErrorId::LATER_SINK),
    ("format", "avro", ErrorId::LATER_FORMAT),
    ("format", "protobuf", ErrorId::LATER_FORMAT),
    ("format", "debezium-json", ErrorId::LATER_FORMAT),
    ("format", "debezium-avro", ErrorId::LATER_FORMAT),
    ("source type", "mysql", ErrorId::LATER_SOURCE),
    ("start", "table", ErrorId::LATER_START),
    ("start", "committed", ErrorId::LATER_START),
];

pub fn later(place: &str, word: &str) -> Option<ErrorId> {
    LATER.iter().find(|(p, w, _)| *p == place && *w == word).map(|(_, _, id)| *id)
}
