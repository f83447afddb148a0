//! Values that are written as strings: durations, sizes, places, types.
//!
//! Doesn't know: where in the file they stand. Keeps: what is accepted has one meaning; `5` without a unit has none.
use std::path::PathBuf;
use std::time::Duration;

use floodmark_pipeline::schema::{FieldType, TimestampUnit};
use floodmark_pipeline::time::Span;

use super::model::Location;

/// Units of a duration, largest first, in milliseconds.
const DURATION_UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
const SIZE_UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// `250ms`, `5s`, `10m`, `24h`, `7d`.
pub fn duration_ms(text: &str) -> Option<u64> {
    number_with_unit(text, &DURATION_UNITS)
}

/// `64MiB`, `2GiB`.
pub fn size_bytes(text: &str) -> Option<u64> {
    number_with_unit(text, &SIZE_UNITS)
}

fn number_with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let factor = units.iter().find(|(name, _)| *name == unit)?.1;
    number.parse::<u64>().ok()?.checked_mul(factor).filter(|n| i64::try_from(*n).is_ok())
}

/// The shortest way to write a duration: the largest unit that divides it.
pub fn show_duration(duration: Duration) -> String {
    show(duration.as_millis() as u64, &DURATION_UNITS)
}

pub fn show_span(span: Span) -> String {
    show(span.0.unsigned_abs(), &DURATION_UNITS)
}

pub fn show_size(bytes: u64) -> String {
    show(bytes, &SIZE_UNITS)
}

fn show(number: u64, units: &[(&str, u64)]) -> String {
    let fitting = units.iter().find(|(_, factor)| number != 0 && number % factor == 0);
    let (name, factor) = fitting.copied().unwrap_or(units[units.len() - 1]);
    format!("{}{name}", number / factor)
}

/// `file:PATH` or `s3://BUCKET/PREFIX`.
pub fn location(text: &str) -> Option<Location> {
    if let Some(rest) = text.strip_prefix("s3://") {
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_end_matches('/').to_owned();
        return (!bucket.is_empty()).then(|| Location::S3 { bucket: bucket.to_owned(), prefix });
    }
    let path = text.strip_prefix("file:")?;
    let path = path.strip_prefix("//").unwrap_or(path);
    (!path.is_empty()).then(|| Location::File(PathBuf::from(path)))
}

/// A type of the schema and whether it may be null (`?`).
pub fn field_type(text: &str) -> Option<(FieldType, bool)> {
    let (name, nullable) = text.strip_suffix('?').map_or((text, false), |name| (name, true));
    let ts = |unit, utc| FieldType::Timestamp { unit, utc };
    let ty = match name {
        "bool" => FieldType::Bool,
        "int32" => FieldType::Int32,
        "int64" => FieldType::Int64,
        "float64" => FieldType::Float64,
        "string" => FieldType::String,
        "binary" => FieldType::Binary,
        "date" => FieldType::Date,
        "timestamp_ms" => ts(TimestampUnit::Ms, true),
        "timestamp_us" => ts(TimestampUnit::Us, true),
        "timestamp_ms_ntz" => ts(TimestampUnit::Ms, false),
        "timestamp_us_ntz" => ts(TimestampUnit::Us, false),
        _ => decimal(name)?,
    };
    Some((ty, nullable))
}

fn decimal(name: &str) -> Option<FieldType> {
    let (precision, scale) = name.strip_prefix("decimal(")?.strip_suffix(')')?.split_once(',')?;
    let (precision, scale) = (precision.trim().parse::<u8>().ok()?, scale.trim().parse::<i8>().ok()?);
    let possible = (1..=38).contains(&precision) && scale >= 0 && scale as u8 <= precision;
    possible.then_some(FieldType::Decimal { precision, scale })
}

/// `name(a, b)` into its parts; a bare `name` has none.
pub fn call(text: &str) -> Option<(&str, Vec<&str>)> {
    let Some((name, rest)) = text.split_once('(') else {
        return Some((text.trim(), vec![]));
    };
    let inside = rest.trim_end().strip_suffix(')')?;
    if inside.contains(['(', ')']) {
        return None;
    }
    let arguments = if inside.trim().is_empty() { vec![] } else { inside.split(',').map(str::trim).collect() };
    Some((name.trim(), arguments))
}

/// A node's name, or a pipeline's id: what can stand in a table property, a file name and a metric alike.
pub fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
        && text.len() <= 64
}

/// An address without the name and password in it.
pub fn redacted(uri: &str) -> String {
    match uri.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            format!("{scheme}://{host}{}", path.split('?').next().unwrap_or_default())
        }
        None => uri.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_need_their_unit() {
        assert_eq!(duration_ms("250ms"), Some(250));
        assert_eq!(duration_ms("7d"), Some(604_800_000));
        assert_eq!([duration_ms("5"), duration_ms("s"), duration_ms("1.5s"), duration_ms("-1s")], [None; 4]);
        assert_eq!(size_bytes("2GiB"), Some(2 << 30));
        assert_eq!([size_bytes("2GB"), size_bytes("2")], [None; 2]);
        assert_eq!(duration_ms("18446744073709551615d"), None);
    }

    #[test]
    fn durations_print_in_the_largest_unit_that_fits() {
        assert_eq!(show_duration(Duration::from_millis(86_400_000)), "1d");
        assert_eq!(show_duration(Duration::from_millis(1_500)), "1500ms");
        assert_eq!(show_duration(Duration::ZERO), "0ms");
        assert_eq!(show_size(512 << 20), "512MiB");
    }

    #[test]
    fn a_type_prints_as_it_is_written() {
        for text in ["bool", "decimal(10,2)", "timestamp_us_ntz", "timestamp_ms"] {
            assert_eq!(field_type(text).map(|(ty, null)| (ty.to_string(), null)), Some((text.to_owned(), false)));
        }
        assert_eq!(field_type("int64?"), Some((FieldType::Int64, true)));
        assert_eq!([field_type("decimal(39,2)"), field_type("decimal(4,5)"), field_type("varchar")], [None; 3]);
    }

    #[test]
    fn a_location_is_a_scheme_and_a_place() {
        assert_eq!(location("file:data/x"), Some(Location::File("data/x".into())));
        assert_eq!(location("file:///var/x"), Some(Location::File("/var/x".into())));
        assert_eq!(location("s3://b/p/q/"), Some(Location::S3 { bucket: "b".into(), prefix: "p/q".into() }));
        assert_eq!([location("data/x"), location("s3://"), location("file:")], [None, None, None]);
    }

    #[test]
    fn an_address_is_shown_without_its_password() {
        assert_eq!(redacted("postgres://u:p@w@host:5432/db?password=x"), "postgres://host:5432/db");
        assert_eq!(redacted("sqlite:data/catalog.db"), "sqlite:data/catalog.db");
    }
}
