//! What is wrong with a pipeline file, and how it is shown.
//!
//! Rendered by annotate-snippets, rustc's own renderer: miette's fancy form has no `error[F012]` title and no `= allowed here` line.
//! Doesn't know: what the rules are. Keeps: every message names its place in the file as written, so a value from the environment is never printed.
//! Tested: config/tests (each id with its exact text).
use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use annotate_snippets::{AnnotationKind, Level, Origin, Renderer, Snippet};

use super::error_id::ErrorId;

/// Widest line of source that is shown whole.
const LINE_WIDTH: usize = 160;

/// One refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub id: ErrorId,
    pub message: String,
    /// The place at fault and what to say beside it; `None` where no line is.
    place: Option<(Range<usize>, String)>,
    /// Other places that matter.
    related: Vec<(Range<usize>, String)>,
    notes: Vec<String>,
}

impl Diagnostic {
    pub fn new(id: ErrorId, message: impl Into<String>) -> Self {
        Self { id, message: message.into(), place: None, related: vec![], notes: vec![] }
    }

    /// Where it is, with a few words beside the carets.
    pub fn at(mut self, span: Range<usize>, label: impl Into<String>) -> Self {
        self.place = Some((span, label.into()));
        self
    }

    pub fn related(mut self, span: Range<usize>, label: impl Into<String>) -> Self {
        self.related.push((span, label.into()));
        self
    }

    /// A line below the source: what is allowed, why, what to do.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    fn render(&self, path: &str, text: &str) -> String {
        let title = Level::ERROR.primary_title(self.message.as_str()).id(self.id.0);
        let notes = self.notes.iter().map(|n| Level::NOTE.no_name().message(n.as_str()));
        let renderer = Renderer::plain().term_width(LINE_WIDTH);
        let group = match &self.place {
            None if text.is_empty() => title.elements(notes),
            None => title.element(Origin::path(path)).elements(notes),
            Some((span, label)) => {
                let primary = AnnotationKind::Primary.span(span.clone()).label(label.as_str());
                let others =
                    self.related.iter().map(|(s, l)| AnnotationKind::Context.span(s.clone()).label(l.as_str()));
                title.element(Snippet::source(text).path(path).annotation(primary).annotations(others)).elements(notes)
            }
        };
        renderer.render(&[group])
    }

    fn position(&self) -> usize {
        self.place.as_ref().map_or(0, |(span, _)| span.start)
    }
}

/// Everything that is wrong with one file, in the order of its lines.
#[derive(Clone, Debug)]
pub struct Diagnostics {
    path: PathBuf,
    text: String,
    list: Vec<Diagnostic>,
}

impl Diagnostics {
    pub fn new(path: &Path, text: &str, mut list: Vec<Diagnostic>) -> Self {
        list.sort_by_key(Diagnostic::position);
        Self { path: path.to_owned(), text: text.to_owned(), list }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter()
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.to_string_lossy();
        for diagnostic in &self.list {
            writeln!(f, "{}\n", diagnostic.render(&path, &self.text))?;
        }
        match self.list.len() {
            1 => write!(f, "1 error in {path}; docs/ERRORS.md explains its id"),
            n => write!(f, "{n} errors in {path}; docs/ERRORS.md explains their ids"),
        }
    }
}

impl std::error::Error for Diagnostics {}

/// Collects what is wrong while reading goes on.
#[derive(Debug, Default)]
pub(super) struct Problems(RefCell<Vec<Diagnostic>>);

impl Problems {
    pub fn add(&self, diagnostic: Diagnostic) {
        self.0.borrow_mut().push(diagnostic);
    }

    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    pub fn into_list(self) -> Vec<Diagnostic> {
        self.0.into_inner()
    }
}

/// The candidate that a slip of the keyboard would turn into `word`, or of which only one end was written.
pub(super) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let reach = (word.chars().count() / 3).max(1);
    let is_part = |c: &str| word.len() >= 3 && (c.starts_with(word) || word.starts_with(c));
    candidates
        .into_iter()
        .map(|c| (strsim::osa_distance(&word.to_lowercase(), &c.to_lowercase()), c))
        .map(|(distance, c)| (if is_part(c) { 1 } else { distance }, distance, c))
        .filter(|(rank, ..)| *rank <= reach)
        .min_by_key(|(rank, distance, _)| (*rank, *distance))
        .map(|(.., c)| c)
}

/// `did you mean …?`, or nothing when no candidate is near.
pub(super) fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, candidates).map_or(String::new(), |c| format!("did you mean `{c}`?"))
}
