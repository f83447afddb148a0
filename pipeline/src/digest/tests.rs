//! What changes a digest and what doesn't.
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::*;
use proptest::prelude::*;

use super::*;

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

fn column(name: &str, array: impl Array + 'static) -> RecordBatch {
    batch(vec![(name, Arc::new(array))])
}

fn digest(batch: &RecordBatch) -> Digest {
    RowHasher::new(&batch.schema(), Options::default()).unwrap().digest(batch).unwrap()
}

fn refusal(batch: &RecordBatch) -> DigestError {
    match RowHasher::new(&batch.schema(), Options::default()) {
        Ok(mut hasher) => hasher.digest(batch).unwrap_err(),
        Err(error) => error,
    }
}

fn text(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

#[test]
fn the_border_between_two_columns_counts() {
    let left = batch(vec![("a", text(&["ab"])), ("b", text(&["c"]))]);
    let right = batch(vec![("a", text(&["a"])), ("b", text(&["bc"]))]);
    assert_ne!(digest(&left), digest(&right));
}

#[test]
fn the_border_between_name_and_value_counts() {
    assert_ne!(
        digest(&column("a", StringArray::from(vec!["bc"]))),
        digest(&column("ab", StringArray::from(vec!["c"])))
    );
}

#[test]
fn null_is_not_the_empty_string() {
    assert_ne!(
        digest(&column("a", StringArray::from(vec![Some("")]))),
        digest(&column("a", StringArray::from(vec![None::<&str>])))
    );
}

#[test]
fn a_value_in_another_column_is_another_row() {
    let left = batch(vec![("a", text(&["x"])), ("b", Arc::new(StringArray::new_null(1)))]);
    let right = batch(vec![("a", Arc::new(StringArray::new_null(1))), ("b", text(&["x"]))]);
    assert_ne!(digest(&left), digest(&right));
}

#[test]
fn an_added_nullable_column_changes_nothing() {
    let before = batch(vec![("a", text(&["x", "y"]))]);
    let after = batch(vec![("a", text(&["x", "y"])), ("b", Arc::new(Int64Array::new_null(2)))]);
    assert_eq!(digest(&before), digest(&after));
}

#[test]
fn rows_that_hold_only_nulls_still_count() {
    let nulls = digest(&column("a", Int64Array::new_null(3)));
    assert_eq!(nulls.rows, 3);
    assert_ne!(nulls.sum, 0);
}

#[test]
fn the_order_of_columns_changes_nothing() {
    let left = batch(vec![("a", text(&["x"])), ("b", text(&["y"]))]);
    let right = batch(vec![("b", text(&["y"])), ("a", text(&["x"]))]);
    assert_eq!(digest(&left), digest(&right));
}

#[test]
fn widened_integers_are_the_same_value() {
    let expected = digest(&column("a", Int64Array::from(vec![-1, 7])));
    assert_eq!(digest(&column("a", Int32Array::from(vec![-1, 7]))), expected);
    assert_eq!(digest(&column("a", Int16Array::from(vec![-1, 7]))), expected);
    assert_eq!(digest(&column("a", Int8Array::from(vec![-1, 7]))), expected);
    assert_eq!(digest(&column("a", UInt32Array::from(vec![7]))), digest(&column("a", UInt8Array::from(vec![7]))));
}

#[test]
fn widened_floats_are_the_same_value() {
    assert_eq!(
        digest(&column("a", Float32Array::from(vec![0.5]))),
        digest(&column("a", Float64Array::from(vec![0.5])))
    );
}

#[test]
fn zero_has_one_sign_and_nan_one_face() {
    let odd_nan = f64::from_bits(0xfff8_0000_0000_0001);
    assert_eq!(
        digest(&column("a", Float64Array::from(vec![-0.0, odd_nan]))),
        digest(&column("a", Float64Array::from(vec![0.0, f64::NAN])))
    );
}

#[test]
fn the_precision_of_a_decimal_changes_nothing_and_its_scale_does() {
    let decimal = |precision, scale| {
        column("a", Decimal128Array::from(vec![12345]).with_precision_and_scale(precision, scale).unwrap())
    };
    let narrow = column("a", Decimal64Array::from(vec![12345]).with_precision_and_scale(10, 2).unwrap());
    assert_eq!(digest(&decimal(10, 2)), digest(&decimal(38, 2)));
    assert_eq!(digest(&narrow), digest(&decimal(10, 2)));
    assert_ne!(digest(&decimal(10, 2)), digest(&decimal(10, 3)));
}

#[test]
fn classes_are_apart() {
    let classes = [
        digest(&column("a", Int64Array::from(vec![1]))),
        digest(&column("a", Float64Array::from(vec![1.0]))),
        digest(&column("a", BooleanArray::from(vec![true]))),
        digest(&column("a", Decimal128Array::from(vec![1]).with_precision_and_scale(10, 0).unwrap())),
        digest(&column("a", Date32Array::from(vec![1]))),
        digest(&column("a", Time64MicrosecondArray::from(vec![1]))),
        digest(&column("a", TimestampMicrosecondArray::from(vec![1]))),
        digest(&column("a", TimestampMicrosecondArray::from(vec![1]).with_timezone("UTC"))),
        digest(&column("a", StringArray::from(vec!["1"]))),
        digest(&column("a", BinaryArray::from(vec![b"1".as_slice()]))),
    ];
    for (index, class) in classes.iter().enumerate() {
        assert!(!classes[index + 1..].contains(class), "class {index} is not alone");
    }
}

#[test]
fn units_of_time_are_one() {
    let micros = digest(&column("a", TimestampMicrosecondArray::from(vec![-5_000_000])));
    assert_eq!(digest(&column("a", TimestampSecondArray::from(vec![-5]))), micros);
    assert_eq!(digest(&column("a", TimestampMillisecondArray::from(vec![-5_000]))), micros);
    assert_eq!(digest(&column("a", TimestampNanosecondArray::from(vec![-5_000_000_000]))), micros);
    assert_eq!(
        digest(&column("a", Time32SecondArray::from(vec![5]))),
        digest(&column("a", Time64NanosecondArray::from(vec![5_000_000_000])))
    );
    assert_eq!(
        digest(&column("a", Date64Array::from(vec![86_400_000]))),
        digest(&column("a", Date32Array::from(vec![1])))
    );
}

#[test]
fn units_of_a_time_of_day_are_one() {
    let micros = digest(&column("a", Time64MicrosecondArray::from(vec![5_001_000])));
    assert_eq!(digest(&column("a", Time32MillisecondArray::from(vec![5_001]))), micros);
    assert_eq!(digest(&column("a", Time64NanosecondArray::from(vec![5_001_000_000]))), micros);
}

#[test]
fn the_name_of_the_zone_changes_nothing() {
    let zoned = |zone: &str| digest(&column("a", TimestampMicrosecondArray::from(vec![1]).with_timezone(zone)));
    assert_eq!(zoned("UTC"), zoned("+00:00"));
}

#[test]
fn a_part_of_a_microsecond_is_refused_not_rounded() {
    let error = refusal(&column("t", TimestampNanosecondArray::from(vec![Some(1_000), None, Some(1_001)])));
    assert_eq!(error, DigestError::NotRepresentable { column: "t".into(), row: 2, value: 1_001 });
}

#[test]
fn a_time_beyond_64_bits_is_refused_but_not_below_a_null() {
    let values = vec![i64::MAX];
    assert!(matches!(
        refusal(&column("t", TimestampSecondArray::from(values.clone()))),
        DigestError::NotRepresentable { .. }
    ));
    let null = TimestampSecondArray::new(values.into(), Some(vec![false].into()));
    assert_eq!(digest(&column("t", null)), digest(&column("t", TimestampMicrosecondArray::new_null(1))));
}

#[test]
fn layouts_of_text_are_one() {
    let values = vec![Some("a"), None, Some("a longer text than a view keeps inline"), Some("")];
    let expected = digest(&column("s", StringArray::from(values.clone())));
    assert_eq!(digest(&column("s", LargeStringArray::from(values.clone()))), expected);
    assert_eq!(digest(&column("s", StringViewArray::from(values.clone()))), expected);
    assert_eq!(digest(&column("s", values.into_iter().collect::<DictionaryArray<Int32Type>>())), expected);
}

#[test]
fn layouts_of_bytes_are_one() {
    let values: Vec<&[u8]> = vec![b"0123", b"\x00\xff\x00\xff"];
    let expected = digest(&column("x", BinaryArray::from(values.clone())));
    assert_eq!(digest(&column("x", LargeBinaryArray::from(values.clone()))), expected);
    assert_eq!(digest(&column("x", BinaryViewArray::from(values.clone()))), expected);
    assert_eq!(digest(&column("x", FixedSizeBinaryArray::try_from_iter(values.into_iter()).unwrap())), expected);
}

#[test]
fn a_slice_is_its_rows_and_no_others() {
    let whole = batch(vec![
        ("b", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]))),
        ("f", Arc::new(FixedSizeBinaryArray::try_from_iter([b"ab", b"cd", b"ef"].into_iter()).unwrap())),
        ("i", Arc::new(Int64Array::from(vec![Some(1), Some(2), None]))),
        ("s", text(&["x", "y", "z"])),
    ]);
    let mut parts = digest(&whole.slice(0, 1));
    parts.merge(digest(&whole.slice(1, 2)));
    assert_eq!(parts, digest(&whole));
}

#[test]
fn meta_columns_are_left_out_when_asked() {
    let with = batch(vec![("a", text(&["x"])), ("_offset", Arc::new(Int64Array::from(vec![7])))]);
    let mut hasher = RowHasher::new(&with.schema(), Options { without_meta: true }).unwrap();
    assert_eq!(hasher.digest(&with).unwrap(), digest(&batch(vec![("a", text(&["x"]))])));
    assert_ne!(digest(&with), hasher.digest(&with).unwrap());
}

#[test]
fn hashes_of_rows_collect_into_the_digest_of_the_rows() {
    let rows = column("a", Int64Array::from(vec![7, 7, 8]));
    let mut hashes = vec![];
    RowHasher::new(&rows.schema(), Options::default()).unwrap().hash(&rows, &mut hashes).unwrap();
    assert_eq!(hashes.into_iter().collect::<Digest>(), digest(&rows));
}

#[test]
fn two_equal_rows_do_not_vanish() {
    let twice = digest(&column("a", Int64Array::from(vec![7, 7])));
    assert_eq!(twice.rows, 2);
    assert_ne!(twice.sum, 0);
    assert_ne!(twice, digest(&column("a", Int64Array::from(vec![7]))));
}

#[test]
fn nested_and_unsigned_64_bit_columns_are_refused_by_name() {
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)])]);
    assert!(matches!(refusal(&column("tags", list)), DigestError::UnsupportedType { column, .. } if column == "tags"));
    assert!(matches!(refusal(&column("u", UInt64Array::from(vec![1]))), DigestError::UnsupportedType { .. }));
}

#[test]
fn a_column_name_that_occurs_twice_is_refused() {
    let error = refusal(&batch(vec![("a", text(&["x"])), ("a", text(&["y"]))]));
    assert_eq!(error, DigestError::DuplicateColumn { column: "a".into() });
}

#[test]
fn a_batch_of_another_schema_is_refused() {
    let first = column("a", Int64Array::from(vec![1]));
    let mut hasher = RowHasher::new(&first.schema(), Options::default()).unwrap();
    let other = hasher.digest(&column("b", Int64Array::from(vec![1])));
    let (expected, found) = ("a Int64".to_owned(), "b Int64".to_owned());
    assert_eq!(other, Err(DigestError::SchemaChanged { expected, found }));
}

#[test]
fn a_batch_whose_columns_differ_in_nullability_only_is_taken() {
    let nullable = column("a", Int64Array::from(vec![1]));
    let array: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let required = RecordBatch::try_from_iter_with_nullable([("a", array, false)]).unwrap();
    let mut hasher = RowHasher::new(&nullable.schema(), Options::default()).unwrap();
    assert_eq!(hasher.digest(&required), Ok(digest(&nullable)));
}

#[test]
fn the_text_form_comes_back() {
    let digest = Digest { rows: 12_000, sum: 0xc4 };
    assert_eq!(digest.to_string(), "v1:12000:000000000000000000000000000000c4");
    assert_eq!(digest.to_string().parse(), Ok(digest));
}

#[test]
fn a_text_of_another_version_is_refused() {
    for text in ["v2:1:000000000000000000000000000000c4", "v1:1:c4", "v1:x:000000000000000000000000000000c4", ""] {
        assert_eq!(text.parse::<Digest>(), Err(DigestError::Malformed { text: text.to_owned() }));
    }
}

#[test]
fn only_the_bucket_of_a_missing_row_differs() {
    let rows = column("a", Int64Array::from_iter_values(0..10_000));
    let mut hashes = Vec::new();
    RowHasher::new(&rows.schema(), Options::default()).unwrap().hash(&rows, &mut hashes).unwrap();
    let (mut all, mut without_one) = (Buckets::new(8), Buckets::new(8));
    hashes.iter().for_each(|hash| all.add_row(*hash));
    hashes[1..].iter().for_each(|hash| without_one.add_row(*hash));
    let differing: Vec<usize> = all.differing(&without_one).map(|(bucket, _)| bucket).collect();
    assert_eq!(differing, [all.bucket_of(hashes[0])]);
    assert_eq!(all.total(), digest(&rows));
}

#[test]
fn a_bucket_that_differs_is_told_with_the_rows_of_both_sides() {
    let (upper, lower) = (1u128 << 127, 1u128);
    let (mut ours, mut theirs) = (Buckets::new(1), Buckets::new(1));
    [lower, lower, upper, upper, upper].into_iter().for_each(|hash| ours.add_row(hash));
    [lower, lower, upper, upper].into_iter().for_each(|hash| theirs.add_row(hash));
    assert_eq!(ours.differing(&theirs).collect::<Vec<_>>(), [(1, 3 + 2)]);
}

type Row = (Option<i64>, Option<String>, Option<String>);

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let cell = proptest::option::of("[ab\\x00]{0,3}");
    proptest::collection::vec((proptest::option::of(-2i64..3), cell.clone(), cell), 0..30)
}

fn table(rows: &[Row]) -> RecordBatch {
    batch(vec![
        ("i", Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>())),
        ("s", Arc::new(rows.iter().map(|row| row.1.as_deref()).collect::<StringArray>())),
        ("st", Arc::new(rows.iter().map(|row| row.2.as_deref()).collect::<StringArray>())),
    ])
}

proptest! {
    #[test]
    fn order_and_batches_change_nothing(rows in rows(), cut in 0usize..30, seed in any::<u64>()) {
        let whole = digest(&table(&rows));
        let mut shuffled = rows.clone();
        shuffled.sort_by_key(|row| xxhash_rust::xxh3::xxh3_64_with_seed(format!("{row:?}").as_bytes(), seed));
        let cut = cut.min(rows.len());
        let mut parts = digest(&table(&shuffled[..cut]));
        parts.merge(digest(&table(&shuffled[cut..])));
        prop_assert_eq!(parts, whole);
        parts.subtract(digest(&table(&shuffled[cut..])));
        prop_assert_eq!(parts, digest(&table(&shuffled[..cut])));
    }

    #[test]
    fn other_rows_have_other_bytes(rows in rows()) {
        let table = table(&rows);
        let mut encoded = Vec::new();
        let mut hasher = RowHasher::new(&table.schema(), Options::default()).unwrap();
        hasher.for_each_row(&table, |bytes| encoded.push(bytes.to_vec())).unwrap();
        for (row, bytes) in rows.iter().zip(&encoded) {
            for (other, other_bytes) in rows.iter().zip(&encoded) {
                prop_assert_eq!(row == other, bytes == other_bytes);
            }
        }
    }

    #[test]
    fn a_changed_multiplicity_is_seen(rows in rows(), times in 2usize..5) {
        prop_assume!(!rows.is_empty());
        let mut more = rows.clone();
        more.extend(std::iter::repeat_n(rows[0].clone(), times));
        prop_assert_ne!(digest(&table(&more)), digest(&table(&rows)));
    }
}
