//! The tables of path A, of path B and of the oracle, read by two readers that wrote none of them, and what differs.
//!
//! ```text
//! Flink's table ─┬─ PyIceberg ─> rows ─┐
//!                └─ DuckDB ────> rows ─┤
//! floodmark's   ─┬─ PyIceberg ─> rows ─┼─> digest.py (shares no code with floodmark) ─> equal, or the rows in which they differ
//!                └─ DuckDB ────> rows ─┤
//! the log ──────── oracle ─────> rows ─┘
//! ```
//! Doesn't know: how tables came about. Tested: here (the oracle's rows), tests/flink/main.rs.
use std::fs::File;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use arrow::ipc::writer::FileWriter;
use arrow_json::ReaderBuilder;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use floodmark_oracle::Outputs;
use floodmark_pipeline::digest::Options;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::ParityError;
use super::class::{Must, Table};
use super::services::{FLINK, OURS};
use super::tables::Tables;
use crate::digest::compare::{Limits, ShownRow, compare};
use crate::digest::source::RowSource;

/// Rows that are shown of each side.
const SHOWN: usize = 10;
const HASHES: u64 = 4_000_000;
const BATCH: usize = 8_192;

/// Each reader and its script; all of them stand in the folder of a run, so that it can be read again.
const READERS: [(&str, &str, &str); 2] = [
    ("PyIceberg", "pyiceberg_export.py", include_str!("../../../compose/readers/pyiceberg_export.py")),
    ("DuckDB", "duckdb_export.py", include_str!("../../../compose/readers/duckdb_export.py")),
];
const ORACLE: &str = "oracle";
const DIGEST: (&str, &str) = ("digest.py", include_str!("../../../compose/readers/digest.py"));

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    pub table: String,
    pub must: Must,
    pub digests: Vec<Read>,
    /// Of sides that aren't equal.
    pub differences: Vec<Difference>,
}

/// One side, as one reader sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Read {
    pub side: &'static str,
    pub reader: &'static str,
    /// `v1:ROWS:SUM`
    pub digest: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    pub sides: [&'static str; 2],
    /// Rows that the other lacks, each copy counted.
    pub only_in: [u64; 2],
    /// The first of them.
    pub shown: [Vec<Value>; 2],
}

impl Compared {
    /// All sides, by all readers.
    pub fn is_equal(&self) -> bool {
        are_equal(self.digests.iter())
    }

    /// Those sides that must be, and what two readers read of a side always.
    pub fn is_right(&self) -> bool {
        let of = |path: &'static str| self.digests.iter().filter(move |read| read.side == path);
        match self.must {
            Must::AllBeEqual => self.is_equal(),
            Must::OursBeRight => are_equal(of(FLINK)) && are_equal(of(OURS).chain(of(ORACLE))),
            Must::ReadersAgree => are_equal(of(FLINK)) && are_equal(of(OURS)),
        }
    }
}

fn are_equal<'a>(mut reads: impl Iterator<Item = &'a Read>) -> bool {
    let first = reads.next();
    reads.all(|read| Some(&read.digest) == first.map(|first| &first.digest))
}

impl Read {
    pub fn rows(&self) -> u64 {
        self.digest.split(':').nth(1).and_then(|rows| rows.parse().ok()).unwrap_or(0)
    }
}

/// The readers, at work in one folder.
pub struct Readers {
    folder: PathBuf,
    python: PathBuf,
}

/// A side's rows, exported: the one that PyIceberg has read, or the oracle's.
struct Exported {
    side: &'static str,
    file: PathBuf,
}

impl Readers {
    pub fn at(folder: PathBuf) -> Result<Self, ParityError> {
        std::fs::create_dir_all(&folder).map_err(ParityError::at(&folder))?;
        let scripts = READERS.iter().map(|(_, name, text)| (*name, *text));
        for (name, text) in scripts.chain([DIGEST]) {
            let file = folder.join(name);
            std::fs::write(&file, text).map_err(ParityError::at(&file))?;
        }
        Ok(Self { folder, python: floodmark_stack::python()? })
    }

    /// `sides`: each path's name and tables.
    pub fn compare(
        &self,
        table: Table,
        sides: [(&'static str, &Tables); 2],
        oracle: &Outputs,
    ) -> Result<Compared, ParityError> {
        let (mut digests, mut exported) = (Vec::new(), Vec::new());
        for (side, tables) in sides {
            let metadata = tables.metadata(table.name)?;
            for (reader, script, _) in READERS {
                let file = self.folder.join(format!("{}-{side}-{reader}.arrow", table.name));
                let digest = self.run(script, &[Path::new(&metadata), &file])?;
                digests.push(Read { side, reader, digest });
                exported.push(Exported { side, file });
            }
        }
        let file = self.folder.join(format!("{}-{ORACLE}.arrow", table.name));
        let [_, (_, ours)] = sides;
        let schema = super::block_on(ours.rows(table.name)?.open())??.schema();
        export(oracle, table.outputs, &schema, &file)?;
        digests.push(Read { side: ORACLE, reader: "", digest: self.run(DIGEST.0, &[&file])? });
        exported.push(Exported { side: ORACLE, file });

        let mut compared =
            Compared { table: table.name.to_owned(), must: table.must, digests, differences: Vec::new() };
        if !compared.is_equal() {
            let one_each = [&exported[0], &exported[2], &exported[4]];
            for (a, b) in [(0, 1), (0, 2), (1, 2)] {
                compared.differences.extend(difference(one_each[a], one_each[b])?);
            }
        }
        Ok(compared)
    }

    /// Where the rows of a side lie: those of a path as PyIceberg has read them.
    pub fn exported(&self, table: &str, side: &str) -> PathBuf {
        let reader = if side == ORACLE { String::new() } else { format!("-{}", READERS[0].0) };
        self.folder.join(format!("{table}-{side}{reader}.arrow"))
    }

    /// Another script at work on what was exported; it prints JSON.
    pub fn ask(&self, name: &str, script: &str, files: &[PathBuf]) -> Result<Value, ParityError> {
        let file = self.folder.join(name);
        std::fs::write(&file, script).map_err(ParityError::at(&file))?;
        let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
        let why = |error: serde_json::Error| ParityError::Reader { script: name.to_owned(), why: error.to_string() };
        serde_json::from_str(&self.run(name, &files)?).map_err(why)
    }

    /// Removes the rows of tables whose sides are equal.
    pub fn clear(&self, tables: &[Compared]) -> Result<(), ParityError> {
        for table in tables.iter().filter(|table| table.is_equal()) {
            for file in std::fs::read_dir(&self.folder).map_err(ParityError::at(&self.folder))?.flatten() {
                let name = file.file_name().to_string_lossy().into_owned();
                if name.starts_with(&format!("{}-", table.table)) && name.ends_with(".arrow") {
                    std::fs::remove_file(file.path()).map_err(ParityError::at(file.path()))?;
                }
            }
        }
        Ok(())
    }

    fn run(&self, script: &str, arguments: &[&Path]) -> Result<String, ParityError> {
        let mut command = Command::new(&self.python);
        command.current_dir(&self.folder).arg(script).args(arguments);
        let output = command.output().map_err(ParityError::Start)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
        }
        let why = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
        Err(ParityError::Reader { script: script.to_owned(), why })
    }
}

/// Nothing where the two are equal.
fn difference(a: &Exported, b: &Exported) -> Result<Option<Difference>, ParityError> {
    let rows = [RowSource::ArrowFile(a.file.clone()), RowSource::ArrowFile(b.file.clone())];
    let limits = Limits { shown: SHOWN, hashes: HASHES };
    let found = super::block_on(compare([&rows[0], &rows[1]], Options::default(), limits))??;
    if found.is_empty() {
        return Ok(None);
    }
    let shown = |rows: &[(ShownRow, u64)]| rows.iter().map(|(row, copies)| shown(row, *copies)).collect();
    let [in_a, in_b] = &found.only_in;
    Ok(Some(Difference {
        sides: [a.side, b.side],
        only_in: [in_a.rows, in_b.rows],
        shown: [shown(&in_a.shown), shown(&in_b.shown)],
    }))
}

fn shown(row: &ShownRow, copies: u64) -> Value {
    let cells: Map<String, Value> = row.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({ "copies": copies, "row": cells })
}

/// Rows of the oracle in the types of a table.
fn export(oracle: &Outputs, outputs: &[&str], schema: &SchemaRef, file: &Path) -> Result<(), ParityError> {
    let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let lines: Vec<&str> =
        outputs.iter().filter_map(|output| oracle.get(*output)).flatten().map(String::as_str).collect();
    let written = || -> Result<(), ArrowError> {
        let mut writer = FileWriter::try_new(File::create(file)?, &schema)?;
        for some in lines.chunks(BATCH) {
            for batch in
                ReaderBuilder::new(schema.clone()).with_batch_size(BATCH).build(Cursor::new(some.join("\n")))?
            {
                writer.write(&batch?)?;
            }
        }
        writer.finish()
    };
    written().map_err(|error| ParityError::Export { file: file.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::digest;
    use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
    use floodmark_pipeline::digest::Digest;

    fn digest_of(file: &Path) -> Digest {
        let rows = RowSource::ArrowFile(file.to_owned());
        super::super::block_on(digest(&rows, Options::default())).unwrap().unwrap()
    }

    #[test]
    fn rows_of_the_oracle_have_the_digest_of_the_table_that_holds_them() {
        let folder = tempfile::tempdir().unwrap();
        let time = TimestampMicrosecondArray::from(vec![1_767_225_600_123_000, -1_000]).with_timezone("+00:00");
        let columns: [(&str, ArrayRef); 3] = [
            ("at", Arc::new(time)),
            ("name", Arc::new(StringArray::from(vec!["a", "b"]))),
            ("cents", Arc::new(Int64Array::from(vec![None, Some(5)]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let table = folder.path().join("table.arrow");
        let mut writer = FileWriter::try_new(File::create(&table).unwrap(), &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();

        let row = |text: &str| vec![text.to_owned()];
        let oracle = Outputs::from([
            ("one".to_owned(), row(r#"{"at":"2026-01-01T00:00:00.123Z","cents":null,"name":"a"}"#)),
            ("other".to_owned(), row(r#"{"at":"1969-12-31T23:59:59.999Z","cents":5,"name":"b"}"#)),
            ("third".to_owned(), row(r#"{"name":"not taken"}"#)),
        ]);
        let file = folder.path().join("oracle.arrow");
        export(&oracle, &["one", "other"], &batch.schema(), &file).unwrap();
        assert_eq!(digest_of(&file), digest_of(&table));
    }

    #[test]
    fn sides_that_differ_show_their_rows() {
        let folder = tempfile::tempdir().unwrap();
        let schema = Arc::new(Schema::new(vec![arrow_schema::Field::new("n", arrow_schema::DataType::Int64, true)]));
        let exported = |side, lines: &[&str]| {
            let file = folder.path().join(side);
            let lines = lines.iter().map(|line| (*line).to_owned()).collect();
            export(&Outputs::from([("n".to_owned(), lines)]), &["n"], &schema, &file).unwrap();
            Exported { side, file }
        };
        let (a, b) = (exported("a", &[r#"{"n":1}"#, r#"{"n":2}"#]), exported("b", &[r#"{"n":2}"#, r#"{"n":2}"#]));
        assert_eq!(difference(&a, &a).unwrap(), None);
        let found = difference(&a, &b).unwrap().unwrap();
        assert_eq!((found.sides, found.only_in), (["a", "b"], [1, 1]));
        assert_eq!(found.shown[1], [json!({ "copies": 1, "row": { "n": "2" } })]);
    }
}
