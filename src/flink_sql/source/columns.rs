//! Columns of a source: what the log's records are read as, and what the schema makes of them.
//!
//! Times and dates are read as text, since Flink's json takes only one form of each: the view reads them as floodmark does, as text or number.
//! Doesn't know: connectors' options. Keeps: our own names never meet one of the document. Tested: here, tests/flink_sql.rs.
mod document;
mod time;

use floodmark_pipeline::plan::{EventTimeFrom, NodeKind, Source};
use floodmark_pipeline::schema::FieldType;

use super::TIME;
use crate::config::model::{Origin, SourceConfig};
use crate::flink_sql::job::Job;
use crate::flink_sql::sql::{interval, name, text};
use document::Document;

pub struct Columns {
    /// Definitions of the table's columns.
    pub raw: Vec<String>,
    /// The schema's columns and what they are made of.
    pub names: Vec<String>,
    pub values: Vec<String>,
    /// Topic, partition and offset.
    pub place: [String; 3],
    /// The same as one text, for the message that stops the job.
    pub where_it_is: String,
    /// The log's timestamp among the table's columns, by name.
    pub timestamp: String,
    timestamp_type: String,
    /// The record's key among the table's columns, where it is asked for.
    pub key: Option<String>,
    /// What makes a record unfit, and why.
    pub faults: Vec<(String, String)>,
    /// Whether such a record is passed over instead of stopping the job.
    pub lenient: bool,
}

impl Columns {
    pub fn of(job: &Job<'_>, node: &str, config: &SourceConfig, is_kafka: bool, lenient: bool) -> Columns {
        let format = &config.format;
        let mut document = Document::default();
        for (field, origin) in format.schema.fields.iter().zip(&format.origins) {
            if let Origin::Path(path) = origin {
                document.add(job, node, path, read_as(field.ty));
            }
        }
        let raw_names = document.names();
        let free = |wanted: &str| {
            let mut name = wanted.to_owned();
            while raw_names.contains(&name) {
                name.push('_');
            }
            name
        };
        let wants = |test: fn(&Origin) -> bool| format.origins.iter().any(test);
        let (topic, partition, offset) = (free("_topic"), free("_partition"), free("_offset"));
        let (timestamp, timestamp_type, headers) = (free("_timestamp"), free("_timestamp_type"), free("_headers"));
        let key = (is_kafka && wants(|o| *o == Origin::Key)).then(|| free("_key"));
        let mut columns = Columns {
            raw: document.definitions(),
            names: format.schema.fields.iter().map(|f| f.name.clone()).collect(),
            values: vec![],
            place: [name(&topic), name(&partition), name(&offset)],
            where_it_is: format!(
                "{} || ' ' || CAST({} AS STRING) || ' offset ' || CAST({} AS STRING)",
                name(&topic),
                name(&partition),
                name(&offset)
            ),
            timestamp,
            timestamp_type,
            key,
            faults: vec![],
            lenient,
        };
        columns.add_metadata(&topic, &partition, &offset, is_kafka);
        if wants(|o| matches!(o, Origin::Header(_))) {
            columns.raw.push(format!("{} MAP<STRING, BYTES> METADATA FROM 'headers' VIRTUAL", name(&headers)));
        }
        for (field, origin) in format.schema.fields.iter().zip(&format.origins) {
            let value = columns.value(job, node, field.ty, origin, &headers);
            if !field.nullable && !matches!(origin, Origin::Topic | Origin::Partition | Origin::Offset) {
                let is_event_time = is_event_time(job, node, &field.name);
                let checked = if is_event_time { name(TIME) } else { value.clone() };
                columns.faults.push((format!("{checked} IS NULL"), format!("no {}", field.name)));
            }
            columns.values.push(value);
        }
        columns
    }

    fn add_metadata(&mut self, topic: &str, partition: &str, offset: &str, is_kafka: bool) {
        let metadata = |name: &str, ty: &str, from: &str| {
            format!("{} {ty} NOT NULL METADATA FROM '{from}' VIRTUAL", crate::flink_sql::sql::name(name))
        };
        if is_kafka {
            self.raw.extend([
                metadata(topic, "STRING", "topic"),
                metadata(partition, "INT", "partition"),
                metadata(offset, "BIGINT", "offset"),
                metadata(&self.timestamp, "TIMESTAMP_LTZ(3)", "timestamp"),
                metadata(&self.timestamp_type, "STRING", "timestamp-type"),
            ]);
            self.raw.extend(self.key.iter().map(|key| format!("{} BYTES", name(key))));
            return;
        }
        self.raw.push(metadata(topic, "STRING", "file.path"));
        let (partition, offset) = ("0", "CAST(-1 AS BIGINT)");
        self.place = [name(topic), partition.into(), offset.into()];
        self.where_it_is = name(topic);
    }

    fn value(&self, job: &Job<'_>, node: &str, ty: FieldType, origin: &Origin, headers: &str) -> String {
        let bytes = |bytes: String| if ty == FieldType::String { format!("DECODE({bytes}, 'UTF-8')") } else { bytes };
        match origin {
            Origin::Path(path) => {
                let raw = path.iter().map(|part| name(part)).collect::<Vec<_>>().join(".");
                time::value(&raw, ty, self.lenient)
            }
            Origin::Topic => self.place[0].clone(),
            Origin::Partition => self.place[1].clone(),
            Origin::Offset => {
                if self.place[2].starts_with("CAST") {
                    job.give_up(node, "from", "Flink's file source has no line numbers", "kafka.offset is -1");
                }
                self.place[2].clone()
            }
            Origin::Timestamp => format!(
                "CASE WHEN {} <> 'NoTimestampType' THEN CAST({} AS TIMESTAMP_LTZ(6)) END",
                name(&self.timestamp_type),
                name(&self.timestamp)
            ),
            Origin::Key => bytes(self.key.as_ref().map(|key| name(key)).unwrap_or_default()),
            Origin::Header(header) => bytes(format!("{}[{}]", name(headers), text(header))),
        }
    }

    /// A condition that holds for records whose event time is further ahead of their log timestamp than is allowed.
    pub fn too_far_ahead(&self, source: &Source) -> Option<String> {
        let lead = source.max_future.filter(|_| source.event_time.is_some())?;
        Some(format!(
            "{} <> 'NoTimestampType' AND {} > CAST({} AS TIMESTAMP(3)) + {}",
            name(&self.timestamp_type),
            name(TIME),
            name(&self.timestamp),
            interval(lead.0)
        ))
    }
}

fn is_event_time(job: &Job<'_>, node: &str, column: &str) -> bool {
    let Some(id) = job.plan().find(node) else { return false };
    let NodeKind::Source(Source { event_time: Some(EventTimeFrom::Column(index)), .. }) = &job.node(id).kind else {
        return false;
    };
    job.node(id).outputs.first().is_some_and(|main| main.schema.fields[*index].name == column)
}

/// The type that Flink's json reads a column as.
fn read_as(ty: FieldType) -> String {
    match ty {
        FieldType::Date | FieldType::Timestamp { .. } => "STRING".into(),
        other => crate::flink_sql::sql::type_of(other),
    }
}
