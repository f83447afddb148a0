//! `[dedup.NAME]` and `[window.NAME]`: as written, and resolved against the schema of their input.
//!
//! Doesn't know: where the input comes from. Keeps: a key has one meaning (never null for dedup, never a float), an aggregate one result, however rows are ordered.
//! Tested: config/tests.
use std::ops::Range;
use std::time::Duration;

use floodmark_pipeline::plan::{Aggregate, Assigner, Dedup, Function, Window};
use floodmark_pipeline::schema::{FieldType, Schema};
use floodmark_pipeline::time::Span;

use super::diagnostic::{Diagnostic, did_you_mean};
use super::error_id::ErrorId;
use super::keys::{HOPPING, SESSION, TUMBLING};
use super::schema::{FREE, is_reserved};
use super::table::{At, Context, Table};
use super::value::{call, show_duration};

/// Most slices that a horizon may be cut into: each is a column family.
const MAX_BUCKETS: i64 = 1_000;

const FUNCTIONS: [(&str, Function); 5] = [
    ("count", Function::Count),
    ("sum", Function::Sum),
    ("min", Function::Min),
    ("max", Function::Max),
    ("avg", Function::Avg),
];

pub struct DedupDraft {
    pub key: Vec<At<String>>,
    pub horizon: Span,
    pub bucket: Span,
}

pub struct WindowDraft {
    pub assigner: Assigner,
    pub key: Vec<At<String>>,
    /// `None` where one of them is wrong.
    pub aggregates: Option<Vec<AggregateDraft>>,
}

pub struct AggregateDraft {
    pub name: At<String>,
    pub function: Function,
    pub column: Option<At<String>>,
}

pub fn read_dedup(table: &Table<'_>) -> DedupDraft {
    table.refuse_unknown(&[]);
    let horizon = table.duration("horizon");
    let bucket = table.duration("bucket");
    let width = match (&horizon, &bucket) {
        (Some(h), Some(b)) if b.value > h.value => {
            contradiction(table, "bucket", "horizon", "a slice is not wider than the horizon");
            h.value
        }
        (Some(h), Some(b)) if h.value.as_millis() as i64 / b.value.as_millis() as i64 > MAX_BUCKETS => {
            contradiction(table, "bucket", "horizon", "at most 1,000 slices in the horizon");
            b.value
        }
        (_, Some(b)) => b.value,
        (Some(h), None) => (h.value / 24).max(Duration::from_millis(1)),
        (None, None) => Duration::ZERO,
    };
    DedupDraft { key: table.texts("key"), horizon: span(horizon), bucket: Span(width.as_millis() as i64) }
}

pub fn read_window(table: &mut Table<'_>) -> WindowDraft {
    let kind = table.choice("type").map(|t| t.value);
    let groups = [&TUMBLING, &HOPPING, &SESSION];
    match kind.as_deref() {
        Some("tumbling") => table.allow(&TUMBLING),
        Some("hopping") => table.allow(&HOPPING),
        Some("session") => table.allow(&SESSION),
        _ => groups.into_iter().for_each(|g| table.allow(g)),
    }
    table.refuse_unknown(&groups);
    let assigner = match kind.as_deref() {
        Some("session") => Assigner::Session { gap: span(table.duration("gap")) },
        Some(kind) => hopping(table, kind == "hopping"),
        None => Assigner::Session { gap: Span::default() },
    };
    let aggregates = table.table("aggregates", format!("`aggregates` of {}", table.name), &FREE);
    let aggregates = aggregates.and_then(|t| read_aggregates(&t));
    WindowDraft { assigner, key: table.texts("key"), aggregates }
}

fn hopping(table: &Table<'_>, has_slide: bool) -> Assigner {
    let size = table.duration("size");
    let slide = if has_slide { table.duration("slide") } else { size.clone() };
    let offset = table.duration("offset");
    if let (Some(size), Some(slide)) = (&size, &slide) {
        let step = if has_slide { "slide" } else { "size" };
        if slide.value > size.value {
            contradiction(table, "slide", "size", "between two windows there would be rows that none of them holds");
        } else if offset.as_ref().is_some_and(|o| o.value >= slide.value) {
            let why = format!("windows repeat every {}: an offset is less than that", show_duration(slide.value));
            contradiction(table, "offset", step, &why);
        }
    }
    Assigner::Hopping { size: span(size), slide: span(slide), offset: span(offset) }
}

fn span(duration: Option<At<Duration>>) -> Span {
    Span(duration.map_or(0, |d| d.value.as_millis() as i64))
}

/// Two keys that can't both hold.
pub fn contradiction(table: &Table<'_>, key: &str, other: &str, why: &str) {
    table.cx.problems.add(
        Diagnostic::new(ErrorId::CONTRADICTION, format!("`{key}` contradicts `{other}` in {}", table.name))
            .at(table.span_of(key), "")
            .related(table.span_of(other), "")
            .note(why),
    );
}

fn read_aggregates(table: &Table<'_>) -> Option<Vec<AggregateDraft>> {
    let mut aggregates: Vec<AggregateDraft> = vec![];
    for (name, value) in table.entries() {
        if is_reserved(name.value) || ["window_start", "window_end"].contains(&name.value) {
            table.cx.problems.add(
                Diagnostic::new(ErrorId::RESERVED_COLUMN, format!("`{}` is a reserved column name", name.value))
                    .at(name.span.clone(), "")
                    .note("`window_start` and `window_end` are columns of every window; names with a leading `_` are the engine's"),
            );
        }
        let text = table.scalar(&value).map(|t| At { value: t.value, span: value.span.clone() });
        let Some((function, column)) = text.and_then(|t| parse_aggregate(table.cx, &t)) else { continue };
        let name = At { value: name.value.to_owned(), span: name.span };
        aggregates.push(AggregateDraft { name, function, column });
    }
    if table.entries().is_empty() {
        let diagnostic = Diagnostic::new(ErrorId::MISSING_KEY, format!("{} is empty", table.name));
        table
            .cx
            .problems
            .add(diagnostic.at(table.span.clone(), "").note("for example: aggregates = { n = \"count()\" }"));
    }
    (!aggregates.is_empty() && aggregates.len() == table.entries().len()).then_some(aggregates)
}

fn parse_aggregate(cx: &Context<'_>, text: &At<String>) -> Option<(Function, Option<At<String>>)> {
    let refuse = |label: String| {
        cx.problems.add(
            Diagnostic::new(ErrorId::BAD_AGGREGATE, format!("{} is not an aggregate", cx.written(&text.span)))
                .at(text.span.clone(), label)
                .note("allowed: count(), count(column), sum(column), min(column), max(column), avg(column)"),
        );
        None
    };
    let Some((name, arguments)) = call(&text.value).filter(|_| text.value.contains('(')) else {
        return refuse(String::new());
    };
    let Some((_, function)) = FUNCTIONS.iter().find(|(word, _)| *word == name.to_lowercase()) else {
        return refuse(did_you_mean(name, FUNCTIONS.iter().map(|(word, _)| *word)));
    };
    let at = |column: &&str| At { value: (*column).to_owned(), span: text.span.clone() };
    match (function, arguments.as_slice()) {
        (Function::Count, [] | ["*"]) => Some((*function, None)),
        (_, [column]) if !column.is_empty() => Some((*function, Some(at(column)))),
        _ => refuse(format!("`{name}` takes one column")),
    }
}

pub fn resolve_dedup(cx: &Context<'_>, draft: &DedupDraft, input: &Schema) -> Option<Dedup> {
    let key = columns(cx, &draft.key, input)?;
    for (index, column) in key.iter().zip(&draft.key).filter(|(i, _)| input.fields[**i].nullable) {
        cx.problems.add(
            Diagnostic::new(
                ErrorId::NOT_A_KEY,
                format!("`{}` may be null, and all nulls would be one key", column.value),
            )
            .at(column.span.clone(), format!("it is {}?", input.fields[*index].ty))
            .note("declare it without `?`: a record that lacks it then goes to the source's errors output"),
        );
    }
    Some(Dedup { key, horizon: draft.horizon, bucket: draft.bucket })
}

pub fn resolve_window(cx: &Context<'_>, draft: &WindowDraft, input: &Schema) -> Option<Window> {
    let key = columns(cx, &draft.key, input);
    let drafts = draft.aggregates.as_ref()?;
    let aggregates: Vec<_> = drafts.iter().map(|a| resolve_aggregate(cx, a, input)).collect();
    let (key, aggregates) = (key?, aggregates.into_iter().collect::<Option<Vec<_>>>()?);
    let taken = |name: &str| key.iter().any(|i| input.fields[*i].name.eq_ignore_ascii_case(name));
    for column in drafts.iter().map(|a| &a.name).filter(|n| taken(&n.value)) {
        duplicate_column(cx, &column.value, &column.span, "the key has a column of that name");
    }
    for column in draft.key.iter().filter(|k| ["window_start", "window_end"].contains(&k.value.as_str())) {
        duplicate_column(cx, &column.value, &column.span, "every window has a column of that name");
    }
    Some(Window { assigner: draft.assigner, key, aggregates })
}

fn duplicate_column(cx: &Context<'_>, name: &str, span: &Range<usize>, why: &str) {
    cx.problems.add(Diagnostic::new(ErrorId::DUPLICATE_COLUMN, format!("two columns `{name}`")).at(span.clone(), why));
}

/// Places of key columns in the input.
fn columns(cx: &Context<'_>, key: &[At<String>], input: &Schema) -> Option<Vec<usize>> {
    let mut found: Vec<usize> = vec![];
    for column in key {
        let index = column_index(cx, column, &column.value, input)?;
        if found.contains(&index) {
            let diagnostic =
                Diagnostic::new(ErrorId::DUPLICATE_COLUMN, format!("`{}` is in the key twice", column.value));
            cx.problems.add(diagnostic.at(column.span.clone(), "remove it"));
        }
        if input.fields[index].ty == FieldType::Float64 {
            cx.problems.add(
                Diagnostic::new(ErrorId::NOT_A_KEY, format!("`{}` can't be a key", column.value))
                    .at(column.span.clone(), "it is float64")
                    .note("equality of floats has traps (0.0 and -0.0): declare it as decimal(p,s) or string"),
            );
        }
        found.push(index);
    }
    Some(found)
}

/// Place of a column in a schema; an unknown one is refused.
pub fn column_index(cx: &Context<'_>, at: &At<String>, name: &str, schema: &Schema) -> Option<usize> {
    let index = schema.index_of(name);
    if index.is_none() {
        let names: Vec<&str> = schema.fields.iter().map(|f| f.name.as_str()).collect();
        cx.problems.add(
            Diagnostic::new(ErrorId::UNKNOWN_COLUMN, format!("no column `{name}` in what is read here"))
                .at(at.span.clone(), did_you_mean(name, names.iter().copied()))
                .note(format!("columns: {}", names.join(", "))),
        );
    }
    index
}

fn resolve_aggregate(cx: &Context<'_>, draft: &AggregateDraft, input: &Schema) -> Option<Aggregate> {
    let column = match &draft.column {
        None => None,
        Some(column) => Some(column_index(cx, column, &column.value, input)?),
    };
    let result = match (draft.function, column) {
        (Function::Count, _) | (_, None) => Some(FieldType::Int64),
        (function, Some(index)) => result_type(function, input.fields[index].ty),
    };
    let Some(result) = result else {
        let (index, at) = (column?, draft.column.as_ref()?);
        cx.problems.add(no_result(cx, at, input.fields[index].ty, draft.function));
        return None;
    };
    Some(Aggregate { name: draft.name.value.clone(), function: draft.function, column, result })
}

fn no_result(cx: &Context<'_>, at: &At<String>, ty: FieldType, function: Function) -> Diagnostic {
    let written = cx.written(&at.span);
    if ty == FieldType::Float64 {
        return Diagnostic::new(
            ErrorId::FLOAT_SUM,
            format!("{written}: a float64 sum depends on the order of its rows"),
        )
        .at(at.span.clone(), format!("`{}` is float64", at.value))
        .note(format!("declare it as a decimal in the schema: {} = \"decimal(18,6)\"", at.value));
    }
    let allowed = match function {
        Function::Min | Function::Max => "int32, int64, float64, decimal, date, timestamps",
        _ => "int32, int64, decimal",
    };
    Diagnostic::new(ErrorId::AGGREGATE_TYPE, format!("{written} can't be computed over {ty}"))
        .at(at.span.clone(), format!("`{}` is {ty}", at.value))
        .note(format!("allowed: {allowed}; count takes any column"))
}

/// Result types of DESIGN.md 3; `None` where there is none.
fn result_type(function: Function, ty: FieldType) -> Option<FieldType> {
    use FieldType::{Date, Decimal, Float64, Int32, Int64, Timestamp};
    match (function, ty) {
        (Function::Count, _) => Some(Int64),
        (Function::Sum, Int32 | Int64) => Some(Int64),
        (Function::Sum, Decimal { scale, .. }) => Some(Decimal { precision: 38, scale }),
        (Function::Avg, Int32 | Int64) => Some(Decimal { precision: 38, scale: 6 }),
        (Function::Avg, Decimal { scale, .. }) => Some(Decimal { precision: 38, scale: scale.max(6) }),
        (Function::Min | Function::Max, Int32 | Int64 | Float64 | Decimal { .. } | Date | Timestamp { .. }) => Some(ty),
        _ => None,
    }
}

/// Whether an aggregate can leave its result type, so that the errors output can carry rows.
pub fn can_overflow(window: &Window, input: &Schema) -> bool {
    window.aggregates.iter().any(|a| match (a.function, a.column.map(|c| input.fields[c].ty)) {
        (Function::Sum, _) => true,
        (Function::Avg, Some(FieldType::Decimal { precision, scale })) => precision as i8 - scale > 38 - scale.max(6),
        _ => false,
    })
}
