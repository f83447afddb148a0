//! The pipeline file, as far as results depend on it. Whoever checks it is elsewhere: here a mistake is an error without a line.
use toml::{Table, Value};

use crate::value::Type;

/// `[KIND.NAME]`.
#[derive(Clone, Copy)]
pub struct Section<'a>(&'a Table);

/// All sections of a kind, by name.
pub fn sections<'a>(file: &'a Table, kind: &str) -> Vec<(&'a str, Section<'a>)> {
    let all = file.get(kind).and_then(Value::as_table).into_iter().flatten();
    all.filter_map(|(name, section)| Some((name.as_str(), Section(section.as_table()?)))).collect()
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

/// Name, function, and column where there is one.
pub type Aggregate<'a> = (&'a str, &'a str, Option<&'a str>);

impl<'a> Section<'a> {
    pub fn text(self, key: &str) -> Option<&'a str> {
        self.0.get(key)?.as_str()
    }

    pub fn inner(self, key: &str) -> Option<Self> {
        self.0.get(key)?.as_table().map(Self)
    }

    /// One name or several.
    pub fn names(self, key: &str) -> Vec<&'a str> {
        match self.0.get(key) {
            Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
            Some(one) => one.as_str().into_iter().collect(),
            None => vec![],
        }
    }

    /// `250ms`, `5s`, `10m`, `24h`, `7d`, in milliseconds.
    pub fn ms(self, key: &str) -> Result<Option<i64>, String> {
        let Some(text) = self.text(key) else { return Ok(None) };
        let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
        let units = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
        let found = units.iter().find(|(name, _)| *name == unit).zip(digits.parse::<i64>().ok());
        found.map(|((_, unit), number)| Some(unit * number)).ok_or_else(|| format!("{key}: {text} is no duration"))
    }

    pub fn columns(self) -> Result<Vec<(Column, Origin)>, String> {
        let schema = self.inner("schema").ok_or("no schema")?;
        schema.0.iter().map(|(name, spec)| column(name, spec)).collect()
    }

    pub fn aggregates(self) -> Result<Vec<Aggregate<'a>>, String> {
        let all = self.inner("aggregates").ok_or("no aggregates")?.0;
        all.iter().map(|(name, call)| aggregate(name, call).ok_or(format!("{name}: {call} is no aggregate"))).collect()
    }
}

fn aggregate<'a>(name: &'a str, call: &'a Value) -> Option<Aggregate<'a>> {
    let (function, rest) = call.as_str()?.split_once('(')?;
    let column = rest.trim_end().strip_suffix(')')?.trim();
    let known = ["count", "sum", "min", "max", "avg"];
    let function = known.into_iter().find(|known| known.eq_ignore_ascii_case(function.trim()))?;
    Some((name, function, Some(column).filter(|column| !["", "*"].contains(column))))
}

fn column(name: &str, spec: &Value) -> Result<(Column, Origin), String> {
    let inner = |key| spec.as_table().and_then(|spec| Section(spec).text(key));
    let own = inner("from").map(|from| match from {
        "kafka.topic" => "string",
        "kafka.partition" => "int32",
        "kafka.offset" => "int64",
        "kafka.timestamp" => "timestamp_ms?",
        _ => "binary?",
    });
    let path = match spec.get("path") {
        Some(Value::Array(path)) => path.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(path) => path.as_str().into_iter().flat_map(|path| path.split('.')).map(str::to_owned).collect(),
        None => vec![name.to_owned()],
    };
    let origin = inner("from").map_or(Origin::Path(path), |from| Origin::Metadata(from.to_owned()));
    let ty = spec.as_str().or(inner("type")).or(own).ok_or_else(|| format!("{name}: no type"))?;
    let (ty, nullable) = ty.strip_suffix('?').map_or((ty, false), |ty| (ty, true));
    let ty = Type::parse(ty).ok_or_else(|| format!("{name}: {ty} is no type"))?;
    Ok((Column { name: name.to_owned(), ty, nullable }, origin))
}
