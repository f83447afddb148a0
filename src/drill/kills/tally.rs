//! What a drill has counted so far, in a file of its folder, and how it reads.
//!
//! Doesn't know: how anything was counted. Keeps: counts of other settings are never added to. Tested: here.
use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Settings;
use crate::drill::DrillError;

const FILE: &str = "counted.json";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// What these counts are of.
    pub settings: String,
    /// Rounds that are over; the next one has this number.
    pub rounds: u64,
    /// SIGKILLs at a moment.
    pub kills: u64,
    /// SIGKILLs at a step.
    pub kills_at_steps: u64,
    /// SIGSTOPs, with a second process started.
    pub freezes: u64,
    /// Of all these, those after which some rows were visible and not all.
    pub within: u64,
    /// Rounds whose tables were not right, or in which a process ended as it must not.
    pub failures: Vec<String>,
}

impl Tally {
    /// What an earlier run has counted in this folder, or nothing yet.
    pub fn open(dir: &Path, settings: &Settings) -> Result<Self, DrillError> {
        let file = dir.join(FILE);
        let ours = format!("seed {}, {} records", settings.seed, settings.events);
        let bytes = match std::fs::read(&file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self { settings: ours, ..Self::default() });
            }
            Err(error) => return Err(DrillError::at(file)(error)),
        };
        match serde_json::from_slice::<Self>(&bytes) {
            Ok(tally) if tally.settings == ours => Ok(tally),
            Ok(tally) => Err(DrillError::OtherDrill { file, theirs: tally.settings, ours }),
            Err(error) => Err(DrillError::Tally { file, error }),
        }
    }

    pub fn keep(&self, dir: &Path) -> Result<(), DrillError> {
        let (file, unseen) = (dir.join(FILE), dir.join(".counted.json"));
        let text = serde_json::to_vec_pretty(self).map_err(|error| DrillError::Tally { file: file.clone(), error })?;
        std::fs::write(&unseen, text).and_then(|()| std::fs::rename(&unseen, &file)).map_err(DrillError::at(file))
    }

    pub fn counted(&self) -> u64 {
        self.kills + self.kills_at_steps + self.freezes
    }

    /// How it stands, in one line.
    pub fn line(&self) -> String {
        let Self { rounds, kills, kills_at_steps, freezes, failures, .. } = self;
        let failed = failures.len();
        format!("{rounds} rounds: {kills} kills, {kills_at_steps} at steps, {freezes} freezes; {failed} failed")
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} ({})", self.line(), self.settings)?;
        writeln!(f, "{} of {} came when some rows were visible and not all", self.within, self.counted())?;
        for failure in &self.failures {
            writeln!(f, "FAILED {failure}")?;
        }
        if self.failures.is_empty() {
            let bound = 3.0 / self.counted().max(1) as f64;
            write!(f, "none failed: with 95 % certainty fewer than {:.2} % do", bound * 100.0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(seed: u64) -> Settings {
        let brokers = "nowhere:1".to_owned();
        Settings { n: 9, seed, events: 1_000, brokers, catalogs: vec![], dir: "unused".into() }
    }

    #[test]
    fn counting_goes_on_and_never_over_other_settings() {
        let dir = tempfile::tempdir().unwrap();
        let mut tally = Tally::open(dir.path(), &settings(1)).unwrap();
        tally.kills = 7;
        tally.keep(dir.path()).unwrap();
        assert_eq!(Tally::open(dir.path(), &settings(1)).unwrap(), tally);
        let other = Tally::open(dir.path(), &settings(2)).unwrap_err().to_string();
        assert!(other.contains("(seed 1, 1000 records, not seed 2, 1000 records)"), "{other}");
    }

    #[test]
    fn the_bound_is_told_only_where_none_failed() {
        let mut tally = Tally { settings: "seed 1".into(), kills: 290, freezes: 10, within: 250, ..Tally::default() };
        assert!(tally.to_string().ends_with("none failed: with 95 % certainty fewer than 1.00 % do"), "{tally}");
        tally.failures.push("round 3: lost".into());
        assert!(tally.to_string().ends_with("FAILED round 3: lost\n"), "{tally}");
    }
}
