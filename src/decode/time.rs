//! Dates and timestamps from JSON: ISO-8601 text, or numbers since 1970.
//!
//! Doesn't know: clocks, time zones by name, event time.
//! Keeps: text without a zone is never taken for UTC, and no digit is dropped; what is handed out lies in the years 1 to 9999.
//! Tested: here.
//!
//!   2026-01-31                       date
//!   2026-01-31T10:00:00.123456Z      timestamp_ms, timestamp_us; also +01:00, +0100, +01; a space for the T; no seconds
//!   2026-01-31T10:00:00.123456       timestamp_ms_ntz, timestamp_us_ntz
use chrono::{Datelike, NaiveDate};
use floodmark_pipeline::schema::TimestampUnit;
use floodmark_pipeline::time::{SAYABLE_DAYS, SAYABLE_US};

use super::value::{self, Fault};

const UNIX_EPOCH_DAY_OF_CE: i32 = 719_163;
const DAY_US: i64 = 86_400_000_000;
const NO_SUCH_DAY: Fault = Fault::Range("no such day");
const NO_SUCH_TIME: Fault = Fault::Range("no such time of day");
const TOO_FAR: Fault = Fault::Range("outside the years 1 to 9999");

/// Days since 1970-01-01.
pub fn date(raw: &str) -> Result<i32, Fault> {
    if value::is_number(raw) {
        return value::int32(raw).and_then(sayable_days);
    }
    let text = value::text(raw)?;
    let mut text = Text(text.as_bytes());
    let days = text.date()?;
    text.end()?;
    sayable_days(days)
}

/// Microseconds since 1970-01-01T00:00 (UTC, or on a clock without a zone).
pub fn timestamp(raw: &str, unit: TimestampUnit, utc: bool) -> Result<i64, Fault> {
    if value::is_number(raw) {
        let number = value::int64(raw)?;
        return match unit {
            TimestampUnit::Us => sayable(Some(number)),
            TimestampUnit::Ms => from_ms(number),
        };
    }
    let text = value::text(raw)?;
    let mut text = Text(text.as_bytes());
    let days = text.date()?;
    if !text.take(b'T') && !text.take(b't') && !text.take(b' ') {
        return Err(Fault::Type);
    }
    let time_us = text.time_of_day()?;
    let offset_us = if utc { text.zone()? } else { 0 };
    text.end()?;
    sayable(i64::from(days).checked_mul(DAY_US).and_then(|whole| whole.checked_add(time_us - offset_us)))
}

pub fn from_ms(ms: i64) -> Result<i64, Fault> {
    sayable(ms.checked_mul(1_000))
}

fn sayable(us: Option<i64>) -> Result<i64, Fault> {
    us.filter(|us| SAYABLE_US.contains(us)).ok_or(TOO_FAR)
}

fn sayable_days(days: i32) -> Result<i32, Fault> {
    if SAYABLE_DAYS.contains(&days) { Ok(days) } else { Err(TOO_FAR) }
}

/// What is left to read.
struct Text<'a>(&'a [u8]);

impl Text<'_> {
    fn take(&mut self, byte: u8) -> bool {
        let found = self.0.first() == Some(&byte);
        if found {
            self.0 = &self.0[1..];
        }
        found
    }

    fn expect(&mut self, byte: u8) -> Result<(), Fault> {
        if self.take(byte) { Ok(()) } else { Err(Fault::Type) }
    }

    fn end(&self) -> Result<(), Fault> {
        if self.0.is_empty() { Ok(()) } else { Err(Fault::Type) }
    }

    fn digits(&mut self, count: usize) -> Result<u32, Fault> {
        let (head, rest) = self.0.split_at_checked(count).ok_or(Fault::Type)?;
        let value = head.iter().try_fold(0, |v, b| b.is_ascii_digit().then(|| v * 10 + u32::from(b - b'0')));
        self.0 = rest;
        value.ok_or(Fault::Type)
    }

    /// Four digits of a year, or a sign and up to nine.
    fn year(&mut self) -> Result<i32, Fault> {
        let sign = match self.0.first() {
            Some(b'-') => -1,
            Some(b'+') => 1,
            _ => return self.digits(4).map(|year| year as i32),
        };
        self.0 = &self.0[1..];
        let count = self.0.iter().take_while(|b| b.is_ascii_digit()).count();
        if !(4..=9).contains(&count) {
            return Err(if count > 9 { TOO_FAR } else { Fault::Type });
        }
        self.digits(count).map(|year| sign * year as i32)
    }

    fn date(&mut self) -> Result<i32, Fault> {
        let year = self.year()?;
        self.expect(b'-')?;
        let month = self.digits(2)?;
        self.expect(b'-')?;
        let day = self.digits(2)?;
        let date = NaiveDate::from_ymd_opt(year, month, day).ok_or(NO_SUCH_DAY)?;
        Ok(date.num_days_from_ce() - UNIX_EPOCH_DAY_OF_CE)
    }

    fn time_of_day(&mut self) -> Result<i64, Fault> {
        let hour = self.digits(2)?;
        self.expect(b':')?;
        let minute = self.digits(2)?;
        let mut second = 0;
        let mut fraction_us = 0;
        if self.take(b':') {
            second = self.digits(2)?;
            if self.take(b'.') || self.take(b',') {
                fraction_us = self.fraction_us()?;
            }
        }
        if hour > 23 || minute > 59 || second > 59 {
            return Err(NO_SUCH_TIME);
        }
        Ok(i64::from((hour * 60 + minute) * 60 + second) * 1_000_000 + fraction_us)
    }

    fn fraction_us(&mut self) -> Result<i64, Fault> {
        let count = self.0.iter().take_while(|b| b.is_ascii_digit()).count();
        if count == 0 {
            return Err(Fault::Type);
        }
        let (digits, rest) = self.0.split_at(count);
        self.0 = rest;
        let (kept, finer) = digits.split_at(count.min(6));
        if finer.iter().any(|b| *b != b'0') {
            return Err(Fault::Range("finer than a microsecond"));
        }
        let value = kept.iter().fold(0, |v, b| v * 10 + i64::from(b - b'0'));
        Ok(value * 10_i64.pow(6 - kept.len() as u32))
    }

    /// Microseconds that the text's clock is ahead of UTC.
    fn zone(&mut self) -> Result<i64, Fault> {
        if self.take(b'Z') || self.take(b'z') {
            return Ok(0);
        }
        let sign = if self.take(b'+') {
            1
        } else {
            self.expect(b'-')?;
            -1
        };
        let hour = self.digits(2)?;
        let minute = if self.take(b':') || !self.0.is_empty() { self.digits(2)? } else { 0 };
        if hour > 23 || minute > 59 {
            return Err(Fault::Range("no such zone"));
        }
        Ok(sign * i64::from(hour * 60 + minute) * 60_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utc(text: &str) -> Result<i64, Fault> {
        timestamp(&format!("\"{text}\""), TimestampUnit::Ms, true)
    }

    fn no_zone(text: &str) -> Result<i64, Fault> {
        timestamp(&format!("\"{text}\""), TimestampUnit::Ms, false)
    }

    #[test]
    fn text_and_number_of_one_instant_are_equal() {
        let instant = 1_767_225_600_123_000;
        assert_eq!(timestamp("1767225600123", TimestampUnit::Ms, true), Ok(instant));
        assert_eq!(timestamp("1767225600123000", TimestampUnit::Us, true), Ok(instant));
        for text in ["2026-01-01T00:00:00.123Z", "2026-01-01 01:00:00.123000+01:00", "2025-12-31T19:00:00,123-0500"] {
            assert_eq!(utc(text), Ok(instant), "{text}");
        }
        assert_eq!(utc("2026-01-01T00:00Z"), utc("2026-01-01T02:00:00.000000000+02"));
        assert_eq!(no_zone("2026-01-01T00:00:00.123"), Ok(instant));
        assert_eq!(utc("1969-12-31T23:59:59.999999Z"), Ok(-1));
    }

    #[test]
    fn a_zone_is_where_the_type_has_one_and_only_there() {
        assert_eq!(utc("2026-01-01T00:00:00"), Err(Fault::Type));
        assert_eq!(no_zone("2026-01-01T00:00:00Z"), Err(Fault::Type));
        assert_eq!(utc("2026-01-01"), Err(Fault::Type));
    }

    #[test]
    fn times_that_no_calendar_or_clock_has_are_out_of_range() {
        for text in [
            "2026-02-30T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:60Z",
            "2026-01-01T00:00:00.1234567Z",
            "+300000-01-01T00:00:00Z",
            "2026-01-01T00:00:00+24:00",
        ] {
            assert!(matches!(utc(text), Err(Fault::Range(_))), "{text}");
        }
        assert!(matches!(timestamp("1.5", TimestampUnit::Ms, true), Err(Fault::Range(_))));
    }

    #[test]
    fn only_the_years_that_every_reader_can_say_are_taken() {
        assert_eq!(utc("0001-01-01T00:00:00Z"), Ok(*SAYABLE_US.start()));
        assert_eq!(utc("9999-12-31T23:59:59.999999Z"), Ok(*SAYABLE_US.end()));
        for text in
            ["0000-12-31T23:59:59Z", "0001-01-01T00:00:00+00:01", "+10000-01-01T00:00:00Z", "-0001-01-01T00:00:00Z"]
        {
            assert_eq!(utc(text), Err(TOO_FAR), "{text}");
        }
        for number in [SAYABLE_US.start() - 1, SAYABLE_US.end() + 1, i64::MIN, i64::MAX] {
            assert_eq!(timestamp(&number.to_string(), TimestampUnit::Us, true), Err(TOO_FAR), "{number}");
        }
        assert_eq!(timestamp("253402300799999", TimestampUnit::Ms, true), Ok(253_402_300_799_999_000));
        for ms in ["253402300800000", "-62135596800001", "9000000000000000", "9223372036854776"] {
            assert_eq!(timestamp(ms, TimestampUnit::Ms, true), Err(TOO_FAR), "{ms}");
        }
        assert_eq!((date("\"0001-01-01\""), date("\"9999-12-31\"")), (Ok(-719_162), Ok(2_932_896)));
        for days in ["-719163", "2932897", "\"0000-12-31\"", "\"+10000-01-01\""] {
            assert_eq!(date(days), Err(TOO_FAR), "{days}");
        }
    }

    #[test]
    fn dates_are_days_or_text() {
        assert_eq!(date("\"1970-01-01\""), Ok(0));
        assert_eq!(date("\"2024-02-29\""), Ok(19_782));
        assert_eq!(date("\"1969-12-31\""), Ok(-1));
        assert_eq!(date("19782"), Ok(19_782));
        assert_eq!(date("\"2023-02-29\""), Err(NO_SUCH_DAY));
        assert_eq!(date("\"2024-2-9\""), Err(Fault::Type));
        assert_eq!(date("\"2024-02-29T00:00\""), Err(Fault::Type));
        assert_eq!(date("true"), Err(Fault::Type));
    }
}
