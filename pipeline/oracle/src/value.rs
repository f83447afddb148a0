//! Values: read from JSON by their type, written as the JSON that a person reads.
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime};
use serde_json::Value as Json;

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
            Self::Int32 | Self::Date => i32::try_from(whole).is_ok(),
            Self::Decimal { precision, .. } => whole.unsigned_abs() < 10u128.pow(precision),
            _ => i64::try_from(whole).is_ok(),
        }
    }

    /// `None`: not a value of this type.
    pub fn read(self, json: &Json) -> Option<Cell> {
        let whole = match (self, json) {
            (Self::Bool, Json::Bool(yes)) => return Some(Cell::Bool(*yes)),
            (Self::Text, Json::String(text)) => return Some(Cell::Text(text.clone())),
            (Self::Binary, Json::String(text)) => return STANDARD.decode(text).ok().map(Cell::Bytes),
            (Self::Float64, Json::Number(number)) => return number.as_f64().map(Cell::Float),
            (Self::Decimal { scale, .. }, Json::Number(number)) => decimal(&number.to_string(), scale)?,
            (Self::Decimal { scale, .. }, Json::String(text)) => decimal(text, scale)?,
            (Self::Int32 | Self::Int64 | Self::Date, Json::Number(number)) => integer(number)?,
            (Self::Time { ms, .. }, Json::Number(number)) => integer(number)? * if ms { 1_000 } else { 1 },
            (Self::Date, Json::String(text)) => day(text)?,
            (Self::Time { utc, .. }, Json::String(text)) => time(text, utc)?,
            _ => return None,
        };
        self.holds(whole).then_some(Cell::Whole(whole))
    }

    pub fn show(self, cell: &Cell) -> String {
        match (self, cell) {
            (_, Cell::Null) => "null".into(),
            (_, Cell::Bool(yes)) => yes.to_string(),
            (_, Cell::Text(text)) => Json::from(text.as_str()).to_string(),
            (_, Cell::Float(number)) => Json::from(*number).to_string(),
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

/// Numbers with a fraction or an exponent aren't whole, whatever their value.
fn integer(number: &serde_json::Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

/// At `scale` places; more places than that are no value.
fn decimal(text: &str, scale: u32) -> Option<i128> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > scale as usize || whole.is_empty() {
        return None;
    }
    let padded = format!("{whole}{fraction:0<width$}", width = scale as usize);
    let unsigned: i128 = padded.parse().ok()?;
    Some(if negative { -unsigned } else { unsigned })
}

/// Days since 1970-01-01 of `2026-01-31`.
fn day(text: &str) -> Option<i128> {
    let date: NaiveDate = text.parse().ok()?;
    Some(i128::from(date.num_days_from_ce()) - EPOCH_DAY)
}

/// `2026-01-31T10:00:00.5Z`, or without a zone.
fn time(text: &str, utc: bool) -> Option<i128> {
    let text = if utc { text.strip_suffix('Z')? } else { text };
    let time: NaiveDateTime = text.parse().ok()?;
    Some(i128::from(time.and_utc().timestamp_micros()))
}
