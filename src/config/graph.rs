//! Joins the nodes: who reads whom, in which order, with which columns; and whether every row has somewhere to go.
//!
//! Doesn't know: TOML, connectors' own keys. Keeps: the order is topological and otherwise that of the file; an output that can carry rows is taken or
//! discarded, never forgotten. Tested: config/tests.
mod outputs;

use floodmark_pipeline::ids::NodeId;
use floodmark_pipeline::plan::{
    Node, NodeKind, Output, OutputId, OutputRef, duplicates_schema, late_schema, source_errors_schema,
    window_errors_schema, window_schema,
};
use floodmark_pipeline::schema::Schema;

use super::diagnostic::{Diagnostic, did_you_mean};
use super::error_id::ErrorId;
use super::layout;
use super::operator::{resolve_dedup, resolve_window};
use super::read::{Draft, DraftKind};
use super::table::{At, Context, not_yet};
use outputs::{Taken, refuse_disagreeing_sinks};

/// An input by the place of its draft, and where it is written.
struct Input {
    at: At<String>,
    draft: usize,
    output: usize,
}

/// A node with what is known of its outputs; `None` where an error stands in the way.
struct Built {
    kind: Option<NodeKind>,
    outputs: Vec<Option<Schema>>,
    input: Option<Schema>,
}

/// Nodes in topological order.
///
/// `unread` are names of nodes in sections that were refused: who reads them isn't told off a second time.
pub fn join(cx: &Context<'_>, drafts: &[Draft], unread: &[String]) -> Option<Vec<Node>> {
    refuse_missing(cx, drafts);
    refuse_same_names(cx, drafts);
    let inputs: Vec<Vec<Input>> = drafts.iter().map(|d| resolve_inputs(cx, drafts, unread, d)).collect();
    let all_resolved = drafts.iter().zip(&inputs).all(|(draft, inputs)| draft.from.len() == inputs.len());
    let order = topological(cx, drafts, &inputs)?;
    let mut built: Vec<Built> = drafts.iter().map(|_| Built { kind: None, outputs: vec![], input: None }).collect();
    for draft in &order {
        built[*draft] = build(cx, &drafts[*draft], &inputs[*draft], &built);
    }
    refuse_missing_event_time(cx, drafts, &inputs);
    let taken = Taken { drafts, inputs: &inputs, built: &built };
    for draft in 0..drafts.len() {
        taken.check_outputs(cx, draft, all_resolved);
    }
    refuse_disagreeing_sinks(cx, drafts, &built);
    if !cx.problems.is_empty() {
        return None;
    }
    order.iter().map(|draft| node(&drafts[*draft], &inputs[*draft], &built[*draft], &order)).collect()
}

fn refuse_missing(cx: &Context<'_>, drafts: &[Draft]) {
    let has = |test: fn(&DraftKind) -> bool| drafts.iter().any(|d| test(&d.kind));
    let missing = |what: &str| {
        cx.problems.add(
            Diagnostic::new(ErrorId::MISSING_SECTION, format!("there is no {what}"))
                .note(format!("a job reads a source and writes to a sink: add a section [{what}.NAME]")),
        );
    };
    if !has(|k| matches!(k, DraftKind::Source(_))) {
        missing("source");
    }
    if !has(|k| matches!(k, DraftKind::Sink(_))) {
        missing("sink");
    }
}

fn refuse_same_names(cx: &Context<'_>, drafts: &[Draft]) {
    for (i, draft) in drafts.iter().enumerate() {
        if let Some(first) = drafts[..i].iter().find(|d| d.name.value == draft.name.value) {
            cx.problems.add(
                Diagnostic::new(ErrorId::DUPLICATE_NAME, format!("two nodes are called `{}`", draft.name.value))
                    .at(draft.name.span.clone(), "rename one of them")
                    .related(first.name.span.clone(), "the first")
                    .note("names are unique over all sections: `from` knows them without their section"),
            );
        }
    }
}

/// Everything that `from` could name.
fn readable(drafts: &[Draft]) -> Vec<String> {
    let nodes = drafts.iter().filter(|d| !matches!(d.kind, DraftKind::Sink(_)));
    nodes
        .flat_map(|d| {
            let named = d.kind.named_outputs().iter().map(|o| format!("{}.{o}", d.name.value));
            std::iter::once(d.name.value.clone()).chain(named)
        })
        .collect()
}

fn resolve_inputs(cx: &Context<'_>, drafts: &[Draft], unread: &[String], reader: &Draft) -> Vec<Input> {
    let mut inputs: Vec<Input> = vec![];
    for at in &reader.from {
        let Some(input) = resolve_input(cx, drafts, unread, at) else { continue };
        if inputs.iter().any(|i| (i.draft, i.output) == (input.draft, input.output)) {
            let diagnostic = Diagnostic::new(ErrorId::DUPLICATE_NAME, format!("`{}` is read twice", at.value));
            cx.problems.add(diagnostic.at(at.span.clone(), "remove it"));
            continue;
        }
        if let Some(problem) = not_for_operators(drafts, reader, &input) {
            cx.problems.add(problem);
        }
        inputs.push(input);
    }
    inputs
}

fn resolve_input(cx: &Context<'_>, drafts: &[Draft], unread: &[String], at: &At<String>) -> Option<Input> {
    let (name, output) = at.value.split_once('.').map_or((at.value.as_str(), None), |(n, o)| (n, Some(o)));
    let found = drafts.iter().position(|d| d.name.value == name);
    let index = found.and_then(|draft| {
        let named = drafts[draft].kind.named_outputs();
        match output {
            None => (!matches!(drafts[draft].kind, DraftKind::Sink(_))).then_some(0),
            Some(output) => named.iter().position(|o| *o == output).map(|i| i + 1),
        }
    });
    if let (Some(draft), Some(output)) = (found, index) {
        return Some(Input { at: at.clone(), draft, output });
    }
    if found.is_none() && unread.iter().any(|u| u == name) {
        return None;
    }
    let all = readable(drafts);
    let (message, label) = match (found.map(|d| &drafts[d]), output) {
        (Some(sink), None) => (format!("`{name}` is a sink: nothing comes out of {}", sink.title), String::new()),
        (Some(node), Some(output)) => (
            format!("{} has no output `{output}`", node.title),
            did_you_mean(&at.value, all.iter().map(String::as_str)),
        ),
        (None, _) => {
            (format!("nothing is called `{}`", at.value), did_you_mean(&at.value, all.iter().map(String::as_str)))
        }
    };
    let problem = Diagnostic::new(ErrorId::UNKNOWN_INPUT, message).at(at.span.clone(), label);
    cx.problems.add(problem.note(format!("what can be read: {}", all.join(", "))));
    None
}

/// Operators read rows that still have an event time to be judged by.
fn not_for_operators(drafts: &[Draft], reader: &Draft, input: &Input) -> Option<Diagnostic> {
    if !matches!(reader.kind, DraftKind::Dedup(_) | DraftKind::Window(_)) {
        return None;
    }
    let span = input.at.span.clone();
    if input.output != 0 {
        return Some(
            Diagnostic::new(ErrorId::OUTPUT_INTO_OPERATOR, format!("{} can't read `{}`", reader.title, input.at.value))
                .at(span, "")
                .note("rows of such an output have no event time, or are late by it; only sinks read them"),
        );
    }
    matches!(drafts[input.draft].kind, DraftKind::Window(_)).then(|| {
        not_yet(ErrorId::LATER_WINDOW_OVER_WINDOW, format!("{} over a window's rows", reader.title), span)
            .note("in this version windows and dedup read sources and dedup")
    })
}

/// Places of the drafts so that an input stands before its readers, and otherwise in the order of the file.
fn topological(cx: &Context<'_>, drafts: &[Draft], inputs: &[Vec<Input>]) -> Option<Vec<usize>> {
    let mut order: Vec<usize> = vec![];
    let waits_for = |draft: usize, order: &[usize]| inputs[draft].iter().find(|i| !order.contains(&i.draft));
    while order.len() < drafts.len() {
        let open = || (0..drafts.len()).filter(|d| !order.contains(d));
        if let Some(next) = open().find(|d| waits_for(*d, &order).is_none()) {
            order.push(next);
            continue;
        }
        let mut walk: Vec<usize> = vec![];
        let mut at = open().next()?;
        let mut last = waits_for(at, &order)?;
        while !walk.contains(&at) {
            walk.push(at);
            last = waits_for(at, &order)?;
            at = last.draft;
        }
        let start = walk.iter().position(|draft| *draft == at)?;
        let names: Vec<&str> = walk[start..].iter().rev().map(|draft| drafts[*draft].name.value.as_str()).collect();
        let circle = format!("{} → {}", names.join(" → "), names[0]);
        cx.problems.add(
            Diagnostic::new(ErrorId::CYCLE, format!("rows would run in a circle: {circle}"))
                .at(last.at.span.clone(), "closes the circle"),
        );
        return None;
    }
    Some(order)
}

fn build(cx: &Context<'_>, draft: &Draft, inputs: &[Input], built: &[Built]) -> Built {
    let input = input_schema(cx, draft, inputs, built);
    let (kind, outputs) = match &draft.kind {
        DraftKind::Source(source) => {
            (Some(NodeKind::Source(source.node.clone())), vec![source.schema.clone(), Some(source_errors_schema())])
        }
        DraftKind::Dedup(dedup) => (
            input.as_ref().and_then(|i| resolve_dedup(cx, dedup, i)).map(NodeKind::Dedup),
            vec![input.clone(), input.as_ref().map(duplicates_schema), input.as_ref().map(late_schema)],
        ),
        DraftKind::Window(window) => match input.as_ref().and_then(|i| Some((i, resolve_window(cx, window, i)?))) {
            None => (None, vec![None; 3]),
            Some((i, w)) => {
                let schemas = [window_schema(i, &w), late_schema(i), window_errors_schema(i, &w)];
                (Some(NodeKind::Window(w)), schemas.map(Some).to_vec())
            }
        },
        DraftKind::Sink(sink) => {
            if let Some(input) = &input {
                layout::check(cx, &sink.partition, &sink.sort, input);
            }
            (Some(NodeKind::Sink), vec![])
        }
    };
    Built { kind, outputs, input }
}

/// The one schema of all inputs.
fn input_schema(cx: &Context<'_>, draft: &Draft, inputs: &[Input], built: &[Built]) -> Option<Schema> {
    let schema = |input: &Input| built[input.draft].outputs.get(input.output).cloned().flatten();
    let first = inputs.first()?;
    let expected = schema(first)?;
    for other in &inputs[1..] {
        let Some(found) = schema(other).filter(|s| *s != expected) else { continue };
        cx.problems.add(
            Diagnostic::new(
                ErrorId::SCHEMAS_DIFFER,
                format!(
                    "{} reads `{}` and `{}`, which have different columns",
                    draft.title, first.at.value, other.at.value
                ),
            )
            .at(other.at.span.clone(), "")
            .related(first.at.span.clone(), "")
            .note(format!("`{}`: {}", first.at.value, difference(&expected, &found)))
            .note(format!("`{}`: {}", other.at.value, difference(&found, &expected))),
        );
    }
    Some(expected)
}

/// Columns of one schema that the other doesn't have in this form.
fn difference(schema: &Schema, other: &Schema) -> String {
    let own: Vec<String> = schema.fields.iter().filter(|f| !other.fields.contains(f)).map(|f| f.to_string()).collect();
    if own.is_empty() { "the rest, or another order".to_owned() } else { own.join(", ") }
}

/// Sources above a draft, through any path.
fn sources_above(draft: usize, drafts: &[Draft], inputs: &[Vec<Input>]) -> Vec<usize> {
    let mut found = vec![];
    let mut open: Vec<usize> = inputs[draft].iter().map(|i| i.draft).collect();
    while let Some(next) = open.pop() {
        if matches!(drafts[next].kind, DraftKind::Source(_)) && !found.contains(&next) {
            found.push(next);
        }
        open.extend(inputs[next].iter().map(|i| i.draft));
    }
    found
}

/// Windows and dedup need an event time, and a bound on its disorder, from every source above them.
fn refuse_missing_event_time(cx: &Context<'_>, drafts: &[Draft], inputs: &[Vec<Input>]) {
    for (index, draft) in drafts.iter().enumerate() {
        let DraftKind::Source(source) = &draft.kind else { continue };
        let needs_time = |d: &Draft| matches!(d.kind, DraftKind::Dedup(_) | DraftKind::Window(_));
        let reads = |(i, d): &(usize, &Draft)| needs_time(d) && sources_above(*i, drafts, inputs).contains(&index);
        let readers: Vec<&Draft> = drafts.iter().enumerate().filter(reads).map(|(_, d)| d).collect();
        let Some(reader) = readers.first() else { continue };
        let (id, what, example) = if !source.has_event_time {
            (ErrorId::NO_EVENT_TIME, "has no event time", "event_time = { field = \"event_time_ms\" }")
        } else if !source.bound_given {
            (ErrorId::MISSING_KEY, "has no watermark bound", "watermark = { bound = \"5s\" }")
        } else {
            continue;
        };
        let names: Vec<&str> = readers.iter().map(|d| d.title.as_str()).collect();
        cx.problems.add(
            Diagnostic::new(id, format!("{} {what}, needed by {}", draft.title, names.join(" and ")))
                .at(draft.name.span.clone(), "")
                .related(reader.name.span.clone(), "needs it")
                .note(format!("for example, in {}: {example}", draft.title)),
        );
    }
}

/// The node of the plan; `order` gives drafts their ids.
fn node(draft: &Draft, inputs: &[Input], built: &Built, order: &[usize]) -> Option<Node> {
    let id = |draft: usize| order.iter().position(|d| *d == draft).map(|place| NodeId(place as u16));
    let reference = |i: &Input| Some(OutputRef { node: id(i.draft)?, output: OutputId(i.output as u8) });
    let named = draft.kind.named_outputs();
    let names = std::iter::once(None).chain(named.iter().map(|n| Some(*n)));
    let output = |(name, schema): (Option<&'static str>, &Option<Schema>)| {
        let discard = name.is_some_and(|n| draft.discard.iter().any(|d| d.value == n));
        Some(Output { name, schema: schema.clone()?, discard })
    };
    Some(Node {
        name: draft.name.value.clone(),
        inputs: inputs.iter().map(reference).collect::<Option<_>>()?,
        outputs: names.zip(&built.outputs).map(output).collect::<Option<_>>()?,
        kind: built.kind.clone()?,
    })
}
