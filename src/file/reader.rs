//! The data side of files: lines of several files in turn.
//!
//! Doesn't know: what is in a line, who else reads.
//! Keeps: offsets are line numbers from 0; a position holds the digest of all that was read before it; at most `MAX_OPEN` files are open.
//! An empty line is a record without bytes. What stands behind the last newline is a record only where the file's end is fixed.
//! Tested: file/tests.rs.
use std::io::ErrorKind;
use std::path::PathBuf;

use floodmark_pipeline::ids::{PartitionIndex, PartitionName};

use super::content::{Compression, Content};
use super::lines::Lines;
use super::listing::{Listing, file_error};
use super::prefix::{Prefix, StoredPrefix};
use crate::source::{Position, Progress, RawBatch, RawRecord, Reader, SourceError};

/// Files open at once. Others wait until one of these has been read to its end, or pauses.
const MAX_OPEN: usize = 64;

pub struct FileReader {
    listing: Listing,
    files: Vec<AssignedFile>,
    /// Whose turn it is.
    next: usize,
}

struct AssignedFile {
    partition: PartitionIndex,
    path: PathBuf,
    /// Size to read to, of the file as it lies on the disk.
    end: Option<u64>,
    paused: bool,
    ended: bool,
    /// Size of the file when it was opened: compressed content may go on once it is larger.
    opened_size: u64,
    /// Size of the file of which all has been read.
    drained_at: Option<u64>,
    /// Behind the last newline stands a line that waits for its end.
    has_rest: bool,
    /// Where it was read to by an earlier start, if it was gone at this one.
    gone_at: Option<Position>,
    /// Next line to hand out, and what stands before it.
    offset: i64,
    prefix: Prefix,
    lines: Option<Lines>,
}

impl FileReader {
    pub fn new(listing: Listing) -> Self {
        Self { listing, files: vec![], next: 0 }
    }

    fn file_of(&mut self, partition: PartitionIndex) -> Option<&mut AssignedFile> {
        self.files.iter_mut().find(|file| file.partition == partition)
    }

    /// Makes room for one more open file, at the cost of a paused one if need be.
    fn has_room(&mut self) -> bool {
        if self.files.iter().filter(|file| file.lines.is_some()).count() < MAX_OPEN {
            return true;
        }
        let paused = self.files.iter_mut().find(|file| file.paused && file.lines.is_some());
        paused.is_some_and(|file| file.lines.take().is_some())
    }
}

impl Reader for FileReader {
    fn assign(
        &mut self,
        partition: PartitionIndex,
        name: &PartitionName,
        from: &Position,
        end: Option<i64>,
    ) -> Result<(), SourceError> {
        let end = end.map(|end| end.max(0) as u64);
        let mut file = AssignedFile::new(partition, self.listing.path_of(&name.topic), end);
        match file.go_on_from(name, from) {
            // Nothing of it is left to read, and it is over. Should it come back, it is read on.
            Err(ref error) if is_gone(error) && (*from == Position::default() || is_all_read(from)) => {
                file.end_gone();
                file.gone_at = Some(from.clone());
            }
            opened => opened?,
        }
        if !self.has_room() {
            file.lines = None;
        }
        self.files.retain(|file| file.partition != partition);
        self.files.push(file);
        Ok(())
    }

    fn pause(&mut self, partition: PartitionIndex, paused: bool) -> Result<(), SourceError> {
        if let Some(file) = self.file_of(partition) {
            file.paused = paused;
        }
        Ok(())
    }

    fn poll(&mut self, max_records: usize, take: &mut dyn FnMut(RawBatch<'_>)) -> Result<usize, SourceError> {
        let mut taken = 0;
        for _ in 0..self.files.len() {
            if taken == max_records {
                break;
            }
            let turn = self.next % self.files.len();
            self.next = turn + 1;
            if !self.files[turn].has_more()? {
                continue;
            }
            if self.files[turn].lines.is_none() {
                if !self.has_room() {
                    continue;
                }
                self.files[turn].open()?;
            }
            taken += self.files[turn].read(max_records - taken, take)?;
        }
        Ok(taken)
    }

    fn progress(&self, partition: PartitionIndex) -> Option<Progress> {
        let file = self.files.iter().find(|file| file.partition == partition)?;
        if let Some(position) = &file.gone_at {
            return Some(Progress { position: position.clone(), ended: true });
        }
        let is_all = file.ended || file.drained_at.is_some() && !file.has_rest;
        let position = Position { offset: file.offset, resume: file.prefix.stored(is_all).encode() };
        Some(Progress { position, ended: file.ended })
    }

    fn drained(&self, partition: PartitionIndex) -> bool {
        let file = self.files.iter().find(|file| file.partition == partition);
        file.is_some_and(|file| file.ended || file.drained_at.is_some())
    }
}

impl AssignedFile {
    fn new(partition: PartitionIndex, path: PathBuf, end: Option<u64>) -> Self {
        Self {
            partition,
            path,
            end,
            paused: false,
            ended: false,
            opened_size: 0,
            drained_at: None,
            has_rest: false,
            gone_at: None,
            offset: 0,
            prefix: Prefix::default(),
            lines: None,
        }
    }

    /// Opens the file and checks that it still begins with what was read of it.
    fn go_on_from(&mut self, name: &PartitionName, from: &Position) -> Result<(), SourceError> {
        self.opened_size = self.size()?;
        let mut content = Content::open(&self.path, self.end).map_err(|e| file_error(&self.path, e))?;
        if from.offset != 0 || !from.resume.is_empty() {
            let stored = StoredPrefix::decode(&from.resume).ok_or_else(|| {
                SourceError::Setting(format!("{name}: offset {} comes without what was read before it", from.offset))
            })?;
            let prefix = content.verify(stored).map_err(|e| file_error(&self.path, e))?;
            self.prefix = prefix.ok_or_else(|| self.changed())?;
            self.offset = from.offset;
        }
        self.lines = Some(Lines::new(content));
        self.end_if_all_is_read();
        Ok(())
    }

    /// Whether a read may give something.
    fn has_more(&mut self) -> Result<bool, SourceError> {
        if self.ended || self.paused {
            return Ok(false);
        }
        let Some(drained_at) = self.drained_at else { return Ok(true) };
        match self.size() {
            Ok(size) if size < drained_at => Err(self.changed()),
            Ok(size) => Ok(size > drained_at),
            Err(error) if is_gone(&error) && !self.has_rest => {
                self.end_gone();
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// It was removed, or has another name by now. Somebody tidies up: no harm, since all that it had was read.
    fn end_gone(&mut self) {
        tracing::warn!("{}: the file is gone; all that it had was read", self.path.display());
        self.ended = true;
        self.lines = None;
    }

    fn open(&mut self) -> Result<(), SourceError> {
        self.opened_size = self.size()?;
        let failed = |e| file_error(&self.path, e);
        let mut content = Content::open(&self.path, self.end).map_err(failed)?;
        if !content.skip(&self.prefix).map_err(failed)? {
            return Err(self.changed());
        }
        self.lines = Some(Lines::new(content));
        self.drained_at = None;
        Ok(())
    }

    /// Hands out one batch of up to `max` lines.
    fn read(&mut self, max: usize, take: &mut dyn FnMut(RawBatch<'_>)) -> Result<usize, SourceError> {
        let Some(lines) = &mut self.lines else { return Ok(0) };
        loop {
            let mut records = vec![];
            let mut within_line = self.prefix.is_within_line();
            let bytes = lines.take(max, |line| {
                // The end, come later, of a line that was the file's last is no record of its own.
                if std::mem::take(&mut within_line) && line.is_empty() {
                    return;
                }
                let offset = self.offset + records.len() as i64;
                records.push(RawRecord { offset, payload: Some(line), ..Default::default() });
            });
            if records.is_empty() && !bytes.is_empty() {
                self.prefix.extend(bytes);
                continue;
            }
            if !records.is_empty() {
                take(RawBatch { partition: self.partition, records: &records });
                let taken = records.len();
                self.offset += taken as i64;
                self.prefix.extend(bytes);
                self.end_if_all_is_read();
                return Ok(taken);
            }
            if lines.fill().map_err(|e| file_error(&self.path, e))? == 0 {
                return self.at_end(take);
            }
        }
    }

    /// There is no further line for now, or for good.
    fn at_end(&mut self, take: &mut dyn FnMut(RawBatch<'_>)) -> Result<usize, SourceError> {
        let Some(lines) = self.lines.take() else { return Ok(0) };
        let rest = lines.rest();
        let read = self.prefix.bytes() + rest.len() as u64;
        self.has_rest = !rest.is_empty();
        let Some(end) = self.end else {
            self.drained_at = Some(if self.is_plain() { read } else { self.opened_size });
            return Ok(0);
        };
        if self.is_plain() && read < end {
            return Err(self.changed());
        }
        self.ended = true;
        if rest.is_empty() {
            return Ok(0);
        }
        let record = RawRecord { offset: self.offset, payload: Some(rest), ..Default::default() };
        take(RawBatch { partition: self.partition, records: &[record] });
        self.offset += 1;
        self.prefix.extend(rest);
        Ok(1)
    }

    fn end_if_all_is_read(&mut self) {
        if self.is_plain() && self.end.is_some_and(|end| self.prefix.bytes() >= end) {
            self.ended = true;
            self.lines = None;
        }
    }

    fn size(&self) -> Result<u64, SourceError> {
        Ok(std::fs::metadata(&self.path).map_err(|e| file_error(&self.path, e))?.len())
    }

    fn is_plain(&self) -> bool {
        Compression::of(&self.path) == Compression::None
    }

    fn changed(&self) -> SourceError {
        SourceError::FileChanged { path: self.path.display().to_string() }
    }
}

fn is_gone(error: &SourceError) -> bool {
    matches!(error, SourceError::File { error, .. } if error.kind() == ErrorKind::NotFound)
}

fn is_all_read(from: &Position) -> bool {
    StoredPrefix::decode(&from.resume).is_some_and(|stored| stored.is_all)
}
