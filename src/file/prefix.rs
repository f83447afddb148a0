//! What was read of a file so far: how much of its content, and a digest of it. The content of a compressed file is what is compressed.
//!
//! Doesn't know: lines, files. Keeps: two prefixes are equal only if their contents are.
//! Tested: here; file/tests.rs.
use xxhash_rust::xxh3::Xxh3;

/// Bytes of a stored prefix: the length, then the digest, little-endian both.
const STORED_BYTES: usize = 24;

/// A prefix that grows.
#[derive(Clone, Default)]
pub struct Prefix {
    hasher: Xxh3,
    bytes: u64,
    last: Option<u8>,
}

/// A prefix as a position holds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredPrefix {
    pub bytes: u64,
    pub digest: u128,
}

impl Prefix {
    pub fn extend(&mut self, content: &[u8]) {
        self.hasher.update(content);
        self.bytes += content.len() as u64;
        self.last = content.last().copied().or(self.last);
    }

    /// Its last line has no end: it was taken because the file ended there.
    pub fn is_within_line(&self) -> bool {
        self.last.is_some_and(|byte| byte != b'\n')
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn stored(&self) -> StoredPrefix {
        StoredPrefix { bytes: self.bytes, digest: self.hasher.digest128() }
    }
}

impl StoredPrefix {
    pub fn encode(self) -> Vec<u8> {
        [&self.bytes.to_le_bytes()[..], &self.digest.to_le_bytes()].concat()
    }

    pub fn decode(stored: &[u8]) -> Option<Self> {
        let stored: [u8; STORED_BYTES] = stored.try_into().ok()?;
        let (bytes, digest) = stored.split_first_chunk::<8>()?;
        Some(Self { bytes: u64::from_le_bytes(*bytes), digest: u128::from_le_bytes(digest.try_into().ok()?) })
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
        assert_eq!(at_once.stored(), in_parts.stored());
        assert_eq!(StoredPrefix::decode(&in_parts.stored().encode()), Some(at_once.stored()));
        assert_eq!(StoredPrefix::decode(b"short"), None);
    }
}
