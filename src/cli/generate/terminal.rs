//! A log on standard output, a record a line: key, a pipe character, value.
//!
//! Doesn't know: partitions and timestamps, which a line doesn't show.
//! Tested: generate/tests.rs.
use std::io::{self, BufWriter, Stdout, Write};

use super::GenerateError;
use super::destination::LogWriter;
use crate::workload::Record;

pub struct Terminal<W = BufWriter<Stdout>> {
    out: W,
    partitions: u32,
    keys_in_hex: bool,
}

impl Terminal {
    pub fn new(partitions: u32, keys_in_hex: bool) -> Self {
        Terminal::to(BufWriter::with_capacity(1 << 16, io::stdout()), partitions, keys_in_hex)
    }
}

impl<W: Write> Terminal<W> {
    pub fn to(out: W, partitions: u32, keys_in_hex: bool) -> Self {
        Terminal { out, partitions, keys_in_hex }
    }

    fn write_line(&mut self, record: &Record) -> io::Result<()> {
        if self.keys_in_hex {
            record.key.iter().try_for_each(|byte| write!(self.out, "{byte:02x}"))?;
        } else {
            self.out.write_all(&record.key)?;
        }
        self.out.write_all(b"|")?;
        self.out.write_all(&record.value)?;
        self.out.write_all(b"\n")
    }
}

impl<W: Write> LogWriter for Terminal<W> {
    fn first_offsets(&self) -> Vec<u64> {
        vec![0; self.partitions as usize]
    }

    fn write(&mut self, record: &Record) -> Result<(), GenerateError> {
        self.write_line(record).map_err(GenerateError::Terminal)
    }

    fn flush(&mut self) -> Result<(), GenerateError> {
        self.out.flush().map_err(GenerateError::Terminal)
    }

    fn finish(mut self: Box<Self>) -> Result<(), GenerateError> {
        self.flush()
    }
}
