//! The digest that the `orders` drills publish: sha256 over the canonical JSON of all rows.
//!
//! Rows in numeric order of `order_id`; each an object of eight values, all of them strings; keys sorted; no spaces; ASCII escapes as
//! Python's json.dumps writes them; `updated_at` as `YYYY-MM-DD HH:MM:SS.mmm`.
//! Doesn't know: where rows come from. Holds all rows at once, since it sorts them. Tested: digest/orders/tests.rs (published values).
use std::fmt::Write;

use arrow::compute::{CastOptions, cast_with_options};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMillisecondType};
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use sha2::{Digest, Sha256};

/// The columns that count, in the order of their names; others are left out.
pub const COLUMNS: [&str; 8] =
    ["amount_cents", "business_key", "customer_id", "event_id", "order_id", "seed", "status", "updated_at"];

#[derive(Debug, thiserror::Error)]
pub enum OrdersError {
    #[error("not a table of orders: it lacks column `{0}`")]
    Missing(&'static str),
    #[error("column `{column}` can't be written as the orders digest wants it: {source}")]
    Value { column: &'static str, source: ArrowError },
    #[error("column `{0}` holds a null; the orders digest has no way to write one")]
    Null(&'static str),
}

#[derive(Default)]
pub struct OrdersDigest {
    rows: Vec<(i64, String)>,
}

impl OrdersDigest {
    pub fn add(&mut self, batch: &RecordBatch) -> Result<(), OrdersError> {
        let column = |name| batch.column_by_name(name).ok_or(OrdersError::Missing(name));
        let mut columns = Vec::with_capacity(COLUMNS.len());
        for name in COLUMNS {
            columns.push((name, text(name, column(name)?)?));
        }
        let ids = converted("order_id", column("order_id")?, &DataType::Int64)?;
        let ids = ids.as_primitive::<Int64Type>();
        for row in 0..batch.num_rows() {
            let mut json = String::with_capacity(200);
            for (name, values) in &columns {
                json.push(if json.is_empty() { '{' } else { ',' });
                push_string(&mut json, name);
                json.push(':');
                push_string(&mut json, values.value(row));
            }
            json.push('}');
            self.rows.push((ids.value(row), json));
        }
        Ok(())
    }

    pub fn rows(&self) -> u64 {
        self.rows.len() as u64
    }

    /// Hexadecimal sha256.
    pub fn finish(mut self) -> String {
        self.rows.sort_unstable();
        let mut hash = Sha256::new();
        hash.update("[");
        for (index, (_, json)) in self.rows.iter().enumerate() {
            if index > 0 {
                hash.update(",");
            }
            hash.update(json);
        }
        hash.update("]");
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn text(name: &'static str, array: &ArrayRef) -> Result<StringArray, OrdersError> {
    if array.null_count() > 0 {
        return Err(OrdersError::Null(name));
    }
    if name != "updated_at" || !matches!(array.data_type(), DataType::Timestamp(_, _)) {
        return Ok(converted(name, array, &DataType::Utf8)?.as_string::<i32>().clone());
    }
    let millis = converted(name, array, &DataType::Timestamp(TimeUnit::Millisecond, None))?;
    let millis = millis.as_primitive::<TimestampMillisecondType>();
    let texts = millis.values().iter().map(|value| {
        let time = chrono::DateTime::from_timestamp_millis(*value);
        time.map(|time| time.format("%Y-%m-%d %H:%M:%S%.3f").to_string())
            .ok_or_else(|| ArrowError::ComputeError(format!("{value} ms is beyond the calendar")))
    });
    let texts = texts.collect::<Result<Vec<_>, _>>().map_err(|source| OrdersError::Value { column: name, source })?;
    Ok(StringArray::from(texts))
}

fn converted(column: &'static str, array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, OrdersError> {
    let refuse_loss = CastOptions { safe: false, ..Default::default() };
    cast_with_options(array, data_type, &refuse_loss).map_err(|source| OrdersError::Value { column, source })
}

/// A JSON string as Python writes it: everything outside ASCII as UTF-16 escapes.
fn push_string(json: &mut String, value: &str) {
    json.push('"');
    for unit in value.encode_utf16() {
        match u8::try_from(unit).map(char::from) {
            Ok('"') => json.push_str("\\\""),
            Ok('\\') => json.push_str("\\\\"),
            Ok('\n') => json.push_str("\\n"),
            Ok('\r') => json.push_str("\\r"),
            Ok('\t') => json.push_str("\\t"),
            Ok('\u{8}') => json.push_str("\\b"),
            Ok('\u{c}') => json.push_str("\\f"),
            Ok(plain @ ' '..='\u{7f}') => json.push(plain),
            // Writing to a string doesn't fail.
            _ => drop(write!(json, "\\u{unit:04x}")),
        }
    }
    json.push('"');
}

#[cfg(test)]
mod tests;
