//! Whether every row has somewhere to go: outputs taken or discarded, and sinks that share a table.
//!
//! Doesn't know: how inputs were resolved. Keeps: an output that can carry rows is never forgotten. Tested: config/tests.
use floodmark_pipeline::plan::{NodeKind, OnError};

use super::super::diagnostic::{Diagnostic, did_you_mean};
use super::super::error_id::ErrorId;
use super::super::model::{CatalogConfig, IcebergConfig, SinkConnector};
use super::super::operator::can_overflow;
use super::super::read::{Draft, DraftKind};
use super::super::table::{At, Context};
use super::{Built, Input, difference};

/// Who takes which output.
pub struct Taken<'a> {
    pub drafts: &'a [Draft],
    pub inputs: &'a [Vec<Input>],
    pub built: &'a [Built],
}

impl Taken<'_> {
    fn reader(&self, draft: usize, output: usize) -> Option<&Input> {
        self.inputs.iter().flatten().find(|i| (i.draft, i.output) == (draft, output))
    }

    /// Why an output never carries a row; `None` where it can, or where that isn't known.
    fn why_empty(&self, draft: usize, output: usize) -> Option<&'static str> {
        match (&self.drafts[draft].kind, output, &self.built[draft]) {
            (DraftKind::Source(source), 1, _) if source.node.on_error == OnError::Fail => {
                Some("with on_error = \"fail\" the job stops instead")
            }
            (DraftKind::Window(_), 2, Built { kind: Some(NodeKind::Window(window)), input: Some(input), .. })
                if !can_overflow(window, input) =>
            {
                Some("none of its aggregates can leave its type")
            }
            _ => None,
        }
    }

    pub fn check_outputs(&self, cx: &Context<'_>, index: usize, all_resolved: bool) {
        let draft = &self.drafts[index];
        let named = draft.kind.named_outputs();
        for waived in &draft.discard {
            self.check_discard(cx, index, waived);
        }
        let mut forgotten = vec![];
        for (i, name) in named.iter().enumerate() {
            match (self.why_empty(index, i + 1), self.reader(index, i + 1)) {
                (Some(why), Some(input)) => cx.problems.add(
                    Diagnostic::new(ErrorId::NO_SUCH_OUTPUT, format!("`{}` never carries a row", input.at.value))
                        .at(input.at.span.clone(), "remove it")
                        .note(format!("why: {why}")),
                ),
                (None, None) if !draft.discard.iter().any(|d| d.value == *name) => forgotten.push(*name),
                _ => {}
            }
        }
        // A misspelt `from` or `discard` leaves the output it meant untaken: saying so would be noise.
        let misspelt = draft.discard.iter().any(|d| !named.contains(&d.value.as_str()));
        if !all_resolved || misspelt || matches!(draft.kind, DraftKind::Sink(_)) {
            return;
        }
        if self.reader(index, 0).is_none() {
            cx.problems.add(
                Diagnostic::new(ErrorId::OUTPUT_NOT_TAKEN, format!("nothing reads `{}`", draft.name.value))
                    .at(draft.name.span.clone(), "")
                    .note(format!("add from = \"{}\" to a node, or remove {}", draft.name.value, draft.title)),
            );
        }
        if let Some(first) = forgotten.first() {
            let full: Vec<String> = forgotten.iter().map(|o| format!("`{}.{o}`", draft.name.value)).collect();
            let discard: Vec<String> = draft
                .discard
                .iter()
                .map(|d| d.value.as_str())
                .chain(forgotten.iter().copied())
                .map(|o| format!("\"{o}\""))
                .collect();
            cx.problems.add(
                Diagnostic::new(ErrorId::OUTPUT_NOT_TAKEN, format!("nothing takes {}", full.join(" and ")))
                    .at(draft.name.span.clone(), "its rows would be lost")
                    .note(format!("take it: a sink with from = \"{}.{first}\"", draft.name.value))
                    .note(format!("or waive it, in {}: discard = [{}]", draft.title, discard.join(", "))),
            );
        }
    }

    fn check_discard(&self, cx: &Context<'_>, index: usize, waived: &At<String>) {
        let draft = &self.drafts[index];
        let named = draft.kind.named_outputs();
        let Some(output) = named.iter().position(|o| *o == waived.value).map(|i| i + 1) else {
            cx.problems.add(
                Diagnostic::new(
                    ErrorId::NO_SUCH_OUTPUT,
                    format!("{} has no output `{}` to discard", draft.title, waived.value),
                )
                .at(waived.span.clone(), did_you_mean(&waived.value, named.iter().copied()))
                .note(format!("its outputs: {}", named.join(", "))),
            );
            return;
        };
        if let Some(why) = self.why_empty(index, output) {
            cx.problems.add(
                Diagnostic::new(
                    ErrorId::NO_SUCH_OUTPUT,
                    format!("`{}.{}` never carries a row", draft.name.value, waived.value),
                )
                .at(waived.span.clone(), "remove it")
                .note(format!("why: {why}")),
            );
        } else if let Some(input) = self.reader(index, output) {
            cx.problems.add(
                Diagnostic::new(ErrorId::DISCARD_OF_TAKEN, format!("`{}` is discarded and taken", input.at.value))
                    .at(waived.span.clone(), "discarded here")
                    .related(input.at.span.clone(), "taken here"),
            );
        }
    }
}

/// Two sinks may write one table, if they agree on what it is.
pub fn refuse_disagreeing_sinks(cx: &Context<'_>, drafts: &[Draft], built: &[Built]) {
    let sinks: Vec<(&Draft, &IcebergConfig, &Built)> = drafts
        .iter()
        .zip(built)
        .filter_map(|(draft, built)| match &draft.kind {
            DraftKind::Sink(sink) => match &sink.config.connector {
                SinkConnector::Iceberg(iceberg) => Some((draft, iceberg, built)),
                _ => None,
            },
            _ => None,
        })
        .collect();
    for (i, (draft, config, node)) in sinks.iter().enumerate() {
        let Some((first, other, first_node)) = sinks[..i].iter().find(|(_, other, _)| same_table(config, other)) else {
            continue;
        };
        let schemas = node.input.as_ref().zip(first_node.input.as_ref()).filter(|(a, b)| a != b);
        let what = match schemas {
            Some((own, theirs)) => {
                format!("columns only here: {}; only there: {}", difference(own, theirs), difference(theirs, own))
            }
            None if (&config.partition, &config.sort) != (&other.partition, &other.sort) => {
                "`partition` and `sort` must be equal".into()
            }
            None => continue,
        };
        cx.problems.add(
            Diagnostic::new(
                ErrorId::TABLE_DISAGREEMENT,
                format!("{} and {} write {}, and don't agree on it", first.title, draft.title, config.table),
            )
            .at(draft.name.span.clone(), "")
            .related(first.name.span.clone(), "the first")
            .note(what),
        );
    }
}

fn same_table(a: &IcebergConfig, b: &IcebergConfig) -> bool {
    let same_catalog = match (&a.catalog, &b.catalog) {
        (CatalogConfig::Sql { uri, name, .. }, CatalogConfig::Sql { uri: uri_b, name: name_b, .. }) => {
            (uri, name) == (uri_b, name_b)
        }
        (
            CatalogConfig::Rest { uri, warehouse, .. },
            CatalogConfig::Rest { uri: uri_b, warehouse: warehouse_b, .. },
        ) => (uri, warehouse) == (uri_b, warehouse_b),
        _ => false,
    };
    same_catalog && !a.table.is_empty() && (&a.namespace, &a.table) == (&b.namespace, &b.table)
}
