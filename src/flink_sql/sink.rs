//! `[sink.NAME]`: a table and what is inserted into it.
//!
//! Doesn't know: how rows come about. Keeps: columns have the names and types that floodmark's have, so that one table takes rows of either.
//! Tested: flink_sql/tests.rs, tests/flink_sql.rs.
use std::time::Duration;

use floodmark_pipeline::ids::NodeId;
use floodmark_pipeline::plan::{NodeKind, OutputId, OutputRef};
use floodmark_pipeline::schema::Schema;

use super::catalog::{TableName, table_name};
use super::input::view_of;
use super::job::Job;
use super::place;
use super::source::option;
use super::sql::{columns, name, names, with};
use crate::config::model::{IcebergConfig, SinkConfig, SinkConnector, Transform};
use crate::config::value::show_duration;

/// Statements, and the INSERT; none where no row can come.
pub fn statements(job: &Job<'_>, id: NodeId) -> (Vec<String>, Option<String>) {
    let Some(config) = job.pipeline.sinks.get(&id) else { return (vec![], None) };
    let node = job.node(id).name.as_str();
    let schema = job.plan().input_schema(id).cloned().unwrap_or_default();
    let (rows, none): (Vec<OutputRef>, Vec<OutputRef>) =
        job.node(id).inputs.iter().partition(|input| has_rows(job, **input));
    if !none.is_empty() {
        let list = none.iter().map(|input| format!("`{}`", view_of(job, *input))).collect::<Vec<_>>().join(", ");
        job.note(node, "from", &format!("{list} has no rows on Flink, and is left out"));
    }
    if rows.is_empty() {
        // What is said of its layout would be of nothing.
        return (vec![], None);
    }
    let interval = job.pipeline.settings.checkpoint_interval;
    let (statements, table) = match &config.connector {
        SinkConnector::Iceberg(iceberg) => {
            if config.commit_interval != interval {
                job.note(
                    node,
                    "commit_interval",
                    &format!("Flink commits at every checkpoint, every {}", show_duration(interval)),
                );
            }
            match iceberg_table(job, id, config, iceberg, &schema) {
                Some((statements, table)) => (statements, table),
                None => return (vec![], None),
            }
        }
        SinkConnector::File { dir } => {
            let options = files(&place::location(job, dir), node, config.commit_interval);
            (vec![temporary(node, &schema, &options)], name(node))
        }
        SinkConnector::Stdout => {
            job.note(node, "type", "printed by the TaskManagers, into their output");
            let options = [option("connector", "print"), option("print-identifier", node)];
            (vec![temporary(node, &schema, &options)], name(node))
        }
    };
    let list = names(schema.fields.iter().map(|field| field.name.as_str()));
    let parts: Vec<_> =
        rows.iter().map(|input| format!("SELECT {list}\nFROM {}", name(&view_of(job, *input)))).collect();
    (statements, Some(format!("INSERT INTO {table}\n{}", parts.join("\nUNION ALL\n"))))
}

/// Outputs that Flink has no rows for: records that can't be decoded stop the job, and dedup forgets nothing.
fn has_rows(job: &Job<'_>, output: OutputRef) -> bool {
    match job.node(output.node).kind {
        NodeKind::Source(_) => output.output != OutputId::SOURCE_ERRORS,
        NodeKind::Dedup(_) => output.output != OutputId::DEDUP_LATE,
        _ => true,
    }
}

fn temporary(node: &str, schema: &Schema, options: &[(String, String)]) -> String {
    format!("CREATE TEMPORARY TABLE {} (\n  {}\n) {}", name(node), columns(schema), with(options))
}

fn files(dir: &str, node: &str, commit_interval: Duration) -> Vec<(String, String)> {
    let every = format!("{} ms", commit_interval.as_millis());
    vec![
        option("connector", "filesystem"),
        option("path", &format!("{dir}/{node}")),
        option("format", "json"),
        option("json.timestamp-format.standard", "ISO-8601"),
        option("json.encode.decimal-as-plain-number", "true"),
        option("sink.rolling-policy.rollover-interval", &every),
        option("sink.rolling-policy.check-interval", &every),
    ]
}

fn iceberg_table(
    job: &Job<'_>,
    id: NodeId,
    config: &SinkConfig,
    iceberg: &IcebergConfig,
    schema: &Schema,
) -> Option<(Vec<String>, String)> {
    let node = job.node(id).name.as_str();
    let path: TableName = table_name(job, id, iceberg)?;
    let table = format!("{}.{}", path.database(), name(&path.table));
    let partitioned = if iceberg.partition.iter().all(|field| field.transform == Transform::Identity) {
        match names(iceberg.partition.iter().map(|field| field.column.as_str())) {
            list if list.is_empty() => String::new(),
            list => format!(" PARTITIONED BY ({list})"),
        }
    } else {
        let fields: Vec<_> = iceberg.partition.iter().map(ToString::to_string).collect();
        job.note(
            node,
            "partition",
            &format!("Flink's SQL can't make a table partitioned by {}. It makes one without partitions, unless the table is there already: floodmark makes it so", fields.join(", ")),
        );
        String::new()
    };
    let empty_commits = (iceberg.mark_interval.as_millis() / config.commit_interval.as_millis().max(1)).max(1);
    let mut options = vec![
        option("format-version", "2"),
        option("write.target-file-size-bytes", &iceberg.target_file_size_bytes.to_string()),
        option("flink.max-continuous-empty-commits", &empty_commits.min(i32::MAX as u128).to_string()),
    ];
    options.extend(iceberg.properties.iter().map(|(key, value)| option(key, value)));
    let statements = vec![
        format!("CREATE DATABASE IF NOT EXISTS {}", path.database()),
        format!("CREATE TABLE IF NOT EXISTS {table} (\n  {}\n){partitioned} {}", columns(schema), with(&options)),
    ];
    Some((statements, table))
}
