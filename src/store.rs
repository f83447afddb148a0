//! Opens the folders that a pipeline file names, on local disk or S3, as one kind of store.
//!
//! Keeps: what a put has answered for is durable (local files and their directories are fsynced), and create-if-absent is atomic.
//! Opening changes nothing: a local folder is made by the first put. Tested: here.
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use object_store::aws::{AmazonS3Builder, S3ConditionalPut};
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;
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

/// The path from the root without `.` and `..`: stores know no other. What a `..` climbs out of may be a link.
pub fn absolute(path: &Path) -> std::io::Result<PathBuf> {
    let mut whole = PathBuf::new();
    for part in std::path::absolute(path)?.components() {
        match part {
            Component::ParentDir => {
                whole = whole.canonicalize().unwrap_or(whole);
                whole.pop();
            }
            part => whole.push(part),
        }
    }
    Ok(whole)
}

/// Opens `location` as a store whose root is that folder.
pub fn open(location: &Location, s3: &S3Settings) -> Result<Arc<dyn ObjectStore>, StoreError> {
    let failed = |reason: String| StoreError { location: location.to_string(), reason };
    match location {
        Location::File(path) => {
            let root = absolute(path).map_err(|e| failed(e.to_string()))?;
            if let Some(file) = root.ancestors().find(|folder| folder.exists()).filter(|there| !there.is_dir()) {
                return Err(failed(format!("{} is no folder: name another place", file.display())));
            }
            let root = ObjectPath::from_absolute_path(root).map_err(|e| failed(e.to_string()))?;
            Ok(Arc::new(PrefixStore::new(LocalFileSystem::new().with_fsync(true), root)))
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

#[cfg(test)]
mod tests {
    use object_store::ObjectStoreExt;

    use super::*;

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        (folder, path)
    }

    fn opened(path: &Path) -> Result<Arc<dyn ObjectStore>, StoreError> {
        open(&Location::File(path.to_owned()), &S3Settings::default())
    }

    #[test]
    fn a_path_climbs_out_of_what_a_link_leads_to() {
        let (_kept, root) = folder();
        std::fs::create_dir_all(root.join("far/away")).unwrap();
        std::os::unix::fs::symlink(root.join("far/away"), root.join("link")).unwrap();
        assert_eq!(absolute(&root.join("a/./b/../c")).unwrap(), root.join("a/c"), "nothing of it is there");
        assert_eq!(absolute(&root.join("link/../c")).unwrap(), root.join("far/c"));
    }

    #[tokio::test]
    async fn a_folder_is_made_by_the_first_put() {
        let (_kept, root) = folder();
        let place = root.join("a b/../c%d/é");
        let store = opened(&place).unwrap();
        assert!(std::fs::read_dir(&root).unwrap().next().is_none());
        store.put(&"x/y".into(), "z".into()).await.unwrap();
        assert_eq!(std::fs::read_to_string(root.join("c%d/é/x/y")).unwrap(), "z");
    }

    #[test]
    fn a_file_is_no_folder() {
        let (_kept, root) = folder();
        std::fs::write(root.join("file"), "").unwrap();
        let said = opened(&root.join("file/below")).unwrap_err().to_string();
        assert!(said.ends_with("/file is no folder: name another place"), "{said}");
    }
}
