//! Values: read from JSON by their type, written as the JSON that a person reads.
use std::sync::LazyLock;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use chrono::{DateTime, Datelike, NaiveDate};
use regex_lite::Regex;
use serde_json::Value as Json;

/// Padding may be left out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// 1970-01-01, counted from the year 1.
const EPOCH_DAY: i128 = 719_163;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Bool,
    Int32,
    Int64,
    Float64,
    Decimal {
        precision: u32,
        scale: u32,
    },
    Text,
    Binary,
    /// Days since 1970.
    Date,
    /// Microseconds since 1970.
    Time {
        ms: bool,
        utc: bool,
    },
}

/// Whole numbers, decimals at their scale, dates and times are all `Whole`.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Null,
    Bool(bool),
    Whole(i128),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
}

impl Type {
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "bool" => Self::Bool,
            "int32" => Self::Int32,
            "int64" => Self::Int64,
            "float64" => Self::Float64,
            "string" => Self::Text,
            "binary" => Self::Binary,
            "date" => Self::Date,
            "timestamp_ms" => Self::Time { ms: true, utc: true },
            "timestamp_us" => Self::Time { ms: false, utc: true },
            "timestamp_ms_ntz" => Self::Time { ms: true, utc: false },
            "timestamp_us_ntz" => Self::Time { ms: false, utc: false },
            _ => {
                let (precision, scale) = text.strip_prefix("decimal(")?.strip_suffix(')')?.split_once(',')?;
                Self::Decimal { precision: precision.trim().parse().ok()?, scale: scale.trim().parse().ok()? }
            }
        })
    }

    pub fn scale(self) -> u32 {
        if let Self::Decimal { scale, .. } = self { scale } else { 0 }
    }

    /// Whether a whole number is one of its values.
    pub fn holds(self, whole: i128) -> bool {
        match self {
            Self::Int32 => i32::try_from(whole).is_ok(),
            // The years 1 to 9999.
            Self::Date => (-719_162..=2_932_896).contains(&whole),
            Self::Time { .. } => (-62_135_596_800_000_000..253_402_300_800_000_000).contains(&whole),
            Self::Decimal { precision, .. } => whole.unsigned_abs() < 10u128.pow(precision),
            _ => i64::try_from(whole).is_ok(),
        }
    }

    /// A value as it stands in JSON, so that no digit of a number is lost. `None`: not a value of this type.
    pub fn read(self, json: &str) -> Option<Cell> {
        let text = || serde_json::from_str::<String>(json).ok();
        let is_text = json.starts_with('"');
        let whole = match self {
            Self::Bool => return json.parse().ok().map(Cell::Bool),
            Self::Text => return text().map(Cell::Text),
            Self::Binary => return BASE64.decode(text()?).ok().map(Cell::Bytes),
            Self::Float64 => return json.parse().ok().filter(|float: &f64| float.is_finite()).map(Cell::Float),
            Self::Decimal { scale, .. } if is_text => decimal(&text()?, scale)?,
            Self::Decimal { scale, .. } => decimal(json, scale)?,
            Self::Date if is_text => day(&text()?)?,
            Self::Time { utc, .. } if is_text => time(&text()?, utc)?,
            Self::Time { ms: true, .. } => json.parse::<i128>().ok()?.checked_mul(1_000)?,
            _ => json.parse().ok()?,
        };
        self.holds(whole).then_some(Cell::Whole(whole))
    }

    pub fn show(self, cell: &Cell) -> String {
        match (self, cell) {
            (_, Cell::Null) => "null".into(),
            (_, Cell::Bool(yes)) => yes.to_string(),
            (_, Cell::Text(text)) => Json::from(text.as_str()).to_string(),
            (_, Cell::Float(number)) => float(*number),
            (_, Cell::Bytes(bytes)) => format!("\"{}\"", bytes.iter().map(|b| format!("{b:02x}")).collect::<String>()),
            (Self::Decimal { scale, .. }, Cell::Whole(whole)) if scale > 0 => {
                let unit = 10u128.pow(scale);
                let (sign, whole) = (if *whole < 0 { "-" } else { "" }, whole.unsigned_abs());
                format!("{sign}{}.{:0width$}", whole / unit, whole % unit, width = scale as usize)
            }
            (Self::Date, Cell::Whole(days)) => {
                let date = i32::try_from(days + EPOCH_DAY).ok().and_then(NaiveDate::from_num_days_from_ce_opt);
                format!("\"{}\"", date.unwrap_or_default())
            }
            (Self::Time { utc, .. }, Cell::Whole(us)) => {
                let time = i64::try_from(*us).ok().and_then(DateTime::from_timestamp_micros).unwrap_or_default();
                format!("\"{:?}{}\"", time.naive_utc(), if utc { "Z" } else { "" })
            }
            (_, Cell::Whole(whole)) => whole.to_string(),
        }
    }
}

/// With an exponent where there would be many zeros, and always with a fraction.
fn float(number: f64) -> String {
    let spelled = format!("{number:e}");
    let (digits, power) = spelled.split_once('e').unwrap_or((&spelled, "0"));
    let is_plain = (-5..=9).contains(&power.parse().unwrap_or(0));
    let (digits, power) =
        if is_plain { (number.to_string(), String::new()) } else { (digits.into(), format!("e{power}")) };
    format!("{digits}{}{power}", if digits.contains('.') { "" } else { ".0" })
}

type Pattern = LazyLock<Option<Regex>>;
static DECIMAL: Pattern = LazyLock::new(|| Regex::new(r"^([+-]?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$").ok());
static DAY: Pattern = LazyLock::new(|| Regex::new(r"^(\d{4}|[+-]\d{4,9})-(\d\d)-(\d\d)$").ok());
static TIME: Pattern = LazyLock::new(|| {
    Regex::new(r"^(.+)[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?(?:([Zz])|([+-])(\d\d)(?::?(\d\d))?)?$").ok()
});

/// The whole and what stands at each group of a pattern; nothing where one isn't there.
fn groups<'a>(pattern: &Pattern, text: &'a str) -> Option<Vec<&'a str>> {
    let found = pattern.as_ref()?.captures(text)?;
    Some(found.iter().map(|group| group.map_or("", |group| group.as_str())).collect())
}

fn number(text: &str) -> Option<i128> {
    if text.is_empty() { Some(0) } else { text.parse().ok() }
}

/// At `scale` places; more places than that are no value.
fn decimal(text: &str, scale: u32) -> Option<i128> {
    let [_, sign, whole, fraction, exponent] = groups(&DECIMAL, text)?[..] else { return None };
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_end_matches('0');
    let behind = (digits.len() - significant.len()) as i128 + i128::from(scale) - fraction.len() as i128;
    let zeros = number(exponent)?.saturating_add(behind);
    if significant.is_empty() {
        return Some(0);
    }
    // No type has more places.
    let zeros = usize::try_from(zeros).ok().filter(|zeros| *zeros <= 38)?;
    format!("{sign}{significant}{}", "0".repeat(zeros)).parse().ok()
}

/// Days since 1970-01-01 of `2026-01-31`; a year of more or less than four digits has its sign.
fn day(text: &str) -> Option<i128> {
    let [_, year, month, day] = groups(&DAY, text)?[..] else { return None };
    let date = NaiveDate::from_ymd_opt(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?)?;
    Some(i128::from(date.num_days_from_ce()) - EPOCH_DAY)
}

/// `2026-01-31T10:00:00.5Z`, `2026-01-31 11:00:00,5+01:00`, or without a zone; seconds may be left out.
fn time(text: &str, utc: bool) -> Option<i128> {
    let [_, date, h, m, s, micros, zulu, sign, ahead_h, ahead_m] = groups(&TIME, text)?[..] else { return None };
    let [h, m, s, ahead_h, ahead_m] = [h, m, s, ahead_h, ahead_m].map(number);
    let (below, has_zone) = (|most: i128| move |n: &i128| *n < most, !zulu.is_empty() || !sign.is_empty());
    let minutes = h.filter(below(24))? * 60 + m.filter(below(60))?;
    let ahead = ahead_h.filter(below(24))? * 60 + ahead_m.filter(below(60))?;
    let ahead = if sign == "-" { -ahead } else { ahead };
    let seconds = day(date)? * 86_400 + (minutes - ahead) * 60 + s.filter(below(60))?;
    // What is finer than a microsecond is no value.
    let micros = Some(micros.trim_end_matches('0')).filter(|micros| has_zone == utc && micros.len() <= 6)?;
    Some(seconds * 1_000_000 + format!("{micros:0<6}").parse::<i128>().ok()?)
}
