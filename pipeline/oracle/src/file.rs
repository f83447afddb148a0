//! The pipeline file, as far as results depend on it. Whoever checks it is elsewhere: here a mistake is an error without a line.
use std::collections::BTreeMap;

use serde::Deserialize;
use toml::{Table, Value};

use crate::value::Type;

const HOUR_MS: i64 = 3_600_000;

#[derive(Deserialize)]
pub struct Pipeline {
    #[serde(rename = "source")]
    pub sources: BTreeMap<String, Source>,
    #[serde(default)]
    pub dedup: BTreeMap<String, Dedup>,
    #[serde(default)]
    pub window: BTreeMap<String, Window>,
}

#[derive(Deserialize)]
pub struct Source {
    #[serde(rename = "type")]
    log: String,
    schema: Table,
    pub event_time: Option<EventTime>,
    watermark: Option<Watermark>,
    pub unknown_fields: Option<String>,
    pub lateness: Option<String>,
}

/// A column, or the log's own timestamp.
#[derive(Deserialize)]
pub struct EventTime {
    pub field: Option<String>,
}

#[derive(Deserialize)]
struct Watermark {
    bound: Millis,
    max_future: Option<Millis>,
}

#[derive(Deserialize)]
pub struct Dedup {
    pub from: OneOrMore,
    pub key: OneOrMore,
    pub horizon: Millis,
    bucket: Option<Millis>,
}

#[derive(Deserialize)]
pub struct Window {
    pub from: OneOrMore,
    #[serde(default)]
    pub key: OneOrMore,
    pub size: Option<Millis>,
    slide: Option<Millis>,
    #[serde(default)]
    pub offset: Millis,
    /// Of sessions, which have no size.
    pub gap: Option<Millis>,
    aggregates: Table,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    pub name: String,
    pub ty: Type,
    pub nullable: bool,
}

/// Where a column comes from.
pub enum Origin {
    Path(Vec<String>),
    Metadata(String),
}

#[derive(Deserialize)]
#[serde(untagged)]
pub enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl Default for OneOrMore {
    fn default() -> Self {
        Self::More(vec![])
    }
}

impl OneOrMore {
    pub fn all(&self) -> &[String] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::More(all) => all,
        }
    }
}

/// `250ms`, `5s`, `10m`, `24h`, `7d`.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(try_from = "String")]
pub struct Millis(pub i64);

impl TryFrom<String> for Millis {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let units = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", HOUR_MS), ("d", 24 * HOUR_MS)];
        let unit = units.iter().find(|(name, _)| *name == &text[digits..]);
        let span = unit.zip(text[..digits].parse::<i64>().ok()).map(|((_, unit), number)| Self(unit * number));
        span.ok_or_else(|| format!("{text} is no duration"))
    }
}

impl Source {
    pub fn bound_ms(&self) -> i64 {
        self.watermark.as_ref().map_or(0, |watermark| watermark.bound.0)
    }

    /// Files have no timestamp to be ahead of.
    pub fn max_future_ms(&self) -> Option<i64> {
        let given = self.watermark.as_ref().and_then(|watermark| watermark.max_future);
        given.map(|span| span.0).or((self.log != "file").then_some(HOUR_MS))
    }

    pub fn columns(&self) -> Result<Vec<(Column, Origin)>, String> {
        self.schema.iter().map(|(name, spec)| column(name, spec)).collect()
    }
}

impl Dedup {
    pub fn bucket_ms(&self) -> i64 {
        self.bucket.map_or((self.horizon.0 / 24).max(1), |bucket| bucket.0)
    }
}

impl Window {
    /// A tumbling window steps by its size.
    pub fn slide_ms(&self) -> i64 {
        self.slide.or(self.size).unwrap_or_default().0
    }

    pub fn aggregates(&self) -> Result<Vec<Aggregate<'_>>, String> {
        let all = self.aggregates.iter();
        all.map(|(name, call)| aggregate(name, call).ok_or_else(|| format!("{name}: {call} is no aggregate"))).collect()
    }
}

/// Name, function, and column where there is one.
pub type Aggregate<'a> = (&'a str, &'a str, Option<&'a str>);

fn aggregate<'a>(name: &'a str, call: &'a Value) -> Option<Aggregate<'a>> {
    let (function, rest) = call.as_str()?.split_once('(')?;
    let column = rest.trim_end().strip_suffix(')')?.trim();
    Some((name, function.trim(), Some(column).filter(|column| !column.is_empty())))
}

fn column(name: &str, spec: &Value) -> Result<(Column, Origin), String> {
    let text = |key: &str| spec.get(key).and_then(Value::as_str);
    let (ty, origin) = match (spec.as_str(), text("from"), spec.get("path")) {
        (Some(ty), ..) => (ty, Origin::Path(vec![name.to_owned()])),
        (None, Some(from), _) => {
            let own = match from {
                "kafka.topic" => "string",
                "kafka.partition" => "int32",
                "kafka.offset" => "int64",
                "kafka.timestamp" => "timestamp_ms?",
                _ => "binary?",
            };
            (text("type").unwrap_or(own), Origin::Metadata(from.to_owned()))
        }
        (None, None, path) => {
            let path = match path {
                Some(Value::Array(keys)) => keys.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
                Some(Value::String(path)) => path.split('.').map(str::to_owned).collect(),
                _ => vec![name.to_owned()],
            };
            (text("type").unwrap_or_default(), Origin::Path(path))
        }
    };
    let (ty, nullable) = ty.strip_suffix('?').map_or((ty, false), |ty| (ty, true));
    let ty = Type::parse(ty).ok_or_else(|| format!("{name}: {ty} is no type"))?;
    Ok((Column { name: name.to_owned(), ty, nullable }, origin))
}
