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
                let value = value(key, ty)?.map(std::str::from_utf8);
                column.append_option(value.transpose().map_err(|_| Damaged("a string isn't UTF-8"))?);
            }
            Ok(Arc::new(column.finish()))
        }
        FieldType::Binary => {
            let mut column = BinaryBuilder::new();
            for key in keys {
                column.append_option(value(key, ty)?);
            }
            Ok(Arc::new(column.finish()))
        }
        FieldType::Bool => {
            let mut column = BooleanBuilder::new();
            for key in keys {
                column.append_option(value(key, ty)?.map(|v| v != [0]));
            }
            Ok(Arc::new(column.finish()))
        }
        _ => {
            let mut numbers = Vec::with_capacity(keys.len());
            for key in keys {
                numbers.push(value(key, ty)?.map(|bytes| sign_extended(bytes, ty)));
            }
            Ok(column_of_keys(ty, numbers))
        }
    }
}

/// The next value's bytes; `None` for a null.
fn value<'a>(key: &mut Cursor<'a>, ty: FieldType) -> Result<Option<&'a [u8]>, Damaged> {
    if key.u8()? == 0 {
        return Ok(None);
    }
    let bytes = match ty {
        FieldType::String | FieldType::Binary => key.bytes()?,
        FieldType::Bool => key.take(1)?,
        FieldType::Date => key.take(4)?,
        FieldType::Decimal { .. } => key.take(16)?,
        _ => key.take(8)?,
    };
    Ok(Some(bytes))
}

fn sign_extended(bytes: &[u8], ty: FieldType) -> i128 {
    let negative = ty != FieldType::Float64 && bytes.last().is_some_and(|b| b & 0x80 != 0);
    let mut wide = [if negative { 0xff } else { 0 }; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    i128::from_le_bytes(wide)
}

fn column_of_keys(ty: FieldType, numbers: Vec<Option<i128>>) -> ArrayRef {
    if ty == FieldType::Float64 {
        let floats = numbers.into_iter().map(|v| v.map(|bits| f64::from_bits(bits as u64)));
        return Arc::new(arrow_array::Float64Array::from_iter(floats));
    }
    column_of(ty, numbers)
}
