//! Epochs as NDJSON files in a folder, exactly once by name.
//!
//! ```text
//! DIR/late-0000000012-3.ndjson              an epoch's rows: visible once its mark is durable
//! DIR/_floodmark/late/00000000000000000007  mark 7: made only if absent, which is the compare-and-set; a fence is a mark without files
//! DIR/_floodmark/late/rows/…                rows whose mark is not made, or whose visible name is not linked yet
//! ```
//! Doesn't know: which store it writes to. Keeps: the highest mark is in force; marks are never deleted, so that no older process can make
//! one again; a file is visible only if a mark names it; nobody removes rows of a newer start. Tested: here, and sink/conformance.rs.
use std::sync::Arc;

use async_trait::async_trait;
use floodmark_pipeline::ids::{CheckpointId, Epoch, Incarnation};
use floodmark_pipeline::mark::{Mark, OnBase, OnFence, RunningDigest, on_base, on_fence};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{Error as StoreError, ObjectStore, ObjectStoreExt, PutMode};
use serde::{Deserialize, Serialize};

use super::mark_json::{MarkJson, unmarked};
use super::ndjson::lines;
use super::{Found, Opened, Outcome, PendingEpoch, RowDigest, SharedSegments, Sink, SinkError};
use crate::steps::{self, Point};

pub struct FileSink {
    store: Arc<dyn ObjectStore>,
    /// For messages.
    dir: String,
    pipeline: String,
    sink: String,
    segments: SharedSegments,
    digest: RowDigest,
    ours: Option<Incarnation>,
    last: Option<Numbered>,
    /// Epochs whose rows are written and whose mark isn't made yet.
    written: Vec<Written>,
}

/// A mark and its place in the order of marks.
#[derive(Clone)]
struct Numbered {
    number: u64,
    mark: Mark,
    files: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct MarkFile {
    #[serde(flatten)]
    mark: MarkJson,
    files: Vec<String>,
}

struct Written {
    epoch: Epoch,
    file: Option<String>,
    delta: RunningDigest,
}

impl FileSink {
    pub fn new(
        store: Arc<dyn ObjectStore>,
        dir: String,
        (pipeline, sink): (&str, &str),
        segments: SharedSegments,
        digest: RowDigest,
    ) -> Self {
        let (pipeline, sink) = (pipeline.to_owned(), sink.to_owned());
        Self { store, dir, pipeline, sink, segments, digest, ours: None, last: None, written: vec![] }
    }

    fn away(&self, why: impl std::fmt::Display) -> SinkError {
        SinkError::Away { what: self.dir.clone(), why: why.to_string() }
    }

    fn unreadable(&self, path: &Path, why: impl std::fmt::Display) -> SinkError {
        SinkError::Setting(format!("{}: {path} is not a mark: {why}", self.dir))
    }

    fn folder(&self) -> Path {
        Path::from("_floodmark").join(self.sink.as_str())
    }

    fn mark_path(&self, number: u64) -> Path {
        self.folder().join(format!("{number:020}"))
    }

    fn hidden(&self, file: &str) -> Path {
        self.folder().join("rows").join(file)
    }

    /// The mark in force, looked for from the last one known on. That one must still be there: a folder made anew would take rows that follow nothing.
    async fn newest(&mut self) -> Result<Option<Numbered>, SinkError> {
        let known = self.last.as_ref().map(|last| last.number);
        let from = self.mark_path(known.unwrap_or(0));
        if known.is_some() {
            match self.store.head(&from).await {
                Err(StoreError::NotFound { .. }) => return Err(SinkError::Dropped { table: self.dir.clone() }),
                other => other.map_err(|e| self.away(e))?,
            };
        }
        let listed = self.store.list_with_offset(Some(&self.folder()), &from);
        let found: Vec<_> = listed.try_collect().await.map_err(|e| self.away(e))?;
        let numbers = found.iter().filter_map(|object| self.number_of(&object.location));
        if let Some(number) = numbers.max() {
            self.last = Some(self.read(number).await?);
        }
        Ok(self.last.clone())
    }

    fn number_of(&self, path: &Path) -> Option<u64> {
        let name = path.prefix_match(&self.folder())?.next()?.as_ref().to_owned();
        name.parse().ok().filter(|_| name.len() == 20)
    }

    async fn read(&self, number: u64) -> Result<Numbered, SinkError> {
        let path = self.mark_path(number);
        let found = self.store.get(&path).await.map_err(|e| self.away(e))?;
        let bytes = found.bytes().await.map_err(|e| self.away(e))?;
        let file: MarkFile = serde_json::from_slice(&bytes).map_err(|e| self.unreadable(&path, e))?;
        let mark: Mark = file.mark.try_into().map_err(|e| self.unreadable(&path, e))?;
        if mark.pipeline != self.pipeline {
            let Self { dir, sink, pipeline, .. } = self;
            let theirs = &mark.pipeline;
            return Err(SinkError::Setting(format!(
                "{dir}: holds the files of sink {sink} of pipeline `{theirs}`, and this is `{pipeline}`: give this sink another folder or another name"
            )));
        }
        Ok(Numbered { number, mark, files: file.files })
    }

    fn mark_of(&self, newest: Option<&Numbered>) -> Mark {
        newest.map_or_else(|| unmarked("", &self.pipeline, &self.sink), |numbered| numbered.mark.clone())
    }

    /// Makes the mark that follows `newest`, unless another was faster.
    async fn advance(&mut self, newest: Option<&Numbered>, mark: Mark, files: Vec<String>) -> Result<bool, SinkError> {
        let number = newest.map_or(1, |n| n.number + 1);
        let json = MarkFile { mark: MarkJson::from(&mark), files: files.clone() };
        let bytes = serde_json::to_vec(&json).map_err(|e| self.away(e))?;
        match self.store.put_opts(&self.mark_path(number), bytes.into(), PutMode::Create.into()).await {
            Ok(_) => {
                self.last = Some(Numbered { number, mark, files });
                Ok(true)
            }
            Err(StoreError::AlreadyExists { .. } | StoreError::Precondition { .. }) => Ok(false),
            Err(e) => Err(self.away(e)),
        }
    }

    /// Gives the rows their visible name. May be repeated. A rename, and not a copy: on a disk a copy stands under a third name for a moment, and a
    /// kill at that moment would leave it in the folder, beside the file.
    async fn link(&self, file: &str) -> Result<(), SinkError> {
        match self.store.rename(&self.hidden(file), &Path::from(file)).await {
            Ok(()) => {
                steps::reached(Point::Linked);
                Ok(())
            }
            Err(StoreError::NotFound { .. }) => Ok(()),
            Err(e) => Err(self.away(e)),
        }
    }

    /// Links what a crash has left unlinked, from the newest mark back as far as there are hidden rows.
    async fn link_rest(&self) -> Result<(), SinkError> {
        let rows = self.folder().join("rows");
        let hidden: Vec<_> = self.store.list(Some(&rows)).try_collect().await.map_err(|e| self.away(e))?;
        let mut hidden: Vec<_> = hidden.iter().filter_map(|o| o.location.filename().map(str::to_owned)).collect();
        let mut number = self.last.as_ref().map_or(0, |last| last.number);
        while number > 0 && !hidden.is_empty() {
            for file in self.read(number).await?.files {
                self.link(&file).await?;
                hidden.retain(|name| *name != file);
            }
            number -= 1;
        }
        // Rows of attempts that came to nothing: their processes are fenced. A newer start may have begun meanwhile, and its rows wait for their mark.
        let ours = self.ours.map_or(0, |ours| ours.number);
        for file in hidden.into_iter().filter(|file| start_of(file).is_some_and(|start| start <= ours)) {
            self.store.delete(&self.hidden(&file)).await.map_err(|e| self.away(e))?;
        }
        Ok(())
    }

    /// Rows of `epochs` under hidden names, those already written left as they are.
    async fn write(&mut self, ours: Incarnation, epochs: &[PendingEpoch]) -> Result<(), SinkError> {
        self.written.retain(|written| epochs.iter().any(|e| e.epoch == written.epoch));
        for pending in epochs {
            if self.written.iter().any(|written| written.epoch == pending.epoch) {
                continue;
            }
            let mut batches = Vec::new();
            for segment in &pending.segments {
                batches.extend(self.segments.read(segment).await?);
            }
            let mut delta = RunningDigest::default();
            for batch in &batches {
                delta = delta.plus((self.digest)(batch)?);
            }
            let mut file = None;
            if delta.rows > 0 {
                let name = format!("{}-{:010}-{}.ndjson", self.sink, pending.epoch.checkpoint.0, ours.number);
                let text = lines(&batches).map_err(|e| SinkError::Segment(e.to_string()))?;
                self.store.put(&self.hidden(&name), text.into()).await.map_err(|e| self.away(e))?;
                file = Some(name);
            }
            self.written.push(Written { epoch: pending.epoch, file, delta });
        }
        Ok(())
    }
}

/// The start that has written a file of rows, by its name.
fn start_of(file: &str) -> Option<u64> {
    file.strip_suffix(".ndjson")?.rsplit_once('-')?.1.parse().ok()
}

#[async_trait]
impl Sink for FileSink {
    async fn look(&mut self) -> Result<Found, SinkError> {
        Ok(self.newest().await?.map_or(Found::Absent, |newest| Found::Here(newest.mark)))
    }

    async fn open(&mut self, ours: Incarnation) -> Result<Opened, SinkError> {
        let mark = loop {
            let newest = self.newest().await?;
            let mark = self.mark_of(newest.as_ref());
            match on_fence(mark.fence, ours) {
                OnFence::Ours => break mark,
                OnFence::ClaimAgain => return Ok(Opened::ClaimAgain),
                OnFence::Fenced { by } => return Ok(Opened::Fenced { by }),
                OnFence::Put => {
                    // The first start names the folder: one made anew has another name.
                    let named = newest.is_some();
                    let table_uuid = if named { mark.table_uuid } else { format!("{:032x}", ours.token) };
                    let mark = Mark { fence: Some(ours), table_uuid, ..mark };
                    steps::pass(Point::FenceDue).map_err(|ordered| self.away(ordered))?;
                    if self.advance(newest.as_ref(), mark.clone(), vec![]).await? {
                        steps::pass(Point::Fenced).map_err(|lost| self.away(lost))?;
                        break mark;
                    }
                }
            }
        };
        self.ours = Some(ours);
        self.written.clear();
        self.link_rest().await?;
        Ok(Opened::Here(mark))
    }

    async fn commit(
        &mut self,
        base: Option<Epoch>,
        epochs: &[PendingEpoch],
        even_if_empty: bool,
    ) -> Result<Outcome, SinkError> {
        let Some(ours) = self.ours else {
            return Err(SinkError::Setting(format!("{}: committed to before it was opened", self.dir)));
        };
        let list: Vec<_> = epochs.iter().map(|e| e.epoch).collect();
        loop {
            let newest = self.newest().await?;
            let found = self.mark_of(newest.as_ref());
            let first = match on_base(&found, ours, base, &list) {
                OnBase::Done => epochs.len(),
                OnBase::CommitFrom(first) => first,
                OnBase::Fenced { by } => return Ok(Outcome::Fenced { by }),
                OnBase::FenceLost | OnBase::Foreign => return Ok(Outcome::Foreign(found)),
            };
            if first > 0 {
                // The mark was made by a request of ours whose answer was lost, or that came no further: its rows have no visible name yet.
                for file in newest.iter().flat_map(|newest| &newest.files) {
                    self.link(file).await?;
                }
            }
            let pending = &epochs[first..];
            let Some(last) = pending.last().filter(|_| even_if_empty || pending.iter().any(|e| e.rows() > 0)) else {
                return Ok(Outcome::Applied(found));
            };
            self.write(ours, pending).await?;
            steps::reached(Point::DataFiles);
            let mark = Mark {
                epoch: Some(last.epoch),
                offsets: last.offsets.clone(),
                event_time_watermark: last.event_time_watermark,
                replay_from: last.replay_from.clone(),
                digest: self.written.iter().fold(found.digest, |sum, written| sum.plus(written.delta)),
                ..found
            };
            let files: Vec<_> = self.written.iter().filter_map(|written| written.file.clone()).collect();
            steps::pass(Point::CommitDue).map_err(|ordered| self.away(ordered))?;
            if self.advance(newest.as_ref(), mark.clone(), files.clone()).await? {
                steps::pass(Point::Committed).map_err(|lost| self.away(lost))?;
                self.written.clear();
                for file in &files {
                    self.link(file).await?;
                }
                return Ok(Outcome::Applied(mark));
            }
        }
    }

    async fn tag(&mut self, name: &str, checkpoint: CheckpointId) -> Result<(), SinkError> {
        let path = self.folder().join("tags").join(format!("floodmark-{name}"));
        self.store.put(&path, checkpoint.to_string().into()).await.map_err(|e| self.away(e))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::conformance::{Rows, World, applied, digest, epoch, opened, sink_conformance, start};
    use super::*;
    use crate::config::model::{Location, S3Settings};

    struct Folder {
        dir: tempfile::TempDir,
        rows: Rows,
    }

    fn folder() -> Folder {
        Folder { dir: tempfile::tempdir().unwrap(), rows: Rows::default() }
    }

    impl Folder {
        fn open(&self) -> FileSink {
            let store = crate::store::open(&Location::File(self.dir.path().into()), &S3Settings::default()).unwrap();
            FileSink::new(store, "folder".into(), ("p", "out"), self.rows.shared(), digest)
        }

        /// As commit does, up to a crash after its mark.
        async fn mark_without_links(&self, sink: &mut FileSink, pending: &PendingEpoch) {
            let newest = sink.newest().await.unwrap();
            sink.write(start(1), std::slice::from_ref(pending)).await.unwrap();
            let mark = Mark { epoch: Some(pending.epoch), ..newest.as_ref().unwrap().mark.clone() };
            assert!(sink.advance(newest.as_ref(), mark, vec!["out-0000000001-1.ndjson".into()]).await.unwrap());
        }

        fn names(&self) -> Vec<String> {
            let entries = std::fs::read_dir(self.dir.path()).unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let mut names: Vec<_> = names.filter(|name| name.ends_with(".ndjson")).collect();
            names.sort();
            names
        }
    }

    #[async_trait]
    impl World for Folder {
        fn sink(&self) -> Box<dyn Sink> {
            Box::new(self.open())
        }

        fn rows(&self) -> &Rows {
            &self.rows
        }

        async fn visible(&self) -> Vec<String> {
            let read = |name: &String| std::fs::read_to_string(self.dir.path().join(name)).unwrap();
            let name_of = |line: &str| {
                serde_json::from_str::<serde_json::Value>(line).unwrap()["name"].as_str().unwrap().to_owned()
            };
            let mut rows: Vec<_> =
                self.names().iter().flat_map(|n| read(n).lines().map(name_of).collect::<Vec<_>>()).collect();
            rows.sort();
            rows
        }
    }

    sink_conformance!(folder());

    #[tokio::test]
    async fn a_file_is_named_by_sink_checkpoint_and_start() {
        let folder = folder();
        let mut sink = folder.open();
        opened(&mut sink, start(3)).await;
        let rows = folder.rows.epoch(epoch(start(2), 12), &["a"]);
        applied(&mut sink, None, &[rows]).await;
        assert_eq!(folder.names(), ["out-0000000012-3.ndjson"]);
    }

    #[tokio::test]
    async fn what_a_crash_left_unlinked_is_linked_by_the_next_start() {
        let folder = folder();
        let mut sink = folder.open();
        opened(&mut sink, start(1)).await;
        let pending = folder.rows.epoch(epoch(start(1), 1), &["a"]);
        folder.mark_without_links(&mut sink, &pending).await;
        assert_eq!(folder.visible().await, [""; 0]);
        opened(&mut folder.open(), start(2)).await;
        assert_eq!(folder.visible().await, ["a"]);
    }

    /// It has put its fence, stood still before it looked for what others left, and wakes when a newer start has rows that wait for their mark.
    #[tokio::test]
    async fn a_start_that_slept_removes_no_rows_of_a_newer_one() {
        let folder = folder();
        let (mut slept, mut newer) = (folder.open(), folder.open());
        opened(&mut slept, start(1)).await;
        opened(&mut newer, start(2)).await;
        let pending = folder.rows.epoch(epoch(start(2), 1), &["a"]);
        newer.write(start(2), std::slice::from_ref(&pending)).await.unwrap();
        slept.link_rest().await.unwrap();
        applied(&mut newer, None, &[pending]).await;
        assert_eq!(folder.visible().await, ["a"]);
    }

    #[tokio::test]
    async fn rows_of_a_commit_whose_answer_was_lost_are_visible_after_the_next_one() {
        let folder = folder();
        let mut sink = folder.open();
        opened(&mut sink, start(1)).await;
        let first = folder.rows.epoch(epoch(start(1), 1), &["a"]);
        let second = folder.rows.epoch(epoch(start(1), 2), &["b"]);
        folder.mark_without_links(&mut sink, &first).await;
        applied(&mut sink, None, &[first, second]).await;
        assert_eq!(folder.visible().await, ["a", "b"]);
    }

    #[tokio::test]
    async fn a_folder_that_was_removed_while_it_was_written_to_takes_no_further_rows() {
        let folder = folder();
        let mut sink = folder.open();
        opened(&mut sink, start(1)).await;
        let first = folder.rows.epoch(epoch(start(1), 1), &["a"]);
        applied(&mut sink, None, std::slice::from_ref(&first)).await;
        for entry in std::fs::read_dir(folder.dir.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { std::fs::remove_dir_all(path).unwrap() } else { std::fs::remove_file(path).unwrap() }
        }
        let second = folder.rows.epoch(epoch(start(1), 2), &["b"]);
        let refused = sink.commit(Some(first.epoch), &[second], false).await.unwrap_err();
        assert_eq!(refused.to_string(), "folder: dropped while running");
        assert_eq!(folder.names(), [""; 0]);
    }

    #[tokio::test]
    async fn a_folder_of_another_pipelines_sink_of_the_same_name_is_refused() {
        let folder = folder();
        opened(&mut folder.open(), start(1)).await;
        let mut other = FileSink { pipeline: "q".into(), ..folder.open() };
        let expected = "folder: holds the files of sink out of pipeline `p`, and this is `q`: give this sink another folder or another name";
        assert_eq!(other.look().await.unwrap_err().to_string(), expected);
        assert_eq!(other.open(start(2)).await.unwrap_err().to_string(), expected);
    }

    #[tokio::test]
    async fn rows_whose_mark_was_never_made_stay_invisible() {
        let folder = folder();
        let mut sink = folder.open();
        opened(&mut sink, start(1)).await;
        let pending = [folder.rows.epoch(epoch(start(1), 1), &["a"])];
        sink.write(start(1), &pending).await.unwrap();
        let mut next = folder.open();
        opened(&mut next, start(2)).await;
        assert_eq!(folder.visible().await, [""; 0]);
        applied(&mut next, None, &pending).await;
        assert_eq!(folder.names(), ["out-0000000001-2.ndjson"]);
    }
}
