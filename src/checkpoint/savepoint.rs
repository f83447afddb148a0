//! Savepoints: checkpoints under a user's name, with everything they need in a folder of their own.
//!
//! ```text
//!   DIR/savepoints/<name>/state/…      the state files of its checkpoint
//!   DIR/savepoints/<name>/segments/…   the rows that sinks waited for
//!   DIR/savepoints/<name>/manifest     written last, create-if-absent: the name is taken when it is there
//! ```
//! Doesn't know: who asks, tags of tables. Keeps: a savepoint names nothing outside its folder, and nothing in there is ever collected.
//! Tested: here; taken and gone on from in tests/run_and_stop.rs.
use std::collections::BTreeSet;

use super::dir::{CheckpointDir, DirError};
use super::manifest::Manifest;

const FOLDER: &str = "savepoints/";

#[derive(Debug, thiserror::Error)]
pub enum SavepointError {
    #[error(
        "`{0}` can't name a savepoint: use letters, digits, `-`, `_` and `.`, 1 to 100 of them, the first a letter or digit"
    )]
    Name(String),
    #[error(
        "there is a savepoint {name} already, in {location}/savepoints/{name}: a savepoint is never written over; choose another name"
    )]
    Taken { name: String, location: String },
    #[error(transparent)]
    Dir(#[from] DirError),
}

/// A name that is a folder in every store, and a tag in every catalog.
pub fn check_name(name: &str) -> Result<(), SavepointError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let begins_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if begins_well && name.len() <= 100 && name.chars().all(allowed) {
        return Ok(());
    }
    Err(SavepointError::Name(name.to_owned()))
}

/// Whether an object of the checkpoint directory belongs to a savepoint.
pub fn holds(path: &str) -> bool {
    path.starts_with(FOLDER)
}

/// Copies what a complete checkpoint needs, then publishes it under the name. Returns its folder.
pub async fn write(dir: &CheckpointDir, name: &str, manifest: &Manifest) -> Result<String, SavepointError> {
    check_name(name)?;
    let folder = format!("{FOLDER}{name}");
    let taken = || SavepointError::Taken { name: name.to_owned(), location: dir.location().to_owned() };
    let path = format!("{folder}/manifest");
    if dir.exists(&path).await? {
        return Err(taken());
    }
    let inside = moved(manifest, &folder);
    let objects: BTreeSet<_> = manifest.objects().zip(inside.objects()).collect();
    for (from, to) in objects {
        dir.copy(from, to).await?;
    }
    match dir.create(&path, inside.encode().into(), "publishing").await {
        Err(DirError::Taken { .. }) => Err(taken()),
        created => Ok(created.map(|()| folder)?),
    }
}

/// All savepoints' manifests, by name.
pub async fn list(dir: &CheckpointDir) -> Result<Vec<String>, DirError> {
    let mut paths = dir.list(FOLDER.trim_end_matches('/')).await?;
    paths.retain(|path| path.ends_with("/manifest") && path.matches('/').count() == 2);
    paths.sort();
    Ok(paths)
}

/// The manifest that a user's path means: itself, or that of a savepoint's folder; below the checkpoint directory, or from where the pipeline file counts.
pub fn manifest_of(location: &str, path: &str) -> String {
    let place = location.strip_prefix("file:").unwrap_or(location);
    let path = path.strip_prefix(location).or_else(|| path.strip_prefix(place)).unwrap_or(path);
    let path = path.trim_matches('/');
    if holds(path) && path.matches('/').count() == 1 { format!("{path}/manifest") } else { path.to_owned() }
}

/// The manifest with every object inside `folder`.
fn moved(manifest: &Manifest, folder: &str) -> Manifest {
    let mut inside = manifest.clone();
    let state = inside.state.iter_mut().flatten().map(|file| &mut file.path);
    let epochs = inside.sinks.iter_mut().flat_map(|sink| &mut sink.epochs);
    let segments = epochs.flat_map(|epoch| &mut epoch.segments).map(|segment| &mut segment.path);
    for path in state.chain(segments) {
        *path = format!("{folder}/{}", home(path));
    }
    inside
}

/// A path without the savepoint that it may belong to: one run that went on from a savepoint names files of it.
fn home(path: &str) -> &str {
    let inside = path.strip_prefix(FOLDER).and_then(|rest| rest.split_once('/'));
    inside.map_or(path, |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::memory::InMemory;

    use super::*;
    use crate::checkpoint::manifest::tests::manifest;

    async fn dir_with_objects_of(manifest: &Manifest) -> CheckpointDir {
        let dir = CheckpointDir::new(Arc::new(InMemory::new()), "file:data/checkpoints".into());
        for path in manifest.objects() {
            dir.create(path, path.to_owned().into(), "test").await.unwrap();
        }
        dir
    }

    #[tokio::test]
    async fn a_savepoint_needs_nothing_outside_its_folder() {
        let manifest = manifest(3, 7);
        let dir = dir_with_objects_of(&manifest).await;
        assert_eq!(write(&dir, "before-upgrade", &manifest).await.unwrap(), "savepoints/before-upgrade");
        for path in manifest.objects() {
            dir.delete(path).await.unwrap();
        }
        let name = manifest_of(dir.location(), "savepoints/before-upgrade/");
        let found = dir.read_manifest(&name).await.unwrap();
        assert_eq!(found.checkpoint, manifest.checkpoint);
        for (path, origin) in found.objects().zip(manifest.objects()) {
            assert!(path.starts_with("savepoints/before-upgrade/"), "{path}");
            assert_eq!(dir.get(path).await.unwrap(), origin.as_bytes());
        }
    }

    #[tokio::test]
    async fn a_second_savepoint_of_a_name_is_refused_and_changes_nothing() {
        let (first, second) = (manifest(3, 7), manifest(3, 8));
        let dir = dir_with_objects_of(&first).await;
        write(&dir, "a", &first).await.unwrap();
        let error = write(&dir, "a", &second).await.unwrap_err();
        assert!(error.to_string().starts_with("there is a savepoint a already, in file:data/checkpoints/savepoints/a"));
        assert_eq!(dir.read_manifest("savepoints/a/manifest").await.unwrap().checkpoint, first.checkpoint);
        assert_eq!(list(&dir).await.unwrap(), ["savepoints/a/manifest"]);
    }

    #[tokio::test]
    async fn a_savepoint_of_a_run_that_went_on_from_one_is_whole_too() {
        let first = manifest(3, 7);
        let dir = dir_with_objects_of(&first).await;
        write(&dir, "a", &first).await.unwrap();
        let restored = dir.read_manifest("savepoints/a/manifest").await.unwrap();
        write(&dir, "b", &restored).await.unwrap();
        let found = dir.read_manifest("savepoints/b/manifest").await.unwrap();
        assert_eq!(found.objects().collect::<Vec<_>>(), ["savepoints/b/state/y", "savepoints/b/segments/x"]);
    }

    #[test]
    fn a_path_may_be_written_in_any_way_that_people_do() {
        let location = "file:data/checkpoints";
        for path in [
            "savepoints/a",
            "savepoints/a/",
            "savepoints/a/manifest",
            "data/checkpoints/savepoints/a",
            "file:data/checkpoints/savepoints/a",
        ] {
            assert_eq!(manifest_of(location, path), "savepoints/a/manifest", "{path}");
        }
        assert_eq!(manifest_of(location, "file:data/checkpoints/manifests/1-2-3"), "manifests/1-2-3");
    }

    #[test]
    fn a_name_is_one_that_any_store_and_catalog_takes() {
        for name in ["a", "2026-01-01", "before_upgrade.2"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", "..", ".hidden", "a/b", "a b", "ü", &"x".repeat(101)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
