//! Which keys a pipeline file gives, and where: for what is said of a key once the file has been read.
//!
//! Doesn't know: what the values mean. Keeps: a file that was accepted has no key that isn't found here. Tested: here.
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::keys::{
    CATALOG, CHECKPOINT, DEDUP, EVENT_TIME, FIELD, FILE_SINK, FILE_SOURCE, GENERATOR, Group, HOPPING, ICEBERG, KAFKA,
    Key, PIPELINE, POSITION, REST_CATALOG, S3, SESSION, SINK, SOURCE, SQL_CATALOG, TUMBLING, WATERMARK, WINDOW,
};
use super::table::in_file_order;

#[derive(Clone, Debug)]
pub struct Given {
    /// The section's node, or `pipeline`.
    pub node: String,
    pub group: &'static Group,
    pub key: &'static Key,
    /// The key with its value.
    pub span: Range<usize>,
}

/// In the order of the file. Of a text that isn't TOML: nothing.
pub fn keys(text: &str) -> Vec<Given> {
    let (document, _) = DeTable::parse_recoverable(text);
    let mut found = vec![];
    for (section, value) in in_file_order(document.get_ref()) {
        let Some(table) = value.value.as_table() else { continue };
        if section.value == "pipeline" {
            Walk { node: "pipeline", found: &mut found }.pipeline(table);
            continue;
        }
        for (name, node) in in_file_order(table) {
            let Some(table) = node.value.as_table() else { continue };
            let mut walk = Walk { node: name.value, found: &mut found };
            match section.value {
                "source" => walk.source(table),
                "dedup" => walk.keys(table, &[&DEDUP]),
                "window" => walk.typed(table, &WINDOW, WINDOWS),
                "sink" => walk.sink(table),
                _ => {}
            }
        }
    }
    found.sort_by_key(|given| given.span.start);
    found
}

const SOURCES: &[(&str, &Group)] = &[("kafka", &KAFKA), ("file", &FILE_SOURCE), ("generator", &GENERATOR)];
const WINDOWS: &[(&str, &Group)] = &[("tumbling", &TUMBLING), ("hopping", &HOPPING), ("session", &SESSION)];
const SINKS: &[(&str, &Group)] = &[("iceberg", &ICEBERG), ("file", &FILE_SINK)];
const CATALOGS: &[(&str, &Group)] = &[("sql", &SQL_CATALOG), ("rest", &REST_CATALOG)];

struct Walk<'a> {
    node: &'a str,
    found: &'a mut Vec<Given>,
}

impl Walk<'_> {
    fn keys(&mut self, table: &DeTable<'_>, groups: &[&'static Group]) {
        for (name, value) in in_file_order(table) {
            let of = |group: &&'static Group| Some((*group, group.keys.iter().find(|key| key.name == name.value)?));
            let Some((group, key)) = groups.iter().find_map(of) else { continue };
            let span = name.span.start..value.span.end.max(name.span.end);
            self.found.push(Given { node: self.node.to_owned(), group, key, span });
        }
    }

    /// The keys of a section, and those that its `type` adds.
    fn typed(&mut self, table: &DeTable<'_>, all: &'static Group, of_types: &[(&str, &'static Group)]) {
        let kind = table.get("type").and_then(|kind| kind.get_ref().as_str());
        let own = of_types.iter().find(|(name, _)| Some(*name) == kind);
        let groups: Vec<_> = [all].into_iter().chain(own.map(|(_, group)| *group)).collect();
        self.keys(table, &groups);
    }

    fn below(&mut self, table: &DeTable<'_>, key: &str, group: &'static Group) {
        if let Some(inner) = table.get(key).and_then(|value| value.get_ref().as_table()) {
            self.keys(inner, &[group]);
        }
    }

    fn pipeline(&mut self, table: &DeTable<'_>) {
        self.keys(table, &[&PIPELINE]);
        self.below(table, "checkpoint", &CHECKPOINT);
        self.below(table, "s3", &S3);
    }

    fn source(&mut self, table: &DeTable<'_>) {
        self.typed(table, &SOURCE, SOURCES);
        self.below(table, "event_time", &EVENT_TIME);
        self.below(table, "watermark", &WATERMARK);
        self.below(table, "start", &POSITION);
        self.below(table, "end", &POSITION);
        let columns = table.get("schema").and_then(|schema| schema.get_ref().as_table());
        for column in columns.into_iter().flat_map(|columns| columns.values()) {
            if let DeValue::Table(column) = column.get_ref() {
                self.keys(column, &[&FIELD]);
            }
        }
    }

    fn sink(&mut self, table: &DeTable<'_>) {
        self.typed(table, &SINK, SINKS);
        if let Some(catalog) = table.get("catalog").and_then(|catalog| catalog.get_ref().as_table()) {
            self.typed(catalog, &CATALOG, CATALOGS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_with_their_group_and_node() {
        let text = "[pipeline]\nid = \"x\"\ncheckpoint = { retain = 3 }\n\
                    [source.a]\ntype = \"kafka\"\ntopic = \"t\"\n[source.a.schema]\nid = { type = \"string\" }\n\
                    [window.w]\ntype = \"hopping\"\nslide = \"1s\"\n[sink.s]\ntype = \"iceberg\"\ncatalog = { type = \"rest\", token = \"t\" }\n";
        let found: Vec<_> = keys(text).iter().map(|g| format!("{} {} {}", g.node, g.group.title, g.key.name)).collect();
        for expected in [
            "pipeline [pipeline.checkpoint] retain",
            "a [source.NAME] type = \"kafka\" topic",
            "a [source.NAME.schema] type",
            "w [window.NAME] type = \"hopping\" slide",
            "s [sink.NAME.catalog] type = \"rest\" token",
        ] {
            assert!(found.contains(&expected.to_owned()), "{expected}: {found:?}");
        }
        assert_eq!(found.len(), 13, "{found:?}");
    }

    #[test]
    fn a_key_stands_where_it_is_written() {
        let text = "[pipeline]\nid = \"x\"\nworkers = 2\n";
        assert_eq!(&text[keys(text)[1].span.clone()], "workers = 2");
    }
}
