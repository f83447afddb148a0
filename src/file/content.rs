//! The content of a file as a stream: plain, gzip or zstd by its extension, up to a fixed size of the file or as far as it goes now.
//!
//! Doesn't know: lines, partitions.
//! Keeps: a fixed size is bytes of the file as it lies on the disk, so that it means the same before and after the file grew.
//! Tested: file/tests.rs.
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use super::prefix::{Prefix, StoredPrefix};

/// Bytes read from the disk, or checked, at once.
pub const READ_BYTES: usize = 256 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    pub fn of(path: &Path) -> Self {
        match path.extension().and_then(|e| e.to_str()) {
            Some("gz" | "gzip") => Self::Gzip,
            Some("zst" | "zstd") => Self::Zstd,
            _ => Self::None,
        }
    }
}

/// A file's content from its beginning.
pub enum Content {
    Plain(io::Take<File>),
    Gzip(Box<MultiGzDecoder<io::BufReader<io::Take<File>>>>),
    Zstd(Box<zstd::Decoder<'static, io::BufReader<io::Take<File>>>>),
}

impl Content {
    /// `end`: size that the file is taken to have; `None`: all there is at each read.
    pub fn open(path: &Path, end: Option<u64>) -> io::Result<Self> {
        let file = File::open(path)?;
        // Whoever writes it has only just made it: nothing stands in it yet, which is no gzip.
        let is_empty = file.metadata()?.len() == 0;
        let file = file.take(if is_empty { 0 } else { end.unwrap_or(u64::MAX) });
        let compressed = |file| io::BufReader::with_capacity(READ_BYTES, file);
        Ok(match Compression::of(path) {
            _ if is_empty => Self::Plain(file),
            Compression::None => Self::Plain(file),
            Compression::Gzip => Self::Gzip(Box::new(MultiGzDecoder::new(compressed(file)))),
            Compression::Zstd => Self::Zstd(Box::new(zstd::Decoder::with_buffer(compressed(file))?)),
        })
    }

    /// Goes on behind a prefix of which this process has read every byte before; false where what it read last doesn't stand there any more.
    pub fn skip(&mut self, prefix: &Prefix) -> io::Result<bool> {
        let (begin, tail) = prefix.tail();
        match self {
            Self::Plain(file) => {
                file.set_limit(file.limit().saturating_sub(begin));
                file.get_mut().seek(SeekFrom::Start(begin))?;
            }
            _ => {
                if io::copy(&mut self.by_ref().take(begin), &mut io::sink())? != begin {
                    return Ok(false);
                }
            }
        }
        let mut found = Vec::with_capacity(tail.len());
        self.by_ref().take(tail.len() as u64).read_to_end(&mut found)?;
        Ok(found == tail)
    }

    /// Reads the prefix again and compares; `None` where the file no longer begins with it.
    pub fn verify(&mut self, stored: StoredPrefix) -> io::Result<Option<Prefix>> {
        let mut prefix = Prefix::default();
        let mut buffer = vec![0; READ_BYTES];
        while prefix.bytes() < stored.bytes {
            let wanted = (stored.bytes - prefix.bytes()).min(READ_BYTES as u64) as usize;
            match self.read(&mut buffer[..wanted])? {
                0 => return Ok(None),
                read => prefix.extend(&buffer[..read]),
            }
        }
        Ok(stored.is_of(&prefix).then_some(prefix))
    }
}

impl Read for Content {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.read(buffer),
            Self::Gzip(decoder) => decoder.read(buffer),
            Self::Zstd(decoder) => decoder.read(buffer).map_err(broken),
        }
    }
}

/// The decoder for zstd has no kind of error for content that isn't; the one for gzip has.
fn broken(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::Other { io::Error::new(io::ErrorKind::InvalidData, error) } else { error }
}
