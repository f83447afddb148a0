//! One 128-bit hash stands for a key: for routing, for dedup, for window tables.
//!
//! The hash is xxh3-128 over an injective encoding of the key's columns, so equal keys have equal hashes in every run, build and worker.
//! Two different keys collide with probability n²/2¹²⁹ among n live keys: 10⁸ ids give 1.5·10⁻²³.
//! Keeps: a key group depends on the hash's upper half only and rises with it, so the keys of a group are one range of hashes.
use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Decimal128Type, Float64Type, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use xxhash_rust::xxh3::xxh3_128;

/// Hash of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash(pub u128);

impl KeyHash {
    /// Key group of `0..max_parallelism`, the unit in which state is spread over workers.
    pub fn key_group(self, max_parallelism: u16) -> u16 {
        let upper = (self.0 >> 64) as u64;
        ((u128::from(upper) * u128::from(max_parallelism)) >> 64) as u16
    }
}

/// First key group of a worker and the first of the next one, as Flink's `KeyGroupRangeAssignment` spreads them.
pub fn key_groups_of(worker: u16, workers: u16, max_parallelism: u16) -> std::ops::Range<u16> {
    let bound = |w: u16| (u32::from(w) * u32::from(max_parallelism)).div_ceil(u32::from(workers)) as u16;
    bound(worker)..bound(worker + 1)
}

/// Worker that owns a key group: the inverse of [`key_groups_of`].
pub fn owner_of(key_group: u16, workers: u16, max_parallelism: u16) -> u16 {
    (u32::from(key_group) * u32::from(workers) / u32::from(max_parallelism)) as u16
}

/// Hashes of the key columns of the rows at `places`. `columns` are indexes into the batch.
pub fn hash_keys(batch: &RecordBatch, columns: &[usize], places: impl Iterator<Item = usize>) -> Vec<KeyHash> {
    let arrays: Vec<&ArrayRef> = columns.iter().map(|i| batch.column(*i)).collect();
    if let [one] = arrays.as_slice()
        && one.null_count() == 0
        && let Some(strings) = one.as_string_opt::<i32>()
    {
        return places.map(|row| hash_one(strings.value(row).as_bytes())).collect();
    }
    let mut bytes = Vec::with_capacity(64);
    places
        .map(|row| {
            bytes.clear();
            encode_key(&arrays, row, &mut bytes);
            KeyHash(xxh3_128(&bytes))
        })
        .collect()
}

/// Must equal what [`encode_key`] gives for a single string column.
fn hash_one(value: &[u8]) -> KeyHash {
    let mut small = [0u8; 69];
    let end = value.len() + 5;
    let Some(place) = small.get_mut(5..end) else {
        let mut bytes = Vec::with_capacity(end);
        push_bytes(&mut bytes, value);
        return KeyHash(xxh3_128(&bytes));
    };
    place.copy_from_slice(value);
    small[0] = 1;
    small[1..5].copy_from_slice(&(value.len() as u32).to_le_bytes());
    KeyHash(xxh3_128(&small[..end]))
}

/// Injective encoding of a row's key columns: a presence byte, then the value, fixed-width or length-prefixed.
pub fn encode_key(arrays: &[&ArrayRef], row: usize, out: &mut Vec<u8>) {
    for array in arrays {
        if array.is_null(row) {
            out.push(0);
            continue;
        }
        match array.data_type() {
            DataType::Utf8 => push_bytes(out, array.as_string::<i32>().value(row).as_bytes()),
            DataType::Binary => push_bytes(out, array.as_binary::<i32>().value(row)),
            other => {
                out.push(1);
                push_fixed(array, other, row, out);
            }
        }
    }
}

fn push_bytes(out: &mut Vec<u8>, value: &[u8]) {
    out.push(1);
    out.extend_from_slice(&(value.len() as u32).to_le_bytes());
    out.extend_from_slice(value);
}

fn push_fixed(array: &ArrayRef, ty: &DataType, row: usize, out: &mut Vec<u8>) {
    match ty {
        DataType::Boolean => out.push(u8::from(array.as_boolean().value(row))),
        DataType::Int32 => out.extend(i64::from(array.as_primitive::<Int32Type>().value(row)).to_le_bytes()),
        DataType::Int64 => out.extend(array.as_primitive::<Int64Type>().value(row).to_le_bytes()),
        DataType::Float64 => {
            out.extend(array.as_primitive::<Float64Type>().value(row).to_bits().to_le_bytes());
        }
        DataType::Decimal128(..) => out.extend(array.as_primitive::<Decimal128Type>().value(row).to_le_bytes()),
        DataType::Date32 => out.extend(array.as_primitive::<Date32Type>().value(row).to_le_bytes()),
        DataType::Timestamp(..) => {
            out.extend(array.as_primitive::<TimestampMicrosecondType>().value(row).to_le_bytes());
        }
        other => unreachable!("no field type maps to {other}"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{
        BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, StringArray,
        TimestampMicrosecondArray,
    };
    use arrow_schema::{Field, Schema};

    use super::*;

    #[test]
    fn the_short_way_for_one_string_equals_the_general_one() {
        let long = "x".repeat(65);
        let column: ArrayRef = Arc::new(StringArray::from(vec!["", "a", "e-1", &long[1..], &long]));
        let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Utf8, false)]));
        let batch = RecordBatch::try_new(schema, vec![column.clone()]).unwrap();
        for (row, hash) in hash_keys(&batch, &[0], 0..batch.num_rows()).into_iter().enumerate() {
            let mut bytes = vec![];
            encode_key(&[&column], row, &mut bytes);
            assert_eq!(hash, KeyHash(xxh3_128(&bytes)));
        }
    }

    #[test]
    fn a_string_that_is_null_is_another_key_than_the_empty_one() {
        let column: ArrayRef = Arc::new(StringArray::from(vec![None, Some("")]));
        let batch = RecordBatch::try_from_iter([("id", column)]).unwrap();
        let keys = hash_keys(&batch, &[0], 0..2);
        assert_eq!(keys, [KeyHash(xxh3_128(&[0])), KeyHash(xxh3_128(&[1, 0, 0, 0, 0]))]);
    }

    #[test]
    fn every_type_has_its_bytes_behind_the_presence() {
        fn of(array: impl Array + 'static) -> Vec<u8> {
            let array: ArrayRef = Arc::new(array);
            let mut bytes = vec![];
            encode_key(&[&array], 0, &mut bytes);
            bytes
        }
        let eight = [1, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(of(BooleanArray::from(vec![true])), [1, 1]);
        assert_eq!(of(Int32Array::from(vec![-2])), eight, "as an int64 of the same value");
        assert_eq!(of(Int64Array::from(vec![-2])), eight);
        assert_eq!(of(TimestampMicrosecondArray::from(vec![-2])), eight);
        assert_eq!(of(Float64Array::from(vec![1.5])), [1, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f]);
        assert_eq!(of(Date32Array::from(vec![258])), [1, 2, 1, 0, 0]);
        assert_eq!(of(Decimal128Array::from(vec![-1])), [&[1][..], &[0xff; 16]].concat());
        assert_eq!(of(StringArray::from(vec!["ab"])), [1, 2, 0, 0, 0, b'a', b'b']);
        assert_eq!(of(BinaryArray::from(vec![&[0u8, 255][..]])), [1, 2, 0, 0, 0, 0, 255]);
    }

    #[test]
    fn key_groups_cut_the_hashes_into_equal_ranges_in_their_order() {
        for max in [1u16, 7, 128, u16::MAX] {
            let group = |upper: u64, lower: u64| KeyHash((u128::from(upper) << 64) | u128::from(lower)).key_group(max);
            assert_eq!((group(0, 0), group(u64::MAX, u64::MAX)), (0, max - 1));
            for n in 1..max {
                let first = (u128::from(n) << 64).div_ceil(u128::from(max)) as u64;
                assert_eq!((group(first - 1, u64::MAX), group(first, 0)), (n - 1, n), "group {n} of {max}");
            }
        }
    }

    #[test]
    fn columns_do_not_run_into_each_other() {
        let key = |a: &str, b: &str| {
            let arrays: Vec<ArrayRef> =
                vec![Arc::new(StringArray::from(vec![a])), Arc::new(StringArray::from(vec![b]))];
            let mut bytes = vec![];
            encode_key(&arrays.iter().collect::<Vec<_>>(), 0, &mut bytes);
            bytes
        };
        assert_ne!(key("ab", "c"), key("a", "bc"));
        let null: ArrayRef = Arc::new(Int64Array::from(vec![None]));
        let zero: ArrayRef = Arc::new(Int64Array::from(vec![0]));
        let (mut a, mut b) = (vec![], vec![]);
        encode_key(&[&null], 0, &mut a);
        encode_key(&[&zero], 0, &mut b);
        assert_ne!(a, b);
    }

    #[test]
    fn every_key_group_has_the_owner_whose_range_holds_it() {
        for max in [1u16, 7, 128] {
            for workers in 1..=max.min(9) {
                for group in 0..max {
                    let owner = owner_of(group, workers, max);
                    assert!(key_groups_of(owner, workers, max).contains(&group), "{group} of {max} over {workers}");
                }
            }
        }
    }
}
