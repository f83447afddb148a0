//! From what a user calls a table to its metadata: a metadata file, or the folder of a table.
//!
//! A folder is looked through for its newest metadata file, as readers without a catalog do. A failed commit can leave a file there that
//! never became the table; where two claim the same version the answer is refused, since only a catalog knows.
//! Doesn't know: catalogs. Tested: here.
use std::path::{Path, PathBuf};
use std::sync::Arc;

use iceberg::io::FileIO;
use iceberg::spec::TableMetadata;

use super::{LoadedTable, TableError};
use crate::store;

/// Loads the table that `location` names: `…/metadata/00003-….metadata.json`, or a table's folder (local, or `file:`).
pub async fn load(location: &str, file_io: FileIO) -> Result<LoadedTable, TableError> {
    let metadata_location = if location.ends_with(".json") { absolute(location)? } else { newest_metadata(location)? };
    let metadata = TableMetadata::read_from(&file_io, &metadata_location).await;
    let metadata = Arc::new(metadata.map_err(TableError::iceberg(&metadata_location))?);
    Ok(LoadedTable { metadata, file_io })
}

fn newest_metadata(location: &str) -> Result<String, TableError> {
    let problem = |problem: String| TableError::Location { path: location.to_owned(), problem };
    let local = local_path(location).ok_or_else(|| {
        problem("a folder can be looked through only on a local disk; name its metadata.json".to_owned())
    })?;
    let folder = local.join("metadata");
    let entries = std::fs::read_dir(&folder)
        .map_err(|error| problem(format!("no Iceberg table here: {}: {error}", folder.display())))?;
    let mut found: Vec<(u64, PathBuf)> = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| problem(error.to_string()))?.path();
        found.extend(version(&path).map(|version| (version, path)));
    }
    found.sort();
    match found.as_slice() {
        [] => Err(problem("no Iceberg table here: metadata/ holds no *.metadata.json".to_owned())),
        [.., (before, a), (newest, b)] if before == newest => {
            let (a, b) = (a.display(), b.display());
            Err(problem(format!(
                "two metadata files of version {newest}: {a} and {b}; name the one that is meant, or the catalog"
            )))
        }
        [.., (_, path)] => absolute(&path.to_string_lossy()),
    }
}

/// Storage knows absolute locations only.
fn absolute(location: &str) -> Result<String, TableError> {
    let Some(path) = local_path(location) else { return Ok(location.to_owned()) };
    let absolute = store::absolute(&path)
        .map_err(|error| TableError::Location { path: location.to_owned(), problem: error.to_string() })?;
    Ok(absolute.to_string_lossy().into_owned())
}

fn local_path(location: &str) -> Option<PathBuf> {
    match location.split_once("://") {
        Some(("file", path)) => Some(PathBuf::from(path)),
        Some(_) => None,
        None => Some(PathBuf::from(location.strip_prefix("file:").unwrap_or(location))),
    }
}

/// Version that a metadata file's name says: `00003-<uuid>.metadata.json` or Hadoop's `v3.metadata.json`.
fn version(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?.strip_suffix(".metadata.json")?;
    let name = name.strip_suffix(".gz").unwrap_or(name);
    let number = name.strip_prefix('v').unwrap_or_else(|| name.split('-').next().unwrap_or(name));
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table_with(files: &[&str]) -> tempfile::TempDir {
        let table = tempfile::tempdir().unwrap();
        std::fs::create_dir(table.path().join("metadata")).unwrap();
        for file in files {
            std::fs::write(table.path().join("metadata").join(file), "{}").unwrap();
        }
        table
    }

    #[test]
    fn the_highest_version_is_the_table() {
        let table = table_with(&["00009-a.metadata.json", "00010-b.metadata.json", "snap-99.avro"]);
        let found = newest_metadata(&format!("file://{}", table.path().display())).unwrap();
        assert!(found.ends_with("metadata/00010-b.metadata.json"));
    }

    #[test]
    fn names_of_a_hadoop_table_are_known() {
        let table = table_with(&["v9.metadata.json", "v10.gz.metadata.json"]);
        assert!(newest_metadata(&table.path().to_string_lossy()).unwrap().ends_with("v10.gz.metadata.json"));
    }

    #[test]
    fn two_files_of_one_version_are_refused() {
        let table = table_with(&["00001-a.metadata.json", "00001-b.metadata.json"]);
        let error = newest_metadata(&table.path().to_string_lossy()).unwrap_err().to_string();
        assert!(error.contains("two metadata files of version 1"), "{error}");
    }

    #[test]
    fn a_folder_without_a_table_says_so() {
        let error = newest_metadata(&table_with(&[]).path().to_string_lossy()).unwrap_err().to_string();
        assert!(error.contains("no Iceberg table here"), "{error}");
    }
}
