//! iceberg's `Storage` over object_store, so that tables on local disk and on S3 are read and written the same way.
//!
//! Doesn't know: tables. Keeps: a file whose write was answered is durable, metadata.json and manifests too (iceberg's own local
//! storage doesn't fsync them); locations are those that other engines read, `file:///abs/path` and `s3://bucket/key`.
//! Tested: here.
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path as FilePath;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use iceberg::io::{
    FileIO, FileIOBuilder, FileMetadata, FileRead, FileWrite, InputFile, OutputFile, Storage, StorageConfig,
    StorageFactory,
};
use iceberg::{Error, ErrorKind, Result};
use object_store::buffered::BufWriter;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;

use crate::config::model::{Location, S3Settings};
use crate::store;

/// All stores that locations of a table may name. Serialized (iceberg asks for it) it is empty: what comes back uses the environment's S3 settings.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Stores {
    #[serde(skip)]
    inner: Arc<Inner>,
}

struct Inner {
    s3: S3Settings,
    local: Arc<dyn ObjectStore>,
    buckets: Mutex<HashMap<String, Arc<dyn ObjectStore>>>,
}

impl Default for Inner {
    fn default() -> Self {
        let local = Arc::new(LocalFileSystem::new().with_fsync(true));
        Self { s3: S3Settings::default(), local, buckets: Mutex::default() }
    }
}

impl std::fmt::Debug for Stores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stores")
    }
}

impl Stores {
    pub fn new(s3: S3Settings) -> Self {
        Self { inner: Arc::new(Inner { s3, ..Inner::default() }) }
    }

    /// One bucket, which is this store.
    pub fn over(bucket: &str, store: Arc<dyn ObjectStore>) -> Self {
        let buckets = Mutex::new(HashMap::from([(bucket.to_owned(), store)]));
        Self { inner: Arc::new(Inner { buckets, ..Inner::default() }) }
    }

    /// The way in for everything of iceberg that reads or writes files.
    pub fn file_io(&self) -> FileIO {
        FileIOBuilder::new(Arc::new(self.clone())).build()
    }

    fn resolve(&self, location: &str) -> Result<(Arc<dyn ObjectStore>, Path)> {
        if let Some(path) = local_path(location) {
            let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
            return Ok((self.inner.local.clone(), parse(location, &parts.join("/"))?));
        }
        let s3 = ["s3://", "s3a://", "s3n://"].iter().find_map(|scheme| location.strip_prefix(scheme));
        let Some((bucket, key)) = s3.and_then(|rest| rest.split_once('/')) else {
            let why = format!("{location}: only file: and s3: locations can be read and written");
            return Err(Error::new(ErrorKind::FeatureUnsupported, why));
        };
        Ok((self.bucket(bucket)?, parse(location, key)?))
    }

    fn bucket(&self, bucket: &str) -> Result<Arc<dyn ObjectStore>> {
        let mut buckets = self.inner.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = buckets.get(bucket) {
            return Ok(store.clone());
        }
        let store: Arc<dyn ObjectStore> = store::s3_bucket(bucket, &self.inner.s3).map_err(|e| failed(bucket, e))?;
        buckets.insert(bucket.to_owned(), store.clone());
        Ok(store)
    }
}

fn local_path(location: &str) -> Option<&str> {
    let path = location.strip_prefix("file://").or_else(|| location.strip_prefix("file:")).unwrap_or(location);
    path.starts_with('/').then_some(path)
}

fn parse(location: &str, path: &str) -> Result<Path> {
    Path::parse(path).map_err(|e| Error::new(ErrorKind::DataInvalid, format!("{location}: {e}")))
}

fn failed(location: &str, error: object_store::Error) -> Error {
    let kind = match error {
        object_store::Error::NotFound { .. } => ErrorKind::DataInvalid,
        _ => ErrorKind::Unexpected,
    };
    Error::new(kind, location).with_source(error)
}

/// Why files of a table can't be read or written. A full or closed disk is told without the file, so that it reads the same at every try.
pub fn why(error: &Error) -> String {
    store::disk_trouble(error).map_or_else(|| error.to_string(), |trouble| format!("the table's files: {trouble}"))
}

/// A folder of the pipeline file as tables spell it.
pub fn location_of(folder: &Location) -> std::io::Result<String> {
    Ok(match folder {
        Location::File(path) => format!("file://{}", store::absolute(path)?.display()),
        Location::S3 { bucket, prefix } => format!("s3://{}", FilePath::new(bucket).join(prefix).display()),
    }
    .trim_end_matches('/')
    .to_owned())
}

#[async_trait]
#[typetag::serde(name = "floodmark")]
impl Storage for Stores {
    async fn exists(&self, location: &str) -> Result<bool> {
        let (store, path) = self.resolve(location)?;
        match store.head(&path).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(e) => Err(failed(location, e)),
        }
    }

    async fn metadata(&self, location: &str) -> Result<FileMetadata> {
        let (store, path) = self.resolve(location)?;
        let size = store.head(&path).await.map_err(|e| failed(location, e))?.size;
        Ok(FileMetadata { size })
    }

    async fn read(&self, location: &str) -> Result<Bytes> {
        let (store, path) = self.resolve(location)?;
        let found = store.get(&path).await.map_err(|e| failed(location, e))?;
        found.bytes().await.map_err(|e| failed(location, e))
    }

    async fn reader(&self, location: &str) -> Result<Box<dyn FileRead>> {
        let (store, path) = self.resolve(location)?;
        Ok(Box::new(Reader { store, path }))
    }

    async fn write(&self, location: &str, bytes: Bytes) -> Result<()> {
        let (store, path) = self.resolve(location)?;
        store.put(&path, bytes.into()).await.map_err(|e| failed(location, e))?;
        Ok(())
    }

    async fn writer(&self, location: &str) -> Result<Box<dyn FileWrite>> {
        let (store, path) = self.resolve(location)?;
        Ok(Box::new(Writer { buffer: Some(BufWriter::new(store, path)), location: location.to_owned() }))
    }

    async fn delete(&self, location: &str) -> Result<()> {
        let (store, path) = self.resolve(location)?;
        match store.delete(&path).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(e) => Err(failed(location, e)),
        }
    }

    async fn delete_prefix(&self, location: &str) -> Result<()> {
        let (store, path) = self.resolve(location)?;
        let mut found = store.list(Some(&path));
        while let Some(object) = found.next().await {
            let object = object.map_err(|e| failed(location, e))?;
            store.delete(&object.location).await.map_err(|e| failed(location, e))?;
        }
        Ok(())
    }

    async fn delete_stream(&self, mut locations: BoxStream<'static, String>) -> Result<()> {
        while let Some(location) = locations.next().await {
            self.delete(&location).await?;
        }
        Ok(())
    }

    fn new_input(&self, location: &str) -> Result<InputFile> {
        Ok(InputFile::new(Arc::new(self.clone()), location.to_owned()))
    }

    fn new_output(&self, location: &str) -> Result<OutputFile> {
        Ok(OutputFile::new(Arc::new(self.clone()), location.to_owned()))
    }
}

#[typetag::serde(name = "floodmark")]
impl StorageFactory for Stores {
    fn build(&self, _: &StorageConfig) -> Result<Arc<dyn Storage>> {
        Ok(Arc::new(self.clone()))
    }
}

struct Reader {
    store: Arc<dyn ObjectStore>,
    path: Path,
}

#[async_trait]
impl FileRead for Reader {
    async fn read(&self, range: Range<u64>) -> Result<Bytes> {
        self.store.get_range(&self.path, range).await.map_err(|e| failed(self.path.as_ref(), e))
    }
}

/// Nothing is visible under the location before `close` has answered.
struct Writer {
    buffer: Option<BufWriter>,
    location: String,
}

impl Writer {
    fn closed(&self) -> Error {
        Error::new(ErrorKind::Unexpected, format!("{}: written to after it was closed", self.location))
    }
}

#[async_trait]
impl FileWrite for Writer {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        match &mut self.buffer {
            Some(buffer) => buffer.put(bytes).await.map_err(|e| failed(&self.location, e)),
            None => Err(self.closed()),
        }
    }

    async fn close(&mut self) -> Result<()> {
        let mut buffer = self.buffer.take().ok_or_else(|| self.closed())?;
        let shut = buffer.shutdown().await;
        shut.map_err(|e| Error::new(ErrorKind::Unexpected, self.location.as_str()).with_source(e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_location_names_the_same_file_in_each_spelling() {
        let dir = tempfile::tempdir().unwrap();
        let io = Stores::default().file_io();
        let path = format!("{}/t/a%2Fb c.txt", dir.path().display());
        io.new_output(format!("file://{path}")).unwrap().write("hello".into()).await.unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "hello");
        for spelling in [path.clone(), format!("file:{path}"), format!("file:///{path}")] {
            assert_eq!(io.new_input(&spelling).unwrap().read().await.unwrap(), "hello", "{spelling}");
        }
    }

    #[tokio::test]
    async fn a_file_is_visible_only_when_closed() {
        let dir = tempfile::tempdir().unwrap();
        let location = format!("file://{}/x", dir.path().display());
        let io = Stores::default().file_io();
        let mut writer = io.new_output(&location).unwrap().writer().await.unwrap();
        writer.write("half".into()).await.unwrap();
        assert!(!io.exists(&location).await.unwrap());
        writer.close().await.unwrap();
        assert!(io.exists(&location).await.unwrap());
        assert!(writer.write("more".into()).await.is_err());
    }

    #[test]
    fn other_schemes_are_refused_by_name() {
        let refused = Stores::default().resolve("gs://bucket/x").unwrap_err();
        assert!(refused.to_string().contains("gs://bucket/x: only file: and s3: locations"));
    }
}
