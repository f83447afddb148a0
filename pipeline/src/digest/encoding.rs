//! A cell as bytes: injective, and the same for every Arrow layout that can hold the same value.
//!
//! A cell is `name length u32 · name · class · [scale] · value`, all numbers little-endian. A null cell adds nothing. Types that
//! Iceberg lets widen into one another share a class; so do the layouts of one type (offsets, views, dictionaries).
//! Doesn't know: which columns take part and in which order (`hasher`). Tested: digest/tests.rs, digest/vectors.rs.
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, BinaryViewArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, TimeUnit};
use arrow_select::take::take;

use super::DigestError;

/// What a value is, apart from how wide it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Bool,
    Integer,
    Float,
    Decimal { scale: i8 },
    Date,
    Time,
    Timestamp,
    LocalTimestamp,
    String,
    Binary,
}

impl Class {
    /// `None`: no encoding. Unsigned 64-bit integers have none, since no Iceberg type holds them all.
    pub(super) fn of(data_type: &DataType) -> Option<Class> {
        use DataType::*;
        Some(match data_type {
            Boolean => Class::Bool,
            Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 => Class::Integer,
            Float16 | Float32 | Float64 => Class::Float,
            Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) => Class::Decimal { scale: *scale },
            Date32 | Date64 => Class::Date,
            Time32(_) | Time64(_) => Class::Time,
            Timestamp(_, Some(_)) => Class::Timestamp,
            Timestamp(_, None) => Class::LocalTimestamp,
            Utf8 | LargeUtf8 | Utf8View => Class::String,
            Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => Class::Binary,
            Dictionary(_, values) => return Class::of(values),
            _ => return None,
        })
    }

    /// What stands before every value of a column: its name, its class and, for a decimal, its scale.
    pub(super) fn prefix(self, name: &str) -> Vec<u8> {
        let mut prefix = (name.len() as u32).to_le_bytes().to_vec();
        prefix.extend_from_slice(name.as_bytes());
        prefix.push(match self {
            Class::Bool => b'b',
            Class::Integer => b'i',
            Class::Float => b'f',
            Class::Decimal { .. } => b'd',
            Class::Date => b'D',
            Class::Time => b't',
            Class::Timestamp => b'T',
            Class::LocalTimestamp => b'L',
            Class::String => b's',
            Class::Binary => b'x',
        });
        if let Class::Decimal { scale } = self {
            prefix.push(scale as u8);
        }
        prefix
    }
}

/// One column of one batch, brought into the few layouts that the row loop knows. Shares the batch's buffers where it can.
pub(super) struct Cells {
    nulls: Option<NullBuffer>,
    values: Values,
}

enum Values {
    AllNull,
    Bits(BooleanBuffer),
    Words(ScalarBuffer<i64>),
    WideWords(ScalarBuffer<i128>),
    Bytes(OffsetBuffer<i32>, Buffer),
    LargeBytes(OffsetBuffer<i64>, Buffer),
    ViewedBytes(BinaryViewArray),
    FixedBytes { width: usize, data: Buffer },
}

impl Cells {
    pub(super) fn new(name: &str, array: &ArrayRef) -> Result<Cells, DigestError> {
        if let DataType::Dictionary(_, _) = array.data_type() {
            return Cells::new(name, &flattened(name, array)?);
        }
        Ok(Cells { nulls: array.nulls().cloned(), values: values_of(name, array)? })
    }

    /// Appends the cell's bytes; nothing for a null.
    #[inline]
    pub(super) fn append(&self, prefix: &[u8], row: usize, bytes: &mut Vec<u8>) {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return;
        }
        let mut fixed = |value: &[u8]| {
            bytes.extend_from_slice(prefix);
            bytes.extend_from_slice(value);
        };
        match &self.values {
            Values::AllNull => {}
            Values::Bits(bits) => fixed(&[u8::from(bits.value(row))]),
            Values::Words(words) => fixed(&words[row].to_le_bytes()),
            Values::WideWords(words) => fixed(&words[row].to_le_bytes()),
            Values::Bytes(offsets, data) => {
                append_bytes(prefix, &data[offsets[row] as usize..offsets[row + 1] as usize], bytes)
            }
            Values::LargeBytes(offsets, data) => {
                append_bytes(prefix, &data[offsets[row] as usize..offsets[row + 1] as usize], bytes)
            }
            Values::ViewedBytes(views) => append_bytes(prefix, views.value(row), bytes),
            Values::FixedBytes { width, data } => append_bytes(prefix, &data[row * width..(row + 1) * width], bytes),
        }
    }
}

#[inline]
fn append_bytes(prefix: &[u8], value: &[u8], bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(prefix);
    bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
    bytes.extend_from_slice(value);
}

fn flattened(name: &str, array: &ArrayRef) -> Result<ArrayRef, DigestError> {
    let dictionary = array.as_any_dictionary();
    take(dictionary.values(), dictionary.keys(), None).map_err(|_| unsupported(name, array.data_type()))
}

fn unsupported(name: &str, data_type: &DataType) -> DigestError {
    DigestError::UnsupportedType { column: name.to_owned(), data_type: data_type.clone() }
}

fn values_of(name: &str, array: &ArrayRef) -> Result<Values, DigestError> {
    use DataType::*;
    Ok(match array.data_type() {
        Null => Values::AllNull,
        Boolean => Values::Bits(array.as_boolean().values().clone()),
        Int8 => words::<Int8Type>(array, i64::from),
        Int16 => words::<Int16Type>(array, i64::from),
        Int32 => words::<Int32Type>(array, i64::from),
        Int64 => Values::Words(array.as_primitive::<Int64Type>().values().clone()),
        UInt8 => words::<UInt8Type>(array, i64::from),
        UInt16 => words::<UInt16Type>(array, i64::from),
        UInt32 => words::<UInt32Type>(array, i64::from),
        Float16 => words::<Float16Type>(array, |value| float_bits(value.to_f64())),
        Float32 => words::<Float32Type>(array, |value| float_bits(f64::from(value))),
        Float64 => words::<Float64Type>(array, float_bits),
        Decimal32(_, _) => wide_words::<Decimal32Type>(array),
        Decimal64(_, _) => wide_words::<Decimal64Type>(array),
        Decimal128(_, _) => Values::WideWords(array.as_primitive::<Decimal128Type>().values().clone()),
        Date32 => words::<Date32Type>(array, i64::from),
        Date64 => divided::<Date64Type>(name, array, 86_400_000)?,
        Time32(TimeUnit::Second) => words::<Time32SecondType>(array, |value| i64::from(value) * 1_000_000),
        Time32(_) => words::<Time32MillisecondType>(array, |value| i64::from(value) * 1_000),
        Time64(TimeUnit::Microsecond) => Values::Words(array.as_primitive::<Time64MicrosecondType>().values().clone()),
        Time64(_) => divided::<Time64NanosecondType>(name, array, 1_000)?,
        Timestamp(TimeUnit::Second, _) => multiplied::<TimestampSecondType>(name, array, 1_000_000)?,
        Timestamp(TimeUnit::Millisecond, _) => multiplied::<TimestampMillisecondType>(name, array, 1_000)?,
        Timestamp(TimeUnit::Microsecond, _) => {
            Values::Words(array.as_primitive::<TimestampMicrosecondType>().values().clone())
        }
        Timestamp(TimeUnit::Nanosecond, _) => divided::<TimestampNanosecondType>(name, array, 1_000)?,
        Utf8 => Values::Bytes(array.as_string::<i32>().offsets().clone(), array.as_string::<i32>().values().clone()),
        LargeUtf8 => {
            Values::LargeBytes(array.as_string::<i64>().offsets().clone(), array.as_string::<i64>().values().clone())
        }
        Utf8View => Values::ViewedBytes(array.as_string_view().clone().to_binary_view()),
        Binary => Values::Bytes(array.as_binary::<i32>().offsets().clone(), array.as_binary::<i32>().values().clone()),
        LargeBinary => {
            Values::LargeBytes(array.as_binary::<i64>().offsets().clone(), array.as_binary::<i64>().values().clone())
        }
        BinaryView => Values::ViewedBytes(array.as_binary_view().clone()),
        FixedSizeBinary(width) => {
            Values::FixedBytes { width: *width as usize, data: array.as_fixed_size_binary().values().clone() }
        }
        other => return Err(unsupported(name, other)),
    })
}

/// Bits of a float64 in which equal floats are equal bits: one NaN, and no negative zero.
fn float_bits(value: f64) -> i64 {
    const NAN_BITS: u64 = 0x7ff8_0000_0000_0000;
    let bits = if value.is_nan() { NAN_BITS } else { (value + 0.0).to_bits() };
    bits as i64
}

fn words<T: ArrowPrimitiveType>(array: &ArrayRef, widen: impl Fn(T::Native) -> i64) -> Values {
    Values::Words(array.as_primitive::<T>().values().iter().map(|value| widen(*value)).collect())
}

fn wide_words<T: ArrowPrimitiveType>(array: &ArrayRef) -> Values
where
    T::Native: Into<i128>,
{
    Values::WideWords(array.as_primitive::<T>().values().iter().map(|value| (*value).into()).collect())
}

fn multiplied<T: ArrowPrimitiveType<Native = i64>>(
    name: &str,
    array: &ArrayRef,
    factor: i64,
) -> Result<Values, DigestError> {
    converted::<T>(name, array, |value| value.checked_mul(factor))
}

/// A value that isn't a whole number of the coarser unit is refused: rounding would make two rows one.
fn divided<T: ArrowPrimitiveType<Native = i64>>(
    name: &str,
    array: &ArrayRef,
    divisor: i64,
) -> Result<Values, DigestError> {
    converted::<T>(name, array, |value| (value % divisor == 0).then_some(value / divisor))
}

fn converted<T: ArrowPrimitiveType<Native = i64>>(
    name: &str,
    array: &ArrayRef,
    convert: impl Fn(i64) -> Option<i64>,
) -> Result<Values, DigestError> {
    let array = array.as_primitive::<T>();
    let words = (0..array.len()).map(|row| {
        if array.is_null(row) {
            return Ok(0);
        }
        let value = array.value(row);
        convert(value).ok_or_else(|| DigestError::NotRepresentable { column: name.to_owned(), row, value })
    });
    Ok(Values::Words(words.collect::<Result<Vec<i64>, _>>()?.into()))
}
