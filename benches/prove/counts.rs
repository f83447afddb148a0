//! What has been counted of a commit, in one file outside the checkout, and how it reads.
//!
//! Doesn't know: how anything is counted. Keeps: a changed checkout is counted apart from its commit.
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// Where a commit's proof is kept.
pub struct Proof {
    pub file: PathBuf,
    /// For what parts keep beside it.
    pub folder: PathBuf,
}

impl Proof {
    pub fn of_this_commit() -> Result<Self, String> {
        let git = |arguments: &[&str]| {
            let output = Command::new("git").args(arguments).output().ok();
            output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
        };
        let changed = if git(&["status", "--porcelain"]).is_empty() { "" } else { "-changed" };
        let cache = std::env::var_os("FLOODMARK_CACHE").map(PathBuf::from);
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let cache = cache.unwrap_or_else(|| home.join(".cache/floodmark"));
        let folder = cache.join("proof").join(format!("{}{changed}", git(&["rev-parse", "HEAD"])));
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Self { file: folder.join("counted.json"), folder })
    }
}

/// One kind of case.
#[derive(Default, Serialize, Deserialize)]
pub struct Count {
    pub cases: u64,
    pub faults: u64,
    /// Each by a text with which it can be played again.
    pub failures: Vec<String>,
    /// What was played, for people: seeds, shards.
    pub played: String,
    /// Shards of mutants that are done.
    pub shards: u64,
}

#[derive(Default, Serialize, Deserialize)]
pub struct Counts(BTreeMap<String, Count>);

impl Counts {
    pub fn read(proof: &Proof) -> Result<Self, String> {
        match std::fs::read(&proof.file) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| format!("{}: {error}", proof.file.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(format!("{}: {error}", proof.file.display())),
        }
    }

    pub fn keep(&self, proof: &Proof) -> Result<(), String> {
        let text = serde_json::to_string_pretty(self).map_err(|error| error.to_string())?;
        std::fs::write(&proof.file, text).map_err(|error| format!("{}: {error}", proof.file.display()))
    }

    pub fn of(&mut self, part: &str) -> &mut Count {
        self.0.entry(part.to_owned()).or_default()
    }

    pub fn nothing_failed(&self) -> bool {
        self.0.values().all(|count| count.failures.is_empty())
    }
}

impl fmt::Display for Counts {
    /// With the 95 % upper bound of the share that fails: 3/n where none of n did.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<8} {:>10} {:>9} {:>9} {:>8}  played", "kind", "cases", "faults", "failures", "bound")?;
        for (name, count) in &self.0 {
            let Count { cases, faults, failures, played, .. } = count;
            let bound = match failures.len() {
                0 if *cases > 0 => format!("{:.1e}", 3.0 / *cases as f64),
                _ => "-".into(),
            };
            writeln!(f, "{name:<8} {cases:>10} {faults:>9} {:>9} {bound:>8}  {played}", failures.len())?;
        }
        for (name, failure) in self.0.iter().flat_map(|(name, count)| count.failures.iter().map(move |f| (name, f))) {
            writeln!(f, "FAILED {name}: {failure}")?;
        }
        Ok(())
    }
}
