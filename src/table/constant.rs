//! A column that says the same in every row: a field's default value, or what a file's partition says.
//!
//! Doesn't know: files. Tested: table/tests.rs.
use std::collections::HashMap;
use std::sync::Arc;

use arrow::compute::{cast, take};
use arrow_array::*;
use arrow_schema::{ArrowError, DataType};
use iceberg::spec::{Literal, PrimitiveLiteral};

/// Values of columns by field id.
pub type Constants = HashMap<i32, Literal>;

/// `rows` copies of a value; `None` where the value has no such form (nested, or not of this type).
pub fn constant(literal: &Literal, data_type: &DataType, rows: usize) -> Option<ArrayRef> {
    let Literal::Primitive(literal) = literal else { return None };
    let one = one(literal, data_type).ok()??;
    let first = UInt64Array::from(vec![0; rows]);
    take(&one, &first, None).ok()
}

fn one(literal: &PrimitiveLiteral, data_type: &DataType) -> Result<Option<ArrayRef>, ArrowError> {
    let array: ArrayRef = match literal {
        PrimitiveLiteral::Boolean(value) => Arc::new(BooleanArray::from(vec![*value])),
        PrimitiveLiteral::Int(value) => Arc::new(Int32Array::from(vec![*value])),
        // Times and timestamps are counts as well; the cast gives them their unit.
        PrimitiveLiteral::Long(value) => Arc::new(Int64Array::from(vec![*value])),
        PrimitiveLiteral::Float(value) => Arc::new(Float32Array::from(vec![value.0])),
        PrimitiveLiteral::Double(value) => Arc::new(Float64Array::from(vec![value.0])),
        PrimitiveLiteral::String(value) => Arc::new(StringArray::from(vec![value.as_str()])),
        PrimitiveLiteral::Binary(value) => Arc::new(BinaryArray::from(vec![value.as_slice()])),
        PrimitiveLiteral::Int128(unscaled) => {
            let DataType::Decimal128(precision, scale) = data_type else { return Ok(None) };
            Arc::new(Decimal128Array::from(vec![*unscaled]).with_precision_and_scale(*precision, *scale)?)
        }
        PrimitiveLiteral::UInt128(uuid) => {
            Arc::new(FixedSizeBinaryArray::try_from_iter(std::iter::once(uuid.to_be_bytes()))?)
        }
        PrimitiveLiteral::AboveMax | PrimitiveLiteral::BelowMin => return Ok(None),
    };
    cast(&array, data_type).map(Some)
}
