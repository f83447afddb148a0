//! The simulated object store: conditional puts, answers that get lost, a disk that runs full, and puts that a power cut undoes.
//!
//! Doesn't know: what objects mean; a witness is told of each change. Keeps: a put that was answered is durable, unless durability is switched off.
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, stream};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};

use super::executor::ProcessId;
use super::gate::{Class, Fate, Gate};

/// Hears of what has changed.
pub trait Witness: Send + Sync + fmt::Debug {
    fn put(&self, path: &str, content: &Bytes);
    fn deleted(&self, process: ProcessId, path: &str);
}

/// What outlives processes. A clone is the same disk.
#[derive(Clone, Debug)]
pub struct Disk {
    pub name: String,
    objects: Arc<InMemory>,
    /// Objects that a power cut undoes; `None`: every put is durable.
    unsynced: Option<Arc<Mutex<BTreeSet<Path>>>>,
    witness: Option<Arc<dyn Witness>>,
}

impl Disk {
    pub fn new(name: &str, is_durable: bool, witness: Option<Arc<dyn Witness>>) -> Self {
        let unsynced = (!is_durable).then(Arc::default);
        Self { name: name.into(), objects: Arc::default(), unsynced, witness }
    }

    /// Every second of the objects that were not made durable is torn, the others are gone.
    pub fn cut_power(&self) {
        let Some(unsynced) = &self.unsynced else { return };
        let lost = std::mem::take(&mut *unsynced.lock().unwrap_or_else(PoisonError::into_inner));
        for (number, path) in lost.into_iter().enumerate() {
            let Some(content) = self.content(path.as_ref()) else { continue };
            let done = match number % 2 {
                0 => now(self.objects.put(&path, content.slice(..content.len() / 2).into())).map(drop),
                _ => now(self.objects.delete(&path)),
            };
            debug_assert!(done.is_ok(), "{done:?}");
        }
    }

    /// A copy of all that is on it.
    pub fn copy(&self) -> InMemory {
        self.objects.fork()
    }

    /// Everything on it is as it was in the copy.
    pub fn bring_back(&self, copy: &InMemory) {
        let then = Self { objects: Arc::new(copy.fork()), ..self.clone() };
        for path in self.paths() {
            let gone = now(self.objects.delete(&Path::from(path)));
            debug_assert!(gone.is_ok(), "{gone:?}");
        }
        for path in then.paths() {
            let content = then.content(&path).unwrap_or_default();
            let put = now(self.objects.put(&Path::from(path), content.into()));
            debug_assert!(put.is_ok(), "{put:?}");
        }
    }

    /// What is on it, for who looks on from outside.
    pub fn objects(&self) -> Arc<InMemory> {
        self.objects.clone()
    }

    pub fn content(&self, path: &str) -> Option<Bytes> {
        now(async { self.objects.get(&Path::from(path)).await.ok()?.bytes().await.ok() })
    }

    /// Paths of all objects, sorted.
    pub fn paths(&self) -> Vec<String> {
        let objects = now(self.objects.list(None).collect::<Vec<_>>());
        let mut paths: Vec<_> = objects.into_iter().flatten().map(|object| object.location.to_string()).collect();
        paths.sort();
        paths
    }
}

/// What a store in memory answers at once.
fn now<T>(answer: impl Future<Output = T>) -> T {
    futures::executor::block_on(answer)
}

/// The disk as one process sees it.
#[derive(Clone)]
pub struct SimulatedStore {
    pub disk: Disk,
    pub gate: Gate,
    pub process: ProcessId,
}

impl fmt::Debug for SimulatedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.disk.name)
    }
}

impl fmt::Display for SimulatedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.disk.name)
    }
}

fn class_of(path: &Path) -> Class {
    match path.parts().next().as_ref().map(|folder| folder.as_ref()) {
        Some("incarnations") => Class::Claim,
        Some("segments") => Class::Segment,
        Some("state") => Class::StateFile,
        Some("manifests") => Class::Manifest,
        _ => Class::Object,
    }
}

impl SimulatedStore {
    /// Does it, unless it is refused; an answer may be lost.
    async fn ask<T>(&self, class: Class, what: String, done: impl Future<Output = Result<T>> + Send) -> Result<T> {
        let failed = |why: &str| Error::Generic { store: "simulated", source: why.into() };
        match self.gate.request(self.process, class, what).await {
            Fate::Refused(why) => Err(failed(why)),
            Fate::Go => done.await,
            Fate::AnswerLost | Fate::Later { .. } => done.await.and(Err(failed("the answer was lost"))),
        }
    }

    fn has_put(&self, path: &Path, content: &Bytes) {
        if let Some(unsynced) = &self.disk.unsynced {
            unsynced.lock().unwrap_or_else(PoisonError::into_inner).insert(path.clone());
        }
        self.disk.witness.iter().for_each(|witness| witness.put(path.as_ref(), content));
    }
}

#[async_trait]
impl ObjectStore for SimulatedStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let content = Bytes::from(payload.clone());
        let put = async {
            let done = self.disk.objects.put_opts(location, payload, options).await?;
            self.has_put(location, &content);
            Ok(done)
        };
        self.ask(class_of(location), format!("{self}: put {location}"), put).await
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(Error::NotImplemented { operation: "put_multipart".into(), implementer: "simulated".into() })
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let got = self.disk.objects.get_opts(location, options);
        self.ask(Class::Read, format!("{self}: get {location}"), got).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let store = self.clone();
        let deleted = locations.then(move |location| {
            let store = store.clone();
            async move {
                let location = location?;
                let delete = async {
                    store.disk.objects.delete(&location).await?;
                    store.disk.witness.iter().for_each(|w| w.deleted(store.process, location.as_ref()));
                    Ok(location.clone())
                };
                store.ask(Class::Delete, format!("{store}: delete {location}"), delete).await
            }
            .boxed()
        });
        deleted.boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (store, prefix) = (self.clone(), prefix.cloned());
        let listed = async move {
            let shown = prefix.as_ref().map_or(String::new(), Path::to_string);
            let list = async { Ok(store.disk.objects.list(prefix.as_ref()).collect::<Vec<_>>().await) };
            match store.ask(Class::List, format!("{store}: list {shown}"), list).await {
                Ok(mut found) => {
                    found.sort_by_key(|object| object.as_ref().ok().map(|o| o.location.clone()));
                    found
                }
                Err(error) => vec![Err(error)],
            }
        };
        stream::once(listed).flat_map(stream::iter).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.ask(Class::List, format!("{self}: list"), self.disk.objects.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let copied = self.disk.objects.copy_opts(from, to, options);
        self.ask(Class::Object, format!("{self}: copy {from} to {to}"), copied).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let renamed = self.disk.objects.rename_opts(from, to, options);
        self.ask(Class::Object, format!("{self}: rename {from} to {to}"), renamed).await
    }
}
