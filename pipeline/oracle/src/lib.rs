//! What is right: a pipeline file and a whole log in, every row of every output out.
//!
//! Batch, sorted, exact, slow. It follows the rules at the head of rules.rs, and shares no code with the engine.
//! Doesn't know: state, checkpoints, workers, time of day. Keeps: the order of partitions and of equal event times changes no output but which copy of an
//! id survives where copies lie in several partitions. Tested: tests/.
mod file;
mod rules;
mod value;

use std::collections::BTreeMap;

use file::{Section, sections};

/// One record of a log. Files have no timestamp, key or headers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    pub source: String,
    pub topic: String,
    pub partition: i32,
    pub offset: i64,
    pub timestamp_ms: Option<i64>,
    pub key: Option<Vec<u8>>,
    pub headers: Vec<(String, Vec<u8>)>,
    pub value: Option<Vec<u8>>,
}

/// A decision that an engine has recorded: from this offset on the partition's watermark isn't below this one, and what is late by it alone is so for `reason`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Floor {
    pub source: String,
    pub topic: String,
    pub partition: i32,
    pub from_offset: i64,
    pub watermark_ms: i64,
    pub reason: String,
}

/// By output (`clean`, `clean.late`): its rows as lines of JSON, sorted. Of `SOURCE.errors` only the place of each record.
pub type Outputs = BTreeMap<String, Vec<String>>;

/// Rows of every output once the log has been read to its end and all windows have fired.
///
/// # Errors
/// What in the file isn't understood, by its section and key.
pub fn expected(file: &str, log: &[Record], floors: &[Floor]) -> Result<Outputs, String> {
    let file: toml::Table = toml::from_str(file).map_err(|e| e.to_string())?;
    let mut outputs = rules::Streams::new();
    for (name, source) in sections(&file, "source") {
        rules::read(name, source, log, floors, &mut outputs)?;
    }
    // A node may stand before what it reads.
    let of_kind = |kind: &'static str| sections(&file, kind).into_iter().map(move |(name, node)| (kind, name, node));
    let mut waiting: Vec<_> = of_kind("dedup").chain(of_kind("window")).collect();
    while !waiting.is_empty() {
        let ready =
            |(_, _, node): &(_, _, Section<'_>)| node.names("from").iter().all(|input| outputs.contains_key(*input));
        let Some(next) = waiting.iter().position(ready) else {
            return Err(format!("{}: reads what no node gives", waiting[0].1));
        };
        let (kind, name, node) = waiting.remove(next);
        rules::run(kind, name, node, &mut outputs)?;
    }
    Ok(outputs.into_iter().map(|(name, stream)| (name, stream.lines())).collect())
}
