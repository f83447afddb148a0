//! `floodmark drill parity`: one pipeline file on floodmark and on a real Apache Flink, over one log, hurt in the same way at the same place, compared.
//!
//! ```text
//!                            ┌─> flink-sql ─> Flink ────> tables ─┐
//! generate ─> Kafka topic ───┤      ↯ fault                       ├─> PyIceberg, DuckDB ─> digests, rows that differ ─> record, report
//!   (in parts)               ├─> floodmark run ─────────> tables ─┤
//!                            └─> oracle ─────────────────> rows ──┘
//! ```
//! The log ends at offsets that stand in the pipeline file, so both jobs end by themselves: when they have, everything is read and committed, and nobody
//! has to guess from lags whether it is. Both read while the feed is written.
//! Doesn't know: how either engine works. Keeps: a verdict is PASS only if all tables that must be are equal and every fault was seen in the middle of a
//! run; nothing goes on running; a run that fails leaves its record too. Tested: each file here; tests/flink/main.rs runs a small one.
mod class;
mod compare;
mod copies;
mod fault;
mod feed;
mod in_force;
mod late;
mod paths;
mod plan;
mod record;
mod report;
mod run;
mod services;
mod tables;
mod through;
mod watch;

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use floodmark_stack::StackError;
use serde::Serialize;

pub use class::Class;
pub use fault::Fault;
pub use record::Record;

use crate::cli::oracle::OracleError;
use crate::digest::CompareError;
use crate::sink::SinkError;
use crate::workload::dials::WorkloadError;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Settings {
    pub class: Class,
    pub fault: Fault,
    /// Shares of the feed at which the fault falls.
    pub at: Vec<f64>,
    pub events: u64,
    pub partitions: u32,
    pub seed: u64,
    pub dir: PathBuf,
    /// What whoever runs it expects; written down before it begins.
    pub prediction: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            class: Class::D1,
            fault: Fault::Kill,
            at: vec![0.5],
            events: 20_000,
            partitions: 4,
            seed: 1,
            dir: "data/parity".into(),
            prediction: None,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ParityError {
    #[error("{0}")]
    Settings(String),
    #[error("{path}: {source}", path = path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("can't start a process or a runtime of our own: {0}")]
    Start(io::Error),
    #[error("{path} {what}; its messages are in {messages}", messages = messages.display())]
    Path { path: &'static str, what: String, messages: PathBuf },
    #[error("`floodmark {what}` failed: {why}")]
    Child { what: &'static str, why: String },
    #[error("after {limit_s} s {what}")]
    Late { limit_s: u64, what: String },
    #[error("a setting is not in force: {0}")]
    NotInForce(String),
    #[error("there is no table {table}")]
    NoTable { table: String },
    #[error("{script} can't read a table: {why}")]
    Reader { script: String, why: String },
    #[error("{file}: what the oracle says can't be written in the table's types: {error}", file = file.display())]
    Export { file: PathBuf, error: arrow_schema::ArrowError },
    #[error("the drill's own pipeline file is refused:\n{0}")]
    Pipeline(String),
    #[error("the record of the run can't be written: {0}")]
    Json(serde_json::Error),
    #[error(transparent)]
    Kafka(rdkafka::error::KafkaError),
    #[error(transparent)]
    Stack(#[from] StackError),
    #[error(transparent)]
    Table(#[from] SinkError),
    #[error(transparent)]
    Compare(#[from] CompareError),
    #[error(transparent)]
    Oracle(#[from] OracleError),
    #[error(transparent)]
    Workload(#[from] WorkloadError),
}

impl ParityError {
    fn at(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> ParityError {
        let path = path.into();
        move |source| ParityError::File { path, source }
    }
}

/// Runs the drill; `say` gets a line for each step. Returns the record and its folder.
pub fn run(settings: &Settings, say: &mut dyn FnMut(&str)) -> Result<(Record, PathBuf), ParityError> {
    settings.check()?;
    let began = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let name = settings.name(&began);
    let folder = settings.dir.join(&name);
    std::fs::create_dir_all(&folder).map_err(ParityError::at(&folder))?;
    let folder = folder.canonicalize().map_err(ParityError::at(&folder))?;
    if let Some(prediction) = &settings.prediction {
        let file = folder.join("prediction.txt");
        std::fs::write(&file, format!("{prediction}\n")).map_err(ParityError::at(&file))?;
    }
    let mut record = Record::begin(&name, &began, settings);
    let begun = Instant::now();
    let done = run::run(settings, &folder, &mut record, say);
    record.took_s = begun.elapsed().as_secs_f64();
    record.error = done.as_ref().err().map(ToString::to_string);
    keep(&record, &folder)?;
    done.map(|()| (record, folder))
}

impl Settings {
    fn check(&self) -> Result<(), ParityError> {
        let refused = |why: &str| Err(ParityError::Settings(why.to_owned()));
        if self.class == Class::D2 && self.partitions != 1 {
            return refused("D2 is about one partition: --partitions 1");
        }
        if self.class == Class::D4 && self.fault != Fault::None {
            return refused("the log of D4 is written before the paths begin: --fault none");
        }
        if !self.at.is_sorted() || self.at.iter().any(|share| !(0.1..=0.9).contains(share)) {
            return refused("--at takes shares from 0.1 to 0.9, in order");
        }
        if self.fault != Fault::None && self.at.windows(2).any(|two| two[1] - two[0] < 0.1) {
            return refused("--at takes shares that are at least 0.1 apart");
        }
        if self.fault == Fault::Broker && self.at.len() > 1 {
            return refused("one broker is killed once: give --at once");
        }
        Ok(())
    }

    /// `2026-01-01T00-00-00Z-d1-kill-20000-s1`
    fn name(&self, began: &str) -> String {
        let class = format!("{:?}", self.class).to_lowercase();
        format!("{}-{class}-{}-{}-s{}", began.replace(':', "-"), self.fault.name(), self.events, self.seed)
    }
}

fn keep(record: &Record, folder: &Path) -> Result<(), ParityError> {
    let json = serde_json::to_string_pretty(record).map_err(ParityError::Json)?;
    for (name, text) in [("run.json", json), ("report.html", report::page(record))] {
        let file = folder.join(name);
        std::fs::write(&file, text).map_err(ParityError::at(&file))?;
    }
    Ok(())
}

fn block_on<T>(what: impl Future<Output = T>) -> Result<T, ParityError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ParityError::Start)?;
    Ok(runtime.block_on(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_show_nothing_are_refused() {
        let with = |change: fn(&mut Settings)| {
            let mut settings = Settings::default();
            change(&mut settings);
            settings.check()
        };
        assert!(with(|_| ()).is_ok());
        assert!(with(|settings| settings.class = Class::D2).is_err());
        assert!(with(|settings| settings.at = vec![0.5, 0.2]).is_err());
        assert!(with(|settings| settings.at = vec![0.05]).is_err());
        assert!(with(|settings| settings.at = vec![0.5, 0.52]).is_err());
    }

    #[test]
    fn a_run_that_cannot_begin_leaves_its_prediction_and_its_record() {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings {
            // More than the workload makes.
            partitions: 20_000,
            dir: folder.path().to_owned(),
            prediction: Some("it fails".into()),
            ..Settings::default()
        };
        let error = run(&settings, &mut |_| ()).unwrap_err().to_string();
        let run = folder.path().read_dir().unwrap().next().unwrap().unwrap().path();
        assert_eq!(std::fs::read_to_string(run.join("prediction.txt")).unwrap(), "it fails\n");
        let record: serde_json::Value = serde_json::from_slice(&std::fs::read(run.join("run.json")).unwrap()).unwrap();
        assert_eq!((&record["error"], &record["settings"]["prediction"]), (&error.into(), &"it fails".into()));
        assert!(std::fs::read_to_string(run.join("report.html")).unwrap().contains("NO VERDICT"));
    }
}
