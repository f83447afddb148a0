//! `floodmark generate`: writes a workload's log to Kafka, to files or to the terminal, and its ledger.
//!
//! Doesn't know: how records are made (`workload`) or how each destination takes them (`LogWriter`).
//! Keeps: the ledger is written last, so an unfinished log has no ledger; a flag that the workload has no use for is refused.
//! Tested: generate/tests.rs.
mod destination;
mod files;
mod kafka;
mod pace;
mod terminal;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::cli::units;
use crate::workload::dials::{Dials, WorkloadError};
use crate::workload::ledger::Ledger;
use crate::workload::{Record, WorkloadName};
use destination::Destination;
use files::Compression;
use kafka::KafkaError;
use pace::Pace;

#[derive(Args, Clone, Debug)]
pub struct GenerateArgs {
    /// clickstream, roster or orders
    workload: WorkloadName,
    /// Records to write, copies and poison included (12000, 100k, 2M)
    #[arg(long, value_name = "N", value_parser = units::count)]
    events: u64,
    /// Where to: kafka://BROKER/TOPIC, file:DIR, or - for the terminal
    #[arg(long, value_name = "DESTINATION")]
    to: Destination,
    /// Partitions of the topic, or number of files [default: 4]
    #[arg(long, value_name = "K")]
    partitions: Option<u32>,
    /// Most records a second [default: no limit]
    #[arg(long, value_name = "R", value_parser = units::rate)]
    rate: Option<f64>,
    /// Write these records only, counted from 0, so that a log can be written in parts: 0..5000, 5000.. [default: all]
    #[arg(long, value_name = "A..B", value_parser = range)]
    only: Option<Range<u64>>,
    /// Where to write what the log holds, as JSON
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
    /// Compress files: gzip or zstd
    #[arg(long, value_enum)]
    compress: Option<Compression>,
    /// clickstream, orders: the same seed makes the same log [default: 1]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// clickstream, roster: time of the first record [default: 2026-01-01T00:00:00Z]
    #[arg(long, value_name = "T", value_parser = units::time_ms)]
    base_time: Option<i64>,
    /// roster: providers that records are about [default: 2000]
    #[arg(long, value_name = "P")]
    providers: Option<u32>,
    /// clickstream: users [default: 10000]
    #[arg(long, value_name = "U", value_parser = units::count)]
    users: Option<u64>,
    /// clickstream: records for each second of event time [default: 1000]
    #[arg(long, value_name = "R", value_parser = units::rate)]
    event_rate: Option<f64>,
    /// clickstream: share of late records [default: 1%]
    #[arg(long, value_name = "F", value_parser = units::share)]
    late: Option<f64>,
    /// clickstream: least that a late record is behind the newest of its partition [default: 60s]
    #[arg(long, value_name = "D", value_parser = units::duration_ms)]
    late_by: Option<u64>,
    /// clickstream: share of records out of order [default: 5%]
    #[arg(long, value_name = "F", value_parser = units::share)]
    disorder: Option<f64>,
    /// clickstream: most that a record out of order is behind the newest of its partition [default: 4s]
    #[arg(long, value_name = "D", value_parser = units::duration_ms)]
    disorder_within: Option<u64>,
    /// clickstream: share of copies [default: 2%]
    #[arg(long, value_name = "F", value_parser = units::share)]
    resent: Option<f64>,
    /// clickstream: share of each of the seven kinds of records that can't be decoded [default: 0.1%]
    #[arg(long, value_name = "F", value_parser = units::share)]
    poison: Option<f64>,
}

#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    #[error("{workload} has no --{flag}; it belongs to {owners}")]
    ForeignFlag { workload: WorkloadName, flag: &'static str, owners: String },
    #[error("--compress is for file:DIR; this log goes to {to}")]
    CompressWithoutFiles { to: Destination },
    #[error("{dir} already holds {found}; a log is written into a folder without part files, so name another or remove them", dir = dir.display())]
    FolderInUse { dir: PathBuf, found: String },
    #[error("can't write {path}: {source}", path = path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("can't write to the terminal: {0}")]
    Terminal(io::Error),
    #[error(transparent)]
    Kafka(#[from] KafkaError),
}

impl GenerateError {
    pub(super) fn at(path: &Path) -> impl Fn(io::Error) -> GenerateError + '_ {
        move |source| GenerateError::File { path: path.into(), source }
    }
}

pub fn run(args: GenerateArgs) -> Result<(), GenerateError> {
    match write_log(args) {
        // Who reads the terminal's output has seen enough.
        Err(GenerateError::Terminal(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

fn write_log(args: GenerateArgs) -> Result<(), GenerateError> {
    let dials = args.dials()?;
    if args.compress.is_some() && !matches!(args.to, Destination::Files { .. }) {
        return Err(GenerateError::CompressWithoutFiles { to: args.to });
    }
    let log = args.workload.build(&dials)?;
    let ledger_file = args.ledger.as_deref().map(LedgerFile::create).transpose()?;
    let mut writer = args.to.open(args.workload, dials.partitions, args.compress)?;
    let mut ledger = Ledger::new(args.workload, &dials);
    for (partition, first_offset) in ledger.partitions.iter_mut().zip(writer.first_offsets()) {
        partition.first_offset = first_offset;
    }
    let pace = args.rate.map(Pace::start);
    let only = args.only.unwrap_or(0..u64::MAX);
    let only = only.start..only.end.min(log.records());
    let mut record = Record::default();
    for index in only.clone() {
        if let Some(rest) = pace.as_ref().and_then(|pace| pace.rest_before(index - only.start)) {
            writer.flush()?;
            std::thread::sleep(rest);
        }
        log.record(index, &mut record);
        writer.write(&record)?;
        if ledger_file.is_some() {
            ledger.note(log.as_ref(), index);
        }
    }
    writer.finish()?;
    if let Some(file) = ledger_file {
        file.write(&ledger)?;
    }
    let written = only.end.saturating_sub(only.start);
    super::say(&format_args!("{written} records of {} written to {}", args.workload, args.to));
    Ok(())
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let end = |text: &str| if text.is_empty() { Some(u64::MAX) } else { units::count(text).ok() };
    let (start, end) =
        text.split_once("..").and_then(|(a, b)| Some((units::count(a).ok()?, end(b)?))).unwrap_or((1, 0));
    if start <= end { Ok(start..end) } else { Err("write 0..5000 or 5000..".into()) }
}

impl GenerateArgs {
    fn dials(&self) -> Result<Dials, GenerateError> {
        self.refuse_foreign_flags()?;
        let default = Dials::default();
        Ok(Dials {
            events: self.events,
            seed: self.seed.unwrap_or(default.seed),
            partitions: self.partitions.unwrap_or(default.partitions),
            providers: self.providers.unwrap_or(default.providers),
            users: self.users.unwrap_or(default.users),
            base_time_ms: self.base_time.unwrap_or(default.base_time_ms),
            event_rate: self.event_rate.unwrap_or(default.event_rate),
            late: self.late.unwrap_or(default.late),
            late_by_ms: self.late_by.unwrap_or(default.late_by_ms),
            disorder: self.disorder.unwrap_or(default.disorder),
            disorder_within_ms: self.disorder_within.unwrap_or(default.disorder_within_ms),
            resent: self.resent.unwrap_or(default.resent),
            poison: self.poison.unwrap_or(default.poison),
        })
    }

    /// A flag without effect would be a setting that is not in force.
    fn refuse_foreign_flags(&self) -> Result<(), GenerateError> {
        use WorkloadName::{Clickstream, Orders, Roster};
        let flags: [(&'static str, bool, &[WorkloadName]); 11] = [
            ("seed", self.seed.is_some(), &[Clickstream, Orders]),
            ("base-time", self.base_time.is_some(), &[Clickstream, Roster]),
            ("providers", self.providers.is_some(), &[Roster]),
            ("users", self.users.is_some(), &[Clickstream]),
            ("event-rate", self.event_rate.is_some(), &[Clickstream]),
            ("late", self.late.is_some(), &[Clickstream]),
            ("late-by", self.late_by.is_some(), &[Clickstream]),
            ("disorder", self.disorder.is_some(), &[Clickstream]),
            ("disorder-within", self.disorder_within.is_some(), &[Clickstream]),
            ("resent", self.resent.is_some(), &[Clickstream]),
            ("poison", self.poison.is_some(), &[Clickstream]),
        ];
        for (flag, given, owners) in flags {
            if given && !owners.contains(&self.workload) {
                let owners: Vec<&str> = owners.iter().map(|owner| owner.as_str()).collect();
                return Err(GenerateError::ForeignFlag { workload: self.workload, flag, owners: owners.join(" and ") });
            }
        }
        Ok(())
    }
}

/// Created before the log is written, so that a path that can't be written is known at once.
struct LedgerFile {
    path: PathBuf,
    file: BufWriter<File>,
}

impl LedgerFile {
    fn create(path: &Path) -> Result<Self, GenerateError> {
        let file = File::create(path).map_err(GenerateError::at(path))?;
        Ok(LedgerFile { path: path.into(), file: BufWriter::new(file) })
    }

    fn write(mut self, ledger: &Ledger) -> Result<(), GenerateError> {
        let written =
            serde_json::to_writer(&mut self.file, ledger).map_err(io::Error::from).and_then(|()| self.file.flush());
        written.map_err(GenerateError::at(&self.path))
    }
}

#[cfg(test)]
mod tests;
