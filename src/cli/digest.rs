//! `floodmark digest`: what a table holds, as one comparable line.
//!
//! Doesn't know: how a digest is made (`crate::digest`). Tested: here, tests/readers.rs.

use clap::Args;
use serde_json::json;

use super::rows_argument::{Kind, RowsArgs};
use crate::digest::{CompareError, digest, orders_digest};

#[derive(Args, Clone, Debug)]
pub struct DigestArgs {
    /// Folder or metadata.json of an Iceberg table, or its name with --catalog or --pipeline
    #[arg(value_name = "TABLE", required_unless_present = "arrow", conflicts_with = "arrow")]
    table: Option<String>,
    /// An Arrow IPC file or stream that another reader exported, instead of a table
    #[arg(long, value_name = "FILE")]
    arrow: Option<String>,
    #[command(flatten)]
    rows: RowsArgs,
}

pub fn run(args: DigestArgs) -> Result<(), CompareError> {
    let line = super::block_on(line(&args))?;
    super::write_out(&format!("{line}\n")).map_err(CompareError::Terminal)
}

async fn line(args: &DigestArgs) -> Result<String, CompareError> {
    let argument = match &args.arrow {
        Some(file) => format!("arrow:{file}"),
        None => args.table.clone().unwrap_or_default(),
    };
    let source = args.rows.source(&argument).await?;
    let (rows, text) = match args.rows.kind {
        Some(Kind::Orders) => orders_digest(&source).await?,
        None => {
            let digest = digest(&source, args.rows.options()).await?;
            (digest.rows, digest.to_string())
        }
    };
    if !args.rows.json {
        return Ok(text);
    }
    Ok(json!({ "source": source.to_string(), "rows": rows, "digest": text }).to_string())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::Arc;

    use arrow::ipc::writer::FileWriter;
    use arrow_array::{ArrayRef, Int64Array, RecordBatch};
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        digest: DigestArgs,
    }

    fn run_with(arguments: &[&str]) -> Result<String, CompareError> {
        let arguments = CommandLine::parse_from([&["digest"], arguments].concat());
        super::super::block_on(line(&arguments.digest))
    }

    fn arrow_file(columns: &[&str]) -> tempfile::NamedTempFile {
        let column = |name| (name, Arc::new(Int64Array::from(vec![1])) as ArrayRef);
        let batch = RecordBatch::try_from_iter(columns.iter().map(|name| column(*name))).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut writer = FileWriter::try_new(File::create(file.path()).unwrap(), &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        file
    }

    #[test]
    fn meta_columns_are_left_out_when_asked() {
        let (with, without) = (arrow_file(&["a", "_offset"]), arrow_file(&["a"]));
        let [with, without] = [&with, &without].map(|file| file.path().to_str().unwrap());
        let expected = run_with(&["--arrow", without]).unwrap();
        assert_eq!(run_with(&["--arrow", with, "--without-meta"]).unwrap(), expected);
        assert_ne!(run_with(&["--arrow", with]).unwrap(), expected);
    }

    #[test]
    fn json_names_the_source_and_the_rows() {
        let file = arrow_file(&["a"]);
        let path = file.path().to_str().unwrap();
        let json: serde_json::Value = serde_json::from_str(&run_with(&["--arrow", path, "--json"]).unwrap()).unwrap();
        assert_eq!((&json["source"], &json["rows"]), (&json!(path), &json!(1)));
    }

    #[test]
    fn a_file_that_holds_no_orders_is_refused_by_the_orders_digest() {
        let file = arrow_file(&["a"]);
        let error = run_with(&["--arrow", file.path().to_str().unwrap(), "--as", "orders"]).unwrap_err().to_string();
        assert!(error.contains("amount_cents"), "{error}");
    }

    #[test]
    fn a_table_or_a_file_must_be_named() {
        assert!(CommandLine::try_parse_from(["digest"]).is_err());
        assert!(CommandLine::try_parse_from(["digest", "table", "--arrow", "file"]).is_err());
    }
}
