//! Partition values and the order of rows, times before 1970 too.
use arrow_array::{BinaryArray, Decimal128Array, Int64Array, LargeBinaryArray, StringArray, TimestampMicrosecondArray};
use iceberg::arrow::schema_to_arrow_schema;
use iceberg::spec::{NestedField, PrimitiveType, SortField, UnboundPartitionSpec};

use super::*;
use crate::iceberg::table::align;

const DAY: i64 = MICROS_PER_DAY;

fn times(values: &[i64]) -> ArrayRef {
    Arc::new(TimestampMicrosecondArray::from(values.to_vec()).with_timezone("+00:00"))
}

fn ints(array: &ArrayRef) -> Vec<i32> {
    let array = cast(array, &DataType::Int32).unwrap();
    array.as_primitive::<arrow_array::types::Int32Type>().values().to_vec()
}

#[test]
fn days_and_hours_before_1970_are_floors() {
    // -1 µs, a day before 1970 to the microsecond, and half a second before that.
    let at = times(&[0, -1, -DAY, -DAY - 1, -DAY - 500_000, DAY - 1]);
    assert_eq!(ints(&transformed(&at, Transform::Day).unwrap()), [0, -1, -1, -2, -2, 0]);
    assert_eq!(ints(&transformed(&at, Transform::Hour).unwrap()), [0, -1, -24, -25, -25, 23]);
}

#[test]
fn months_and_years_before_1970_are_floors() {
    // 1970-01-01, the last microsecond of 1969, 1969-12-01, the last microsecond of 1969-11, 1968-12-31.
    let at = times(&[0, -1, -31 * DAY, -31 * DAY - 1, -366 * DAY]);
    assert_eq!(ints(&transformed(&at, Transform::Month).unwrap()), [0, -1, -1, -2, -13]);
    assert_eq!(ints(&transformed(&at, Transform::Year).unwrap()), [0, -1, -1, -1, -2]);
    let dates: ArrayRef = Arc::new(Date32Array::from(vec![0, -1, -31, -32, -366]));
    assert_eq!(ints(&transformed(&dates, Transform::Month).unwrap()), [0, -1, -1, -2, -13]);
    assert_eq!(ints(&transformed(&dates, Transform::Year).unwrap()), [0, -1, -1, -1, -2]);
}

#[test]
fn truncation_is_a_floor_and_takes_bytes_too() {
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![7, -1, -10, -11]));
    assert_eq!(ints(&transformed(&numbers, Transform::Truncate(10)).unwrap()), [0, -10, -10, -20]);
    let amounts = Decimal128Array::from(vec![1065, -1]).with_precision_and_scale(9, 2).unwrap();
    let amounts: ArrayRef = Arc::new(amounts);
    let cut = transformed(&amounts, Transform::Truncate(50)).unwrap();
    assert_eq!(cut.as_primitive::<arrow_array::types::Decimal128Type>().values().to_vec(), [1050, -50]);
    let bytes: ArrayRef = Arc::new(LargeBinaryArray::from(vec![&b"abcdef"[..], b"x"]));
    let cut = transformed(&bytes, Transform::Truncate(3)).unwrap();
    assert_eq!(cut.as_binary::<i64>().iter().flatten().collect::<Vec<_>>(), [&b"abc"[..], b"x"]);
}

/// Appendix B of the Iceberg specification.
#[test]
fn buckets_are_those_of_the_specification() {
    let bucket = |array: ArrayRef| ints(&transformed(&array, Transform::Bucket(i32::MAX as u32)).unwrap());
    let spec = |hash: i32| (hash & i32::MAX) % i32::MAX;
    assert_eq!(bucket(Arc::new(Int64Array::from(vec![34]))), [spec(2017239379)]);
    assert_eq!(bucket(Arc::new(Int32Array::from(vec![34]))), [spec(2017239379)]);
    assert_eq!(bucket(Arc::new(StringArray::from(vec!["iceberg"]))), [spec(1210000089)]);
    assert_eq!(bucket(Arc::new(Date32Array::from(vec![17_486]))), [spec(-653330422)]);
    assert_eq!(bucket(times(&[1_510_871_468_000_000])), [spec(-2047944441)]);
    let amount = Decimal128Array::from(vec![1420]).with_precision_and_scale(9, 2).unwrap();
    assert_eq!(bucket(Arc::new(amount)), [spec(-500754589)]);
    assert_eq!(bucket(Arc::new(LargeBinaryArray::from(vec![&[0u8, 1, 2, 3][..]]))), [spec(-188683207)]);
    assert_eq!(bucket(Arc::new(BinaryArray::from(vec![&[0u8, 1, 2, 3][..]]))), [spec(-188683207)]);
}

fn table() -> Arc<Schema> {
    let field = |id, name: &str, ty| Arc::new(NestedField::optional(id, name, Type::Primitive(ty)));
    let fields = [
        field(1, "at", PrimitiveType::Timestamptz),
        field(2, "kind", PrimitiveType::String),
        field(3, "n", PrimitiveType::Long),
    ];
    Arc::new(Schema::builder().with_fields(fields).build().unwrap())
}

fn splitter(by: &[(i32, Transform)], order: &[(i32, SortDirection, NullOrder)]) -> (Splitter, ArrowSchemaRef) {
    let schema = table();
    let mut spec = UnboundPartitionSpec::builder();
    for (id, transform) in by {
        spec = spec.add_partition_field(*id, format!("p{id}"), *transform).unwrap();
    }
    let spec = spec.build().bind(schema.clone()).unwrap();
    let fields = order.iter().map(|(source_id, direction, null_order)| SortField {
        source_id: *source_id,
        transform: Transform::Identity,
        direction: *direction,
        null_order: *null_order,
    });
    let order = SortOrder { order_id: 1, fields: fields.collect() };
    let arrow = Arc::new(schema_to_arrow_schema(&schema).unwrap());
    (Splitter::new(Arc::new(spec), &order, &schema, &arrow).unwrap(), arrow)
}

fn rows(arrow: &ArrowSchemaRef, rows: &[(i64, Option<&str>, i64)]) -> RecordBatch {
    let kinds: ArrayRef = Arc::new(rows.iter().map(|r| r.1).collect::<StringArray>());
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.2)));
    let at = times(&rows.iter().map(|r| r.0).collect::<Vec<_>>());
    align(
        &RecordBatch::try_from_iter_with_nullable([("at", at, true), ("kind", kinds, true), ("n", numbers, true)])
            .unwrap(),
        arrow,
    )
    .unwrap()
}

fn numbers(run: &Run) -> Vec<i64> {
    run.rows.column(2).as_primitive::<arrow_array::types::Int64Type>().values().to_vec()
}

#[test]
fn rows_are_split_by_partition_and_sorted_in_each() {
    let by = [(1, Transform::Day), (2, Transform::Identity)];
    let (splitter, arrow) = splitter(&by, &[(3, SortDirection::Descending, NullOrder::Last)]);
    let batch = rows(
        &arrow,
        &[(DAY, Some("b"), 1), (-1, None, 2), (0, Some("a"), 3), (DAY + 5, Some("b"), 4), (1, Some("a"), 5)],
    );
    let runs = splitter.split(&batch).unwrap();
    let found: Vec<_> = runs.iter().map(|run| (run.partition.clone(), numbers(run))).collect();
    let partition = |day, kind: Option<&str>| Struct::from_iter([Some(Literal::date(day)), kind.map(Literal::string)]);
    assert_eq!(
        found,
        [(partition(-1, None), vec![2]), (partition(0, Some("a")), vec![5, 3]), (partition(1, Some("b")), vec![4, 1])]
    );
}

#[test]
fn without_partition_and_order_rows_stay_as_they_came() {
    let (splitter, arrow) = splitter(&[], &[]);
    let batch = rows(&arrow, &[(5, None, 3), (1, None, 1), (9, None, 2)]);
    let runs = splitter.split(&batch).unwrap();
    assert_eq!(runs.iter().map(numbers).collect::<Vec<_>>(), [[3, 1, 2]]);
    assert!(splitter.split(&batch.slice(0, 0)).unwrap().is_empty());
}

#[test]
fn nulls_sort_where_the_order_says() {
    let (splitter, arrow) = splitter(&[], &[(2, SortDirection::Ascending, NullOrder::Last)]);
    let batch = rows(&arrow, &[(0, None, 1), (0, Some("b"), 2), (0, Some("a"), 3), (0, None, 4)]);
    assert_eq!(splitter.split(&batch).unwrap().iter().map(numbers).collect::<Vec<_>>(), [[3, 2, 1, 4]]);
}
