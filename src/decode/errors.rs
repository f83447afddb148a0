//! Records that couldn't be decoded, as rows of a source's `errors` output.
//!
//! Doesn't know: why they couldn't. Keeps: one row for each record, with its bytes as the log had them.
use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, StringBuilder, TimestampMicrosecondBuilder};
use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch};
use arrow_schema::ArrowError;
use floodmark_pipeline::plan::source_errors_schema;
use floodmark_pipeline::schema::UTC;

use super::BadRecord;
use crate::source::names::PartitionNames;

/// Rows of `source_errors_schema`, in the order given..
pub fn rows(records: &[BadRecord], names: &PartitionNames) -> Result<RecordBatch, ArrowError> {
    let mut topic = StringBuilder::new();
    let mut partition = Vec::with_capacity(records.len());
    let mut timestamp = TimestampMicrosecondBuilder::new().with_timezone(UTC);
    let (mut key, mut value) = (BinaryBuilder::new(), BinaryBuilder::new());
    let (mut reason, mut detail) = (StringBuilder::new(), StringBuilder::new());
    for record in records {
        let name = names.get(record.partition).ok_or_else(|| {
            ArrowError::InvalidArgumentError(format!(
                "partition {} is not in the table of partitions",
                record.partition.0
            ))
        })?;
        topic.append_value(&name.topic);
        partition.push(name.partition);
        timestamp.append_option(record.timestamp_ms.and_then(|ms| ms.checked_mul(1_000)));
        key.append_option(record.key.as_deref());
        value.append_option(record.value.as_deref());
        reason.append_value(record.reason);
        detail.append_value(&record.detail);
    }
    let columns: Vec<ArrayRef> = vec![
        Arc::new(topic.finish()),
        Arc::new(Int32Array::from(partition)),
        Arc::new(records.iter().map(|record| record.offset).collect::<Int64Array>()),
        Arc::new(timestamp.finish()),
        Arc::new(key.finish()),
        Arc::new(value.finish()),
        Arc::new(reason.finish()),
        Arc::new(detail.finish()),
    ];
    RecordBatch::try_new(source_errors_schema().arrow(), columns)
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::TimestampMicrosecondType;
    use floodmark_pipeline::ids::{PartitionIndex, PartitionName};

    use super::*;
    use crate::decode::reason;

    #[test]
    fn a_bad_record_keeps_its_place_and_its_bytes() {
        let names = PartitionNames::default();
        let index = names.push(PartitionName { source: "events".into(), topic: "clicks".into(), partition: 3 });
        let record = BadRecord {
            partition: index,
            offset: 7,
            timestamp_ms: Some(1_500),
            key: None,
            value: Some(vec![0xff]),
            reason: reason::UTF8,
            detail: "byte 0 of the value is not UTF-8".into(),
        };
        let rows = rows(&[record], &names).unwrap();
        assert_eq!(rows["_topic"].as_string::<i32>().value(0), "clicks");
        assert_eq!(rows["_timestamp"].as_primitive::<TimestampMicrosecondType>().value(0), 1_500_000);
        assert!(rows["_key"].is_null(0));
        assert_eq!(rows["_value"].as_binary::<i32>().value(0), [0xff]);
        assert_eq!(rows["_reason"].as_string::<i32>().value(0), "utf8");
    }

    #[test]
    fn a_partition_without_a_name_is_refused() {
        let record = BadRecord {
            partition: PartitionIndex(9),
            offset: 0,
            timestamp_ms: None,
            key: None,
            value: None,
            reason: reason::TOMBSTONE,
            detail: String::new(),
        };
        assert!(rows(&[record], &PartitionNames::default()).unwrap_err().to_string().contains("partition 9"));
    }
}
