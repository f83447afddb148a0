//! What was read of a file so far: how much of its content, and a digest of it. The content of a compressed file is what is compressed.
//!
//! Doesn't know: lines, files. Keeps: two prefixes are equal only if their contents are.
//! The last of it is kept as it stood: whether a file that is read on still has it is known without reading all of it again.
//! Tested: here; file/tests.rs.
use xxhash_rust::xxh3::Xxh3;

/// Bytes of a stored prefix: the length, then the digest, little-endian both.
const STORED_BYTES: usize = 24;
/// Stands behind them where the file had no more.
const IS_ALL: u8 = 1;
/// Of the content read last, what is compared before more is read.
const TAIL_BYTES: usize = 4096;

/// A prefix that grows.
#[derive(Clone, Default)]
pub struct Prefix {
    hasher: Xxh3,
    bytes: u64,
    tail: Vec<u8>,
}

/// A prefix as a position holds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredPrefix {
    pub bytes: u64,
    pub digest: u128,
    /// The file had no more when it was last looked at.
    pub is_all: bool,
}

impl Prefix {
    pub fn extend(&mut self, content: &[u8]) {
        self.hasher.update(content);
        self.bytes += content.len() as u64;
        self.tail.extend_from_slice(&content[content.len().saturating_sub(TAIL_BYTES)..]);
        // Cut seldom, so that short lines don't move it each time.
        if self.tail.len() > 4 * TAIL_BYTES {
            self.tail.drain(..self.tail.len() - TAIL_BYTES);
        }
    }

    /// Its last line has no end: it was taken because the file ended there.
    pub fn is_within_line(&self) -> bool {
        self.tail.last().is_some_and(|byte| *byte != b'\n')
    }

    /// What was read last, and where it begins.
    pub fn tail(&self) -> (u64, &[u8]) {
        let tail = &self.tail[self.tail.len().saturating_sub(TAIL_BYTES)..];
        (self.bytes - tail.len() as u64, tail)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn stored(&self, is_all: bool) -> StoredPrefix {
        StoredPrefix { bytes: self.bytes, digest: self.hasher.digest128(), is_all }
    }
}

impl StoredPrefix {
    pub fn encode(self) -> Vec<u8> {
        let is_all: &[u8] = if self.is_all { &[IS_ALL] } else { &[] };
        [&self.bytes.to_le_bytes()[..], &self.digest.to_le_bytes(), is_all].concat()
    }

    pub fn decode(stored: &[u8]) -> Option<Self> {
        let (stored, behind) = stored.split_first_chunk::<STORED_BYTES>()?;
        let (bytes, digest) = stored.split_first_chunk::<8>()?;
        let is_all = match behind {
            [] => false,
            [IS_ALL] => true,
            _ => return None,
        };
        Some(Self { bytes: u64::from_le_bytes(*bytes), digest: u128::from_le_bytes(digest.try_into().ok()?), is_all })
    }

    /// It is as long, and of the same content.
    pub fn is_of(&self, prefix: &Prefix) -> bool {
        prefix.stored(self.is_all) == *self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_does_not_depend_on_how_it_was_read() {
        let content: Vec<u8> = (0..10_000_u32).map(|i| (i * 7) as u8).collect();
        let mut at_once = Prefix::default();
        at_once.extend(&content);
        let mut in_parts = Prefix::default();
        content.chunks(37).for_each(|part| in_parts.extend(part));
        assert_eq!(at_once.stored(false), in_parts.stored(false));
        assert_eq!(at_once.tail(), (10_000 - 4_096, &content[10_000 - 4_096..]));
        assert_eq!(at_once.tail(), in_parts.tail());
        for is_all in [false, true] {
            assert_eq!(StoredPrefix::decode(&in_parts.stored(is_all).encode()), Some(at_once.stored(is_all)));
        }
        assert_eq!(StoredPrefix::decode(b"short"), None);
        assert_eq!(StoredPrefix::decode(&[2; 25]), None);
    }
}
