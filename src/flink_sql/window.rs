//! `[window.NAME]`: a window function, its aggregates, and its late rows.
//!
//! Which rows are late is said once, by one operator in front of the aggregation (`….judged`), and both branches read its word: two filters would each meet
//! a watermark of its own, and a row could stand in both branches or in neither.
//!
//!   lateness = "event", and sessions      clean ─▶ clean.judged (time ≤ watermark) ─┬▶ NAME.on_time ─▶ window function ─▶ NAME.all
//!                                                                                   └▶ NAME.late
//!   lateness = "window"                   clean ─▶ window function ─▶ NAME.judged (end − 1 ms ≤ watermark) ─┬▶ NAME.all
//!                                                                                                           └▶ NAME.late
//!
//! Doesn't know: where rows come from. Keeps: no row is dropped by the window function itself: what it would drop has been judged late before.
//! Tested: flink_sql/tests.rs, tests/flink_sql.rs.
mod aggregates;

use floodmark_pipeline::ids::NodeId;
use floodmark_pipeline::plan::{Assigner, NodeKind, OutputId, Window};

use super::input::{self, column_list, columns};
use super::job::Job;
use super::source::TIME;
use super::sql::{interval, name, names, text};
use aggregates::Aggregates;

/// Columns that Flink's window functions add.
const BOUNDS: [&str; 3] = ["window_start", "window_end", "window_time"];

pub fn statements(job: &Job<'_>, id: NodeId, window: &Window) -> Vec<String> {
    let node = job.node(id).name.as_str();
    let schema = job.plan().input_schema(id).cloned().unwrap_or_default();
    if !can_be(job, id, window) {
        return vec![];
    }
    let Some(by_event) = late_by_event(job, id) else { return vec![] };
    let mut out = vec![];
    let input = input::of_operator(job, id, &mut out);
    let key = names(window.key.iter().map(|column| schema.fields[*column].name.as_str()));
    let by_time = by_event || matches!(window.assigner, Assigner::Session { .. });
    let (rows, late) = if by_time {
        let judged = judged_by_time(job, id, &input, &mut out);
        let on_time = format!("{node}.on_time");
        out.push(format!(
            "CREATE TEMPORARY VIEW {} AS\nSELECT *\nFROM {}\nWHERE NOT `_late`",
            name(&on_time),
            name(&judged)
        ));
        (function(window.assigner, &on_time, &key), judged)
    } else {
        let judged = format!("{node}.judged");
        out.push(judge(&judged, "window_time", &function(window.assigner, &input, &key)));
        (format!("{}\nWHERE NOT `_late`", name(&judged)), judged)
    };
    let aggregates = Aggregates::of(job, node, window, &schema);
    let groups = if key.is_empty() { String::new() } else { format!(", {key}") };
    out.push(format!(
        "CREATE TEMPORARY VIEW {} AS\nSELECT `window_start`, `window_end`{groups},\n  {}\nFROM {rows}\nGROUP BY `window_start`, `window_end`{groups}",
        name(&format!("{node}.all")),
        aggregates.computed.join(",\n  ")
    ));
    out.push(fitting(node, &key, &aggregates));
    if job.is_read(id, OutputId::WINDOW_ERRORS) {
        out.push(errors(node, &key, &aggregates));
    }
    if job.is_read(id, OutputId::WINDOW_LATE) {
        out.extend(late_rows(job, id, window, by_time, &late));
    }
    out
}

/// Whether Flink has such windows; says so if not.
fn can_be(job: &Job<'_>, id: NodeId, window: &Window) -> bool {
    let node = job.node(id).name.as_str();
    let mut can = true;
    if let Assigner::Hopping { size, slide, offset } = window.assigner {
        if offset.0 != 0 {
            let why = "windows with an offset lose rows in Flink 1.20 (FLINK-36664)";
            job.refuse(node, "offset", why, "leave it out, or run this file with floodmark");
            can = false;
        }
        if size.0 % slide.0 != 0 {
            let why = "Flink's HOP needs a size that is a multiple of the slide";
            job.refuse(node, "slide", why, "choose another size or slide, or run this file with floodmark");
            can = false;
        }
    }
    let taken = columns(job, id).into_iter().find(|column| BOUNDS.contains(&column.as_str()));
    if let Some(column) = taken {
        let why = format!("it reads a column `{column}`, and Flink's window functions add one of this name");
        job.refuse(node, "from", &why, "give the column another name in the source's schema");
        can = false;
    }
    can
}

/// The sources' `lateness`, which must be one.
fn late_by_event(job: &Job<'_>, id: NodeId) -> Option<bool> {
    let by_event = |source: NodeId| match &job.node(source).kind {
        NodeKind::Source(source) => source.late_by_event,
        _ => false,
    };
    let sources = job.plan().sources_of(id);
    let first = sources.first().copied().is_some_and(by_event);
    if let Some(other) = sources.iter().find(|source| by_event(**source) != first) {
        let why = format!("the sources of window `{}` differ in it", job.node(id).name);
        job.refuse(&job.node(*other).name, "lateness", &why, "give them all the same");
        return None;
    }
    Some(first)
}

/// `TABLE(TUMBLE(…))` over a view.
fn function(assigner: Assigner, view: &str, key: &str) -> String {
    let (view, time) = (name(view), name(TIME));
    match assigner {
        Assigner::Hopping { size, slide, .. } if size == slide => {
            format!("TABLE(TUMBLE(TABLE {view}, DESCRIPTOR({time}), {}))", interval(size.0))
        }
        Assigner::Hopping { size, slide, .. } => {
            format!("TABLE(HOP(TABLE {view}, DESCRIPTOR({time}), {}, {}))", interval(slide.0), interval(size.0))
        }
        Assigner::Session { gap } => {
            let by = if key.is_empty() { String::new() } else { format!(" PARTITION BY ({key})") };
            format!("TABLE(SESSION(TABLE {view}{by}, DESCRIPTOR({time}), {}))", interval(gap.0))
        }
    }
}

/// One judge for all windows that read the same and judge by the record's own time.
fn judged_by_time(job: &Job<'_>, id: NodeId, input: &str, out: &mut Vec<String>) -> String {
    job.shared_view("judged", &job.node(id).inputs, || {
        let judged = format!("{input}.judged");
        out.push(judge(&judged, TIME, &name(input)));
        judged
    })
}

/// Flink's watermark is one millisecond less than ours (see `source`): here it is added again. Before the first watermark nothing is late.
fn judge(view: &str, what: &str, rows: &str) -> String {
    let watermark = format!("CURRENT_WATERMARK({}) + {}", name(TIME), interval(1));
    format!(
        "CREATE TEMPORARY VIEW {} AS\nSELECT *,\n  {watermark} AS `_watermark`,\n  COALESCE({} <= {watermark}, FALSE) AS `_late`\nFROM {rows}",
        name(view),
        name(what)
    )
}

/// The main output: windows whose aggregates fit their types.
fn fitting(node: &str, key: &str, aggregates: &Aggregates) -> String {
    let mut select = bounds();
    select.extend((!key.is_empty()).then(|| key.to_owned()));
    select.extend(aggregates.results.iter().cloned());
    let fits = match aggregates.misfits.as_slice() {
        [] => String::new(),
        misfits => {
            let all: Vec<_> = misfits.iter().map(|misfit| format!("NOT ({})", misfit.condition)).collect();
            format!("\nWHERE {}", all.join("\n  AND "))
        }
    };
    let from = name(&format!("{node}.all"));
    format!("CREATE TEMPORARY VIEW {} AS\nSELECT\n  {}\nFROM {from}{fits}", name(node), select.join(",\n  "))
}

/// Windows with an aggregate that doesn't fit; the first one is told.
fn errors(node: &str, key: &str, aggregates: &Aggregates) -> String {
    let any: Vec<_> = aggregates.misfits.iter().map(|misfit| misfit.condition.clone()).collect();
    let any = if any.is_empty() { "FALSE".to_owned() } else { any.join("\n  OR ") };
    let details: String =
        aggregates.misfits.iter().map(|misfit| format!(" WHEN {} THEN {}", misfit.condition, misfit.detail)).collect();
    let detail = if details.is_empty() { "''".to_owned() } else { format!("CASE{details} END") };
    let mut select = bounds();
    select.extend((!key.is_empty()).then(|| key.to_owned()));
    select.extend([
        format!("{} AS `_window_node`", text(node)),
        "'overflow' AS `_reason`".into(),
        format!("{detail} AS `_detail`"),
    ]);
    format!(
        "CREATE TEMPORARY VIEW {} AS\nSELECT\n  {}\nFROM {}\nWHERE {any}",
        name(&format!("{node}.errors")),
        select.join(",\n  "),
        name(&format!("{node}.all"))
    )
}

fn bounds() -> Vec<String> {
    ["window_start", "window_end"].map(|bound| format!("CAST(`{bound}` AS TIMESTAMP_LTZ(6)) AS `{bound}`")).into()
}

/// A row for each window that a record missed, with its bounds.
fn late_rows(job: &Job<'_>, id: NodeId, window: &Window, by_time: bool, judged: &str) -> Vec<String> {
    let node = job.node(id).name.as_str();
    let mut out = vec![];
    let time = name(TIME);
    let ltz = |value: &str| format!("CAST({value} AS TIMESTAMP_LTZ(6))");
    let (rows, start, end) = match window.assigner {
        Assigner::Session { gap } => {
            let end = format!("{time} + {}", interval(gap.0));
            (format!("{}\nWHERE `_late`", name(judged)), time, end)
        }
        assigner if by_time => {
            let too_late = format!("{node}.too_late");
            let select =
                format!("CREATE TEMPORARY VIEW {} AS\nSELECT *\nFROM {}\nWHERE `_late`", name(&too_late), name(judged));
            out.push(select);
            (function(assigner, &too_late, ""), "`window_start`".into(), "`window_end`".into())
        }
        _ => (format!("{}\nWHERE `_late`", name(judged)), "`window_start`".into(), "`window_end`".into()),
    };
    let columns: Vec<String> = columns(job, id).into_iter().filter(|column| column != TIME).collect();
    out.push(format!(
        "CREATE TEMPORARY VIEW {} AS\nSELECT {},\n  {} AS `_watermark`,\n  {} AS `_window_node`,\n  {} AS `_window_start`,\n  {} AS `_window_end`,\n  'late' AS `_reason`\nFROM {rows}",
        name(&format!("{node}.late")),
        column_list(&columns),
        ltz("`_watermark`"),
        text(node),
        ltz(&start),
        ltz(&end),
    ));
    out
}
