//! The file `STATE` of a snapshot, format v1: what a store knows beside its families. All little-endian, one checksum at the end.
//!
//! It names the files beside it and the key groups that the store covers, and holds the sums of every bucket, the ids and values that aren't in a sorted run yet,
//! and the newest expired bucket of each node; so a restore reads no family. Lengths come before contents.
//! Keeps: every version ever written is read (tests/fixtures); an unknown one is refused, not guessed.
use std::ops::Range;
use std::path::Path;

use floodmark_pipeline::hash::KeyHash;
use floodmark_pipeline::state::Bucket;
use xxhash_rust::xxh3::xxh3_64;

use crate::backend::{BackendKind, IdEntry, ValueChange};
use crate::digest::StateDigest;
use crate::error::StateError;
use crate::files::{self, Files};

pub(crate) const STATE_FILE: &str = "STATE";
pub(crate) const FORMAT_VERSION: u32 = 1;
const MAGIC: &[u8; 8] = b"FMSTATE\n";

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    pub backend: BackendKind,
    pub key_groups: Range<u16>,
    pub max_parallelism: u16,
    /// Names and lengths of all other files of the snapshot.
    pub files: Vec<(String, u64)>,
    pub ids: Vec<IdsRecord>,
    pub values: Vec<ValuesRecord>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct IdsRecord {
    pub node: String,
    pub expired: Option<Bucket>,
    pub buckets: Vec<BucketRecord>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BucketRecord {
    pub bucket: Bucket,
    pub digest: StateDigest,
    /// Sorted by id.
    pub fresh: Vec<IdEntry>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ValuesRecord {
    pub node: String,
    pub digest: StateDigest,
    /// Sorted by key.
    pub pending: Vec<ValueChange>,
}

impl Record {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend(FORMAT_VERSION.to_le_bytes());
        out.push(match self.backend {
            BackendKind::Memory => 0,
            BackendKind::Rocksdb => 1,
        });
        for number in [self.key_groups.start, self.key_groups.end, self.max_parallelism] {
            out.extend(number.to_le_bytes());
        }
        put_len(&mut out, self.files.len());
        for (name, length) in &self.files {
            put_bytes(&mut out, name.as_bytes());
            out.extend(length.to_le_bytes());
        }
        put_len(&mut out, self.ids.len());
        self.ids.iter().for_each(|ids| ids.encode(&mut out));
        put_len(&mut out, self.values.len());
        self.values.iter().for_each(|values| values.encode(&mut out));
        out.extend(xxh3_64(&out).to_le_bytes());
        out
    }

    pub fn read(files: &dyn Files, path: &Path) -> Result<Self, StateError> {
        let bytes = files::read(files, path)?;
        Self::decode(&bytes, path)
    }

    fn decode(bytes: &[u8], path: &Path) -> Result<Self, StateError> {
        let damaged = |reason: &str| StateError::damaged(path, reason);
        let body = bytes.strip_prefix(MAGIC).ok_or_else(|| damaged("it doesn't begin as a state file"))?;
        let mut from = Reader(body);
        let version = from.u32().ok_or_else(|| damaged("it ends early"))?;
        if version != FORMAT_VERSION {
            return Err(StateError::Format { path: path.to_owned(), found: version, known: FORMAT_VERSION });
        }
        let Some((content, sum)) = bytes.split_last_chunk::<8>() else { return Err(damaged("it ends early")) };
        if xxh3_64(content) != u64::from_le_bytes(*sum) {
            return Err(damaged("its checksum is wrong"));
        }
        Self::decode_v1(&mut from).ok_or_else(|| damaged("it ends early"))
    }

    fn decode_v1(from: &mut Reader<'_>) -> Option<Self> {
        let backend = match from.u8()? {
            0 => BackendKind::Memory,
            _ => BackendKind::Rocksdb,
        };
        let (start, end, max_parallelism) = (from.u16()?, from.u16()?, from.u16()?);
        let files = from.list(|from| Some((from.text()?, from.u64()?)))?;
        let ids = from.list(IdsRecord::decode)?;
        let values = from.list(ValuesRecord::decode)?;
        Some(Self { backend, key_groups: start..end, max_parallelism, files, ids, values })
    }
}

impl IdsRecord {
    fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.node.as_bytes());
        out.push(u8::from(self.expired.is_some()));
        out.extend(self.expired.map_or(0, |bucket| bucket.0).to_le_bytes());
        put_len(out, self.buckets.len());
        for bucket in &self.buckets {
            out.extend(bucket.bucket.0.to_le_bytes());
            put_digest(out, bucket.digest);
            put_len(out, bucket.fresh.len());
            bucket.fresh.iter().for_each(|entry| put_id(out, *entry));
        }
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        let node = from.text()?;
        let (has_expired, expired) = (from.u8()? == 1, Bucket(from.i64()?));
        let buckets = from.list(|from| {
            Some(BucketRecord { bucket: Bucket(from.i64()?), digest: from.digest()?, fresh: from.list(get_id)? })
        })?;
        Some(Self { node, expired: has_expired.then_some(expired), buckets })
    }
}

impl ValuesRecord {
    fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.node.as_bytes());
        put_digest(out, self.digest);
        put_changes(out, &self.pending);
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(Self { node: from.text()?, digest: from.digest()?, pending: get_changes(from)? })
    }
}

pub(crate) fn put_len(out: &mut Vec<u8>, len: usize) {
    out.extend((len as u64).to_le_bytes());
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_len(out, bytes.len());
    out.extend(bytes);
}

pub(crate) fn put_id(out: &mut Vec<u8>, entry: IdEntry) {
    out.extend(entry.id.0.to_le_bytes());
    out.extend(entry.partition.to_le_bytes());
    out.extend(entry.offset.to_le_bytes());
}

pub(crate) fn get_id(from: &mut Reader<'_>) -> Option<IdEntry> {
    Some(IdEntry { id: KeyHash(from.u128()?), partition: from.u32()?, offset: from.i64()? })
}

pub(crate) fn put_changes(out: &mut Vec<u8>, changes: &[ValueChange]) {
    put_len(out, changes.len());
    for (key, value) in changes {
        put_bytes(out, key);
        out.push(u8::from(value.is_some()));
        put_bytes(out, value.as_deref().unwrap_or_default());
    }
}

pub(crate) fn get_changes(from: &mut Reader<'_>) -> Option<Vec<ValueChange>> {
    from.list(|from| {
        let key = from.bytes()?.to_vec();
        let is_put = from.u8()? == 1;
        let value = from.bytes()?.to_vec();
        Some((key, is_put.then_some(value)))
    })
}

fn put_digest(out: &mut Vec<u8>, digest: StateDigest) {
    out.extend(digest.entries.to_le_bytes());
    out.extend(digest.sum.to_le_bytes());
}

/// Takes values off the front; `None` where the bytes end early.
pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    fn fixed<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.fixed().map(|[byte]| byte)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.fixed().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.fixed().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.fixed().map(u64::from_le_bytes)
    }

    pub fn i64(&mut self) -> Option<i64> {
        self.fixed().map(i64::from_le_bytes)
    }

    pub fn u128(&mut self) -> Option<u128> {
        self.fixed().map(u128::from_le_bytes)
    }

    pub fn digest(&mut self) -> Option<StateDigest> {
        Some(StateDigest { entries: self.u64()?, sum: self.u128()? })
    }

    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.u64()?).ok()?;
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    pub fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }

    pub fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        (0..self.u64()?).map(|_| item(self)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let fresh = vec![IdEntry { id: KeyHash(7), partition: 2, offset: 9 }];
        let digest = StateDigest { entries: 1, sum: u128::MAX };
        Record {
            backend: BackendKind::Rocksdb,
            key_groups: 3..64,
            max_parallelism: 128,
            files: vec![("000012.sst".into(), 400)],
            ids: vec![IdsRecord {
                node: "clean".into(),
                expired: Some(Bucket(-4)),
                buckets: vec![BucketRecord { bucket: Bucket(-3), digest, fresh }],
            }],
            values: vec![ValuesRecord {
                node: "per_type".into(),
                digest,
                pending: vec![(vec![1], Some(vec![])), (vec![2], None)],
            }],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(Record::decode(&record().encode(), Path::new("STATE")).unwrap(), record());
    }

    #[test]
    fn any_flipped_or_missing_byte_is_noticed() {
        let whole = record().encode();
        for at in 0..whole.len() {
            let mut torn = whole.clone();
            torn[at] ^= 0x40;
            assert!(Record::decode(&torn, Path::new("STATE")).is_err(), "byte {at}");
            assert!(Record::decode(&whole[..at], Path::new("STATE")).is_err(), "length {at}");
        }
    }

    #[test]
    fn a_newer_format_is_refused_by_its_number() {
        let mut bytes = record().encode();
        bytes[8] = 2;
        let refused = Record::decode(&bytes, Path::new("STATE")).unwrap_err();
        assert!(matches!(refused, StateError::Format { found: 2, known: 1, .. }), "{refused}");
    }

    proptest::proptest! {
        #[test]
        fn bytes_with_the_right_checksum_are_a_record_or_an_error(
            at in proptest::prelude::any::<proptest::sample::Index>(),
            changes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..12),
            is_cut in proptest::prelude::any::<bool>(),
        ) {
            let mut content = record().encode();
            content.truncate(content.len() - 8);
            let at = at.index(content.len());
            content.iter_mut().skip(at).zip(&changes).for_each(|(byte, change)| *byte = *change);
            content.truncate(if is_cut { at } else { content.len() });
            let sum = xxh3_64(&content);
            content.extend(sum.to_le_bytes());
            let _ = Record::decode(&content, Path::new("STATE"));
        }
    }
}
