//! Event time in milliseconds since 1970-01-01T00:00:00Z, and spans of it.
//!
//! Doesn't know: wall clocks. Times before 1970 are negative and as good as any other.
//! Keeps: arithmetic saturates, so that a wild time can't wrap around into a sane one.
use std::fmt;
use std::ops::RangeInclusive;

/// Microseconds and days of the years 1 to 9999: what SQL, Flink, Python and ISO-8601 without a sign can say. Beyond them no two readers of a table agree.
pub const SAYABLE_US: RangeInclusive<i64> = -62_135_596_800_000_000..=253_402_300_799_999_999;
pub const SAYABLE_DAYS: RangeInclusive<i32> = -719_162..=2_932_896;

/// When something happened, by its own account. Milliseconds, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventTime(pub i64);

/// A span of event time in milliseconds, never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub i64);

impl EventTime {
    pub const MIN: Self = Self(i64::MIN);
    pub const MAX: Self = Self(i64::MAX);

    pub fn minus(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }

    pub fn plus(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl fmt::Display for EventTime {
    /// ISO-8601 with milliseconds; a time that no calendar holds is shown as its number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days = self.0.div_euclid(86_400_000);
        let ms = self.0.rem_euclid(86_400_000);
        let Some((year, month, day)) = civil_from_days(days) else {
            return write!(f, "{} ms", self.0);
        };
        let (h, m, s) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{:03}Z", ms % 1_000)
    }
}

/// Days since 1970-01-01 to a date of the proleptic Gregorian calendar, for years 0..=9999.
/// Source of the arithmetic: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn civil_from_days(days: i64) -> Option<(i64, i64, i64)> {
    if !(-719_528..=2_932_896).contains(&days) {
        return None;
    }
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + era * 400 + i64::from(month <= 2);
    Some((year, month, doy - (153 * mp + 2) / 5 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_before_1970_prints_as_a_date() {
        assert_eq!(EventTime(-1).to_string(), "1969-12-31T23:59:59.999Z");
        assert_eq!(EventTime(1_767_225_600_000).to_string(), "2026-01-01T00:00:00.000Z");
        assert_eq!(EventTime(951_782_400_000).to_string(), "2000-02-29T00:00:00.000Z");
    }

    #[test]
    fn a_time_of_day_has_hours_minutes_seconds_and_milliseconds() {
        assert_eq!(EventTime(((13 * 60 + 47) * 60 + 58) * 1_000 + 9).to_string(), "1970-01-01T13:47:58.009Z");
    }

    /// By the rule of the calendar itself, day after day.
    #[test]
    fn every_day_of_ten_thousand_years_follows_the_day_before() {
        let (mut year, mut month, mut day) = (0, 1, 1);
        for days in -719_528..=2_932_896 {
            assert_eq!(civil_from_days(days), Some((year, month, day)), "day {days}");
            let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let last = [31, if is_leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month as usize - 1];
            (year, month, day) = match (month, day) {
                (12, 31) => (year + 1, 1, 1),
                (_, day) if day == last => (year, month + 1, 1),
                _ => (year, month, day + 1),
            };
        }
        assert_eq!((civil_from_days(-719_529), civil_from_days(2_932_897)), (None, None));
    }

    #[test]
    fn what_can_be_said_is_the_years_1_to_9999() {
        let of_us = |us: i64| EventTime(us.div_euclid(1_000)).to_string();
        assert_eq!(of_us(*SAYABLE_US.start()), "0001-01-01T00:00:00.000Z");
        assert_eq!(of_us(SAYABLE_US.start() - 1), "0000-12-31T23:59:59.999Z");
        assert_eq!(of_us(*SAYABLE_US.end()), "9999-12-31T23:59:59.999Z");
        assert_eq!(civil_from_days(i64::from(*SAYABLE_DAYS.start())), Some((1, 1, 1)));
        assert_eq!(civil_from_days(i64::from(*SAYABLE_DAYS.end())), Some((9999, 12, 31)));
    }

    #[test]
    fn a_wild_time_saturates_and_still_prints() {
        assert_eq!(EventTime::MAX.plus(Span(1)), EventTime::MAX);
        assert_eq!(EventTime::MAX.to_string(), "9223372036854775807 ms");
    }
}
