//! A window's key as bytes, and back as columns.
//!
//! Keeps: the encoding is the one that the key's hash is computed over ([`encode_key`]), so equal bytes are equal keys.
use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, BooleanBuilder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch};

use crate::aggregate::column_of;
use crate::bytes::{Cursor, Damaged};
use crate::hash::encode_key;
use crate::schema::FieldType;

/// The key columns of a batch.
pub(super) struct KeyColumns<'a>(Vec<&'a ArrayRef>);

impl<'a> KeyColumns<'a> {
    pub(super) fn of(batch: &'a RecordBatch, columns: &[usize]) -> Self {
        Self(columns.iter().map(|i| batch.column(*i)).collect())
    }

    pub(super) fn encode(&self, row: usize) -> Box<[u8]> {
        let mut bytes = Vec::with_capacity(32);
        encode_key(&self.0, row, &mut bytes);
        bytes.into_boxed_slice()
    }
}

/// Builds one key column out of encoded keys. Takes its part off the front of each cursor.
pub(super) fn decode_column(ty: FieldType, keys: &mut [Cursor<'_>]) -> Result<ArrayRef, Damaged> {
    match ty {
        FieldType::String => {
            let mut column = StringBuilder::new();
            for key in keys {
                let value = optional(key, Cursor::bytes)?.map(std::str::from_utf8);
                column.append_option(value.transpose().map_err(|_| Damaged("a string isn't UTF-8"))?);
            }
            Ok(Arc::new(column.finish()))
        }
        FieldType::Binary => {
            let mut column = BinaryBuilder::new();
            for key in keys {
                column.append_option(optional(key, Cursor::bytes)?);
            }
            Ok(Arc::new(column.finish()))
        }
        FieldType::Bool => {
            let mut column = BooleanBuilder::new();
            for key in keys {
                column.append_option(optional(key, Cursor::u8)?.map(|v| v != 0));
            }
            Ok(Arc::new(column.finish()))
        }
        _ => {
            let mut numbers = Vec::with_capacity(keys.len());
            for key in keys {
                numbers.push(optional(key, |key| number(key, ty))?);
            }
            Ok(column_of_keys(ty, numbers))
        }
    }
}

/// The next value; `None` for a null.
fn optional<'a, T>(
    key: &mut Cursor<'a>,
    read: impl FnOnce(&mut Cursor<'a>) -> Result<T, Damaged>,
) -> Result<Option<T>, Damaged> {
    if key.u8()? == 0 { Ok(None) } else { read(key).map(Some) }
}

/// A number as wide as the encoding has it; of a float its bits.
fn number(key: &mut Cursor<'_>, ty: FieldType) -> Result<i128, Damaged> {
    Ok(match ty {
        FieldType::Date => i32::from_le_bytes(key.array()?).into(),
        FieldType::Decimal { .. } => i128::from_le_bytes(key.array()?),
        _ => key.i64()?.into(),
    })
}

fn column_of_keys(ty: FieldType, numbers: Vec<Option<i128>>) -> ArrayRef {
    if ty == FieldType::Float64 {
        let floats = numbers.into_iter().map(|v| v.map(|bits| f64::from_bits(bits as u64)));
        return Arc::new(arrow_array::Float64Array::from_iter(floats));
    }
    column_of(ty, numbers)
}
