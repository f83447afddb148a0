//! Aggregates as exact, order-free sums: any grouping of the same values gives the same bits.
//!
//! Every value is a whole number here: decimals at their scale, times in microseconds, floats (min and max only) by an order-preserving mapping.
//! Sums run in 256 bits; whether a result fits its type is judged when a window fires, never before.
//! Doesn't know: windows, keys. Keeps: `merge` is associative and commutative with [`Accumulator::default`] as its neutral element.
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Decimal128Type, Float64Type, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{
    Array, ArrayRef, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, TimestampMicrosecondArray,
};
use arrow_buffer::i256;

use crate::plan::{Aggregate, Function};
use crate::schema::{FieldType, UTC};

/// Number of non-null values and their sum, smallest or largest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accumulator {
    pub n: u64,
    pub value: i256,
}

impl Accumulator {
    pub fn add(&mut self, function: Function, value: i128) {
        self.merge(function, Self { n: 1, value: i256::from_i128(value) });
    }

    pub fn merge(&mut self, function: Function, other: Self) {
        if other.n == 0 {
            return;
        }
        self.value = match function {
            _ if self.n == 0 => other.value,
            Function::Count => self.value,
            Function::Sum | Function::Avg => self.value.wrapping_add(other.value),
            Function::Min => self.value.min(other.value),
            Function::Max => self.value.max(other.value),
        };
        self.n += other.n;
    }
}

/// A result that its type can't hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{function}: {value} doesn't fit {result}")]
pub struct Overflow {
    pub function: String,
    pub value: String,
    pub result: FieldType,
}

/// Scale of a column's type; 0 for what has none.
pub fn scale_of(ty: FieldType) -> i8 {
    match ty {
        FieldType::Decimal { scale, .. } => scale,
        _ => 0,
    }
}

/// The result as a whole number of the result type; `None` over no values (but a count of none is 0).
/// `input` is the type of the column it is computed over.
pub fn finish(aggregate: &Aggregate, input: Option<FieldType>, acc: &Accumulator) -> Result<Option<i128>, Overflow> {
    if aggregate.function == Function::Count {
        return Ok(Some(i128::from(acc.n)));
    }
    if acc.n == 0 {
        return Ok(None);
    }
    let exact = match aggregate.function {
        Function::Avg => average(acc, scale_of(aggregate.result) - input.map_or(0, scale_of)),
        _ => Some(acc.value),
    };
    let fits = exact.and_then(i256::to_i128).filter(|v| in_range(aggregate.result, *v));
    fits.map(Some).ok_or_else(|| Overflow {
        function: format!("{:?}", aggregate.function).to_lowercase(),
        value: format!("a total of {} over {} values", acc.value, acc.n),
        result: aggregate.result,
    })
}

/// Half-up (away from zero), at `more_digits` more decimal places than the values have. `None`: beyond 256 bits.
fn average(acc: &Accumulator, more_digits: i8) -> Option<i256> {
    let ten = i256::from_i128(10);
    let n = i256::from_i128(i128::from(acc.n));
    let scaled = acc.value.checked_mul(ten.checked_pow(u32::try_from(more_digits).ok()?)?)?;
    let (quotient, rest) = (scaled.checked_div(n)?, scaled.checked_rem(n)?);
    let twice = rest.wrapping_abs().checked_mul(i256::from_i128(2))?;
    let up = if scaled.is_negative() { i256::MINUS_ONE } else { i256::ONE };
    Some(if twice >= n { quotient.wrapping_add(up) } else { quotient })
}

fn in_range(result: FieldType, value: i128) -> bool {
    match result {
        FieldType::Int32 | FieldType::Date => i32::try_from(value).is_ok(),
        FieldType::Decimal { precision, .. } => {
            value.unsigned_abs() < 10u128.checked_pow(u32::from(precision)).unwrap_or(u128::MAX)
        }
        _ => i64::try_from(value).is_ok(),
    }
}

/// A column whose values are read as whole numbers.
pub enum WholeNumbers<'a> {
    Int32(&'a Int32Array),
    Int64(&'a Int64Array),
    Decimal(&'a Decimal128Array),
    Float64(&'a Float64Array),
    Date(&'a Date32Array),
    Timestamp(&'a TimestampMicrosecondArray),
    /// Of these types only the presence of a value is asked for (`count`): it is read as 0.
    Presence(&'a ArrayRef),
}

impl<'a> WholeNumbers<'a> {
    pub fn of(column: &'a ArrayRef, ty: FieldType) -> Self {
        match ty {
            FieldType::Int32 => Self::Int32(column.as_primitive::<Int32Type>()),
            FieldType::Int64 => Self::Int64(column.as_primitive::<Int64Type>()),
            FieldType::Decimal { .. } => Self::Decimal(column.as_primitive::<Decimal128Type>()),
            FieldType::Float64 => Self::Float64(column.as_primitive::<Float64Type>()),
            FieldType::Date => Self::Date(column.as_primitive::<Date32Type>()),
            FieldType::Timestamp { .. } => Self::Timestamp(column.as_primitive::<TimestampMicrosecondType>()),
            FieldType::Bool | FieldType::String | FieldType::Binary => Self::Presence(column),
        }
    }

    /// `None` where the value is null.
    pub fn at(&self, row: usize) -> Option<i128> {
        match self {
            Self::Int32(values) => values.is_valid(row).then(|| i128::from(values.value(row))),
            Self::Int64(values) => values.is_valid(row).then(|| i128::from(values.value(row))),
            Self::Decimal(values) => values.is_valid(row).then(|| values.value(row)),
            Self::Float64(values) => values.is_valid(row).then(|| i128::from(ordered(values.value(row)))),
            Self::Date(values) => values.is_valid(row).then(|| i128::from(values.value(row))),
            Self::Timestamp(values) => values.is_valid(row).then(|| i128::from(values.value(row))),
            Self::Presence(values) => values.is_valid(row).then_some(0),
        }
    }
}

/// Results (all in range of `ty`, as [`finish`] gives them) as a column.
pub fn column_of(ty: FieldType, values: Vec<Option<i128>>) -> ArrayRef {
    let longs = values.iter().map(|v| v.map(|v| v as i64));
    match ty {
        FieldType::Int32 => Arc::new(Int32Array::from_iter(longs.map(|v| v.map(|v| v as i32)))),
        FieldType::Date => Arc::new(Date32Array::from_iter(longs.map(|v| v.map(|v| v as i32)))),
        FieldType::Float64 => Arc::new(Float64Array::from_iter(longs.map(|v| v.map(from_ordered)))),
        FieldType::Decimal { .. } => Arc::new(Decimal128Array::from_iter(values).with_data_type(ty.arrow())),
        FieldType::Timestamp { utc, .. } => {
            Arc::new(TimestampMicrosecondArray::from_iter(longs).with_timezone_opt(utc.then_some(UTC)))
        }
        _ => Arc::new(Int64Array::from_iter(longs)),
    }
}

/// Maps floats to integers of the same order (IEEE 754 total order; the input has no NaN).
fn ordered(value: f64) -> i64 {
    let bits = value.to_bits() as i64;
    if bits < 0 { bits ^ i64::MAX } else { bits }
}

fn from_ordered(value: i64) -> f64 {
    f64::from_bits((if value < 0 { value ^ i64::MAX } else { value }) as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::schema::TimestampUnit;

    fn aggregate(function: Function, result: FieldType) -> Aggregate {
        Aggregate { name: "a".into(), function, column: Some(0), result }
    }

    fn over(function: Function, values: &[i128]) -> Accumulator {
        let mut acc = Accumulator::default();
        values.iter().for_each(|v| acc.add(function, *v));
        acc
    }

    const AVG: FieldType = FieldType::Decimal { precision: 38, scale: 6 };

    #[test]
    fn averages_round_half_up_away_from_zero() {
        let avg = |values: &[i128]| {
            finish(&aggregate(Function::Avg, AVG), Some(FieldType::Int64), &over(Function::Avg, values)).unwrap()
        };
        assert_eq!(avg(&[1, 2]), Some(1_500_000));
        assert_eq!(avg(&[2, 0, 0]), Some(666_667));
        assert_eq!(avg(&[-2, 0, 0]), Some(-666_667));
        assert_eq!(avg(&[]), None);
    }

    #[test]
    fn an_average_of_decimals_has_the_scale_of_its_result_whatever_that_of_the_values() {
        let of_scale = |scale: i8| {
            let input = FieldType::Decimal { precision: 10, scale };
            finish(&aggregate(Function::Avg, AVG), Some(input), &over(Function::Avg, &[100, 200])).unwrap()
        };
        assert_eq!(of_scale(0), Some(150_000_000));
        assert_eq!(of_scale(2), Some(1_500_000));
        assert_eq!(of_scale(6), Some(150));
    }

    #[test]
    fn the_first_value_is_the_smallest_and_the_largest_there_is() {
        assert_eq!(over(Function::Min, &[5]).value, i256::from_i128(5), "not the 0 of an empty accumulator");
        assert_eq!(over(Function::Max, &[-5]).value, i256::from_i128(-5));
    }

    #[test]
    fn a_result_may_be_as_large_as_its_type_and_no_larger() {
        let fits = |ty: FieldType, value: i128| {
            finish(&aggregate(Function::Max, ty), Some(ty), &over(Function::Max, &[value])).is_ok()
        };
        let (int, long) = (i128::from(i32::MAX), i128::from(i64::MAX));
        let price = FieldType::Decimal { precision: 4, scale: 2 };
        for (ty, largest, smallest) in [
            (FieldType::Int32, int, -int - 1),
            (FieldType::Date, int, -int - 1),
            (FieldType::Int64, long, -long - 1),
            (FieldType::TIMESTAMP_MS, long, -long - 1),
            (price, 9_999, -9_999),
        ] {
            assert!(fits(ty, largest) && fits(ty, smallest), "{ty}");
            assert!(!fits(ty, largest + 1) && !fits(ty, smallest - 1), "{ty}");
        }
    }

    #[test]
    fn a_column_of_results_has_its_type_and_is_read_back_as_it_was_made() {
        let local = FieldType::Timestamp { unit: TimestampUnit::Us, utc: false };
        for (ty, value) in [
            (FieldType::Int32, -7),
            (FieldType::Int64, i128::from(i64::MIN)),
            (FieldType::Float64, i128::from(ordered(-2.25))),
            (FieldType::Decimal { precision: 38, scale: 2 }, 10i128.pow(38) - 1),
            (FieldType::Date, -719_162),
            (FieldType::TIMESTAMP_MS, 1),
            (local, -1),
        ] {
            let column = column_of(ty, vec![Some(value), None]);
            assert_eq!(column.data_type(), &ty.arrow());
            let read = WholeNumbers::of(&column, ty);
            assert_eq!((read.at(0), read.at(1)), (Some(value), None), "{ty}");
        }
    }

    #[test]
    fn a_sum_may_leave_its_range_on_the_way_but_not_at_the_end() {
        let sum = |values: &[i128]| {
            finish(&aggregate(Function::Sum, FieldType::Int64), Some(FieldType::Int64), &over(Function::Sum, values))
        };
        let max = i128::from(i64::MAX);
        assert_eq!(sum(&[max, max, -max]), Ok(Some(max)));
        assert_eq!(
            sum(&[max, 1]).unwrap_err().to_string(),
            "sum: a total of 9223372036854775808 over 2 values doesn't fit int64"
        );
    }

    #[test]
    fn decimals_of_full_width_sum_without_wrapping() {
        let widest = 10i128.pow(38) - 1;
        let ty = FieldType::Decimal { precision: 38, scale: 2 };
        let acc = over(Function::Sum, &[widest, widest, -widest]);
        assert_eq!(finish(&aggregate(Function::Sum, ty), Some(ty), &acc), Ok(Some(widest)));
        assert!(finish(&aggregate(Function::Sum, ty), Some(ty), &over(Function::Sum, &[widest, 1])).is_err());
    }

    #[test]
    fn floats_keep_their_order_and_bits() {
        let values = [f64::MIN, -1.5, -0.0, 0.0, f64::MIN_POSITIVE, 2.25, f64::MAX];
        for pair in values.windows(2) {
            assert!(ordered(pair[0]) < ordered(pair[1]), "{pair:?}");
        }
        for value in values {
            assert_eq!(from_ordered(ordered(value)).to_bits(), value.to_bits());
        }
    }

    proptest! {
        #[test]
        fn any_grouping_gives_the_same(values in prop::collection::vec(any::<i64>(), 0..20), cut in 0usize..20) {
            for function in [Function::Count, Function::Sum, Function::Min, Function::Max, Function::Avg] {
                let wide: Vec<i128> = values.iter().map(|v| i128::from(*v)).collect();
                let (left, right) = wide.split_at(cut.min(wide.len()));
                let mut merged = over(function, right);
                merged.merge(function, over(function, left));
                if function == Function::Count {
                    prop_assert_eq!(merged.n, over(function, &wide).n);
                } else {
                    prop_assert_eq!(merged, over(function, &wide));
                }
            }
        }
    }
}
