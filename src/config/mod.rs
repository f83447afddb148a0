//! The pipeline file: read, checked, explained.
//!
//! `read` takes the sections apart, `graph` joins the nodes, `fingerprint` says what of them state depends on; `keys` is the table they all read by.
//! Doesn't know: how anything runs. Keeps: whatever is refused is refused here, before anything starts, with file, line and column.
pub mod definition;
mod diagnostic;
mod error_id;
mod fingerprint;
pub mod given;
mod graph;
mod kafka_properties;
pub mod keys;
mod layout;
pub mod model;
mod operator;
mod own_folders;
mod position;
mod read;
pub mod reference;
mod schema;
mod sink;
mod source;
mod table;
pub mod value;
pub mod variables;
pub mod words;

#[cfg(test)]
pub(crate) mod tests;

use std::path::Path;

pub use diagnostic::{Diagnostic, Diagnostics};
pub use error_id::ErrorId;

use diagnostic::Problems;
use model::Pipeline;
use table::Context;

/// Reads and checks a pipeline file; `${VAR}` is taken from this process's environment.
pub fn load(path: &Path) -> Result<Pipeline, Diagnostics> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        let why = if error.kind() == std::io::ErrorKind::NotFound {
            "there is no such file".to_owned()
        } else {
            error.to_string()
        };
        let diagnostic = Diagnostic::new(ErrorId::FILE, format!("can't read {}", path.display())).note(why);
        Diagnostics::new(path, "", vec![diagnostic])
    })?;
    parse(&text, path, &|name| std::env::var(name).ok())
}

/// Reads and checks the text of a pipeline file; `path` is for messages.
pub fn parse(text: &str, path: &Path, env: &dyn Fn(&str) -> Option<String>) -> Result<Pipeline, Diagnostics> {
    let cx = Context { text, env, problems: Problems::default() };
    let pipeline = read::file(&cx, path);
    match pipeline {
        Some(pipeline) if cx.problems.is_empty() => Ok(pipeline),
        _ => Err(Diagnostics::new(path, text, cx.problems.into_list())),
    }
}
