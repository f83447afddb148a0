//! `[sink.NAME]` and its catalog.
//!
//! Doesn't know: what is written. Partition and sort fields are checked against the input in `layout`. Tested: config/tests.
use std::time::Duration;

use super::diagnostic::Diagnostic;
use super::error_id::ErrorId;
use super::keys::{CATALOG, FILE_SINK, Group, ICEBERG, REST_CATALOG, SQL_CATALOG};
use super::layout::{self, Written};
use super::model::{
    CatalogConfig, IcebergConfig, Location, PartitionField, RestAuth, Secret, SinkConfig, SinkConnector, SortField,
};
use super::operator::contradiction;
use super::table::{At, Table};
use super::value::{is_name, location, show_duration};

const MARK_INTERVAL: Duration = Duration::from_secs(600);

/// A group without keys: nothing is to be said of stdout.
const STDOUT: Group = Group { title: "[sink.NAME] type = \"stdout\"", text: "", keys: &[] };

/// A sink as read, with what has to be checked against its input.
pub struct SinkDraft {
    pub config: SinkConfig,
    pub partition: Vec<Written<PartitionField>>,
    pub sort: Vec<Written<SortField>>,
}

pub fn read(table: &mut Table<'_>, checkpoint_interval: Duration) -> SinkDraft {
    let kind = table.choice("type").map(|t| t.value);
    let groups = [&ICEBERG, &FILE_SINK];
    match kind.as_deref() {
        Some("iceberg") => table.allow(&ICEBERG),
        Some("file") => table.allow(&FILE_SINK),
        Some(_) => table.allow(&STDOUT),
        None => groups.into_iter().for_each(|g| table.allow(g)),
    }
    // A sink type that isn't ours yet has keys that aren't either.
    if kind.is_some() {
        table.refuse_unknown(&groups);
    }
    let commit_interval = table.duration("commit_interval");
    if let Some(asked) = commit_interval.as_ref().filter(|c| c.value < checkpoint_interval) {
        table.cx.problems.add(
            Diagnostic::new(
                ErrorId::CONTRADICTION,
                format!("`commit_interval` of {} is shorter than the checkpoint interval", table.name),
            )
            .at(asked.span.clone(), "")
            .note(format!("a commit takes whole checkpoints, one every {}", show_duration(checkpoint_interval)))
            .note("lengthen it, or shorten `checkpoint = { interval = … }` in [pipeline]"),
        );
    }
    let commit_interval = commit_interval.map_or(checkpoint_interval, |c| c.value);
    let (mut partition, mut sort) = (vec![], vec![]);
    let connector = match kind.as_deref() {
        Some("iceberg") => {
            (partition, sort) = (layout::read_partition(table), layout::read_sort(table));
            SinkConnector::Iceberg(iceberg(table, commit_interval, &partition, &sort))
        }
        Some("file") => SinkConnector::File { dir: place(table, "dir") },
        _ => SinkConnector::Stdout,
    };
    SinkDraft { config: SinkConfig { connector, commit_interval }, partition, sort }
}

/// A `file:` or `s3://` place; a stand-in where it is wrong or missing.
pub fn place(table: &Table<'_>, key: &str) -> Location {
    let Some(text) = table.text(key) else { return Location::File(Default::default()) };
    location(&text.value).unwrap_or_else(|| {
        let label =
            if text.value.contains(':') { String::new() } else { format!("did you mean `file:{}`?", text.value) };
        bad_address(table, key, &text, &label, "allowed: \"file:PATH\" or \"s3://BUCKET/PREFIX\"");
        Location::File(Default::default())
    })
}

pub fn bad_address(table: &Table<'_>, key: &str, at: &At<String>, label: &str, allowed: &str) {
    table.cx.problems.add(
        Diagnostic::new(ErrorId::BAD_ADDRESS, format!("`{key}` is not an address"))
            .at(at.span.clone(), label)
            .note(allowed),
    );
}

fn iceberg(
    table: &Table<'_>,
    commit_interval: Duration,
    partition: &[Written<PartitionField>],
    sort: &[Written<SortField>],
) -> IcebergConfig {
    table.choice("mode");
    let mark_interval = table.duration("mark_interval");
    if mark_interval.as_ref().is_some_and(|m| m.value < commit_interval) {
        contradiction(
            table,
            "mark_interval",
            "commit_interval",
            "nothing is committed more often than the commit interval",
        );
    }
    let (namespace, name) = table_name(table);
    IcebergConfig {
        catalog: catalog(table),
        namespace,
        table: name,
        partition: partition.iter().map(|(_, field)| field.clone()).collect(),
        sort: sort.iter().map(|(_, field)| field.clone()).collect(),
        target_file_size_bytes: table.size("target_file_size").map_or(0, |s| s.value),
        mark_interval: mark_interval.map_or(MARK_INTERVAL.max(commit_interval), |m| m.value),
        properties: table.pairs("properties").into_iter().map(|(k, v)| (k.value, v.value)).collect(),
    }
}

fn table_name(table: &Table<'_>) -> (Vec<String>, String) {
    let Some(text) = table.text("table") else { return Default::default() };
    let mut parts: Vec<String> = text.value.split('.').map(str::to_owned).collect();
    if parts.len() < 2 || parts.iter().any(|p| p.is_empty() || p.contains(['/', '"', ' '])) {
        table.cx.problems.add(
            Diagnostic::new(ErrorId::BAD_NAME, "`table` is a namespace and a name with a dot between")
                .at(text.span, "")
                .note("for example: table = \"shop.events\""),
        );
    }
    let name = parts.pop().unwrap_or_default();
    (parts, name)
}

fn catalog(sink: &Table<'_>) -> CatalogConfig {
    let stand_in = CatalogConfig::Rest { uri: String::new(), warehouse: None, auth: RestAuth::None, prefix: None };
    let title = format!("[{}.catalog]", sink.name.trim_matches(['[', ']']));
    let Some(mut table) = sink.table("catalog", title, &CATALOG) else { return stand_in };
    let kind = table.choice("type").map(|t| t.value);
    match kind.as_deref() {
        Some("sql") => table.allow(&SQL_CATALOG),
        Some("rest") => table.allow(&REST_CATALOG),
        _ => return stand_in,
    }
    table.refuse_unknown(&[&SQL_CATALOG, &REST_CATALOG]);
    let uri = table.text("uri");
    let (schemes, allowed): (&[&str], _) = match kind.as_deref() {
        Some("sql") => (
            &["sqlite:", "postgres://", "postgresql://"],
            "allowed: \"sqlite:PATH\" or \"postgres://USER:PASSWORD@HOST/DATABASE\"",
        ),
        _ => (&["http://", "https://"], "allowed: \"http://HOST:PORT\" or \"https://HOST\""),
    };
    let uri = uri.map(|uri| {
        if !schemes.iter().any(|s| uri.value.strip_prefix(s).is_some_and(|rest| !rest.is_empty())) {
            bad_address(&table, "uri", &uri, "", allowed);
        }
        uri.value
    });
    let uri = uri.unwrap_or_default();
    let optional = |key: &str| table.text(key).map(|t| t.value);
    if kind.as_deref() == Some("sql") {
        let name = optional("name").unwrap_or_default();
        return CatalogConfig::Sql { uri: Secret(uri), name, warehouse: place(&table, "warehouse") };
    }
    CatalogConfig::Rest { uri, warehouse: optional("warehouse"), auth: auth(&table), prefix: optional("prefix") }
}

fn auth(table: &Table<'_>) -> RestAuth {
    let (token, credential) = (table.text("token"), table.text("credential"));
    if token.is_some() && credential.is_some() {
        table.cx.problems.add(
            Diagnostic::new(ErrorId::EXCLUSIVE_KEYS, "`token` and `credential` exclude each other")
                .at(table.span_of("credential"), "asks for a token")
                .related(table.span_of("token"), "is a token"),
        );
    }
    if credential.is_none() {
        for key in ["token_uri", "scope"].into_iter().filter(|k| table.has(k)) {
            table.no_effect(key, "it belongs to `credential`, which isn't given");
        }
    }
    match (token, credential) {
        (_, Some(credential)) => RestAuth::OAuth2 {
            token_uri: table.text("token_uri").map(|t| t.value),
            credential: Secret(credential.value),
            scope: table.text("scope").map(|t| t.value),
        },
        (Some(token), None) => RestAuth::Bearer(Secret(token.value)),
        (None, None) => RestAuth::None,
    }
}

/// Refuses a name that can't stand in a table property, a file name and a metric alike.
pub fn check_name(table: &Table<'_>, what: &str, name: &At<String>) {
    if !is_name(&name.value) {
        table.cx.problems.add(
            Diagnostic::new(ErrorId::BAD_NAME, format!("`{}` can't be {what}", name.value))
                .at(name.span.clone(), "")
                .note("allowed: a letter, then letters, digits, `_` and `-`, at most 64"),
        );
    }
}
