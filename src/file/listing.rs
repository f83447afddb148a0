//! Which files a path means: a file, all files below a directory, or a glob.
//!
//! Names that begin with a dot or an underscore are passed over, as Hadoop and Spark do: writers use them for what isn't finished.
//! Doesn't know: what is in the files.
//! Keeps: a file's name below the base doesn't depend on what other files there are.
//! Tested: here.
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::source::SourceError;

/// A path of the pipeline file.
#[derive(Clone, Debug)]
pub struct Listing {
    pattern: String,
    /// What names are relative to: the directory, the file's directory, or the glob's part before its first wildcard.
    base: PathBuf,
    is_glob: bool,
    /// What was said to be no file: once is enough.
    said: Arc<Mutex<BTreeSet<PathBuf>>>,
}

impl Listing {
    pub fn new(pattern: &str) -> Self {
        let path = Path::new(pattern);
        // What exists by this very name is meant, also where the name has a `[` in it.
        let is_glob = !path.exists() && pattern.contains(['*', '?', '[']);
        let base = if is_glob {
            path.components().take_while(|c| !c.as_os_str().to_string_lossy().contains(['*', '?', '['])).collect()
        } else if path.is_dir() {
            path.to_owned()
        } else {
            path.parent().unwrap_or(Path::new("")).to_owned()
        };
        Self { pattern: pattern.to_owned(), base, is_glob, said: Arc::default() }
    }

    pub fn path_of(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }

    /// Names of all files below the base, sorted.
    pub fn names(&self) -> Result<Vec<String>, SourceError> {
        let mut paths = vec![];
        let path = Path::new(&self.pattern);
        if self.is_glob {
            let found =
                glob::glob(&self.pattern).map_err(|e| SourceError::Setting(format!("{}: {e}", self.pattern)))?;
            for path in found {
                let path = path.map_err(|e| file_error(e.path(), io::Error::other(e.error().to_string())))?;
                if path.is_file() && !self.is_hidden(&path) {
                    paths.push(path);
                }
            }
        } else if path.is_dir() {
            self.walk(path, &mut paths)?;
        } else {
            // A pipe or a device has no size to read to, and would keep a worker waiting that nothing can stop.
            if !std::fs::metadata(path).map_err(|e| file_error(path, e))?.is_file() {
                return Err(SourceError::Setting(format!("{}: neither a file nor a folder", path.display())));
            }
            paths.push(path.to_owned());
        }
        let mut names = paths.iter().map(|path| self.name_of(path)).collect::<Result<Vec<_>, _>>()?;
        names.sort();
        Ok(names)
    }

    fn walk(&self, dir: &Path, to: &mut Vec<PathBuf>) -> Result<(), SourceError> {
        for entry in std::fs::read_dir(dir).map_err(|e| file_error(dir, e))? {
            let entry = entry.map_err(|e| file_error(dir, e))?;
            let path = entry.path();
            if self.is_hidden(&path) {
                continue;
            }
            // A link to a directory could lead back up; one to a file is as good as a file.
            if entry.file_type().map_err(|e| file_error(&path, e))?.is_dir() {
                self.walk(&path, to)?;
            } else if path.is_file() {
                to.push(path);
            } else {
                self.say_no_file(path);
            }
        }
        Ok(())
    }

    fn say_no_file(&self, path: PathBuf) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if !said.contains(&path) {
            tracing::warn!("{}: passed over, since it is no file", path.display());
            said.insert(path);
        }
    }

    fn is_hidden(&self, path: &Path) -> bool {
        let below = path.strip_prefix(&self.base).unwrap_or(path);
        below.components().any(|c| c.as_os_str().to_string_lossy().starts_with(['.', '_']))
    }

    fn name_of(&self, path: &Path) -> Result<String, SourceError> {
        let name = path.strip_prefix(&self.base).unwrap_or(path).to_str();
        let no_name = || SourceError::Setting(format!("{}: a file's name must be UTF-8", path.display()));
        name.map(str::to_owned).ok_or_else(no_name)
    }
}

pub fn file_error(path: &Path, error: io::Error) -> SourceError {
    SourceError::File { path: path.display().to_string(), error }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("sub/_temporary")).unwrap();
        for name in ["b.json", "a.json.gz", "sub/c.json", "_SUCCESS", ".part", "sub/_temporary/d.json"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        dir
    }

    fn names(dir: &tempfile::TempDir, below: &str) -> Vec<String> {
        let listing = Listing::new(&format!("{}{below}", dir.path().display()));
        let names = listing.names().unwrap();
        assert!(names.iter().all(|name| listing.path_of(name).is_file()));
        names
    }

    #[test]
    fn a_directory_is_all_its_finished_files() {
        assert_eq!(names(&tree(), ""), ["a.json.gz", "b.json", "sub/c.json"]);
        assert_eq!(names(&tree(), "/"), ["a.json.gz", "b.json", "sub/c.json"]);
    }

    #[test]
    fn a_glob_names_files_below_its_fixed_part() {
        assert_eq!(names(&tree(), "/*.json"), ["b.json"]);
        assert_eq!(names(&tree(), "/*/*.json"), ["sub/c.json"]);
        assert_eq!(names(&tree(), "/sub/*.json"), ["c.json"]);
        assert_eq!(names(&tree(), "/nothing*"), [""; 0]);
    }

    #[test]
    fn a_file_is_itself_and_must_be_there() {
        assert_eq!(names(&tree(), "/b.json"), ["b.json"]);
        assert!(matches!(Listing::new("/nowhere/x.json").names(), Err(SourceError::File { .. })));
        let device = Listing::new("/dev/null").names().unwrap_err();
        assert_eq!(device.to_string(), "/dev/null: neither a file nor a folder");
    }
}
