//! `floodmark preview FILE`: the first records of each source as the pipeline would see them, as NDJSON; bad ones to stderr.
//!
//! No state, no commit, no group: nothing is left behind anywhere.
//! Doesn't know: operators, sinks. Keeps: a source is read to where its log ends now, never waited for beyond.
//! Tested: here.
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_json::WriterBuilder;
use arrow_json::writer::LineDelimited;
use arrow_schema::ArrowError;

use crate::config::load;
use crate::config::model::SourceConfig;
use crate::decode::BadRecord;
use crate::source::connect::{decoder_for, log_for, reader_to_now};
use crate::source::names::PartitionNames;
use crate::source::{Reader, SourceError};

/// Rest when nothing has come yet.
const REST: Duration = Duration::from_millis(20);

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Pipeline file
    file: PathBuf,
    /// Records to show of each source
    #[arg(long, default_value_t = 10)]
    limit: usize,
}

pub fn run(args: &Args) -> ExitCode {
    let pipeline = match load(&args.file) {
        Ok(pipeline) => pipeline,
        Err(diagnostics) => return super::refuse(&diagnostics),
    };
    let sources: Vec<_> =
        pipeline.sources.iter().map(|(id, config)| (pipeline.plan.node(*id).name.as_str(), config)).collect();
    match preview(&sources, args.limit, &mut io::stdout().lock(), &mut io::stderr().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        // Who reads the rows has seen enough.
        Err(PreviewError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => super::fail(&error),
    }
}

#[derive(Debug, thiserror::Error)]
pub enum PreviewError {
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error("can't show a row: {0}")]
    Row(#[from] ArrowError),
    #[error("can't write: {0}")]
    Write(#[from] io::Error),
}

/// Writes the first `limit` records of each source.
pub fn preview(
    sources: &[(&str, &SourceConfig)],
    limit: usize,
    rows: &mut dyn Write,
    errors: &mut dyn Write,
) -> Result<(), PreviewError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for (name, config) in sources {
        if sources.len() > 1 {
            writeln!(errors, "source {name}:")?;
        }
        let log = log_for("preview", name, config)?;
        let names = PartitionNames::default();
        let reader = runtime.block_on(reader_to_now(log.as_ref(), config, &names))?;
        show(reader, config, &names, limit, rows, errors)?;
    }
    Ok(())
}

fn show(
    mut reader: Box<dyn Reader>,
    config: &SourceConfig,
    names: &PartitionNames,
    limit: usize,
    rows: &mut dyn Write,
    errors: &mut dyn Write,
) -> Result<(), PreviewError> {
    let mut decoder = decoder_for(config, names)?;
    let mut bad = vec![];
    let mut left = limit;
    while left > 0 {
        let read = reader.poll(left, &mut |batch| {
            decoder.decode(&batch, &mut bad);
        })?;
        write_rows(rows, &decoder.finish()?.columns)?;
        for record in bad.drain(..) {
            writeln!(errors, "{}", describe(&record, names))?;
        }
        left -= read;
        if read == 0 {
            if names.indexes().all(|index| reader.progress(index).is_none_or(|progress| progress.ended)) {
                break;
            }
            std::thread::sleep(REST);
        }
    }
    Ok(())
}

fn write_rows(to: &mut dyn Write, rows: &RecordBatch) -> Result<(), PreviewError> {
    let mut text = vec![];
    let mut writer = WriterBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(&mut text);
    writer.write(rows)?;
    writer.finish()?;
    Ok(to.write_all(&text)?)
}

fn describe(record: &BadRecord, names: &PartitionNames) -> String {
    let partition = names.get(record.partition).map(|name| name.to_string()).unwrap_or_default();
    format!("{partition} at offset {}: {}: {}", record.offset, record.reason, record.detail)
}

#[cfg(test)]
mod tests {
    use floodmark_pipeline::schema::{Field, FieldType, Schema};

    use super::*;
    use crate::config::model::{End, FileConfig, JsonFormat, Origin, SourceConnector, Start};

    /// A source of the lines of a file.
    fn source(file: &std::path::Path) -> SourceConfig {
        let schema = Schema::new(vec![
            Field::required("id", FieldType::String),
            Field::nullable("price", FieldType::Decimal { precision: 5, scale: 2 }),
            Field::nullable("at", FieldType::TIMESTAMP_MS),
        ]);
        let origins = schema.fields.iter().map(|f| Origin::Path(vec![f.name.clone()])).collect();
        SourceConfig {
            connector: SourceConnector::File(FileConfig { path: file.display().to_string() }),
            format: JsonFormat { schema, origins, unknown_fields_are_errors: false },
            start: Start::Earliest,
            end: End::Never,
            idle: None,
            align_ms: None,
            discovery_interval: Duration::from_secs(60),
        }
    }

    /// What a preview of a file with these lines prints.
    fn printed(lines: &str, limit: usize) -> (String, String) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("events.json");
        std::fs::write(&file, lines).unwrap();
        let (mut rows, mut errors) = (vec![], vec![]);
        preview(&[("events", &source(&file))], limit, &mut rows, &mut errors).unwrap();
        (String::from_utf8(rows).unwrap(), String::from_utf8(errors).unwrap())
    }

    #[test]
    fn rows_go_to_one_side_and_bad_records_to_the_other() {
        let lines = "{\"id\":\"a\",\"price\":1.5,\"at\":1767225600123}\n{\"id\":5}\n{\"id\":\"b\"}\n";
        let (rows, errors) = printed(lines, 10);
        assert_eq!(
            rows,
            "{\"id\":\"a\",\"price\":1.50,\"at\":\"2026-01-01T00:00:00.123Z\"}\n{\"id\":\"b\",\"price\":null,\"at\":null}\n"
        );
        assert_eq!(errors, "events:events.json-0 at offset 1: type: id: expected string, found 5\n");
    }

    #[test]
    fn a_limit_counts_records_of_both_kinds() {
        let (rows, errors) = printed("x\n{\"id\":\"a\"}\n{\"id\":\"b\"}\n", 2);
        assert_eq!((rows.lines().count(), errors.lines().count()), (1, 1));
    }
}
