//! Lines of a content, cut out of its buffer without copying.
//!
//! Doesn't know: records, positions. Keeps: a line is handed out once its newline is there; what is behind the last newline stays.
//! Tested: file/tests.rs.
use std::io::{self, Read};

use super::content::{Content, READ_BYTES};

/// A line longer than this is no line of NDJSON, and reading it would know no limit.
const MAX_LINE_BYTES: usize = 64 << 20;

pub struct Lines {
    content: Content,
    buffer: Vec<u8>,
    /// What of the buffer isn't handed out yet.
    start: usize,
    end: usize,
    /// No newline stands before this.
    scanned: usize,
}

impl Lines {
    pub fn new(content: Content) -> Self {
        Self { content, buffer: vec![0; 2 * READ_BYTES], start: 0, end: 0, scanned: 0 }
    }

    /// Hands out up to `max` lines that are in the buffer, without their line ends. Returns the bytes taken, line ends and all.
    pub fn take<'a>(&'a mut self, max: usize, mut line: impl FnMut(&'a [u8])) -> &'a [u8] {
        let Self { buffer, start, end, scanned, .. } = self;
        let buffer: &'a [u8] = buffer;
        let from = *start;
        for newline in memchr::memchr_iter(b'\n', &buffer[*scanned..*end]).take(max).map(|at| at + *scanned) {
            let text = &buffer[*start..newline];
            line(text.strip_suffix(b"\r").unwrap_or(text));
            *start = newline + 1;
        }
        *scanned = if *start == from { *end } else { *start };
        &buffer[from..*start]
    }

    /// What is behind the last newline.
    pub fn rest(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Reads on; 0 where the content ends for now.
    pub fn fill(&mut self) -> io::Result<usize> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.scanned -= self.start;
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() {
            if self.end >= MAX_LINE_BYTES {
                let what = format!("a line of more than {} MiB: is this NDJSON?", MAX_LINE_BYTES >> 20);
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            self.buffer.resize(2 * self.end, 0);
        }
        let read = self.content.read(&mut self.buffer[self.end..])?;
        self.end += read;
        Ok(read)
    }
}
