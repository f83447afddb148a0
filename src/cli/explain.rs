//! `floodmark explain FILE`: what the pipeline will do, as a tree from sources to sinks.
//!
//! Every node stands below the output it reads; one with several inputs stands below the first and is named below the others.
//! Doesn't know: brokers and catalogs; it reads the file and nothing else. Tested: tests/check_and_explain.rs (a page for each kind of node).
mod node;
mod notes;

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use floodmark_pipeline::ids::NodeId;
use floodmark_pipeline::plan::{NodeKind, OutputId, OutputRef};

use crate::config::load;
use crate::config::model::{Pipeline, StateBackend};
use crate::config::value::{show_duration, show_size};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Pipeline file
    file: PathBuf,
}

pub fn run(args: &Args) -> ExitCode {
    match load(&args.file) {
        Ok(pipeline) => super::print(&page(&pipeline)),
        Err(diagnostics) => super::refuse(&diagnostics),
    }
}

/// A node, or an output that ends here, with what hangs below.
struct Block {
    head: String,
    details: Vec<String>,
    below: Vec<Block>,
}

impl Block {
    fn leaf(head: String) -> Self {
        Self { head, details: vec![], below: vec![] }
    }

    /// `first` stands before the head, `rest` before every further line.
    fn draw(&self, page: &mut String, first: &str, rest: &str) {
        let _ = writeln!(page, "{first}{}", self.head);
        let stem = if self.below.is_empty() { " " } else { "│" };
        for detail in &self.details {
            let _ = writeln!(page, "{rest}{stem}  {detail}");
        }
        for (i, block) in self.below.iter().enumerate() {
            let last = i + 1 == self.below.len();
            let (fork, stem) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            block.draw(page, &format!("{rest}{fork}"), &format!("{rest}{stem}"));
        }
    }
}

/// The whole answer.
pub fn page(pipeline: &Pipeline) -> String {
    let mut page = head(pipeline);
    for id in pipeline.plan.ids() {
        if matches!(pipeline.plan.node(id).kind, NodeKind::Source(_)) {
            page.push('\n');
            block(pipeline, id, "").draw(&mut page, "", "");
        }
    }
    let notes = notes::of(pipeline);
    if !notes.is_empty() {
        page.push_str("\nnotes\n");
        notes.iter().for_each(|note| page.push_str(&format!("- {note}\n")));
    }
    page
}

fn head(pipeline: &Pipeline) -> String {
    let (settings, plan) = (&pipeline.settings, &pipeline.plan);
    let state = match settings.state {
        StateBackend::Memory => "memory",
        StateBackend::RocksDb => "rocksdb",
    };
    let listen =
        settings.listen.map_or(String::new(), |a| format!("  status      http://{a}/status, /metrics, /healthz\n"));
    format!(
        "pipeline {}\n  workers     {}, over {} key groups\n  checkpoint  every {} to {}, the newest {} kept\n  state       {state}, {} of memory\n  outbox      up to {} of rows wait for sinks that are away, then sources pause\n{listen}",
        plan.pipeline,
        settings.workers,
        plan.max_parallelism,
        show_duration(settings.checkpoint_interval),
        settings.checkpoint_dir,
        settings.retain,
        show_size(settings.memory_bytes),
        show_size(settings.outbox_bytes),
    )
}

/// A node with everything below it; `output` is how the output it reads is called, with an arrow.
fn block(pipeline: &Pipeline, id: NodeId, output: &str) -> Block {
    let node = pipeline.plan.node(id);
    let (kind, details) = node::describe(pipeline, id);
    let mut below = vec![];
    for (i, out) in node.outputs.iter().enumerate() {
        let reference = OutputRef { node: id, output: OutputId(i as u8) };
        let arrow = out.name.map_or(String::new(), |name| format!("{name} → "));
        if out.discard {
            below.push(Block::leaf(format!("{arrow}discarded: counted, and gone")));
        }
        for reader in pipeline.plan.readers(reference) {
            below.push(reader_block(pipeline, reader, reference, &arrow));
        }
    }
    Block { head: format!("{output}{}: {kind}", node.name), details, below }
}

fn reader_block(pipeline: &Pipeline, reader: NodeId, output: OutputRef, arrow: &str) -> Block {
    let node = pipeline.plan.node(reader);
    if node.inputs.first() == Some(&output) {
        block(pipeline, reader, arrow)
    } else {
        Block::leaf(format!("{arrow}{}: see there", node.name))
    }
}
