//! From the bytes of records to columns.
//!
//! Doesn't know: event time, watermarks, partitions' meaning. Keeps: each record given is either in the rows or in the errors, never in both or neither.
pub mod columns;
pub mod decimal;
pub mod document;
pub mod errors;
pub mod json;
pub mod scan;
pub mod time;
pub mod value;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use floodmark_pipeline::ids::PartitionIndex;

use crate::source::RawBatch;

/// Records decoded so far, in the order they were given.
#[derive(Debug)]
pub struct Decoded {
    pub columns: RecordBatch,
    pub partition: Vec<u32>,
    pub offset: Vec<i64>,
    /// Log timestamps in milliseconds; `i64::MIN` where the log has none.
    pub timestamp_ms: Vec<i64>,
    /// Fields of these records that the schema doesn't have and that were skipped.
    pub unknown_fields: u64,
}

/// Why a record is no row: stable words, which users filter by.
pub mod reason {
    pub const TOMBSTONE: &str = "tombstone";
    pub const EMPTY: &str = "empty";
    pub const UTF8: &str = "utf8";
    pub const BAD_JSON: &str = "bad_json";
    pub const UNKNOWN_FIELD: &str = "unknown_field";
    pub const MISSING: &str = "missing";
    pub const NULL: &str = "null";
    pub const TYPE: &str = "type";
    pub const RANGE: &str = "range";
    pub const FUTURE: &str = "future";
}

/// A record that couldn't be decoded, with all that is needed to repair it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRecord {
    pub partition: PartitionIndex,
    pub offset: i64,
    pub timestamp_ms: Option<i64>,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    /// One of [`reason`].
    pub reason: &'static str,
    /// The field and what was found, for a person.
    pub detail: String,
}

/// How far a decoder got with a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// The record at `row` needs a schema that isn't here yet: only its partition waits.
    NeedsSchema {
        id: u32,
        row: usize,
    },
}

pub trait Decoder: Send {
    /// Appends the records of a batch to the rows or to `errors`.
    fn decode(&mut self, batch: &RawBatch<'_>, errors: &mut Vec<BadRecord>) -> Outcome;

    /// Number of rows appended since the last [`finish`](Self::finish).
    fn rows(&self) -> usize;

    /// Takes the rows appended so far. Fails only if their text is more than one Arrow array can hold (2 GiB).
    fn finish(&mut self) -> Result<Decoded, ArrowError>;
}
