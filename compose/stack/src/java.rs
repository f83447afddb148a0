//! Which Java to run what needs a newer one than Kafka and Flink.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Result, StackError};

/// The first that is new enough: JAVA_HOME's, the path's, those where Debian keeps them.
pub fn at_least(version: u32, what: &'static str) -> Result<PathBuf> {
    let home = env::var_os("JAVA_HOME").map(|home| Path::new(&home).join("bin/java"));
    let installed = fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten();
    let installed = installed.map(|folder| folder.path().join("bin/java"));
    let mut all = home.into_iter().chain([PathBuf::from("java")]).chain(installed);
    all.find(|java| version_of(java).is_some_and(|found| found >= version)).ok_or(StackError::NoJava { what, version })
}

fn version_of(java: &Path) -> Option<u32> {
    let output = Command::new(java).arg("-version").output().ok()?;
    major(&String::from_utf8_lossy(&output.stderr))
}

/// `openjdk version "17.0.15" 2025-04-15`
fn major(said: &str) -> Option<u32> {
    let version = said.split('"').nth(1)?;
    version.split(['.', '-', '+']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_java_says_its_version() {
        assert_eq!(major("openjdk version \"17.0.15\" 2025-04-15\n"), Some(17));
        assert_eq!(major("openjdk version \"25\" 2025-09-16\n"), Some(25));
    }

    #[test]
    fn a_java_that_is_not_there_is_asked_for_by_its_version() {
        let missing = at_least(1000, "the future").unwrap_err();
        assert!(missing.to_string().starts_with("the future needs Java 1000 or newer"), "{missing}");
    }
}
