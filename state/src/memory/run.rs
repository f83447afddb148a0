//! One sorted run in a file: magic, format version, family, entries, checksum. Written once, read whole.
use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use floodmark_pipeline::state::Bucket;
use xxhash_rust::xxh3::xxh3_64;

use crate::backend::{Family, IdEntry, ValueChange};
use crate::error::StateError;
use crate::files::{self, Files};
use crate::record::{Reader, get_changes, get_id, put_bytes, put_changes, put_id, put_len};

const MAGIC: &[u8; 8] = b"FMRUN\n\0\0";
const FORMAT_VERSION: u32 = 1;

pub(super) struct Run {
    pub path: PathBuf,
    pub entries: usize,
}

pub(super) enum Content {
    Ids(Vec<IdEntry>),
    Values(Vec<ValueChange>),
}

impl Content {
    pub fn len(&self) -> usize {
        match self {
            Self::Ids(ids) => ids.len(),
            Self::Values(changes) => changes.len(),
        }
    }

    /// Both in one; where a key is in both, `newer` wins.
    pub fn with(self, newer: Self) -> Self {
        match (self, newer) {
            (Self::Ids(older), Self::Ids(newer)) => Self::Ids(merge(older, newer, |a, b| a.id.cmp(&b.id))),
            (Self::Values(older), Self::Values(newer)) => Self::Values(merge(older, newer, |a, b| a.0.cmp(&b.0))),
            (_, newer) => newer,
        }
    }

    /// A delete in the oldest run hides nothing.
    pub fn drop_deletes(&mut self) {
        if let Self::Values(changes) = self {
            changes.retain(|(_, value)| value.is_some());
        }
    }
}

fn merge<T>(older: Vec<T>, mut newer: Vec<T>, order: impl Fn(&T, &T) -> Ordering) -> Vec<T> {
    newer.extend(older);
    newer.sort_by(&order);
    newer.dedup_by(|later, first| order(later, first).is_eq());
    newer
}

impl Run {
    pub fn write(files: &dyn Files, path: PathBuf, family: &Family, content: &Content) -> Result<Self, StateError> {
        let mut out = MAGIC.to_vec();
        out.extend(FORMAT_VERSION.to_le_bytes());
        let bucket = match family {
            Family::Ids { bucket, .. } => bucket.0,
            Family::Values { .. } => 0,
        };
        out.push(u8::from(matches!(family, Family::Ids { .. })));
        put_bytes(&mut out, family.node().as_bytes());
        out.extend(bucket.to_le_bytes());
        match content {
            Content::Ids(ids) => {
                put_len(&mut out, ids.len());
                ids.iter().for_each(|entry| put_id(&mut out, *entry));
            }
            Content::Values(changes) => put_changes(&mut out, changes),
        }
        out.extend(xxh3_64(&out).to_le_bytes());
        files::write(files, &path, &out)?;
        Ok(Self { path, entries: content.len() })
    }

    pub fn open(files: &dyn Files, path: PathBuf) -> Result<(Family, Self), StateError> {
        let (family, content) = load(files, &path)?;
        Ok((family, Self { path, entries: content.len() }))
    }

    pub fn read(&self, files: &dyn Files) -> Result<Content, StateError> {
        load(files, &self.path).map(|(_, content)| content)
    }
}

fn load(files: &dyn Files, path: &Path) -> Result<(Family, Content), StateError> {
    let bytes = files::read(files, path)?;
    let body = bytes.strip_prefix(MAGIC).ok_or_else(|| StateError::damaged(path, "it doesn't begin as a run"))?;
    let mut from = Reader(body);
    let version = from.u32().unwrap_or(0);
    if version != FORMAT_VERSION {
        return Err(StateError::Format { path: path.to_owned(), found: version, known: FORMAT_VERSION });
    }
    match bytes.split_last_chunk::<8>() {
        Some((content, sum)) if xxh3_64(content) == u64::from_le_bytes(*sum) => {}
        _ => return Err(StateError::damaged(path, "its checksum is wrong")),
    }
    decode(&mut from).ok_or_else(|| StateError::damaged(path, "it ends early"))
}

fn decode(from: &mut Reader<'_>) -> Option<(Family, Content)> {
    let is_ids = from.u8()? == 1;
    let node: Arc<str> = from.text()?.into();
    let bucket = Bucket(from.i64()?);
    Some(if is_ids {
        (Family::Ids { node, bucket }, Content::Ids(from.list(get_id)?))
    } else {
        (Family::Values { node }, Content::Values(get_changes(from)?))
    })
}
