//! What all parts of the printed job share: the checked file, what was accepted, and what is to be said.
//!
//! Doesn't know: SQL. Keeps: a refusal names the key and its line; a note stands with the section that it is of; no value of the environment is shown.
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use floodmark_pipeline::ids::NodeId;
use floodmark_pipeline::plan::{Node, NodeKind, OutputId, OutputRef, Plan};

use super::Options;
use super::answers::{Answer, answer};
use crate::config::given::Given;
use crate::config::model::{Pipeline, Secret};
use crate::config::{Diagnostic, ErrorId};

pub struct Job<'a> {
    pub pipeline: &'a Pipeline,
    pub options: &'a Options,
    /// Where relative paths begin.
    pub folder: PathBuf,
    given: Vec<Given>,
    /// Variables whose value stands in the pipeline, with it.
    filled: &'a BTreeMap<String, String>,
    notes: RefCell<BTreeMap<String, Vec<String>>>,
    problems: RefCell<Vec<Diagnostic>>,
    accepted: RefCell<BTreeSet<String>>,
    views: RefCell<BTreeMap<(String, Vec<OutputRef>), String>>,
}

impl<'a> Job<'a> {
    pub fn new(
        pipeline: &'a Pipeline,
        options: &'a Options,
        folder: PathBuf,
        given: Vec<Given>,
        filled: &'a BTreeMap<String, String>,
    ) -> Self {
        let job = Self {
            pipeline,
            options,
            folder,
            given,
            filled,
            notes: RefCell::default(),
            problems: RefCell::default(),
            accepted: RefCell::default(),
            views: RefCell::default(),
        };
        for given in &job.given {
            if let Some(Answer::Here(text) | Answer::Nearest(text)) = answer(given.group, given.key) {
                job.note(&given.node, given.key.name, text);
            }
        }
        job
    }

    pub fn plan(&self) -> &'a Plan {
        &self.pipeline.plan
    }

    pub fn node(&self, id: NodeId) -> &'a Node {
        self.plan().node(id)
    }

    pub fn is_given(&self, node: &str, key: &str) -> bool {
        self.find(node, key).is_some()
    }

    fn find(&self, node: &str, key: &str) -> Option<&Given> {
        self.given.iter().find(|given| given.node == node && given.key.name == key)
    }

    /// Says what differs; once for each key of a section.
    pub fn note(&self, node: &str, key: &str, text: &str) {
        let mut notes = self.notes.borrow_mut();
        let notes = notes.entry(node.to_owned()).or_default();
        let line = format!("{key}: {text}");
        if !notes.contains(&line) {
            notes.push(line);
        }
    }

    /// All that is to be said of a section, as comments.
    pub fn comments(&self, node: &str) -> String {
        let notes = self.notes.borrow();
        notes.get(node).into_iter().flatten().map(|note| wrapped(note)).collect()
    }

    /// What Flink can't do, and what to do about it.
    pub fn refuse(&self, node: &str, key: &str, why: &str, instead: &str) {
        let what = format!("`{key}` of `{node}` can't be printed as a Flink job");
        let mut problem = Diagnostic::new(ErrorId::NO_FLINK_FORM, what).note(why).note(instead);
        if let Some(given) = self.find(node, key) {
            problem = problem.at(given.span.clone(), "");
        }
        self.problems.borrow_mut().push(problem);
    }

    /// What Flink can't do, and may be given up: true where it was accepted, with a note of what is lost.
    pub fn give_up(&self, node: &str, key: &str, why: &str, lost: &str) -> bool {
        if self.options.accept_loss.contains(key) {
            self.accepted.borrow_mut().insert(key.to_owned());
            self.note(node, key, &format!("given up: {lost}"));
            return true;
        }
        self.refuse(node, key, why, &format!("`--accept-loss {key}` gives it up: {lost}"));
        false
    }

    /// Whether something else than the nearest form was accepted for a key.
    pub fn is_given_up(&self, key: &str) -> bool {
        let accepted = self.options.accept_loss.contains(key);
        if accepted {
            self.accepted.borrow_mut().insert(key.to_owned());
        }
        accepted
    }

    /// Keys that were to be given up, and none of which needed it.
    pub fn needless(&self) -> Vec<String> {
        let accepted = self.accepted.borrow();
        self.options.accept_loss.iter().filter(|key| !accepted.contains(*key)).cloned().collect()
    }

    pub fn into_problems(self) -> Vec<Diagnostic> {
        self.problems.into_inner()
    }

    pub fn has_problems(&self) -> bool {
        !self.problems.borrow().is_empty()
    }

    /// A value that may be secret: where the environment's own stands in it, the variable stands instead.
    pub fn shown(&self, secret: &Secret) -> String {
        let hide = |text: String, (name, value): (&String, &String)| {
            if value.is_empty() { text } else { text.replace(value.as_str(), &format!("${{{name}}}")) }
        };
        self.filled.iter().fold(secret.0.clone(), hide)
    }

    /// Whether rows of this node have a time attribute.
    pub fn has_time(&self, id: NodeId) -> bool {
        let has = |source: NodeId| matches!(&self.node(source).kind, NodeKind::Source(s) if s.event_time.is_some());
        self.plan().sources_of(id).into_iter().all(has)
    }

    /// Whether anything but `discard` takes an output.
    pub fn is_read(&self, node: NodeId, output: OutputId) -> bool {
        self.plan().readers(OutputRef { node, output }).next().is_some()
    }

    /// The view of that kind over these inputs, made by `make` the first time that it is asked for.
    pub fn shared_view(&self, kind: &str, inputs: &[OutputRef], make: impl FnOnce() -> String) -> String {
        let key = (kind.to_owned(), inputs.to_vec());
        if let Some(view) = self.views.borrow().get(&key) {
            return view.clone();
        }
        let view = make();
        self.views.borrow_mut().insert(key, view.clone());
        view
    }
}

/// Widest line of a comment.
const WIDTH: usize = 140;

/// A comment of one or more lines. A line that ended with a semicolon would end the statement for some readers of scripts.
fn wrapped(text: &str) -> String {
    let (mut out, mut line) = (String::new(), String::from("--"));
    for word in text.split_whitespace() {
        if line.len() + word.len() >= WIDTH {
            out.push_str(&line);
            out.push('\n');
            line = "--  ".to_owned();
        }
        line.push(' ');
        line.push_str(word);
    }
    out + &line + "\n"
}
