//! Values as people write them: `250ms`, `1%`, `2k/s`, `2026-01-01T00:00:00Z`.
//!
//! Doesn't know: which setting a value is for; the caller's message names it.
//! Keeps: what can't be read is refused with the forms that can.
//! Tested: here.
use std::time::{Duration, SystemTime};

#[derive(Debug, PartialEq, thiserror::Error)]
pub enum UnitError {
    #[error("`{0}` is not a duration; write 250ms, 5s, 10m, 24h, or a sum such as 1m 30s")]
    Duration(String),
    #[error("`{0}` is not a share; write 1% or 0.01, from 0 to 1")]
    Share(String),
    #[error("`{0}` is not a count; write 12000, 100k or 2M")]
    Count(String),
    #[error("`{0}` is not a rate; write 2000, 2000/s or 2k/s, more than 0")]
    Rate(String),
    #[error("`{0}` is not a time; write 2026-01-01T00:00:00Z")]
    Time(String),
}

pub fn duration_ms(text: &str) -> Result<u64, UnitError> {
    let refused = || UnitError::Duration(text.into());
    let duration: Duration = humantime::parse_duration(text).map_err(|_| refused())?;
    if !duration.subsec_nanos().is_multiple_of(1_000_000) {
        return Err(refused());
    }
    u64::try_from(duration.as_millis()).map_err(|_| refused())
}

pub fn share(text: &str) -> Result<f64, UnitError> {
    let refused = || UnitError::Share(text.into());
    let (number, unit) = match text.strip_suffix('%') {
        Some(percent) => (percent.trim_end(), 100.0),
        None => (text, 1.0),
    };
    let share = number.parse::<f64>().map_err(|_| refused())? / unit;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err(refused()) }
}

pub fn count(text: &str) -> Result<u64, UnitError> {
    let refused = || UnitError::Count(text.into());
    let (digits, unit) = scaled(text);
    let number: u64 = digits.replace('_', "").parse().map_err(|_| refused())?;
    number.checked_mul(unit).ok_or_else(refused)
}

/// So many a second.
pub fn rate(text: &str) -> Result<f64, UnitError> {
    let refused = || UnitError::Rate(text.into());
    let (digits, unit) = scaled(text.strip_suffix("/s").unwrap_or(text));
    let rate = digits.parse::<f64>().map_err(|_| refused())? * unit as f64;
    if rate > 0.0 && rate.is_finite() { Ok(rate) } else { Err(refused()) }
}

/// Milliseconds since 1970.
pub fn time_ms(text: &str) -> Result<i64, UnitError> {
    let refused = || UnitError::Time(text.into());
    let time = humantime::parse_rfc3339(text).map_err(|_| refused())?;
    let since_1970 = time.duration_since(SystemTime::UNIX_EPOCH).map_err(|_| refused())?;
    i64::try_from(since_1970.as_millis()).map_err(|_| refused())
}

fn scaled(text: &str) -> (&str, u64) {
    for (suffix, unit) in [("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)] {
        if let Some(digits) = text.strip_suffix(suffix) {
            return (digits, unit);
        }
    }
    (text, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_in_all_their_forms() {
        for (text, ms) in [("250ms", 250), ("5s", 5_000), ("1m 30s", 90_000), ("24h", 86_400_000)] {
            assert_eq!(duration_ms(text), Ok(ms));
        }
    }

    #[test]
    fn a_duration_without_unit_shows_the_forms() {
        assert_eq!(
            duration_ms("5").unwrap_err().to_string(),
            "`5` is not a duration; write 250ms, 5s, 10m, 24h, or a sum such as 1m 30s"
        );
    }

    #[test]
    fn a_share_is_a_percentage_or_a_fraction() {
        assert_eq!((share("1%"), share("0.01"), share("0.1 %")), (Ok(0.01), Ok(0.01), Ok(0.001)));
        for text in ["101%", "-1%", "1.5", "few", "NaN"] {
            assert_eq!(share(text), Err(UnitError::Share(text.into())));
        }
    }

    #[test]
    fn counts_and_rates_take_k_and_m() {
        assert_eq!((count("2M"), count("12_000"), count("100k")), (Ok(2_000_000), Ok(12_000), Ok(100_000)));
        assert_eq!((rate("2k/s"), rate("0.5"), rate("2000/s")), (Ok(2_000.0), Ok(0.5), Ok(2_000.0)));
        assert_eq!(rate("0"), Err(UnitError::Rate("0".into())));
        assert_eq!(count("1.5"), Err(UnitError::Count("1.5".into())));
    }

    #[test]
    fn a_time_is_rfc_3339() {
        assert_eq!(time_ms("2026-01-01T00:00:00Z"), Ok(1_767_225_600_000));
        assert_eq!(time_ms("yesterday"), Err(UnitError::Time("yesterday".into())));
    }
}
