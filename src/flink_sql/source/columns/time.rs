//! Dates and times from text or number, as `decode::time` reads them.
//!
//!   1767225600123, "2026-01-01T00:00:00.123Z", "2026-01-01 00:00:00.123Z"      one instant
//!
//! Doesn't know: where the text comes from. Keeps: text that Flink can't read so stops the job (or is null, where that was accepted); it is never another time.
//! Tested: here, tests/flink_sql.rs.
use floodmark_pipeline::schema::{FieldType, TimestampUnit};

/// The value of a column's type; `raw` is text for dates and times, else of the type itself.
pub fn value(raw: &str, ty: FieldType, lenient: bool) -> String {
    let cast = if lenient { "TRY_CAST" } else { "CAST" };
    // A date has a `-` behind its year; a number has one nowhere but in front.
    let is_text = format!("SUBSTRING({raw}, 5, 1) = '-'");
    match ty {
        FieldType::Date => format!(
            "CASE WHEN {is_text} THEN {cast}({raw} AS DATE) ELSE TIMESTAMPADD(DAY, {cast}({raw} AS INT), DATE '1970-01-01') END"
        ),
        // Text without a zone isn't taken for UTC: it is no number either.
        FieldType::Timestamp { unit, utc: true } => format!(
            "CASE WHEN {raw} LIKE '%Z' THEN CAST({cast}(REPLACE(REPLACE({raw}, 'T', ' '), 'Z', '') AS TIMESTAMP(6)) AS TIMESTAMP_LTZ(6)) ELSE {} END",
            number(raw, unit, cast)
        ),
        FieldType::Timestamp { unit, utc: false } => format!(
            "CASE WHEN {is_text} THEN {cast}(REPLACE({raw}, 'T', ' ') AS TIMESTAMP(6)) ELSE CAST({} AS TIMESTAMP(6)) END",
            number(raw, unit, cast)
        ),
        _ => raw.to_owned(),
    }
}

fn number(raw: &str, unit: TimestampUnit, cast: &str) -> String {
    let number = format!("{cast}({raw} AS BIGINT)");
    match unit {
        TimestampUnit::Ms => format!("CAST(TO_TIMESTAMP_LTZ({number}, 3) AS TIMESTAMP_LTZ(6))"),
        // TO_TIMESTAMP_LTZ knows seconds and milliseconds only: the rest is put behind as text. MOD has the sign of its dividend.
        TimestampUnit::Us => {
            let rest = format!("MOD(MOD({number}, 1000000) + 1000000, 1000000)");
            let seconds = format!("TO_TIMESTAMP_LTZ(({number} - {rest}) / 1000000, 0)");
            format!(
                "CAST(CAST(DATE_FORMAT({seconds}, 'yyyy-MM-dd HH:mm:ss') || '.' || LPAD(CAST({rest} AS STRING), 6, '0') AS TIMESTAMP(6)) AS TIMESTAMP_LTZ(6))"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_other_types_are_as_they_are() {
        assert_eq!(value("`a`", FieldType::Int64, false), "`a`");
    }

    #[test]
    fn a_time_is_cast_strictly_unless_bad_records_are_skipped() {
        assert!(!value("`a`", FieldType::TIMESTAMP_MS, false).contains("TRY_CAST"));
        let lenient = value("`a`", FieldType::TIMESTAMP_MS, true);
        assert!(lenient.contains("TRY_CAST(`a` AS BIGINT)"), "{lenient}");
    }
}
