//! `floodmark check FILE`: is this pipeline file right?
//!
//! Doesn't know: brokers and catalogs; it reads the file and nothing else. Tested: tests/check_and_explain.rs.
use std::path::PathBuf;
use std::process::ExitCode;

use floodmark_pipeline::plan::NodeKind;

use crate::config::model::Pipeline;
use crate::config::{load, reference};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Pipeline file
    #[arg(required_unless_present = "print_reference")]
    file: Option<PathBuf>,
    /// Print docs/PIPELINE_FILE.md instead: every key there is
    #[arg(long, conflicts_with = "file")]
    print_reference: bool,
}

pub fn run(args: &Args) -> ExitCode {
    let Some(file) = &args.file else { return super::print(&reference::page()) };
    match load(file) {
        Ok(pipeline) => super::print(&format!("{}\n", summary(&pipeline))),
        Err(diagnostics) => super::refuse(&diagnostics),
    }
}

fn summary(pipeline: &Pipeline) -> String {
    let nodes = &pipeline.plan.nodes;
    let count = |what: &str, test: fn(&NodeKind) -> bool| {
        let n = nodes.iter().filter(|n| test(&n.kind)).count();
        format!("{n} {what}{}", if n == 1 { "" } else { "s" })
    };
    format!(
        "{}: OK. Pipeline `{}`: {}, {}, {}, {}. `floodmark explain {}` shows what it does.",
        pipeline.settings.file.display(),
        pipeline.plan.pipeline,
        count("source", |k| matches!(k, NodeKind::Source(_))),
        count("dedup", |k| matches!(k, NodeKind::Dedup(_))),
        count("window", |k| matches!(k, NodeKind::Window(_))),
        count("sink", |k| matches!(k, NodeKind::Sink)),
        pipeline.settings.file.display(),
    )
}
