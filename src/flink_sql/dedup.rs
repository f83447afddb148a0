//! `[dedup.NAME]`: the first record of each key in order of arrival.
//!
//! Where nobody takes the duplicates it is ROW_NUMBER() = 1, which keeps one bit for a key. Else a running count, which keeps the first copy's place too, so
//! that the duplicates can be told with it. Either is one operator that judges each record once.
//! Doesn't know: horizons: Flink's dedup forgets nothing. Tested: flink_sql/tests.rs, tests/flink_sql.rs.
use floodmark_pipeline::ids::NodeId;
use floodmark_pipeline::plan::{Dedup, OutputId};

use super::input::{self, column_list};
use super::job::Job;
use super::source::PLACE;
use super::sql::{name, names};

pub fn statements(job: &Job<'_>, id: NodeId, dedup: &Dedup) -> Vec<String> {
    let node = job.node(id).name.as_str();
    let schema = job.plan().input_schema(id).cloned().unwrap_or_default();
    let key = names(dedup.key.iter().map(|column| schema.fields[*column].name.as_str()));
    let mut out = vec![];
    let input = input::of_operator(job, id, &mut out);
    let all = input::columns(job, id);
    let list = column_list(&all);
    if job.is_read(id, OutputId::DEDUP_LATE) {
        job.note(node, "horizon", "no record is too old to be judged, so the late output has no rows");
    }
    if !job.is_read(id, OutputId::DEDUP_DUPLICATES) {
        out.push(format!(
            "CREATE TEMPORARY VIEW {} AS\nSELECT {list}\nFROM (\n  SELECT *, ROW_NUMBER() OVER (PARTITION BY {key} ORDER BY PROCTIME()) AS `_copy`\n  FROM {}\n)\nWHERE `_copy` = 1",
            name(node),
            name(&input)
        ));
        return out;
    }
    let arrived = format!("{node}.arrived");
    let counted = format!("{node}.counted");
    out.push(format!(
        "CREATE TEMPORARY VIEW {} AS\nSELECT *, PROCTIME() AS `_arrival`\nFROM {}",
        name(&arrived),
        name(&input)
    ));
    let first: String = PLACE
        .iter()
        .map(|place| format!(",\n  FIRST_VALUE({}) OVER copies AS {}", name(place), name(&first_of(place))))
        .collect();
    out.push(format!(
        "CREATE TEMPORARY VIEW {} AS\nSELECT {list},\n  COUNT(*) OVER copies AS `_copy`{first}\nFROM {}\nWINDOW copies AS (PARTITION BY {key} ORDER BY `_arrival` ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
        name(&counted),
        name(&arrived)
    ));
    out.push(format!(
        "CREATE TEMPORARY VIEW {} AS\nSELECT {list}\nFROM {}\nWHERE `_copy` = 1",
        name(node),
        name(&counted)
    ));
    let mut columns: Vec<String> = schema.fields.iter().map(|field| field.name.clone()).collect();
    columns.extend(PLACE.map(str::to_owned));
    columns.extend(PLACE.map(first_of));
    out.push(format!(
        "CREATE TEMPORARY VIEW {} AS\nSELECT {}\nFROM {}\nWHERE `_copy` > 1",
        name(&format!("{node}.duplicates")),
        column_list(&columns),
        name(&counted)
    ));
    out
}

/// `_offset` → `_first_offset`
fn first_of(place: &str) -> String {
    format!("_first{place}")
}
