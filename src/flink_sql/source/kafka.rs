//! Options of Flink's Kafka connector.
//!
//! Doesn't know: columns, beyond whether the record's key is asked for. Tested: flink_sql/tests.rs.
use std::collections::BTreeMap;

use super::columns::Columns;
use super::{notes_of_start, option, properties};
use crate::config::model::{End, KafkaConfig, SourceConfig, Start};
use crate::flink_sql::job::Job;

type Offsets = BTreeMap<(String, i32), i64>;

pub fn options(
    job: &Job<'_>,
    node: &str,
    kafka: &KafkaConfig,
    config: &SourceConfig,
    columns: &Columns,
) -> Vec<(String, String)> {
    let mut options = vec![
        option("connector", "kafka"),
        option("topic", &kafka.topics.join(";")),
        option("properties.bootstrap.servers", &kafka.brokers),
        option("properties.isolation.level", "read_committed"),
    ];
    options.extend(properties::of(job, node, kafka));
    start(job, node, &config.start, kafka, &mut options);
    end(job, node, &config.end, kafka, &mut options);
    if config.end == End::Never {
        let every = format!("{} ms", config.discovery_interval.as_millis());
        options.push(option("scan.topic-partition-discovery.interval", &every));
    }
    match &columns.key {
        Some(key) => options.extend([
            option("key.format", "raw"),
            option("key.fields", key),
            option("value.format", "json"),
            option("value.fields-include", "EXCEPT_KEY"),
        ]),
        None => options.push(option("format", "json")),
    }
    if columns.lenient {
        let key = if columns.key.is_some() { "value.json.ignore-parse-errors" } else { "json.ignore-parse-errors" };
        options.push(option(key, "true"));
    }
    options
}

pub fn watermark_options(node: &str, config: &SourceConfig) -> Vec<(String, String)> {
    let mut options = vec![option("scan.watermark.emit.strategy", "on-event")];
    if let Some(idle) = config.idle {
        options.push(option("scan.watermark.idle-timeout", &format!("{} ms", idle.as_millis())));
    }
    if let Some(align) = config.align_ms {
        options.extend([
            option("scan.watermark.alignment.group", node),
            option("scan.watermark.alignment.max-drift", &format!("{align} ms")),
            option("scan.watermark.alignment.update-interval", "1 s"),
        ]);
    }
    options
}

fn start(job: &Job<'_>, node: &str, start: &Start, kafka: &KafkaConfig, options: &mut Vec<(String, String)>) {
    notes_of_start(job, node, start);
    let mode = match start {
        Start::Earliest => "earliest-offset",
        Start::Latest => "latest-offset",
        Start::TimestampMs(_) => "timestamp",
        Start::Offsets(_) => "specific-offsets",
    };
    options.push(option("scan.startup.mode", mode));
    match start {
        Start::TimestampMs(ms) => options.push(option("scan.startup.timestamp-millis", &ms.to_string())),
        Start::Offsets(offsets) => {
            let offsets = specific(job, node, "start", offsets, kafka);
            options.extend(offsets.map(|offsets| option("scan.startup.specific-offsets", &offsets)));
        }
        Start::Earliest | Start::Latest => {}
    }
}

fn end(job: &Job<'_>, node: &str, end: &End, kafka: &KafkaConfig, options: &mut Vec<(String, String)>) {
    let mode = match end {
        End::Never => return,
        End::Latest => "latest-offset",
        End::TimestampMs(_) => "timestamp",
        End::Offsets(_) => "specific-offsets",
    };
    job.note(
        node,
        "end",
        "at the end Flink fires all windows and commits at once, beside its checkpoints: a failure just then may commit rows twice. A job that is restored after it has read all doesn't end",
    );
    options.push(option("scan.bounded.mode", mode));
    match end {
        End::TimestampMs(ms) => options.push(option("scan.bounded.timestamp-millis", &ms.to_string())),
        End::Offsets(offsets) => {
            let offsets = specific(job, node, "end", offsets, kafka);
            options.extend(offsets.map(|offsets| option("scan.bounded.specific-offsets", &offsets)));
        }
        End::Never | End::Latest => {}
    }
}

fn specific(job: &Job<'_>, node: &str, key: &str, offsets: &Offsets, kafka: &KafkaConfig) -> Option<String> {
    if kafka.topics.len() > 1 {
        job.refuse(
            node,
            key,
            "Flink takes offsets of one topic only",
            "make a source of each topic, and read them together in `from`",
        );
        return None;
    }
    let one = |((_, partition), offset): (&(String, i32), &i64)| format!("partition:{partition},offset:{offset}");
    Some(offsets.iter().map(one).collect::<Vec<_>>().join(";"))
}
