//! From the raw text of one JSON value to a value of the schema's type.
//!
//! Doesn't know: columns, fields, documents. The text has been validated as JSON; what is judged here is its meaning.
//! Keeps: integers are read exactly, never through a float.
//! Tested: here; decode/json/tests.rs.
use std::borrow::Cow;

use base64::Engine;
use base64::alphabet::STANDARD as STANDARD_ALPHABET;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// What is wrong with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Not of the type at all.
    Type,
    /// Of the type, but not one of its values; why, for a person.
    Range(&'static str),
    /// Text that isn't Unicode: bytes that aren't UTF-8, or half of a surrogate pair.
    Utf8,
}

/// Base64 with the standard alphabet; padding may be left out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD_ALPHABET,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

pub fn is_number(raw: &str) -> bool {
    matches!(raw.as_bytes().first(), Some(b'-' | b'0'..=b'9'))
}

pub fn bool(raw: &str) -> Result<bool, Fault> {
    match raw {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Fault::Type),
    }
}

pub fn int64(raw: &str) -> Result<i64, Fault> {
    raw.parse().map_err(|_| no_integer(raw))
}

pub fn int32(raw: &str) -> Result<i32, Fault> {
    raw.parse().map_err(|_| no_integer(raw))
}

fn no_integer(raw: &str) -> Fault {
    if !is_number(raw) {
        Fault::Type
    } else if raw.contains(['.', 'e', 'E']) {
        Fault::Range("written with a fraction or an exponent")
    } else {
        Fault::Range("too large")
    }
}

pub fn float64(raw: &str) -> Result<f64, Fault> {
    if !is_number(raw) {
        return Err(Fault::Type);
    }
    match raw.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        Ok(_) => Err(Fault::Range("too large")),
        Err(_) => Err(Fault::Type),
    }
}

/// The text of a JSON string: borrowed unless it has escapes.
pub fn text(raw: &str) -> Result<Cow<'_, str>, Fault> {
    let inner = raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).ok_or(Fault::Type)?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Ok(Cow::Borrowed(inner));
    }
    // The document was validated with its escapes, so all that can be wrong here is a lone surrogate.
    serde_json::from_str::<String>(raw).map(Cow::Owned).map_err(|_| Fault::Utf8)
}

/// Appends the bytes that a base64 string stands for.
pub fn binary(raw: &str, to: &mut Vec<u8>) -> Result<(), Fault> {
    BASE64.decode_vec(text(raw)?.as_bytes(), to).map_err(|_| Fault::Type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_exact_to_their_last_value() {
        assert_eq!(int64("9223372036854775807"), Ok(i64::MAX));
        assert_eq!(int64("-9223372036854775808"), Ok(i64::MIN));
        assert_eq!(int64("-0"), Ok(0));
        assert_eq!(int64("9223372036854775808"), Err(Fault::Range("too large")));
        assert_eq!(int32("2147483648"), Err(Fault::Range("too large")));
        assert!(matches!(int64("5.0"), Err(Fault::Range(_))));
        assert!(matches!(int64("1e3"), Err(Fault::Range(_))));
        assert_eq!(int64("\"5\""), Err(Fault::Type));
        assert_eq!(int64("true"), Err(Fault::Type));
    }

    #[test]
    fn floats_are_finite_numbers() {
        assert_eq!(float64("1e308"), Ok(1e308));
        assert_eq!(float64("1e309"), Err(Fault::Range("too large")));
        assert_eq!(float64("7"), Ok(7.0));
        assert_eq!(float64("\"7\""), Err(Fault::Type));
    }

    #[test]
    fn escapes_become_the_characters_they_stand_for() {
        assert_eq!(text(r#""a\n\u00e9\ud83d\ude00\/""#), Ok(Cow::Borrowed("a\né😀/")));
        assert_eq!(text(r#""\ud800""#), Err(Fault::Utf8));
        assert_eq!(text("5"), Err(Fault::Type));
    }

    #[test]
    fn base64_may_leave_its_padding_out() {
        let mut bytes = vec![];
        assert_eq!(binary("\"AP8=\"", &mut bytes), Ok(()));
        assert_eq!(binary("\"AP8\"", &mut bytes), Ok(()));
        assert_eq!(bytes, [0, 255, 0, 255]);
        assert_eq!(binary("\"not base64!\"", &mut bytes), Err(Fault::Type));
    }
}
