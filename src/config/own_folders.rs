//! A job that reads what it writes: its own checkpoints come back as records, and its own rows without end.
//!
//! Doesn't know: what is on the disk; it compares paths as they are written. Tested: here, config/tests/refusals.txt.
use std::path::{Path, PathBuf, absolute};

use super::diagnostic::Diagnostic;
use super::error_id::ErrorId;
use super::model::{CatalogConfig, Location, Settings, SinkConnector, SourceConnector};
use super::read::{Draft, DraftKind};
use super::table::Context;

/// Refuses file sources whose folder has one of the job's own folders in it.
pub fn refuse(cx: &Context<'_>, settings: &Settings, drafts: &[Draft]) {
    let own: Vec<(String, PathBuf)> = written(settings, drafts).collect();
    for draft in drafts {
        let DraftKind::Source(source) = &draft.kind else { continue };
        let SourceConnector::File(file) = &source.config.connector else { continue };
        let mut read = own.iter().filter(|(_, folder)| reads(&file.path, folder)).peekable();
        if read.peek().is_none() {
            continue;
        }
        let message = format!("{} reads what the job itself writes", draft.title);
        let found = Diagnostic::new(ErrorId::CONTRADICTION, message)
            .at(draft.name.span.clone(), format!("reads all files below {}", file.path));
        let told = read.fold(found, |told, (what, folder)| told.note(format!("{what} go to {}", folder.display())));
        cx.problems.add(told.note("give the source a folder of its own, or the others a place outside of it"));
    }
}

/// What the job writes, and where.
fn written<'a>(settings: &'a Settings, drafts: &'a [Draft]) -> impl Iterator<Item = (String, PathBuf)> + 'a {
    let sinks = drafts.iter().filter_map(|draft| match &draft.kind {
        DraftKind::Sink(sink) => Some((&draft.title, &sink.config.connector)),
        _ => None,
    });
    let places = sinks.filter_map(|(title, connector)| match connector {
        SinkConnector::File { dir } => Some((format!("rows of {title}"), dir)),
        SinkConnector::Iceberg(table) => match &table.catalog {
            CatalogConfig::Sql { warehouse, .. } => Some((format!("data files of {title}"), warehouse)),
            CatalogConfig::Rest { .. } => None,
        },
        SinkConnector::Stdout => None,
    });
    std::iter::once(("checkpoints".to_owned(), &settings.checkpoint_dir)).chain(places).filter_map(|(what, place)| {
        match place {
            // A stand-in for a place that is missing or wrong, which is told already.
            Location::File(folder) if folder.as_os_str().is_empty() => None,
            Location::File(folder) => Some((what, folder.clone())),
            Location::S3 { .. } => None,
        }
    })
}

/// Whether a source at `path` would come to files below `folder`. Names that begin with a dot or an underscore are passed over.
fn reads(path: &str, folder: &Path) -> bool {
    let (Ok(path), Ok(folder)) = (absolute(path), absolute(folder)) else { return false };
    let is_pattern = |part: &str| part.contains(['*', '?', '[']);
    let parts: Vec<_> = path.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    let fixed: PathBuf = parts.iter().take_while(|part| !is_pattern(part)).collect();
    // A pattern without `**` reaches only as deep as it is long, and not into folders that nobody named.
    if parts.iter().any(|part| is_pattern(part)) && !parts.iter().any(|part| part == "**") {
        return false;
    }
    let Ok(below) = folder.strip_prefix(&fixed) else { return false };
    !below.components().any(|part| part.as_os_str().to_string_lossy().starts_with(['.', '_']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_read_with_all_that_is_below_it() {
        for path in ["data", "data/", "./data", "data/**/*.json", "."] {
            assert!(reads(path, Path::new("data/clicks/checkpoints")), "{path}");
        }
        for path in ["data/events", "data/*.json", "data/clicks/checkpoints2", "dat", "data/clicks/checkpoints/x"] {
            assert!(!reads(path, Path::new("data/clicks/checkpoints")), "{path}");
        }
        assert!(!reads("data", Path::new("data/_own/checkpoints")));
    }
}
