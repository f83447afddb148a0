//! A log as files: `part-00000.ndjson` and so on, one a partition, a value a line.
//!
//! An empty value is an empty line, so a line's number is its offset. Keys and timestamps are not written.
//! Doesn't know: what is in a value, except that it holds no line break.
//! Keeps: never writes into a folder that already holds part files; a finished log is durable.
//! Tested: generate/tests.rs.
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use flate2::write::GzEncoder;

use super::GenerateError;
use super::destination::LogWriter;
use crate::workload::Record;

const BUFFER_BYTES: usize = 1 << 18;
const ZSTD_LEVEL: i32 = 1;
const PREFIX: &str = "part-";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Compression {
    Gzip,
    Zstd,
}

pub struct PartFiles {
    dir: PathBuf,
    parts: Vec<Part>,
}

struct Part {
    path: PathBuf,
    out: Encoder,
}

enum Encoder {
    Plain(BufWriter<File>),
    Gzip(GzEncoder<BufWriter<File>>),
    Zstd(zstd::Encoder<'static, BufWriter<File>>),
}

impl PartFiles {
    pub fn create(dir: &Path, partitions: u32, compression: Option<Compression>) -> Result<Self, GenerateError> {
        fs::create_dir_all(dir).map_err(GenerateError::at(dir))?;
        refuse_folder_in_use(dir)?;
        let parts = (0..partitions).map(|partition| Part::create(dir, partition, compression));
        Ok(PartFiles { dir: dir.into(), parts: parts.collect::<Result<_, _>>()? })
    }
}

fn refuse_folder_in_use(dir: &Path) -> Result<(), GenerateError> {
    for entry in fs::read_dir(dir).map_err(GenerateError::at(dir))? {
        let name = entry.map_err(GenerateError::at(dir))?.file_name();
        let found = name.to_string_lossy();
        if found.starts_with(PREFIX) {
            return Err(GenerateError::FolderInUse { dir: dir.into(), found: found.into() });
        }
    }
    Ok(())
}

impl Part {
    fn create(dir: &Path, partition: u32, compression: Option<Compression>) -> Result<Self, GenerateError> {
        let ending = match compression {
            None => "",
            Some(Compression::Gzip) => ".gz",
            Some(Compression::Zstd) => ".zst",
        };
        let path = dir.join(format!("{PREFIX}{partition:05}.ndjson{ending}"));
        let out = File::create_new(&path)
            .and_then(|file| Encoder::new(file, compression))
            .map_err(GenerateError::at(&path))?;
        Ok(Part { path, out })
    }
}

impl Encoder {
    fn new(file: File, compression: Option<Compression>) -> io::Result<Self> {
        let file = BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok(match compression {
            None => Encoder::Plain(file),
            Some(Compression::Gzip) => Encoder::Gzip(GzEncoder::new(file, flate2::Compression::fast())),
            Some(Compression::Zstd) => Encoder::Zstd(zstd::Encoder::new(file, ZSTD_LEVEL)?),
        })
    }

    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Encoder::Plain(out) => out,
            Encoder::Gzip(out) => out,
            Encoder::Zstd(out) => out,
        }
    }

    fn finish(self) -> io::Result<()> {
        let file = match self {
            Encoder::Plain(out) => out,
            Encoder::Gzip(out) => out.finish()?,
            Encoder::Zstd(out) => out.finish()?,
        };
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }
}

impl LogWriter for PartFiles {
    fn first_offsets(&self) -> Vec<u64> {
        vec![0; self.parts.len()]
    }

    fn write(&mut self, record: &Record) -> Result<(), GenerateError> {
        let part = &mut self.parts[record.partition as usize];
        let out = part.out.writer();
        out.write_all(&record.value).and_then(|()| out.write_all(b"\n")).map_err(GenerateError::at(&part.path))
    }

    fn flush(&mut self) -> Result<(), GenerateError> {
        for part in &mut self.parts {
            part.out.writer().flush().map_err(GenerateError::at(&part.path))?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), GenerateError> {
        for part in self.parts {
            part.out.finish().map_err(GenerateError::at(&part.path))?;
        }
        File::open(&self.dir).and_then(|dir| dir.sync_all()).map_err(GenerateError::at(&self.dir))
    }
}
