//! Opens the folders that a pipeline file names, on local disk or S3, as one kind of store.
//!
//! Keeps: what a put has answered for is durable (local files and their directories are fsynced), and create-if-absent is atomic.
use std::io::ErrorKind;
use std::sync::Arc;

use object_store::aws::{AmazonS3Builder, S3ConditionalPut};
use object_store::local::LocalFileSystem;
use object_store::prefix::PrefixStore;
use object_store::{ObjectStore, RetryConfig};

use crate::config::model::{Location, S3Settings};

#[derive(Debug, thiserror::Error)]
#[error("{location}: {reason}")]
pub struct StoreError {
    location: String,
    reason: String,
}

/// Why a store failed, in the words of who has to mend it.
pub fn reason(error: &object_store::Error) -> String {
    disk_trouble(error).map_or_else(|| error.to_string(), str::to_owned)
}

/// What is wrong with a disk, if that is behind the error.
pub fn disk_trouble(error: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    let mut cause = Some(error);
    while let Some(found) = cause {
        if let Some(trouble) = found.downcast_ref().and_then(disk_reason) {
            return Some(trouble);
        }
        cause = found.source();
    }
    None
}

/// What a full or a closed disk says.
fn disk_reason(error: &std::io::Error) -> Option<&'static str> {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Some("the disk is full: free space there"),
        ErrorKind::ReadOnlyFilesystem => Some("the disk is read-only: make it writable, or name another place"),
        ErrorKind::PermissionDenied => Some("permission denied: let this user write there, or name another place"),
        _ => None,
    }
}

/// Opens `location` as a store whose root is that folder; a missing local folder is made.
pub fn open(location: &Location, s3: &S3Settings) -> Result<Arc<dyn ObjectStore>, StoreError> {
    let failed = |reason: String| StoreError { location: location.to_string(), reason };
    match location {
        Location::File(path) => {
            let why = |e: std::io::Error| disk_reason(&e).map_or_else(|| e.to_string(), str::to_owned);
            std::fs::create_dir_all(path).map_err(|e| failed(format!("can't make the folder: {}", why(e))))?;
            let store = LocalFileSystem::new_with_prefix(path).map_err(|e| failed(e.to_string()))?;
            Ok(Arc::new(store.with_fsync(true)))
        }
        Location::S3 { bucket, prefix } => {
            let store = s3_bucket(bucket, s3).map_err(|e| failed(e.to_string()))?;
            Ok(Arc::new(PrefixStore::new(store, prefix.as_str())))
        }
    }
}

/// A whole bucket, for who has absolute keys.
pub fn s3_bucket(bucket: &str, s3: &S3Settings) -> Result<Arc<dyn ObjectStore>, object_store::Error> {
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .with_retry(RetryConfig { max_retries: 3, ..RetryConfig::default() });
    if let Some(endpoint) = &s3.endpoint {
        builder = builder.with_endpoint(endpoint).with_allow_http(endpoint.starts_with("http:"));
    }
    if let Some(region) = &s3.region {
        builder = builder.with_region(region);
    }
    if let Some(key) = &s3.access_key {
        builder = builder.with_access_key_id(&key.0);
    }
    if let Some(key) = &s3.secret_key {
        builder = builder.with_secret_access_key(&key.0);
    }
    Ok(Arc::new(builder.build()?))
}
