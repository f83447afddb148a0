//! Partition spec and sort order of a new Iceberg table: `day(window_start)`, `user_id desc nulls last`.
//!
//! Doesn't know: Iceberg's own types. Keeps: a transform stands only over a type that Iceberg lets it stand over. Tested: config/tests.
use floodmark_pipeline::schema::{FieldType, Schema};

use super::diagnostic::{Diagnostic, did_you_mean};
use super::error_id::ErrorId;
use super::model::{PartitionField, SortField, Transform};
use super::operator::column_index;
use super::table::{At, Context, Table};
use super::value::call;

const TRANSFORMS: [&str; 6] = ["year", "month", "day", "hour", "bucket", "truncate"];

/// A field and where it is written.
pub type Written<T> = (At<String>, T);

pub fn read_partition(table: &Table<'_>) -> Vec<Written<PartitionField>> {
    table
        .texts("partition")
        .into_iter()
        .filter_map(|text| Some((text.clone(), partition_field(table.cx, &text)?)))
        .collect()
}

fn partition_field(cx: &Context<'_>, text: &At<String>) -> Option<PartitionField> {
    let parsed = call(&text.value).and_then(|(name, arguments)| {
        let width = |text: &str| text.parse::<u32>().ok().filter(|n| (1..=i32::MAX as u32).contains(n));
        let (transform, column) = match (name, arguments.as_slice()) {
            (column, []) if !text.value.contains('(') => (Transform::Identity, column),
            ("year", [column]) => (Transform::Year, *column),
            ("month", [column]) => (Transform::Month, *column),
            ("day", [column]) => (Transform::Day, *column),
            ("hour", [column]) => (Transform::Hour, *column),
            ("bucket", [n, column]) => (Transform::Bucket(width(n)?), *column),
            ("truncate", [w, column]) => (Transform::Truncate(width(w)?), *column),
            _ => return None,
        };
        Some(PartitionField { column: column.to_owned(), transform })
    });
    if parsed.is_none() {
        let name = text.value.split('(').next().unwrap_or_default();
        cx.problems.add(
            Diagnostic::new(ErrorId::BAD_TABLE_LAYOUT, format!("{} is not a partition field", cx.written(&text.span)))
                .at(text.span.clone(), if TRANSFORMS.contains(&name) { String::new() } else { did_you_mean(name, TRANSFORMS) })
                .note("allowed: column, year(column), month(column), day(column), hour(column), bucket(16, column), truncate(4, column)"),
        );
    }
    parsed
}

pub fn read_sort(table: &Table<'_>) -> Vec<Written<SortField>> {
    table.texts("sort").into_iter().filter_map(|text| Some((text.clone(), sort_field(table.cx, &text)?))).collect()
}

/// Without a word on nulls they come first when ascending and last when descending, as Iceberg's writers have it.
fn sort_field(cx: &Context<'_>, text: &At<String>) -> Option<SortField> {
    let words: Vec<&str> = text.value.split_whitespace().collect();
    let (column, descending, nulls_last) = match words.as_slice() {
        [column] | [column, "asc"] => (column, false, false),
        [column, "desc"] => (column, true, true),
        [column, "nulls", "last"] | [column, "asc", "nulls", "last"] => (column, false, true),
        [column, "nulls", "first"] | [column, "asc", "nulls", "first"] => (column, false, false),
        [column, "desc", "nulls", "last"] => (column, true, true),
        [column, "desc", "nulls", "first"] => (column, true, false),
        _ => {
            cx.problems.add(
                Diagnostic::new(ErrorId::BAD_TABLE_LAYOUT, format!("{} is not a sort field", cx.written(&text.span)))
                    .at(text.span.clone(), "")
                    .note("allowed: \"column\", \"column desc\", each with \"nulls first\" or \"nulls last\" behind"),
            );
            return None;
        }
    };
    Some(SortField { column: (*column).to_owned(), descending, nulls_last })
}

/// Checks columns and types against what the sink reads.
pub fn check(cx: &Context<'_>, partition: &[Written<PartitionField>], sort: &[Written<SortField>], input: &Schema) {
    for (at, field) in partition {
        let Some(index) = column_index(cx, at, &field.column, input) else { continue };
        let ty = input.fields[index].ty;
        if !allows(field.transform, ty) {
            cx.problems.add(
                Diagnostic::new(ErrorId::BAD_TABLE_LAYOUT, format!("{} can't be made of {ty}", cx.written(&at.span)))
                    .at(at.span.clone(), format!("`{}` is {ty}", field.column))
                    .note("year, month, day: date and timestamps; hour: timestamps; bucket: all but bool and float64; truncate: integers, decimal, string, binary"),
            );
        }
    }
    for (at, field) in sort {
        column_index(cx, at, &field.column, input);
    }
}

fn allows(transform: Transform, ty: FieldType) -> bool {
    use FieldType::{Binary, Bool, Date, Decimal, Float64, Int32, Int64, String, Timestamp};
    match transform {
        Transform::Identity => ty != Float64,
        Transform::Year | Transform::Month | Transform::Day => matches!(ty, Date | Timestamp { .. }),
        Transform::Hour => matches!(ty, Timestamp { .. }),
        Transform::Bucket(_) => !matches!(ty, Bool | Float64),
        Transform::Truncate(_) => matches!(ty, Int32 | Int64 | Decimal { .. } | String | Binary),
    }
}
