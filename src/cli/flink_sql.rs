//! `floodmark flink-sql FILE`: the pipeline as a job of Apache Flink 1.20, printed or handed to a cluster.
//!
//! Doesn't know: Flink's words. Tested: tests/flink_sql.rs.
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::config;
use crate::flink_sql::submit::{Cluster, submit};
use crate::flink_sql::{Options, page, script};

#[derive(Debug, clap::Args)]
pub struct FlinkSqlArgs {
    /// Pipeline file
    #[arg(required_unless_present = "print_reference")]
    file: Option<PathBuf>,
    /// Write the job there instead of printing it
    #[arg(long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Give up what this key means where Flink can't do it; may be given again
    #[arg(long, value_name = "KEY")]
    accept_loss: Vec<String>,
    /// Catalog of all Iceberg tables, instead of the file's: postgres://… or the URL of a REST catalog
    #[arg(long, value_name = "URI")]
    catalog_uri: Option<String>,
    /// Warehouse of all Iceberg tables, instead of the file's
    #[arg(long, value_name = "URI")]
    warehouse: Option<String>,
    /// Read this source from Kafka, whatever the file says; may be given again
    #[arg(long, value_name = "SOURCE=HOST:PORT/TOPIC", value_parser = from_kafka)]
    kafka: Vec<(String, (String, String))>,
    /// Have this cluster run the job: the URL of its JobManager. Prints the job's id
    #[arg(long, value_name = "URL", requires = "runner", conflicts_with = "output")]
    run: Option<String>,
    /// The jar that runs SQL on the cluster, made of compose/flink
    #[arg(long, value_name = "JAR", requires = "run")]
    runner: Option<PathBuf>,
    /// With --run: go on from this savepoint or checkpoint of Flink's
    #[arg(long, value_name = "PATH", requires = "run")]
    from: Option<String>,
    /// Print docs/FLINK_SQL.md instead: what becomes of each key
    #[arg(long, conflicts_with = "file")]
    print_reference: bool,
}

fn from_kafka(text: &str) -> Result<(String, (String, String)), String> {
    let parts = text.split_once('=').and_then(|(source, place)| Some((source, place.split_once('/')?)));
    match parts {
        Some((source, (brokers, topic))) if ![source, brokers, topic].contains(&"") => {
            Ok((source.to_owned(), (brokers.to_owned(), topic.to_owned())))
        }
        _ => Err("write SOURCE=HOST:PORT/TOPIC".into()),
    }
}

pub fn run(args: FlinkSqlArgs) -> ExitCode {
    let Some(file) = &args.file else { return super::print(&page()) };
    // What can't be read is said in the words of `check`.
    let Ok(text) = std::fs::read_to_string(file) else {
        return config::load(file).err().map_or(ExitCode::FAILURE, |diagnostics| super::refuse(&diagnostics));
    };
    let options = Options {
        accept_loss: args.accept_loss.into_iter().collect(),
        catalog_uri: args.catalog_uri,
        warehouse: args.warehouse,
        kafka: args.kafka.into_iter().collect(),
    };
    let folder = std::env::current_dir().unwrap_or_default();
    match script(&text, file, &|name| std::env::var(name).ok(), &options, folder) {
        Err(diagnostics) => super::refuse(&diagnostics),
        Ok(script) => match (args.run, args.runner) {
            (Some(url), Some(runner)) => hand_over(&Cluster { url, runner, from: args.from }, &script),
            _ => give(&script, args.output.as_deref()),
        },
    }
}

fn give(script: &str, output: Option<&Path>) -> ExitCode {
    let Some(path) = output else { return super::print(script) };
    match std::fs::write(path, script) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            super::fail(&std::io::Error::new(error.kind(), format!("can't write {}: {error}", path.display())))
        }
    }
}

fn hand_over(cluster: &Cluster, script: &str) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return super::fail(&error),
    };
    match runtime.block_on(submit(cluster, script)) {
        Ok(id) => super::print(&format!("{id}\n")),
        Err(error) => super::fail(&error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_in_kafka_is_named_with_brokers_and_topic() {
        let read = ("events".to_owned(), ("a:1,b:2".to_owned(), "t".to_owned()));
        assert_eq!(from_kafka("events=a:1,b:2/t"), Ok(read));
        for wrong in ["events", "events=a:1", "=a/t", "events=/t", "events=a/"] {
            assert!(from_kafka(wrong).is_err(), "{wrong}");
        }
    }
}
