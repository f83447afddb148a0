//! Words of Flink's SQL: names, texts, intervals, types.
//!
//! Doesn't know: what they are for. Keeps: whatever stands in a name or a text, it stays inside its quotes. Tested: here.
use floodmark_pipeline::schema::{Field, FieldType, Schema};

const DAY_MS: i64 = 86_400_000;
/// Widest leading number of an interval that Flink takes.
const MOST_DIGITS: usize = 6;

pub fn name(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

pub fn names<'a>(list: impl IntoIterator<Item = &'a str>) -> String {
    list.into_iter().map(name).collect::<Vec<_>>().join(", ")
}

pub fn text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Without a precision in brackets Flink takes few leading digits, so it stands wherever it may be needed.
pub fn interval(ms: i64) -> String {
    for (unit, unit_ms) in [("DAY", DAY_MS), ("HOUR", 3_600_000), ("MINUTE", 60_000), ("SECOND", 1_000)] {
        let number = (ms / unit_ms).to_string();
        if ms != 0 && ms % unit_ms == 0 && number.len() <= MOST_DIGITS {
            let digits = if number.len() > 2 { format!("({})", number.len()) } else { String::new() };
            return format!("INTERVAL '{number}' {unit}{digits}");
        }
    }
    let (days, rest) = (ms / DAY_MS, ms % DAY_MS);
    if days == 0 {
        let seconds = (rest / 1_000).to_string();
        let digits = if seconds.len() > 2 { format!("({}, 3)", seconds.len()) } else { String::new() };
        return format!("INTERVAL '{seconds}.{:03}' SECOND{digits}", rest % 1_000);
    }
    let (hours, minutes, seconds) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1_000 % 60);
    format!(
        "INTERVAL '{days} {hours:02}:{minutes:02}:{seconds:02}.{:03}' DAY({MOST_DIGITS}) TO SECOND(3)",
        rest % 1_000
    )
}

/// The type of our result columns. Iceberg keeps times in microseconds.
pub fn type_of(ty: FieldType) -> String {
    match ty {
        FieldType::Bool => "BOOLEAN".into(),
        FieldType::Int32 => "INT".into(),
        FieldType::Int64 => "BIGINT".into(),
        FieldType::Float64 => "DOUBLE".into(),
        FieldType::Decimal { precision, scale } => format!("DECIMAL({precision}, {scale})"),
        FieldType::String => "STRING".into(),
        FieldType::Binary => "BYTES".into(),
        FieldType::Date => "DATE".into(),
        FieldType::Timestamp { utc: true, .. } => "TIMESTAMP_LTZ(6)".into(),
        FieldType::Timestamp { utc: false, .. } => "TIMESTAMP(6)".into(),
    }
}

/// A column of a table to write to.
pub fn column(field: &Field) -> String {
    format!("{} {}{}", name(&field.name), type_of(field.ty), if field.nullable { "" } else { " NOT NULL" })
}

pub fn columns(schema: &Schema) -> String {
    schema.fields.iter().map(column).collect::<Vec<_>>().join(",\n  ")
}

/// `WITH (…)`, one option a line.
pub fn with(options: &[(String, String)]) -> String {
    let lines: Vec<_> = options.iter().map(|(key, value)| format!("  {} = {}", text(key), text(value))).collect();
    format!("WITH (\n{}\n)", lines.join(",\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_inside_are_doubled() {
        assert_eq!(name("a`b"), "`a``b`");
        assert_eq!(text("it's"), "'it''s'");
    }

    #[test]
    fn an_interval_has_a_unit_that_fits_or_says_its_digits() {
        for (ms, expected) in [
            (0, "INTERVAL '0.000' SECOND"),
            (1, "INTERVAL '0.001' SECOND"),
            (250, "INTERVAL '0.250' SECOND"),
            (10_000, "INTERVAL '10' SECOND"),
            (90_500, "INTERVAL '90.500' SECOND"),
            (3_661_500, "INTERVAL '3661.500' SECOND(4, 3)"),
            (86_400_000, "INTERVAL '1' DAY"),
            (604_800_000, "INTERVAL '7' DAY"),
            (100 * DAY_MS, "INTERVAL '100' DAY(3)"),
            (101_000, "INTERVAL '101' SECOND(3)"),
            (20 * DAY_MS + 3_600_001, "INTERVAL '20 01:00:00.001' DAY(6) TO SECOND(3)"),
        ] {
            assert_eq!(interval(ms), expected);
        }
    }
}
