//! Growing columns that can take back their last value.
//!
//! Arrow's own builders can't, and a record that turns out bad in its last field has already left values in the columns before.
//! Doesn't know: documents, errors, where a value came from.
//! Keeps: one type has one Arrow type (`FieldType::arrow`); a column that refused a value is as it was before.
//! Tested: decode/json/tests.rs.
use std::sync::Arc;

use arrow_array::types::{Date32Type, Decimal128Type, Float64Type, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, PrimitiveArray, StringArray};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType};
use floodmark_pipeline::schema::{FieldType, TimestampUnit};

use super::value::{self, Fault};
use super::{decimal, time};

pub struct Column {
    ty: FieldType,
    values: Values,
    nulls: NullBufferBuilder,
}

enum Values {
    Bool(BooleanBufferBuilder),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Float64(Vec<f64>),
    Decimal { unscaled: Vec<i128>, precision: u8, scale: i8 },
    String(Bytes),
    Binary(Bytes),
    Date(Vec<i32>),
    Timestamp { us: Vec<i64>, unit: TimestampUnit, utc: bool },
}

/// Byte strings one behind the other.
struct Bytes {
    bytes: Vec<u8>,
    /// Where each ends. One that Arrow can't address is refused when the array is made.
    ends: Vec<usize>,
}

impl Column {
    pub fn new(ty: FieldType) -> Self {
        Self::with_capacity(ty, 0, 0)
    }

    fn with_capacity(ty: FieldType, rows: usize, bytes: usize) -> Self {
        let values = match ty {
            FieldType::Bool => Values::Bool(BooleanBufferBuilder::new(rows)),
            FieldType::Int32 => Values::Int32(Vec::with_capacity(rows)),
            FieldType::Int64 => Values::Int64(Vec::with_capacity(rows)),
            FieldType::Float64 => Values::Float64(Vec::with_capacity(rows)),
            FieldType::Decimal { precision, scale } => {
                Values::Decimal { unscaled: Vec::with_capacity(rows), precision, scale }
            }
            FieldType::String => Values::String(Bytes::with_capacity(rows, bytes)),
            FieldType::Binary => Values::Binary(Bytes::with_capacity(rows, bytes)),
            FieldType::Date => Values::Date(Vec::with_capacity(rows)),
            FieldType::Timestamp { unit, utc } => Values::Timestamp { us: Vec::with_capacity(rows), unit, utc },
        };
        Self { ty, values, nulls: NullBufferBuilder::new(rows) }
    }

    /// Appends the value that the raw text of a JSON value, not `null`, stands for.
    pub fn push_json(&mut self, raw: &str) -> Result<(), Fault> {
        match &mut self.values {
            Values::Bool(values) => values.append(value::bool(raw)?),
            Values::Int32(values) => values.push(value::int32(raw)?),
            Values::Int64(values) => values.push(value::int64(raw)?),
            Values::Float64(values) => values.push(value::float64(raw)?),
            Values::Decimal { unscaled, precision, scale } => {
                let number = if value::is_number(raw) { raw.into() } else { value::text(raw)? };
                unscaled.push(decimal::parse(&number, *precision, *scale)?);
            }
            Values::String(values) => values.push(value::text(raw)?.as_bytes()),
            Values::Binary(values) => values.push_base64(raw)?,
            Values::Date(values) => values.push(time::date(raw)?),
            Values::Timestamp { us, unit, utc } => us.push(time::timestamp(raw, *unit, *utc)?),
        }
        self.nulls.append_non_null();
        Ok(())
    }

    /// Appends bytes as they are, to a binary or (if they are UTF-8) a string column.
    pub fn push_bytes(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        match &mut self.values {
            Values::Binary(values) => values.push(bytes),
            Values::String(values) => {
                simdutf8::basic::from_utf8(bytes).map_err(|_| Fault::Utf8)?;
                values.push(bytes);
            }
            _ => return Err(Fault::Type),
        }
        self.nulls.append_non_null();
        Ok(())
    }

    pub fn push_int(&mut self, int: i64) -> Result<(), Fault> {
        match &mut self.values {
            Values::Int64(values) => values.push(int),
            Values::Int32(values) => values.push(i32::try_from(int).map_err(|_| Fault::Range("too large"))?),
            _ => return Err(Fault::Type),
        }
        self.nulls.append_non_null();
        Ok(())
    }

    pub fn push_time_ms(&mut self, ms: i64) -> Result<(), Fault> {
        let Values::Timestamp { us, .. } = &mut self.values else { return Err(Fault::Type) };
        us.push(time::from_ms(ms)?);
        self.nulls.append_non_null();
        Ok(())
    }

    pub fn push_null(&mut self) {
        match &mut self.values {
            Values::Bool(values) => values.append(false),
            Values::Int32(values) | Values::Date(values) => values.push(0),
            Values::Int64(values) | Values::Timestamp { us: values, .. } => values.push(0),
            Values::Float64(values) => values.push(0.0),
            Values::Decimal { unscaled, .. } => unscaled.push(0),
            Values::String(values) | Values::Binary(values) => values.push(&[]),
        }
        self.nulls.append_null();
    }

    /// Takes back all values behind the first `rows`.
    pub fn truncate(&mut self, rows: usize) {
        match &mut self.values {
            Values::Bool(values) => values.truncate(rows),
            Values::Int32(values) | Values::Date(values) => values.truncate(rows),
            Values::Int64(values) | Values::Timestamp { us: values, .. } => values.truncate(rows),
            Values::Float64(values) => values.truncate(rows),
            Values::Decimal { unscaled, .. } => unscaled.truncate(rows),
            Values::String(values) | Values::Binary(values) => values.truncate(rows),
        }
        self.nulls.truncate(rows);
    }

    /// The column so far; it begins anew, with room for as much again.
    pub fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let bytes = match &self.values {
            Values::String(values) | Values::Binary(values) => values.bytes.len(),
            _ => 0,
        };
        let next = Self::with_capacity(self.ty, self.nulls.len(), bytes);
        let Self { ty, values, nulls } = std::mem::replace(self, next);
        let nulls = nulls.build();
        let ty = ty.arrow();
        Ok(match values {
            Values::Bool(mut values) => Arc::new(BooleanArray::new(values.finish(), nulls)),
            Values::Int32(values) => primitive::<Int32Type>(values, nulls, &ty)?,
            Values::Int64(values) => primitive::<Int64Type>(values, nulls, &ty)?,
            Values::Float64(values) => primitive::<Float64Type>(values, nulls, &ty)?,
            Values::Decimal { unscaled, .. } => primitive::<Decimal128Type>(unscaled, nulls, &ty)?,
            Values::Date(values) => primitive::<Date32Type>(values, nulls, &ty)?,
            Values::Timestamp { us, .. } => primitive::<TimestampMicrosecondType>(us, nulls, &ty)?,
            Values::String(values) => {
                let (offsets, bytes) = values.finish()?;
                Arc::new(StringArray::try_new(offsets, bytes, nulls)?)
            }
            Values::Binary(values) => {
                let (offsets, bytes) = values.finish()?;
                Arc::new(BinaryArray::try_new(offsets, bytes, nulls)?)
            }
        })
    }
}

fn primitive<T: ArrowPrimitiveType>(
    values: Vec<T::Native>,
    nulls: Option<NullBuffer>,
    ty: &DataType,
) -> Result<ArrayRef, ArrowError> {
    let array = PrimitiveArray::<T>::try_new(ScalarBuffer::from(values), nulls)?;
    Ok(Arc::new(array.with_data_type(ty.clone())))
}

impl Bytes {
    fn with_capacity(rows: usize, bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ends: Vec::with_capacity(rows) }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len());
    }

    fn push_base64(&mut self, raw: &str) -> Result<(), Fault> {
        let start = self.bytes.len();
        if let Err(fault) = value::binary(raw, &mut self.bytes) {
            self.bytes.truncate(start);
            return Err(fault);
        }
        self.ends.push(self.bytes.len());
        Ok(())
    }

    fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows);
        self.bytes.truncate(self.ends.last().copied().unwrap_or(0));
    }

    fn finish(self) -> Result<(OffsetBuffer<i32>, Buffer), ArrowError> {
        if i32::try_from(self.bytes.len()).is_err() {
            return Err(ArrowError::OffsetOverflowError(self.bytes.len()));
        }
        let offsets: Vec<i32> = std::iter::once(0).chain(self.ends.iter().map(|end| *end as i32)).collect();
        Ok((OffsetBuffer::new(offsets.into()), Buffer::from_vec(self.bytes)))
    }
}
