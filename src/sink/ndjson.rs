//! Rows as lines of JSON, for people and for files.
//!
//! Keeps: a null is written as null, so every line has every column; binary is hex, timestamps are ISO-8601. Tested: here.
use arrow::json::WriterBuilder;
use arrow::json::writer::LineDelimited;
use arrow_array::RecordBatch;
use arrow_schema::ArrowError;

pub fn lines(batches: &[RecordBatch]) -> Result<Vec<u8>, ArrowError> {
    let mut writer = WriterBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(Vec::new());
    for batch in batches {
        writer.write(batch)?;
    }
    writer.finish()?;
    Ok(writer.into_inner())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, BinaryArray, Decimal128Array, StringArray, TimestampMicrosecondArray};
    use floodmark_pipeline::schema::UTC;

    use super::*;

    #[test]
    fn every_type_reads_as_people_expect() {
        let text: ArrayRef = Arc::new(StringArray::from(vec![Some("ä\"\n"), None]));
        let bytes: ArrayRef = Arc::new(BinaryArray::from(vec![&b"\x00\xff"[..], b""]));
        let time: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![1, -1]).with_timezone(UTC));
        let amount = Decimal128Array::from(vec![12345, -5]).with_precision_and_scale(10, 2).unwrap();
        let amount: ArrayRef = Arc::new(amount);
        let batch = RecordBatch::try_from_iter([("s", text), ("b", bytes), ("t", time), ("d", amount)]).unwrap();
        let written = String::from_utf8(lines(&[batch]).unwrap()).unwrap();
        let expected = concat!(
            r#"{"s":"ä\"\n","b":"00ff","t":"1970-01-01T00:00:00.000001Z","d":123.45}"#,
            "\n",
            r#"{"s":null,"b":"","t":"1969-12-31T23:59:59.999999Z","d":-0.05}"#,
            "\n"
        );
        assert_eq!(written, expected);
    }
}
