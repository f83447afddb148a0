//! What tables hold: their digests, and their rows as a reader that didn't write them sees them.
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Job;
use super::pipelines::TABLES;

/// `v1:ROWS:HASH`.
pub type Digest = String;

/// The number of rows that a digest names.
pub fn rows_of(digest: &str) -> u64 {
    digest.split(':').nth(1).and_then(|rows| rows.parse().ok()).unwrap_or_else(|| panic!("no digest: {digest}"))
}

impl Job {
    pub fn digest(&self, table: &str) -> Digest {
        self.digest_with(table, &[]).unwrap_or_else(|error| panic!("{table}: {error}"))
    }

    pub fn digest_with(&self, table: &str, options: &[&str]) -> Result<Digest, String> {
        let place = format!("data/warehouse/shop/{table}");
        let output = self.command(&[&["digest", place.as_str()], options].concat()).output().unwrap();
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        Ok(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }

    /// Rows of a table; none while it isn't there.
    pub fn rows(&self, table: &str) -> u64 {
        self.digest_with(table, &[]).map_or(0, |digest| rows_of(&digest))
    }

    /// Digests of all tables of the click pipeline.
    pub fn digests(&self) -> BTreeMap<&'static str, Digest> {
        TABLES.map(|table| (table, self.digest(table))).into()
    }

    /// Records that stand in one of the tables as what they are: every record of the log once it was read.
    pub fn records_seen(&self) -> u64 {
        ["events", "duplicates", "errors"].iter().map(|table| self.rows(table)).sum()
    }

    /// The newest metadata file of a table in the folder's warehouse.
    pub fn metadata(&self, table: &str) -> PathBuf {
        newest_metadata(&self.path(&format!("data/warehouse/shop/{table}/metadata")))
    }
}

fn newest_metadata(folder: &Path) -> PathBuf {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = files.filter(|path| path.to_string_lossy().ends_with(".metadata.json")).collect();
    found.sort();
    found.pop().unwrap_or_else(|| panic!("{}: no metadata", folder.display()))
}

/// What DuckDB answers to a query about a table, called `t` in it: one line a row, values with commas between.
pub fn duckdb(metadata: &Path, query: &str) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/readers/duckdb_query.py");
    let mut python = Command::new(floodmark_stack::python().unwrap());
    let output = python.arg(script).arg(metadata).arg(query).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
