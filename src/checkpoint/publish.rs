//! Makes a checkpoint durable: segments, new state files, then the manifest that names them.
//!
//! Publications are worked off one after another, so manifests become durable in id order. What fails is tried again until it holds: an outage
//! of the store delays checkpoints and nothing else. Doesn't know: workers, commits.
//! Keeps: the manifest is written last; a state file is reused only from the last complete manifest, every other gets a name never used before. Tested: here.
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use floodmark_pipeline::ids::{CheckpointId, Incarnation, WorkerId};
use floodmark_state::{Snapshot, StateError, StateFile};
use object_store::PutPayload;

use super::coordinator::Publication;
use super::dir::{CheckpointDir, DirError, state_name};
use super::manifest::{Manifest, StateFileRecord};
use crate::host::{Host, elsewhere};
use crate::steps::{self, Ordered, Point};

/// First and longest pause between two tries.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

pub struct Publisher {
    dir: CheckpointDir,
    host: Arc<dyn Host>,
    incarnation: Incarnation,
    /// Immutable files of the last complete manifest, by worker and name.
    known: BTreeMap<(WorkerId, String), StateFileRecord>,
    /// State of the last complete manifest, by worker, and its digest.
    last: (Vec<Vec<StateFileRecord>>, u128),
}

#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    #[error(transparent)]
    Dir(#[from] DirError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Ordered(#[from] Ordered),
    /// Trying again would be for nothing: the newer start sweeps up behind us.
    #[error("fenced: start {by} has taken over the checkpoint directory")]
    Fenced { by: u64 },
}

impl Publisher {
    /// `restored` is the state that the workers went on from, file by file under the names it has in the directory, if their stores have kept it as it was.
    pub fn new(
        dir: CheckpointDir,
        host: Arc<dyn Host>,
        incarnation: Incarnation,
        restored: &[Vec<StateFileRecord>],
    ) -> Self {
        let mut publisher = Self { dir, host, incarnation, known: BTreeMap::new(), last: Default::default() };
        publisher.know(restored);
        publisher
    }

    /// Publishes the first manifest of a start, whose state lies in the directory already.
    pub async fn publish_restored(&mut self, manifest: Manifest) -> Result<(Manifest, String), DirError> {
        let name = self.dir.publish(&manifest).await?;
        self.last = (manifest.state.clone(), manifest.state_digest);
        Ok((manifest, name))
    }

    /// Publishes, however often it takes, as long as no newer start has taken over. `complain` hears of every failure. Returns the manifest and its name.
    pub async fn publish(
        &mut self,
        publication: Publication,
        complain: &mut (dyn FnMut(&PublishError) + Send),
    ) -> Result<(Manifest, String), PublishError> {
        let Publication { mut manifest, segments, state, .. } = publication;
        manifest.created_ms = self.host.wall_ms();
        let mut segments: Vec<_> = segments.into_iter().map(|s| (s.path, PutPayload::from_iter(s.chunks))).collect();
        let mut pause = RETRY.0;
        loop {
            match self.attempt(&mut manifest, &mut segments, &state).await {
                Ok(name) => {
                    self.know(&manifest.state);
                    self.last = (manifest.state.clone(), manifest.state_digest);
                    return Ok((manifest, name));
                }
                Err(error @ PublishError::Dir(DirError::Taken { .. } | DirError::NotAtomic { .. })) => {
                    return Err(error);
                }
                Err(error) => complain(&error),
            }
            if let Ok(Some(by)) = self.dir.newer_start(self.incarnation).await {
                return Err(PublishError::Fenced { by });
            }
            self.host.sleep(pause).await;
            pause = (pause * 2).min(RETRY.1);
        }
    }

    /// What has been put stays put: a second attempt goes on behind it.
    async fn attempt(
        &self,
        manifest: &mut Manifest,
        segments: &mut Vec<(String, PutPayload)>,
        state: &[(WorkerId, Snapshot)],
    ) -> Result<String, PublishError> {
        while let Some((path, payload)) = segments.last() {
            self.dir.create_segments(path, payload.clone()).await?;
            steps::pass(Point::Segment)?;
            segments.pop();
        }
        if state.is_empty() {
            (manifest.state, manifest.state_digest) = self.last.clone();
        } else {
            let mut workers = vec![];
            for (worker, snapshot) in state {
                workers.push(self.take_over(manifest.checkpoint, *worker, snapshot).await?);
            }
            manifest.state = workers;
        }
        steps::pass(Point::ManifestDue)?;
        let name = self.dir.publish(manifest).await?;
        steps::pass(Point::Manifest)?;
        Ok(name)
    }

    async fn take_over(
        &self,
        checkpoint: CheckpointId,
        worker: WorkerId,
        snapshot: &Snapshot,
    ) -> Result<Vec<StateFileRecord>, PublishError> {
        let mut records = vec![];
        for file in &snapshot.files {
            let known =
                self.known.get(&(worker, file.name.clone())).filter(|k| file.immutable && k.length == file.length);
            records.push(match known {
                Some(known) => known.clone(),
                None => {
                    let new = self.upload(checkpoint, worker, file.clone()).await?;
                    steps::pass(Point::StateFile)?;
                    new
                }
            });
        }
        Ok(records)
    }

    async fn upload(
        &self,
        checkpoint: CheckpointId,
        worker: WorkerId,
        file: StateFile,
    ) -> Result<StateFileRecord, PublishError> {
        let path = state_name(self.incarnation, checkpoint, worker, &file.name);
        if file.immutable && self.dir.adopt(&*self.host, &file.path, &path).await? {
            return self.adopted(file, path).await;
        }
        let (files, local) = (self.host.files(), file.path.clone());
        let bytes = elsewhere(&*self.host, move || files.read(&local)).await;
        let bytes = bytes.unwrap_or_else(|| Err(std::io::Error::other("reading it panicked")));
        let bytes = bytes.map_err(|source| StateError::Io { doing: "reading", path: file.path.clone(), source })?;
        let digest = xxhash_rust::xxh3::xxh3_128(&bytes);
        let length = bytes.len() as u64;
        self.dir.create(&path, bytes.into(), "writing state file").await?;
        Ok(StateFileRecord { name: file.name, path, length, digest, immutable: file.immutable })
    }

    /// The record of a file that has been linked. It is read for its digest only.
    async fn adopted(&self, file: StateFile, path: String) -> Result<StateFileRecord, PublishError> {
        let (name, length, immutable) = (file.name.clone(), file.length, file.immutable);
        let path_of = file.path.clone();
        let digest = elsewhere(&*self.host, move || file.content_digest()).await;
        let panicked = || StateError::Io { doing: "reading", path: path_of, source: std::io::Error::other("panicked") };
        let digest = digest.ok_or_else(panicked)??;
        Ok(StateFileRecord { name, path, length, digest, immutable })
    }

    fn know(&mut self, state: &[Vec<StateFileRecord>]) {
        self.known.clear();
        for (worker, files) in state.iter().enumerate() {
            let immutable = files.iter().filter(|f| f.immutable);
            self.known.extend(immutable.map(|f| ((WorkerId(worker as u16), f.name.clone()), f.clone())));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::path::{Path, PathBuf};

    use floodmark_state::StateDigest;

    use super::*;
    use crate::checkpoint::manifest::tests::manifest;
    use crate::config::model::Location;
    use crate::host::Computer;

    const WORKER: WorkerId = WorkerId(0);

    struct World {
        root: PathBuf,
        dir: CheckpointDir,
        _folder: tempfile::TempDir,
    }

    impl World {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().join("checkpoints");
            let location = Location::File(root.clone());
            let dir = CheckpointDir::at(crate::store::open(&location, &Default::default()).unwrap(), &location);
            Self { root, dir, _folder: folder }
        }

        fn publisher(&self, kept: &[Vec<StateFileRecord>]) -> Publisher {
            Publisher::new(self.dir.clone(), Arc::new(Computer::default()), manifest(2, 5).incarnation, kept)
        }

        /// A file of the working database.
        fn file(&self, name: &str, content: &str) -> StateFile {
            let path = self.root.with_file_name(format!("{name}-{content}"));
            std::fs::write(&path, content).unwrap();
            StateFile { name: name.into(), path, length: content.len() as u64, immutable: name.ends_with(".sst") }
        }

        async fn publish(&self, publisher: &mut Publisher, id: u64, files: Vec<StateFile>) -> Vec<StateFileRecord> {
            let published = publisher.publish(publication(id, files), &mut |error| panic!("{error}")).await;
            published.unwrap().0.state.remove(0)
        }
    }

    fn publication(id: u64, files: Vec<StateFile>) -> Publication {
        let snapshot = Snapshot { checkpoint: CheckpointId(id), files, digest: StateDigest::default() };
        Publication {
            manifest: manifest(2, id),
            segments: vec![],
            state: vec![(WORKER, snapshot)],
            oldest_waiting: None,
            savepoint: None,
        }
    }

    fn inode(path: &Path) -> u64 {
        std::fs::metadata(path).unwrap().ino()
    }

    #[tokio::test]
    async fn a_file_that_never_changes_is_linked_and_any_other_copied() {
        let world = World::new();
        let files = vec![world.file("000009.sst", "rows"), world.file("MANIFEST", "list")];
        let records = world.publish(&mut world.publisher(&[]), 5, files.clone()).await;
        let is_linked = |at: usize| inode(&files[at].path) == inode(&world.root.join(&records[at].path));
        assert_eq!((is_linked(0), is_linked(1)), (true, false));
        for (file, record) in files.iter().zip(&records) {
            assert_eq!(std::fs::read(world.root.join(&record.path)).unwrap(), std::fs::read(&file.path).unwrap());
            assert_eq!((record.digest, record.length), (file.content_digest().unwrap(), 4));
        }
    }

    #[tokio::test]
    async fn a_file_is_put_once_and_again_only_under_another_name() {
        let world = World::new();
        let file = world.file("000009.sst", "rows");
        let mut publisher = world.publisher(&[]);
        let first = world.publish(&mut publisher, 5, vec![file.clone()]).await;
        let second = world.publish(&mut publisher, 6, vec![file]).await;
        assert_eq!(first, second);
        let again = world.file("000009.sst", "more");
        let restarted =
            world.publish(&mut world.publisher(std::slice::from_ref(&second)), 7, vec![again.clone()]).await;
        assert_eq!(restarted, second, "a store that goes on with its files");
        let anew = world.publish(&mut world.publisher(&[]), 8, vec![again.clone()]).await;
        assert_eq!(anew[0].digest, again.content_digest().unwrap(), "names that began anew are other files");
        assert_ne!(anew[0].path, second[0].path);
    }
    /// A process that stood still finds its files swept up by the one that took its place.
    #[tokio::test]
    async fn what_fails_is_not_tried_again_for_ever_once_a_newer_start_has_taken_over() {
        let world = World::new();
        let gone = world.file("000009.sst", "rows");
        std::fs::remove_file(&gone.path).unwrap();
        world.dir.claim(Incarnation { number: 3, token: 1 }).await.unwrap();
        let mut failures = 0;
        let ended = world.publisher(&[]).publish(publication(5, vec![gone]), &mut |_| failures += 1).await;
        assert!(matches!(ended, Err(PublishError::Fenced { by: 3 })), "{ended:?}");
        assert_eq!(failures, 1);
    }
}
