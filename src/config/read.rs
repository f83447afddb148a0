//! Takes the file apart: [pipeline], and the named sections as drafts of nodes.
//!
//! Doesn't know: how nodes hang together. Tested: config/tests.
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use floodmark_pipeline::ids::NodeId;
use floodmark_pipeline::plan::Plan;
use toml::de::{DeTable, DeValue};

use super::definition;
use super::diagnostic::{Diagnostic, nearest};
use super::error_id::ErrorId;
use super::fingerprint;
use super::graph;
use super::keys::{CHECKPOINT, DEDUP, Group, PIPELINE, S3, SECTIONS, SINK, SOURCE, WINDOW, later};
use super::model::{Location, Pipeline, S3Settings, Secret, Settings, StateBackend};
use super::operator::{self, DedupDraft, WindowDraft};
use super::own_folders;
use super::sink::{self, SinkDraft, bad_address, check_name, place};
use super::source::{self, SourceDraft};
use super::table::{At, Context, Table, in_file_order, not_yet};

/// A node as written, before its inputs are known.
pub struct Draft {
    pub name: At<String>,
    /// `[window.per_type]`
    pub title: String,
    pub from: Vec<At<String>>,
    pub discard: Vec<At<String>>,
    pub kind: DraftKind,
}

pub enum DraftKind {
    Source(Box<SourceDraft>),
    Dedup(DedupDraft),
    Window(WindowDraft),
    Sink(Box<SinkDraft>),
}

impl DraftKind {
    /// Outputs beside the main one, in the order of their [`OutputId`](floodmark_pipeline::plan::OutputId).
    pub fn named_outputs(&self) -> &'static [&'static str] {
        match self {
            Self::Source(_) => &["errors"],
            Self::Dedup(_) => &["duplicates", "late"],
            Self::Window(_) => &["late", "errors"],
            Self::Sink(_) => &[],
        }
    }
}

pub fn file(cx: &Context<'_>, path: &Path) -> Option<Pipeline> {
    let (document, errors) = DeTable::parse_recoverable(cx.text);
    for error in &errors {
        let span = error.span().unwrap_or(0..0);
        cx.problems
            .add(Diagnostic::new(ErrorId::SYNTAX, "this is not TOML").at(span, error.message().replace('\n', "; ")));
    }
    if !errors.is_empty() {
        return None;
    }
    let document = document.get_ref();
    let mut unread = refuse_unknown_sections(cx, document);
    let (id, max_parallelism, settings) = pipeline_section(cx, document, path);
    let drafts = drafts(cx, document, settings.checkpoint_interval, &mut unread);
    own_folders::refuse(cx, &settings, &drafts);
    let nodes = graph::join(cx, &drafts, &unread)?;
    let plan = Plan { pipeline: id, max_parallelism, nodes };
    let line = |span: &Range<usize>| cx.text[..span.start].matches('\n').count() + 1;
    let (sources, sinks, fingerprints) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let definitions = definitions(document, &plan);
    let mut pipeline = Pipeline { plan, settings, sources, sinks, fingerprints, definitions };
    let mut lines = BTreeMap::new();
    for draft in drafts {
        let node = pipeline.plan.find(&draft.name.value)?;
        lines.insert(draft.name.value, line(&draft.name.span));
        match draft.kind {
            DraftKind::Source(source) => drop(pipeline.sources.insert(node, source.config)),
            DraftKind::Sink(sink) => drop(pipeline.sinks.insert(node, sink.config)),
            DraftKind::Dedup(_) | DraftKind::Window(_) => {}
        }
    }
    pipeline.fingerprints = fingerprint::of(&pipeline, &lines);
    Some(pipeline)
}

/// The sections of the sinks, for manifests.
fn definitions(document: &DeTable<'_>, plan: &Plan) -> BTreeMap<NodeId, String> {
    let sections = document.get("sink").and_then(|s| s.get_ref().as_table());
    let define = |(name, section): (At<&str>, At<&DeValue<'_>>)| {
        let node = plan.find(name.value)?;
        Some((node, definition::write(name.value, section.value.as_table()?, plan.input_schema(node)?)))
    };
    sections.map(in_file_order).unwrap_or_default().into_iter().filter_map(define).collect()
}

/// Answers the names of the nodes in what is refused.
fn refuse_unknown_sections(cx: &Context<'_>, document: &DeTable<'_>) -> Vec<String> {
    let mut unread = vec![];
    for (key, value) in in_file_order(document).into_iter().filter(|(k, _)| !SECTIONS.contains(&k.value)) {
        let word = key.value;
        unread.extend(value.value.as_table().iter().flat_map(|t| t.keys()).map(|name| name.get_ref().to_string()));
        let diagnostic = match (later("section", word), value.value) {
            (Some(id), _) => not_yet(id, format!("[{word}.NAME]"), key.span),
            (None, DeValue::Table(_)) => Diagnostic::new(ErrorId::UNKNOWN_SECTION, format!("unknown section [{word}]"))
                .at(key.span, nearest(word, SECTIONS).map_or(String::new(), |s| format!("did you mean `{s}`?")))
                .note("sections: [pipeline], [source.NAME], [dedup.NAME], [window.NAME], [sink.NAME]"),
            (None, _) => Diagnostic::new(ErrorId::UNKNOWN_SECTION, format!("`{word}` stands before any section"))
                .at(key.span, "")
                .note("keys of the whole job stand below [pipeline]"),
        };
        cx.problems.add(diagnostic);
    }
    unread
}

/// Id, key groups and settings. What is missing or wrong has a stand-in; the file is refused then.
fn pipeline_section(cx: &Context<'_>, document: &DeTable<'_>, path: &Path) -> (String, u16, Settings) {
    let empty = DeTable::new();
    let section = document.get_key_value("pipeline").and_then(|(k, v)| Some((k.span(), v.get_ref().as_table()?)));
    let (span, found) = section.clone().unwrap_or((0..0, &empty));
    let table = Table::new(cx, "[pipeline]", span, found, &PIPELINE);
    table.refuse_unknown(&[]);
    let id = if section.is_some() {
        table.text("id")
    } else {
        cx.problems.add(
            Diagnostic::new(ErrorId::MISSING_SECTION, "there is no section [pipeline]")
                .note("it names the job: [pipeline] and, below it, id = \"clickstream\""),
        );
        None
    };
    if let Some(id) = &id {
        check_name(&table, "a pipeline's id", id);
    }
    let max_parallelism = table.integer("max_parallelism").map_or(i64::from(u16::MAX), |m| m.value) as u16;
    let id = id.map(|i| i.value).unwrap_or_default();
    let settings = settings(&table, path, &id, max_parallelism);
    (id, max_parallelism, settings)
}

fn settings(table: &Table<'_>, path: &Path, id: &str, max_parallelism: u16) -> Settings {
    let empty = DeTable::new();
    let below = |key: &str, group: &'static Group| {
        let title = format!("[pipeline.{key}]");
        let given = table.has(key).then(|| table.table(key, title.clone(), group)).flatten();
        let inner = given.unwrap_or_else(|| Table::new(table.cx, title, table.span.clone(), &empty, group));
        inner.refuse_unknown(&[]);
        inner
    };
    let (checkpoint, s3) = (below("checkpoint", &CHECKPOINT), below("s3", &S3));
    let count = |key: &str| table.integer(key).map_or(1, |n| n.value as usize);
    Settings {
        file: path.to_owned(),
        checkpoint_interval: checkpoint.duration("interval").map_or(Duration::ZERO, |d| d.value),
        checkpoint_dir: if checkpoint.has("dir") {
            place(&checkpoint, "dir")
        } else {
            Location::File(format!("data/{id}/checkpoints").into())
        },
        retain: checkpoint.integer("retain").map_or(1, |n| n.value as usize),
        state: match table.choice("state") {
            Some(state) if state.value == "memory" => StateBackend::Memory,
            _ => StateBackend::RocksDb,
        },
        memory_bytes: table.size("memory").map_or(0, |s| s.value),
        workers: workers(table, max_parallelism),
        batch_rows: count("batch_rows"),
        queue_batches: count("queue_batches"),
        outbox_bytes: table.size("outbox").map_or(0, |s| s.value),
        listen: listen(table),
        s3: S3Settings {
            endpoint: s3.text("endpoint").map(|t| t.value),
            region: s3.text("region").map(|t| t.value),
            access_key: s3.text("access_key").map(|t| Secret(t.value)),
            secret_key: s3.text("secret_key").map(|t| Secret(t.value)),
        },
    }
}

fn workers(table: &Table<'_>, max_parallelism: u16) -> u16 {
    let Some(asked) = table.integer("workers") else {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        return cores.min(usize::from(max_parallelism)) as u16;
    };
    if asked.value > i64::from(max_parallelism) {
        let why = format!("each worker owns at least one of the {max_parallelism} key groups");
        operator::contradiction(table, "workers", "max_parallelism", &why);
    }
    asked.value as u16
}

fn listen(table: &Table<'_>) -> Option<SocketAddr> {
    let text = table.text("listen")?;
    let address = text.value.parse().ok();
    if address.is_none() {
        bad_address(table, "listen", &text, "", "for example: \"127.0.0.1:8080\", \"[::1]:8080\"");
    }
    address
}

/// All nodes in the order of the file; the names of those that can't be read go to `unread`.
fn drafts(
    cx: &Context<'_>,
    document: &DeTable<'_>,
    checkpoint_interval: Duration,
    unread: &mut Vec<String>,
) -> Vec<Draft> {
    let mut drafts: Vec<Draft> = vec![];
    for (section, group) in [("source", &SOURCE), ("dedup", &DEDUP), ("window", &WINDOW), ("sink", &SINK)] {
        let Some((key, found)) = document.get_key_value(section) else { continue };
        let nodes = found.get_ref().as_table().map(in_file_order).unwrap_or_default();
        for (name, value) in nodes {
            let Some(inner) = value.value.as_table() else {
                unread.push(name.value.to_owned());
                let is_list = value.value.is_array();
                cx.problems.add(if is_list { list_of_sections(section, &name) } else { nameless(section, key.span()) });
                if is_list {
                    continue;
                }
                break;
            };
            let title = format!("[{section}.{}]", name.value);
            let mut table = Table::new(cx, title, name.span.clone(), inner, group);
            let name = At { value: name.value.to_owned(), span: name.span };
            check_name(&table, "a node's name", &name);
            drafts.push(draft(&mut table, section, name, checkpoint_interval));
        }
    }
    drafts.sort_by_key(|d| d.name.span.start);
    drafts
}

fn list_of_sections(section: &str, name: &At<&str>) -> Diagnostic {
    let title = format!("[{section}.{}]", name.value);
    Diagnostic::new(ErrorId::UNKNOWN_SECTION, format!("[{title}] is a list of sections"))
        .at(name.span.clone(), format!("one node is one section: {title}"))
}

fn nameless(section: &str, span: Range<usize>) -> Diagnostic {
    Diagnostic::new(ErrorId::UNKNOWN_SECTION, format!("[{section}] has no name"))
        .at(span, format!("give it one: [{section}.events]"))
}

fn draft(table: &mut Table<'_>, section: &str, name: At<String>, checkpoint_interval: Duration) -> Draft {
    let kind = match section {
        "source" => DraftKind::Source(Box::new(source::read(table))),
        "dedup" => DraftKind::Dedup(operator::read_dedup(table)),
        "window" => DraftKind::Window(operator::read_window(table)),
        _ => DraftKind::Sink(Box::new(sink::read(table, checkpoint_interval))),
    };
    Draft { name, title: table.name.clone(), from: table.texts("from"), discard: table.texts("discard"), kind }
}
