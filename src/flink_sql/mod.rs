//! The pipeline file as one SQL job of Apache Flink 1.20: SET, CREATE, and one STATEMENT SET.
//!
//!   source     table `NAME.log` with its watermark, view `NAME` over it
//!   dedup      view `NAME`, ROW_NUMBER() = 1 in order of arrival
//!   window     `….judged` says once for each row whether it is late; `NAME.all` aggregates those that aren't; `NAME`, `NAME.late`, `NAME.errors`
//!   sink       a table and an INSERT
//!
//! Views are named as the outputs of the pipeline file. What differs from floodmark stands as a comment above the statement; what can't be said is refused.
//! Doesn't know: Flink at run time. Keeps: every key has an answer (`answers`). Tested: flink_sql/tests.rs, tests/flink_sql.rs.
mod answers;
mod catalog;
mod dedup;
mod input;
mod job;
mod place;
mod settings;
mod sink;
mod source;
mod sql;
pub mod submit;
#[cfg(test)]
mod tests;
mod window;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use floodmark_pipeline::plan::NodeKind;

use crate::config::variables::parse_unfilled;
use crate::config::{Diagnostic, Diagnostics, ErrorId, given};
use job::Job;

pub use answers::page;

#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Keys whose meaning may get lost.
    pub accept_loss: BTreeSet<String>,
    /// Instead of the file's catalogs.
    pub catalog_uri: Option<String>,
    pub warehouse: Option<String>,
    /// Brokers and topic of sources that are read from Kafka whatever the file says.
    pub kafka: BTreeMap<String, (String, String)>,
}

/// The job, or what keeps it from being printed. Relative paths begin at `folder`.
pub fn script(
    text: &str,
    path: &Path,
    env: &dyn Fn(&str) -> Option<String>,
    options: &Options,
    folder: PathBuf,
) -> Result<String, Diagnostics> {
    let read = parse_unfilled(text, path, env)?;
    let job = Job::new(&read.pipeline, options, folder, given::keys(text), &read.filled);
    let refused = |problems| Diagnostics::new(path, text, problems);
    if let Some(source) = options.kafka.keys().find(|name| !is_source(&job, name)) {
        return Err(refused(vec![wrong_argument(format!(
            "--kafka names `{source}`, which is no source of this file"
        ))]));
    }
    let statements = statements(&job);
    let needless = job.needless();
    if job.has_problems() {
        return Err(refused(job.into_problems()));
    }
    if !needless.is_empty() {
        let problem = format!("--accept-loss {}: nothing is lost by it in this file", needless.join(", "));
        return Err(refused(vec![wrong_argument(problem)]));
    }
    Ok(head(&job, &read.left) + &statements)
}

fn is_source(job: &Job<'_>, name: &str) -> bool {
    job.plan().find(name).is_some_and(|id| matches!(job.node(id).kind, NodeKind::Source(_)))
}

fn wrong_argument(message: String) -> Diagnostic {
    Diagnostic::new(ErrorId::NO_FLINK_FORM, message).note("leave it out")
}

fn head(job: &Job<'_>, variables: &BTreeSet<String>) -> String {
    let mut head = format!(
        "-- Pipeline `{}` as a job of Apache Flink 1.20, printed by `floodmark flink-sql`.\n\
         -- What differs from floodmark stands above the statement that it concerns, by the key of the pipeline file.\n",
        job.plan().pipeline
    );
    if !variables.is_empty() {
        let names: Vec<_> = variables.iter().map(|name| format!("${{{name}}}")).collect();
        head.push_str(&format!("-- Put the values of {} in before you submit it.\n", names.join(", ")));
    }
    head
}

/// All of it below the head.
fn statements(job: &Job<'_>) -> String {
    let mut script = String::new();
    // Statements say what differs while they are made, so the comments are asked for after them.
    let mut part = |node: &str, title: &str, statements: Vec<String>| {
        if statements.is_empty() && job.comments(node).is_empty() {
            return;
        }
        script.push_str(&format!("\n-- {title}\n{}", job.comments(node)));
        statements.iter().for_each(|statement| script.push_str(&format!("{statement};\n")));
    };
    part("pipeline", "[pipeline]", settings::statements(job));
    part("", "Catalogs", catalog::statements(job));
    let mut inserts = vec![];
    for id in job.plan().ids() {
        let node = job.node(id);
        let (section, statements) = match &node.kind {
            NodeKind::Source(_) => ("source", source::statements(job, id)),
            NodeKind::Dedup(dedup) => ("dedup", dedup::statements(job, id, dedup)),
            NodeKind::Window(window) => ("window", window::statements(job, id, window)),
            NodeKind::Sink => {
                let (statements, insert) = sink::statements(job, id);
                inserts.extend(insert);
                ("sink", statements)
            }
        };
        part(&node.name, &format!("[{section}.{}]", node.name), statements);
    }
    script.push_str("\n-- All sinks are one job: what they share is read and computed once.\nBEGIN STATEMENT SET;\n");
    inserts.iter().for_each(|insert| script.push_str(&format!("{insert};\n")));
    script + "END;\n"
}
