//! Records in JSON, by the schema of the pipeline file.
//!
//! A record has one fate: a row, or one reason: the first of tombstone, empty, UTF-8, JSON, unknown field, then its fields in schema order.
//! It depends on the record alone. Metadata columns (topic, offset, key, …) are fields like the others.
//! Doesn't know: event time, and what a partition is beyond its name.
//! Keeps: a record that turns out bad leaves nothing behind in the columns.
//! Tested: decode/json/tests.rs; speed: benches/decode.rs.
use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use floodmark_pipeline::ids::PartitionName;
use floodmark_pipeline::schema::{FieldType, Schema};

use super::columns::Column;
use super::document::{Found, Paths, Refusal, Slot};
use super::value::Fault;
use super::{BadRecord, Decoded, Decoder, Outcome, reason};
use crate::config::model::{JsonFormat, Origin};
use crate::source::names::PartitionNames;
use crate::source::{RawBatch, RawRecord, SourceError};

pub struct JsonDecoder {
    schema: SchemaRef,
    fields: Vec<Field>,
    paths: Paths,
    unknown_fields_are_errors: bool,
    names: PartitionNames,
    columns: Vec<Column>,
    partition: Vec<u32>,
    offset: Vec<i64>,
    timestamp_ms: Vec<i64>,
    unknown_fields: u64,
}

struct Field {
    /// As an error names it: the path, where it isn't the name.
    label: String,
    ty: FieldType,
    nullable: bool,
    origin: Origin,
}

/// Why a record is bad.
struct Bad {
    reason: &'static str,
    detail: String,
}

impl JsonDecoder {
    pub fn new(format: &JsonFormat, names: PartitionNames) -> Result<Self, SourceError> {
        let mut paths = Paths::new(format.unknown_fields_are_errors);
        let mut fields = vec![];
        for (index, (field, origin)) in format.schema.fields.iter().zip(&format.origins).enumerate() {
            if let Origin::Path(path) = origin {
                paths.add(path, index);
            }
            check_origin(&field.name, field.ty, origin)?;
            fields.push(Field {
                label: label(&field.name, origin),
                ty: field.ty,
                nullable: field.nullable,
                origin: origin.clone(),
            });
        }
        Ok(Self {
            schema: format.schema.arrow(),
            columns: columns(&format.schema),
            fields,
            paths,
            unknown_fields_are_errors: format.unknown_fields_are_errors,
            names,
            partition: vec![],
            offset: vec![],
            timestamp_ms: vec![],
            unknown_fields: 0,
        })
    }

    /// Appends a record to the columns. After an error they may have unequal lengths.
    fn append<'a>(
        &mut self,
        record: &RawRecord<'a>,
        name: Option<&PartitionName>,
        found: &mut Found<'a>,
    ) -> Result<(), Bad> {
        let payload = record.payload.ok_or_else(|| bad(reason::TOMBSTONE, "the record has no value"))?;
        if payload.is_empty() {
            return Err(bad(reason::EMPTY, "the value has no bytes"));
        }
        let document = simdutf8::basic::from_utf8(payload).map_err(|_| not_utf8(payload))?;
        self.paths.find(document, found).map_err(|refusal| match refusal {
            Refusal::BadJson(what) => bad(reason::BAD_JSON, what),
            Refusal::NoObject => bad(reason::TYPE, format!("expected an object, found {}", excerpt(document))),
        })?;
        if let (true, Some(unknown)) = (self.unknown_fields_are_errors, &found.first_unknown) {
            return Err(bad(reason::UNKNOWN_FIELD, format!("`{}` is not in the schema", excerpt(unknown))));
        }
        for (index, (field, column)) in self.fields.iter().zip(&mut self.columns).enumerate() {
            match &field.origin {
                Origin::Path(_) => field.append_slot(found.slots.get(index), column)?,
                origin => field.append_metadata(origin, record, name, column)?,
            }
        }
        self.unknown_fields += found.unknown_fields;
        Ok(())
    }
}

impl Decoder for JsonDecoder {
    fn decode(&mut self, batch: &RawBatch<'_>, errors: &mut Vec<BadRecord>) -> Outcome {
        let name = self.names.get(batch.partition);
        let mut found = Found::default();
        for record in batch.records {
            if let Err(Bad { reason, detail }) = self.append(record, name.as_ref(), &mut found) {
                let rows = self.rows();
                self.columns.iter_mut().for_each(|column| column.truncate(rows));
                errors.push(BadRecord {
                    partition: batch.partition,
                    offset: record.offset,
                    timestamp_ms: record.timestamp_ms,
                    key: record.key.map(<[u8]>::to_vec),
                    value: record.payload.map(<[u8]>::to_vec),
                    reason,
                    detail,
                });
                continue;
            }
            self.partition.push(batch.partition.0);
            self.offset.push(record.offset);
            self.timestamp_ms.push(record.timestamp_ms.unwrap_or(i64::MIN));
        }
        Outcome::Done
    }

    fn rows(&self) -> usize {
        self.offset.len()
    }

    fn finish(&mut self) -> Result<Decoded, ArrowError> {
        let rows = self.rows();
        let arrays = self.columns.iter_mut().map(Column::finish).collect::<Result<Vec<_>, _>>()?;
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(Decoded {
            columns: RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)?,
            partition: std::mem::replace(&mut self.partition, Vec::with_capacity(rows)),
            offset: std::mem::replace(&mut self.offset, Vec::with_capacity(rows)),
            timestamp_ms: std::mem::replace(&mut self.timestamp_ms, Vec::with_capacity(rows)),
            unknown_fields: std::mem::take(&mut self.unknown_fields),
        })
    }
}

impl Field {
    fn append_slot(&self, slot: Option<&Slot<'_>>, column: &mut Column) -> Result<(), Bad> {
        let raw = match slot {
            None | Some(Slot::Missing) => return self.append_none(reason::MISSING, column),
            Some(Slot::Text("null")) => return self.append_none(reason::NULL, column),
            Some(Slot::NoObject(raw)) => {
                return Err(bad(reason::TYPE, format!("{}: expected an object, found {}", self.label, excerpt(raw))));
            }
            Some(Slot::Text(raw)) => raw,
        };
        column.push_json(raw).map_err(|fault| self.fault(fault, raw))
    }

    fn append_metadata(
        &self,
        origin: &Origin,
        record: &RawRecord<'_>,
        name: Option<&PartitionName>,
        column: &mut Column,
    ) -> Result<(), Bad> {
        let pushed = match origin {
            Origin::Path(_) => None,
            Origin::Topic => name.map(|name| column.push_bytes(name.topic.as_bytes())),
            Origin::Partition => name.map(|name| column.push_int(name.partition.into())),
            Origin::Offset => Some(column.push_int(record.offset)),
            Origin::Timestamp => record.timestamp_ms.map(|ms| column.push_time_ms(ms)),
            Origin::Key => record.key.map(|key| column.push_bytes(key)),
            // Of several headers with one name the last one counts, as in Kafka's own `lastHeader`.
            Origin::Header(wanted) => {
                let last = record.headers.iter().rev().find(|(name, _)| name == wanted);
                match last {
                    Some((_, None)) => return self.append_none(reason::NULL, column),
                    Some((_, Some(value))) => Some(column.push_bytes(value)),
                    None => None,
                }
            }
        };
        match pushed {
            Some(pushed) => pushed.map_err(|fault| self.fault(fault, "the record's own")),
            None => self.append_none(reason::MISSING, column),
        }
    }

    fn append_none(&self, reason: &'static str, column: &mut Column) -> Result<(), Bad> {
        if !self.nullable {
            let what = if reason == reason::NULL { "is null" } else { "is missing" };
            return Err(bad(reason, format!("{} {what}", self.label)));
        }
        column.push_null();
        Ok(())
    }

    #[cold]
    fn fault(&self, fault: Fault, raw: &str) -> Bad {
        let (label, ty, raw) = (&self.label, self.ty, excerpt(raw));
        match fault {
            Fault::Type => bad(reason::TYPE, format!("{label}: expected {ty}, found {raw}")),
            Fault::Range(why) => bad(reason::RANGE, format!("{label}: {raw} is not a {ty}: {why}")),
            Fault::Utf8 => bad(reason::UTF8, format!("{label}: {raw} is not Unicode")),
        }
    }
}

fn columns(schema: &Schema) -> Vec<Column> {
    schema.fields.iter().map(|field| Column::new(field.ty)).collect()
}

/// A metadata column has the type of what it holds.
fn check_origin(name: &str, ty: FieldType, origin: &Origin) -> Result<(), SourceError> {
    let (fits, wanted) = match origin {
        Origin::Path(path) => (!path.is_empty(), "a path"),
        Origin::Topic => (ty == FieldType::String, "string"),
        Origin::Partition => (matches!(ty, FieldType::Int32 | FieldType::Int64), "int32 or int64"),
        Origin::Offset => (ty == FieldType::Int64, "int64"),
        Origin::Timestamp => (matches!(ty, FieldType::Timestamp { utc: true, .. }), "timestamp_ms or timestamp_us"),
        Origin::Key | Origin::Header(_) => (matches!(ty, FieldType::String | FieldType::Binary), "string or binary"),
    };
    if fits {
        return Ok(());
    }
    Err(SourceError::Setting(format!("field `{name}` is {ty}, but what it is from needs {wanted}")))
}

fn label(name: &str, origin: &Origin) -> String {
    match origin {
        Origin::Path(path) if path.len() != 1 || path[0] != name => format!("{name} ({})", path.join(".")),
        _ => name.to_owned(),
    }
}

fn bad(reason: &'static str, detail: impl Into<String>) -> Bad {
    Bad { reason, detail: detail.into() }
}

fn not_utf8(payload: &[u8]) -> Bad {
    let valid = std::str::from_utf8(payload).map_or_else(|e| e.valid_up_to(), str::len);
    bad(reason::UTF8, format!("byte {valid} of the value is not UTF-8"))
}

/// Enough of a text to recognize it.
fn excerpt(text: &str) -> String {
    const CHARS: usize = 60;
    let mut shown: String = text.chars().take(CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests;
