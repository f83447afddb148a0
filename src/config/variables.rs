//! Reads a pipeline file and leaves `${VAR}` as it stands wherever that can be: for what is written down and handed on.
//!
//! Doesn't know: what is written. Keeps: the file is as right as with the values in it; what a variable that was left stands for is nowhere in the result.
//! Tested: here.
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::model::Pipeline;
use super::{Diagnostics, parse};

/// A checked file.
pub struct Unfilled {
    pub pipeline: Pipeline,
    /// Variables that stand in the result as `${VAR}`.
    pub left: BTreeSet<String>,
    /// Those whose value was needed to understand the file (`workers = "${N}"`), with it.
    pub filled: BTreeMap<String, String>,
}

pub fn parse_unfilled(text: &str, path: &Path, env: &dyn Fn(&str) -> Option<String>) -> Result<Unfilled, Diagnostics> {
    let asked = RefCell::new(BTreeSet::new());
    let pipeline = parse(text, path, &|name| {
        asked.borrow_mut().insert(name.to_owned());
        env(name)
    })?;
    let asked = asked.into_inner();
    let read = |left: &BTreeSet<String>| {
        parse(text, path, &|name| if left.contains(name) { Some(format!("${{{name}}}")) } else { env(name) })
    };
    let left: BTreeSet<String> =
        asked.iter().filter(|name| read(&BTreeSet::from([(*name).clone()])).is_ok()).cloned().collect();
    let (pipeline, left) = match read(&left) {
        Ok(unfilled) => (unfilled, left),
        // Each alone could be left, all together can't.
        Err(_) => (pipeline, BTreeSet::new()),
    };
    let value = |name: &String| Some((name.clone(), env(name)?));
    let filled = asked.difference(&left).filter_map(value).collect();
    Ok(Unfilled { pipeline, left, filled })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::model::SourceConnector;

    const FILE: &str = r#"
[pipeline]
id = "x"
checkpoint = { interval = "${EVERY}" }
[source.a]
type = "kafka"
brokers = "${HOST}:9092"
topic = "t"
on_error = "fail"
properties = { "sasl.password" = "${PASSWORD}" }
schema = { id = "string" }
[sink.out]
from = "a"
type = "stdout"
"#;

    fn env(name: &str) -> Option<String> {
        Some(match name {
            "EVERY" => "7s".into(),
            other => format!("the-{other}"),
        })
    }

    #[test]
    fn a_variable_is_left_unless_its_value_is_needed() {
        let read = parse_unfilled(FILE, Path::new("x.toml"), &env).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(read.pipeline.settings.checkpoint_interval.as_secs(), 7);
        let SourceConnector::Kafka(kafka) = &read.pipeline.sources.values().next().unwrap().connector else { panic!() };
        assert_eq!(
            (kafka.brokers.as_str(), kafka.properties["sasl.password"].0.as_str()),
            ("${HOST}:9092", "${PASSWORD}")
        );
        assert_eq!(read.left, BTreeSet::from(["HOST".to_owned(), "PASSWORD".to_owned()]));
        assert_eq!(read.filled, BTreeMap::from([("EVERY".to_owned(), "7s".to_owned())]));
    }

    #[test]
    fn a_variable_that_is_not_set_is_an_error() {
        let answer =
            parse_unfilled(FILE, Path::new("x.toml"), &|_| None).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(answer.contains("F019"), "{answer}");
    }
}
