//! One run, from an empty folder to compared tables.
//!
//! Doesn't know: what each step takes. Tested: tests/flink/main.rs.
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use floodmark_stack::Port;
use serde_json::json;

use super::class::{Class, Places};
use super::compare::Readers;
use super::copies;
use super::feed::Feed;
use super::in_force;
use super::late;
use super::paths::flink::{self, Flink};
use super::paths::ours::Ours;
use super::record::Record;
use super::services::{FLINK, OURS, Services};
use super::tables::Tables;
use super::through::Both;
use super::{ParityError, Settings};
use crate::cli::oracle;
use crate::config;
use crate::config::model::Pipeline;
use crate::digest::orders_digest;
use crate::digest::source::RowSource;
use crate::workload::dials::Dials;
use crate::workload::ledger::Ledger;
use crate::workload::orders::PUBLISHED;

pub fn run(
    settings: &Settings,
    folder: &Path,
    record: &mut Record,
    say: &mut dyn FnMut(&str),
) -> Result<(), ParityError> {
    let ends = ends(settings.class, &record.dials)?;
    let logs = folder.join("logs");
    std::fs::create_dir_all(&logs).map_err(ParityError::at(&logs))?;
    say("starting Kafka and Postgres …");
    let mut services = Services::start(settings.fault)?;
    let done = both(settings, folder, &ends, record, &mut services, say);
    // Of a run that failed too.
    services.keep_logs(&logs)?;
    done
}

/// Records of each partition.
fn ends(class: Class, dials: &Dials) -> Result<Vec<u64>, ParityError> {
    let log = class.workload().build(dials)?;
    let mut ends = vec![0; dials.partitions as usize];
    for index in 0..log.records() {
        ends[log.partition_of(index) as usize] += 1;
    }
    if class == Class::D4 {
        copies::of(log.as_ref(), dials.partitions).for_each(|copy| ends[copy.partition as usize] += 1);
    }
    Ok(ends)
}

fn both(
    settings: &Settings,
    folder: &Path,
    ends: &[u64],
    record: &mut Record,
    services: &mut Services,
    say: &mut dyn FnMut(&str),
) -> Result<(), ParityError> {
    let (class, logs, port) = (settings.class, folder.join("logs"), Port::reserve()?);
    services.create_topic(class.source(), settings.partitions)?;
    let (brokers, listen) = (services.addresses(), port.address().to_string());
    let places = Places { folder, brokers: &brokers, catalog: &services.catalog(OURS), listen: &listen, ends };
    let (file, pipeline) = pipeline(&class.pipeline(&places), folder)?;
    let watched = class.tables()[0].name;
    let feed = Feed {
        brokers: brokers.clone(),
        topic: class.source(),
        partitions: settings.partitions,
        words: class.generate(&record.dials),
        rate: Feed::rate(settings.events),
        messages: logs.join("generate.log"),
    };
    if class == Class::D4 {
        say("writing all records, and copies …");
        feed.write_at_once(settings.events)?;
        copies::write(class.workload().build(&record.dials)?.as_ref(), &feed)?;
    }
    say("starting floodmark and Flink …");
    let tables = Tables::of(&services.catalog(OURS))?;
    let mut ours = Ours::new(file.clone(), logs.join("floodmark.log"), port, watched, tables);
    ours.start()?;
    let script = script(&file, folder, &services.catalog(FLINK), class.accepted_losses())?;
    let tables = Tables::of(&services.catalog(FLINK))?;
    let (options, log) = (flink::options(settings.events, settings.fault), logs.join("flink-jobmanager.log"));
    let flink = Flink::start(options, script, log, watched, tables)?;
    record.feed_records_per_second = feed.rate;
    record.in_force = in_force::read(&flink, &ours, &pipeline)?;
    let mut both = Both { settings, services, flink, ours, feed, began: Instant::now() };
    let done = both.through(record, say);
    both.flink.keep_logs(&logs)?;
    done?;
    say("comparing …");
    compare(&both, &file, &pipeline, folder, record)?;
    if record.failures().is_empty() {
        // What is equal only takes room.
        for tables in [FLINK, OURS].map(|path| folder.join(path)) {
            std::fs::remove_dir_all(&tables).map_err(ParityError::at(&tables))?;
        }
    }
    Ok(())
}

fn pipeline(text: &str, folder: &Path) -> Result<(PathBuf, Pipeline), ParityError> {
    let file = folder.join("pipeline.toml");
    std::fs::write(&file, text).map_err(ParityError::at(&file))?;
    let pipeline = config::load(&file).map_err(|refused| ParityError::Pipeline(refused.to_string()))?;
    Ok((file, pipeline))
}

/// The same file as a job for Flink, with tables of its own.
fn script(file: &Path, folder: &Path, catalog: &str, accepted: &[&str]) -> Result<String, ParityError> {
    let to = folder.join("job.sql");
    let mut command = Command::new(std::env::current_exe().map_err(ParityError::Start)?);
    command.arg("flink-sql").arg(file).arg("--output").arg(&to).args(["--catalog-uri", catalog]);
    command.args(["--warehouse", &format!("file://{}", folder.join(FLINK).display())]);
    accepted.iter().for_each(|key| {
        command.args(["--accept-loss", key]);
    });
    let output = command.output().map_err(ParityError::Start)?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
        return Err(ParityError::Child { what: "flink-sql", why });
    }
    std::fs::read_to_string(&to).map_err(ParityError::at(&to))
}

fn compare(
    both: &Both<'_>,
    file: &Path,
    pipeline: &Pipeline,
    folder: &Path,
    record: &mut Record,
) -> Result<(), ParityError> {
    let oracle = oracle::expected(file, pipeline)?;
    let readers = Readers::at(folder.join("readers"))?;
    let sides = [(FLINK, both.flink.tables()), (OURS, both.ours.tables())];
    for table in both.settings.class.tables() {
        record.tables.push(readers.compare(table, sides, &oracle)?);
    }
    match both.settings.class {
        Class::D3 => late::check(&readers, record)?,
        Class::D4 => copies::check(&readers, record)?,
        Class::Poison => poison(both, record)?,
        Class::Orders => orders(&readers, record)?,
        _ => {}
    }
    readers.clear(&record.tables)?;
    let counters = both.flink.job().checkpoints()?;
    record.checkpoints_of_flink = json!({
        "restores": counters.restores,
        "completed": counters.completed,
        "failed": counters.failed,
        "failures": both.flink.job().failures()?,
    });
    Ok(())
}

/// Each record that can't be decoded stands in the table of errors, and so many as were written.
fn poison(both: &Both<'_>, record: &mut Record) -> Result<(), ParityError> {
    let written = Ledger::derive(both.settings.class.workload(), &record.dials)?.total.poison;
    let errors = both.ours.tables().visible("shop.errors")?;
    record.check(
        errors == written,
        format!("floodmark has {errors} rows of errors for {written} records that can't be decoded"),
    );
    Ok(())
}

/// The digest that the drills which these orders come from publish, over the rows of each path; where this seed has a published one, that one.
fn orders(readers: &Readers, record: &mut Record) -> Result<(), ParityError> {
    let Dials { seed, events, .. } = record.dials;
    let published = PUBLISHED.iter().find(|(of_seed, of_events, _)| (*of_seed, *of_events) == (seed, events));
    let table = Class::Orders.tables()[0].name;
    let mut found = [FLINK, OURS].map(|path| (path, String::new()));
    for (path, digest) in &mut found {
        let rows = RowSource::ArrowFile(readers.exported(table, path));
        (_, *digest) = super::block_on(orders_digest(&rows))??;
    }
    let expected = published.map_or(found[1].1.as_str(), |(_, _, digest)| digest);
    let whose = if published.is_some() { "as published" } else { "as floodmark's" };
    for (path, digest) in &found {
        record.check(digest == expected, format!("{path} has the orders digest {digest}, {whose}"));
    }
    Ok(())
}
