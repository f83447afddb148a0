//! Folders and files as Flink wants them: URIs, since its processes run elsewhere.
//!
//! Doesn't know: what lies there. Tested: here.
use std::path::Path;

use super::job::Job;
use crate::config::model::Location;

/// A path of the pipeline file, which begins at the working directory.
pub fn absolute(job: &Job<'_>, path: &str) -> String {
    uri(&job.folder, Path::new(path))
}

pub fn location(job: &Job<'_>, location: &Location) -> String {
    match location {
        Location::File(path) => uri(&job.folder, path),
        Location::S3 { bucket, prefix } => format!("s3://{bucket}/{prefix}").trim_end_matches('/').to_owned(),
    }
}

fn uri(folder: &Path, path: &Path) -> String {
    let whole = folder.join(path);
    let clean: std::path::PathBuf = whole.components().filter(|part| *part != std::path::Component::CurDir).collect();
    format!("file://{}", clean.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_path_begins_at_the_folder() {
        assert_eq!(uri(Path::new("/a"), Path::new("./b/c")), "file:///a/b/c");
        assert_eq!(uri(Path::new("/a"), Path::new("/b")), "file:///b");
    }
}
