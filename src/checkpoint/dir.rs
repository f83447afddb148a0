//! The checkpoint directory: names, claims, manifests, segments, state files, on local disk or S3.
//!
//! Doesn't know: what a manifest means for a start. Keeps: a manifest and a claim are created only if absent, on every store, so one name never means two
//! things; what a put has answered for is durable. Tested: here on a local folder; the whole life of a checkpoint in `tests/`.
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::ipc::reader::StreamDecoder;
use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_schema::ArrowError;
use async_trait::async_trait;
use bytes::Bytes;
use floodmark_pipeline::guard::{Guard, holds};
use floodmark_pipeline::ids::{CheckpointId, Incarnation, WorkerId};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use xxhash_rust::xxh3::xxh3_128;

use super::adopt;
use super::manifest::{Manifest, Unreadable};
use super::recent::Recent;
use crate::config::model::Location;
use crate::host::{Host, elsewhere};
use crate::sink::{SegmentRef, Segments, SinkError};
use crate::store;

#[derive(Clone)]
pub struct CheckpointDir {
    store: Arc<dyn ObjectStore>,
    /// As the pipeline file spells it, for messages.
    location: String,
    recent: Recent,
    /// Where it lies, if that is a local disk.
    local: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum DirError {
    #[error("checkpoint directory {location}: {doing} {path}: {}", store::reason(error))]
    Store { location: String, doing: &'static str, path: String, error: object_store::Error },
    #[error(
        "checkpoint directory {location}: the store accepts a second create-if-absent of one object, so two processes could both publish a checkpoint: use a store with conditional puts"
    )]
    NotAtomic { location: String },
    #[error("checkpoint directory {location}: {path} exists with other content: another process publishes here")]
    Taken { location: String, path: String },
    #[error("{path}: {error}")]
    Unreadable { path: String, error: Unreadable },
}

/// A manifest found in the directory, newest first.
#[derive(Debug)]
pub struct Listed {
    pub name: String,
    pub incarnation: Incarnation,
    pub checkpoint: CheckpointId,
}

impl fmt::Debug for CheckpointDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.location)
    }
}

impl CheckpointDir {
    pub fn new(store: Arc<dyn ObjectStore>, location: String) -> Self {
        Self { store, location, recent: Recent::default(), local: None }
    }

    /// The same on a local disk, so that files may be taken over by links.
    pub fn at(store: Arc<dyn ObjectStore>, location: &Location) -> Self {
        let local = match location {
            Location::File(path) => Some(path.clone()),
            Location::S3 { .. } => None,
        };
        Self { local, ..Self::new(store, location.to_string()) }
    }

    /// Takes over a local file that never changes, under a name that was never used before. False: it has to be put there.
    pub async fn adopt(&self, host: &dyn Host, from: &std::path::Path, path: &str) -> Result<bool, DirError> {
        let Some(root) = self.local.clone() else { return Ok(false) };
        let (from, name) = (from.to_owned(), path.to_owned());
        let linked = elsewhere(host, move || adopt::link(&from, &root, &name)).await;
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| {
            let error = object_store::Error::Generic { store: "LocalFileSystem", source };
            self.failed("linking", path, error)
        };
        linked.ok_or_else(|| failed("panicked".into()))?.map_err(|e| failed(e.into()))
    }

    /// Refuses a store that lets two puts create one object.
    pub async fn probe(&self, token: u128) -> Result<(), DirError> {
        let path = format!("probe-{token:032x}");
        self.create(&path, PutPayload::from_static(b"1"), "probing").await?;
        let second = self.create(&path, PutPayload::from_static(b"2"), "probing").await;
        self.delete(&path).await?;
        match second {
            Err(DirError::Taken { .. }) => Ok(()),
            Ok(()) => Err(DirError::NotAtomic { location: self.location.clone() }),
            Err(other) => Err(other),
        }
    }

    /// Claims an incarnation number. False: another start has it.
    pub async fn claim(&self, incarnation: Incarnation) -> Result<bool, DirError> {
        let path = format!("incarnations/{:020}", incarnation.number);
        let token = format!("{:032x}", incarnation.token).into();
        match self.create(&path, token, "claiming").await {
            Ok(()) => Ok(true),
            Err(DirError::Taken { .. }) => Ok(false),
            Err(other) => Err(other),
        }
    }

    /// The largest number that any start has claimed.
    pub async fn newest_claim(&self) -> Result<u64, DirError> {
        let names = self.list("incarnations").await?;
        Ok(names.iter().filter_map(|name| name.rsplit('/').next()?.parse().ok()).max().unwrap_or(0))
    }

    /// Number of the newest claim, if it isn't `ours`: that start owns the directory now.
    pub async fn newer_start(&self, ours: Incarnation) -> Result<Option<u64>, DirError> {
        let newest = self.newest_claim().await?;
        Ok((newest > ours.number).then_some(newest))
    }

    pub async fn publish(&self, manifest: &Manifest) -> Result<String, DirError> {
        let name = manifest_name(manifest.incarnation, manifest.checkpoint);
        self.create(&name, manifest.encode().into(), "publishing").await?;
        Ok(name)
    }

    /// Names of all manifests, newest (incarnation, id) first.
    pub async fn manifests(&self) -> Result<Vec<Listed>, DirError> {
        let mut listed: Vec<_> = self.list("manifests").await?.into_iter().filter_map(parse_manifest_name).collect();
        listed.sort_by_key(|m| (m.incarnation.number, m.checkpoint, m.incarnation.token));
        listed.reverse();
        Ok(listed)
    }

    pub async fn read_manifest(&self, name: &str) -> Result<Manifest, DirError> {
        let bytes = self.get(name).await?;
        Manifest::decode(&bytes).map_err(|error| DirError::Unreadable { path: name.into(), error })
    }

    /// Puts an unreadable manifest out of the way, under a name that says so.
    pub async fn put_aside(&self, name: &str) -> Result<String, DirError> {
        let aside = name.replacen("manifests/", "unreadable/", 1);
        let renamed = self.store.rename(&Path::from(name), &Path::from(aside.as_str())).await;
        renamed.map_err(|error| self.failed("putting aside", name, error))?;
        Ok(aside)
    }

    pub async fn get(&self, path: &str) -> Result<Bytes, DirError> {
        let got = self.store.get(&Path::from(path)).await.map_err(|error| self.failed("reading", path, error))?;
        got.bytes().await.map_err(|error| self.failed("reading", path, error))
    }

    /// Creates an object under a name that was never used before. The same content found there is our own, from an answer that was lost.
    pub async fn create(&self, path: &str, content: PutPayload, doing: &'static str) -> Result<(), DirError> {
        let mode = if holds(Guard::CreateIfAbsent) { PutMode::Create } else { PutMode::Overwrite };
        let options = PutOptions { mode, ..PutOptions::default() };
        match self.store.put_opts(&Path::from(path), content.clone(), options).await {
            Ok(_) => Ok(()),
            Err(object_store::Error::AlreadyExists { .. }) => {
                if self.get(path).await? == Bytes::from(content) {
                    return Ok(());
                }
                Err(DirError::Taken { location: self.location.clone(), path: path.into() })
            }
            Err(error) => Err(self.failed(doing, path, error)),
        }
    }

    /// Creates the object of a worker's rows, which the sinks will soon ask for.
    pub async fn create_segments(&self, path: &str, content: PutPayload) -> Result<(), DirError> {
        self.create(path, content.clone(), "writing segment").await?;
        self.recent.keep(path, content.into_iter());
        Ok(())
    }

    pub async fn exists(&self, path: &str) -> Result<bool, DirError> {
        match self.store.head(&Path::from(path)).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(self.failed("looking for", path, error)),
        }
    }

    /// Bytes of an object; `None`: it isn't there.
    pub async fn length(&self, path: &str) -> Result<Option<u64>, DirError> {
        match self.store.head(&Path::from(path)).await {
            Ok(found) => Ok(Some(found.size)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed("looking for", path, error)),
        }
    }

    /// The same content under a second name. Objects never change, so a store may share it.
    pub async fn copy(&self, from: &str, to: &str) -> Result<(), DirError> {
        let copied = self.store.copy(&Path::from(from), &Path::from(to)).await;
        copied.map_err(|error| self.failed("copying", from, error))
    }

    pub async fn delete(&self, path: &str) -> Result<(), DirError> {
        match self.store.delete(&Path::from(path)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed("deleting", path, error)),
        }
    }

    /// Paths below a folder.
    pub async fn list(&self, folder: &str) -> Result<Vec<String>, DirError> {
        let objects: Vec<_> = self
            .store
            .list(Some(&Path::from(folder)))
            .try_collect()
            .await
            .map_err(|error| self.failed("listing", folder, error))?;
        Ok(objects.into_iter().map(|o| o.location.to_string()).collect())
    }

    pub fn location(&self) -> &str {
        &self.location
    }

    fn failed(&self, doing: &'static str, path: &str, error: object_store::Error) -> DirError {
        DirError::Store { location: self.location.clone(), doing, path: path.into(), error }
    }
}

#[async_trait]
impl Segments for CheckpointDir {
    async fn read(&self, segment: &SegmentRef) -> Result<Vec<RecordBatch>, SinkError> {
        let damaged = |why: &dyn fmt::Display| SinkError::Segment(format!("{}/{}: {why}", self.location, segment.path));
        let stream = match self.recent.take(&segment.path, segment.offset, segment.length) {
            Some(chunks) => chunks,
            None => vec![self.verified(segment).await?],
        };
        let batches = decoded(stream).map_err(|e| damaged(&e))?;
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        if rows as u64 != segment.rows {
            return Err(damaged(&format_args!("{rows} rows wait there for a sink, and it had {}", segment.rows)));
        }
        Ok(batches)
    }
}

impl CheckpointDir {
    /// What keeps the rows of a segment from being read; asks for them.
    pub async fn segment_problem(&self, segment: &SegmentRef) -> Result<Option<String>, SinkError> {
        match self.verified(segment).await {
            Ok(_) => Ok(None),
            Err(SinkError::Segment(why)) => Ok(Some(why)),
            Err(error) => Err(error),
        }
    }

    /// Its bytes. What decodes batches takes it for granted that nobody has changed them.
    async fn verified(&self, segment: &SegmentRef) -> Result<Bytes, SinkError> {
        let bytes = self.range(segment).await?;
        if segment.digest.is_some_and(|digest| digest != xxh3_128(&bytes)) {
            let place = format!("{}/{}", self.location, segment.path);
            return Err(SinkError::Segment(format!("{place}: the rows that wait there for a sink were changed")));
        }
        Ok(bytes)
    }

    async fn range(&self, segment: &SegmentRef) -> Result<Bytes, SinkError> {
        let range = segment.offset..segment.offset + segment.length;
        let bytes = self.store.get_range(&Path::from(segment.path.as_str()), range).await;
        bytes.map_err(|error| match error {
            object_store::Error::NotFound { .. } => {
                SinkError::Segment(format!("{}/{}: rows that wait for a sink are missing", self.location, segment.path))
            }
            error => SinkError::Away { what: self.location.clone(), why: error.to_string() },
        })
    }
}

/// The batches of an IPC stream. A batch that lies in one chunk shares its memory.
fn decoded(stream: Vec<Bytes>) -> Result<Vec<RecordBatch>, ArrowError> {
    let mut decoder = StreamDecoder::new();
    let mut batches = vec![];
    for chunk in stream {
        let mut rest = Buffer::from(chunk);
        while let Some(batch) = decoder.decode(&mut rest)? {
            batches.push(batch);
        }
    }
    decoder.finish()?;
    Ok(batches)
}

/// `<number>-<token>`: sorts by number.
pub fn incarnation_name(incarnation: Incarnation) -> String {
    format!("{:020}-{:032x}", incarnation.number, incarnation.token)
}

pub fn manifest_name(incarnation: Incarnation, checkpoint: CheckpointId) -> String {
    format!("manifests/{}-{:020}", incarnation_name(incarnation), checkpoint.0)
}

pub fn segment_name(incarnation: Incarnation, checkpoint: CheckpointId, worker: WorkerId) -> String {
    format!("segments/{}/{:020}-{}", incarnation_name(incarnation), checkpoint.0, worker.0)
}

pub fn state_name(incarnation: Incarnation, checkpoint: CheckpointId, worker: WorkerId, file: &str) -> String {
    format!("state/{}/{:020}-{}-{file}", incarnation_name(incarnation), checkpoint.0, worker.0)
}

fn parse_manifest_name(name: String) -> Option<Listed> {
    let mut parts = name.rsplit('/').next()?.split('-');
    let number = parts.next()?.parse().ok()?;
    let token = u128::from_str_radix(parts.next()?, 16).ok()?;
    let checkpoint = CheckpointId(parts.next()?.parse().ok()?);
    parts.next().is_none().then_some(())?;
    Some(Listed { name, incarnation: Incarnation { number, token }, checkpoint })
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;

    fn dir() -> CheckpointDir {
        CheckpointDir::new(Arc::new(InMemory::new()), "memory:".into())
    }

    #[tokio::test]
    async fn a_number_is_claimed_once() {
        let dir = dir();
        let (a, b) = (Incarnation { number: 7, token: 1 }, Incarnation { number: 7, token: 2 });
        assert!(dir.claim(a).await.unwrap());
        assert!(dir.claim(a).await.unwrap(), "an answer that was lost");
        assert!(!dir.claim(b).await.unwrap());
        assert_eq!(dir.newest_claim().await.unwrap(), 7);
    }

    #[tokio::test]
    async fn names_sort_by_number_and_id_and_strangers_are_left_alone() {
        let dir = dir();
        for (number, id) in [(2, 9), (10, 3), (2, 10)] {
            let name = manifest_name(Incarnation { number, token: 5 }, CheckpointId(id));
            dir.create(&name, PutPayload::from_static(b"x"), "test").await.unwrap();
        }
        dir.create("manifests/README", PutPayload::from_static(b"x"), "test").await.unwrap();
        let found = dir.manifests().await.unwrap();
        let ids: Vec<_> = found.iter().map(|m| (m.incarnation.number, m.checkpoint.0)).collect();
        assert_eq!(ids, [(10, 3), (2, 10), (2, 9)]);
        let error = dir.read_manifest(&found[0].name).await.unwrap_err();
        assert!(matches!(error, DirError::Unreadable { error: Unreadable::Torn, .. }));
    }

    #[tokio::test]
    async fn a_store_with_conditional_puts_passes_the_probe() {
        let folder = tempfile::tempdir().unwrap();
        let location = crate::config::model::Location::File(folder.path().to_owned());
        let store = crate::store::open(&location, &Default::default()).unwrap();
        CheckpointDir::new(store, location.to_string()).probe(3).await.unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    /// A segment as a worker seals it.
    fn segment() -> Vec<u8> {
        let names: arrow_array::ArrayRef = Arc::new(arrow_array::StringArray::from(vec![Some("a"), None, Some("ccc")]));
        let numbers: arrow_array::ArrayRef = Arc::new(arrow_array::Int64Array::from(vec![1, 2, 3]));
        let batch = RecordBatch::try_from_iter([("name", names), ("n", numbers)]).unwrap();
        let mut writer = arrow::ipc::writer::StreamWriter::try_new(vec![], &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        writer.into_inner().unwrap()
    }

    proptest::proptest! {
        #[test]
        fn a_changed_segment_is_an_error(
            at in proptest::prelude::any::<proptest::sample::Index>(),
            change in 1u8..,
            is_cut in proptest::prelude::any::<bool>(),
        ) {
            let whole = segment();
            let mut bytes = whole.clone();
            let at = at.index(bytes.len());
            bytes[at] ^= change;
            bytes.truncate(if is_cut { at } else { bytes.len() });
            let (length, digest) = (whole.len() as u64, Some(xxh3_128(&whole)));
            let read = futures::executor::block_on(async {
                let dir = dir();
                dir.create("segments/x", bytes.into(), "test").await.unwrap();
                dir.read(&SegmentRef { path: "segments/x".into(), offset: 0, length, rows: 3, digest }).await
            });
            proptest::prop_assert!(read.is_err());
        }
    }
}
