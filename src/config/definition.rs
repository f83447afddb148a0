//! A sink as a manifest keeps it, so that what waits for it can still be committed when its section has left the pipeline file.
//!
//! Holds the section as it is written (what `${VAR}` stands for isn't in it, and is asked of the environment again) and the columns of its rows.
//! Doesn't know: manifests, what is done with a retired sink. Keeps: what was written reads as the same sink. Tested: here.
use std::time::Duration;

use floodmark_pipeline::schema::{Field, Schema};
use toml::de::{DeTable, DeValue};

use super::diagnostic::Problems;
use super::keys::SINK;
use super::layout;
use super::model::SinkConfig;
use super::sink;
use super::table::{Context, Table, as_integer, in_file_order};
use super::value::field_type;

/// A sink that no longer stands in the pipeline file.
#[derive(Clone, Debug)]
pub struct Definition {
    pub config: SinkConfig,
    pub columns: Schema,
}

/// A section that was accepted, as a small TOML document.
pub fn write(name: &str, section: &DeTable<'_>, columns: &Schema) -> String {
    let mut text = format!("[sink.{name}]\n");
    for (key, value) in in_file_order(section) {
        text.push_str(&format!("{} = {}\n", quoted(key.value), shown(value.value)));
    }
    text.push_str("\n[columns]\n");
    for Field { name, ty, nullable } in &columns.fields {
        let null = if *nullable { "?" } else { "" };
        text.push_str(&format!("{} = {}\n", quoted(name), quoted(&format!("{ty}{null}"))));
    }
    text
}

/// Reads it back, with the environment as it is now; an error says what keeps the sink from being opened.
pub fn read(name: &str, text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Definition, String> {
    let cx = Context { text, env, problems: Problems::default() };
    let (document, errors) = DeTable::parse_recoverable(text);
    let section = document.get_ref().get("sink").and_then(|s| s.get_ref().as_table()?.get(name)?.get_ref().as_table());
    let columns = document.get_ref().get("columns").and_then(|c| columns(c.get_ref().as_table()?));
    let (Some(section), Some(columns), true) = (section, columns, errors.is_empty()) else {
        return Err("the manifest keeps no definition of it that this version can read".into());
    };
    let mut table = Table::new(&cx, format!("[sink.{name}]"), 0..0, section, &SINK);
    let draft = sink::read(&mut table, Duration::ZERO);
    layout::check(&cx, &draft.partition, &draft.sort, &columns);
    if cx.problems.is_empty() {
        return Ok(Definition { config: draft.config, columns });
    }
    let problems: Vec<_> = cx.problems.into_list().into_iter().map(|p| p.message).collect();
    Err(format!("the definition that the manifest keeps of it can't be used: {}", problems.join("; ")))
}

fn columns(table: &DeTable<'_>) -> Option<Schema> {
    let column = |name: &str, text: &DeValue<'_>| {
        let (ty, nullable) = field_type(text.as_str()?)?;
        Some(Field { name: name.to_owned(), ty, nullable })
    };
    let fields = in_file_order(table).into_iter().map(|(name, ty)| column(name.value, ty.value));
    fields.collect::<Option<Vec<_>>>().map(Schema::new)
}

fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => quoted(text),
        DeValue::Integer(digits) => as_integer(value).map_or_else(|| digits.as_str().to_owned(), |n| n.to_string()),
        DeValue::Float(float) => float.as_str().to_owned(),
        DeValue::Boolean(yes) => yes.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(list) => {
            let list: Vec<_> = list.iter().map(|v| shown(v.get_ref())).collect();
            format!("[{}]", list.join(", "))
        }
        DeValue::Table(table) => {
            let entry = |(key, value): (super::table::At<&str>, super::table::At<&DeValue<'_>>)| {
                format!("{} = {}", quoted(key.value), shown(value.value))
            };
            let entries: Vec<_> = in_file_order(table).into_iter().map(entry).collect();
            format!("{{ {} }}", entries.join(", "))
        }
    }
}

/// A JSON string is a TOML string, but for one character that TOML wants escaped.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007F")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::parse;
    use super::*;

    const FILE: &str = r#"
[pipeline]
id = "shop"
[source.events]
type = "file"
path = "events"
discard = ["errors"]
schema = { id = "string", price = "decimal(10,2)?", day = "date" }

[sink]
late = { from = "events", type = "stdout" }

[sink.lake]
from = "events"
type = "iceberg"
table = "shop.events"
partition = ["bucket(16, id)", 'day']
sort = "id desc nulls last"
target_file_size = "64MiB"
properties = { "a.b" = 0x10, "c \"d\"" = "tab\there", e = true, f = 1.5 }
[sink.lake.catalog]
type = "sql"
uri = "postgres://${USER}:${PASSWORD}@host/db"
warehouse = "file:data/$${x}/warehouse"

[sink.bad]
from = "events"
type = "file"
dir = "file:data/bad"
"#;

    fn env(name: &str) -> Option<String> {
        ["USER", "PASSWORD"].contains(&name).then(|| format!("the-{name}"))
    }

    fn parsed() -> super::super::model::Pipeline {
        parse(FILE, Path::new("shop.toml"), &env).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn a_definition_reads_as_the_sink_that_it_was_made_of() {
        let pipeline = parsed();
        assert_eq!(pipeline.definitions.len(), 3);
        for (node, text) in &pipeline.definitions {
            let Definition { mut config, columns } = read(&pipeline.plan.node(*node).name, text, &env).unwrap();
            let original = &pipeline.sinks[node];
            // It waits for nothing, so the interval that it takes from the pipeline isn't kept.
            config.commit_interval = original.commit_interval;
            assert_eq!(format!("{config:?}"), format!("{original:?}"), "{text}");
            assert_eq!(Some(&columns), pipeline.plan.input_schema(*node), "{text}");
        }
    }

    #[test]
    fn no_secret_of_the_environment_is_in_a_definition() {
        let pipeline = parsed();
        let lake = pipeline.plan.find("lake").unwrap();
        let text = &pipeline.definitions[&lake];
        assert!(text.contains("${PASSWORD}") && !text.contains("the-"), "{text}");
        let missing = read("lake", text, &|_| None).unwrap_err();
        assert!(missing.contains("the environment variable USER is not set"), "{missing}");
    }

    #[test]
    fn what_is_no_definition_is_said_to_be_none() {
        for text in ["", "[sink.lake]\ntype = \"stdout\"", "[sink.lake", "[columns]\nid = \"string\""] {
            let error = read("lake", text, &env).unwrap_err();
            assert_eq!(error, "the manifest keeps no definition of it that this version can read", "{text}");
        }
        let later = "[sink.lake]\ntype = \"kafka\"\n[columns]\nid = \"string\"";
        assert!(read("lake", later, &env).unwrap_err().contains("later version"));
    }
}
