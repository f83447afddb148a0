//! Drives one change of a table until the table itself says how it ended.
//!
//! ```text
//!   load base -> judge it (mark, fence) -> write manifests -> ask the catalog
//!      ^  ^                                                     |
//!      |  +---- conflict: the head moved, judge the new one ----+
//!      +------- unknown: same head, the same change again ------+   applied: done
//! ```
//! Doesn't know: epochs, what is in the change. Keeps: mark and fence are judged on the very base that the request asserts; while the
//! head is still that base the same change is sent again on it, so that at most one of the requests can land; once it has moved,
//! the mark on the new head decides. Files are deleted only when a request certainly didn't land and can't any more.
//! Tested: tests.rs beside it (lost answers, late requests, conflicts, zombies).
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use floodmark_pipeline::guard::{Guard, holds};
use floodmark_pipeline::mark::Mark;
use iceberg::TableIdent;
use iceberg::io::FileIO;

use super::catalog::{Answer, Catalog, Loaded, name_of};
use super::manifest::Manifests;
use super::mark::Identity;
use super::others::since_the_mark;
use super::snapshot::Change;
use super::storage;
use super::writer::delete_files;
use crate::host::Host;
use crate::sink::SinkError;
use crate::steps::{self, Point};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Unknown answers in a row, the head unmoved, after which the catalog is called away. Asking again later goes on where this ended.
const UNKNOWN_IN_A_ROW: u32 = 5;

/// A table and the way to it.
#[derive(Clone)]
pub struct Table {
    pub catalog: Arc<dyn Catalog>,
    pub ident: TableIdent,
    pub io: FileIO,
    pub host: Arc<dyn Host>,
}

impl Table {
    pub fn name(&self) -> String {
        name_of(&self.ident)
    }

    pub async fn load(&self) -> Result<Option<Loaded>, SinkError> {
        self.catalog.load(&self.ident).await
    }

    pub async fn load_present(&self) -> Result<Loaded, SinkError> {
        self.load().await?.ok_or_else(|| SinkError::Dropped { table: self.name() })
    }

    /// For errors of reading and writing the table's files.
    pub fn away(&self, error: impl std::fmt::Display) -> SinkError {
        SinkError::Away { what: self.name(), why: error.to_string() }
    }

    async fn delete(&self, files: &[String]) {
        delete_files(&self.io, files.iter().map(String::as_str)).await;
    }
}

/// What to do on a base.
pub enum Next<E> {
    Make(Box<Change>),
    End(E),
}

/// Someone who wants the table changed, and judges each base anew.
#[async_trait]
pub trait Intent: Send {
    type End: Send;
    /// The points right before the catalog is asked, and right after it has done it.
    const POINTS: (Point, Point);

    async fn judge(&mut self, base: &Loaded) -> Result<Next<Self::End>, SinkError>;

    fn applied(&mut self, mark: Mark) -> Self::End;

    /// Begins the names of the files of the next attempt: never the same twice.
    fn next_prefix(&mut self) -> String;
}

/// Manifests written for one change on one base.
struct Attempt {
    snapshot_id: i64,
    head: Option<i64>,
    sequence_number: i64,
    manifest_list: String,
    files: Vec<String>,
}

impl Attempt {
    fn fits(&self, change: &Change, base: &Loaded) -> bool {
        self.snapshot_id == change.snapshot_id
            && self.head == base.metadata.current_snapshot_id()
            && self.sequence_number == base.metadata.next_sequence_number()
    }
}

pub async fn settle<I: Intent>(table: &Table, intent: &mut I) -> Result<I::End, SinkError> {
    let mut last: Option<Attempt> = None;
    let mut pause = FIRST_PAUSE;
    let mut unknown = 0;
    loop {
        let base = table.load_present().await?;
        let change = match intent.judge(&base).await? {
            Next::Make(change) => change,
            Next::End(end) => {
                clean_up(table, last, &base).await;
                return Ok(end);
            }
        };
        let attempt = match last.take() {
            Some(attempt) if attempt.fits(&change, &base) => attempt,
            passed => {
                if passed.as_ref().is_some_and(|p| p.head != base.metadata.current_snapshot_id()) {
                    unknown = 0;
                }
                clean_up(table, passed, &base).await;
                begin(table, &change, &base, intent.next_prefix()).await?
            }
        };
        let requests = change.requests(&base.metadata, &attempt.manifest_list, table.host.wall_ms());
        let (requirements, updates) = requests.map_err(|e| SinkError::Setting(format!("{}: {e}", table.name())))?;
        let (due, done) = I::POINTS;
        steps::pass(due).map_err(|ordered| table.away(ordered))?;
        let answer = match table.catalog.commit(&table.ident, &base, requirements, updates).await? {
            Answer::Applied => {
                steps::pass(done).map_or_else(|lost| Answer::Unknown(lost.to_string()), |()| Answer::Applied)
            }
            answer => answer,
        };
        match answer {
            Answer::Applied => {
                if let Some(others) = since_the_mark(&base.metadata, &Identity::of(&change.mark)) {
                    tracing::warn!("{}: {others}", table.name());
                }
                return Ok(intent.applied(change.mark));
            }
            Answer::Conflict => tracing::debug!("{}: changed meanwhile, trying on the new head", table.name()),
            Answer::Refused(why) => {
                table.delete(&attempt.files).await;
                return Err(SinkError::Refused { table: table.name(), why });
            }
            Answer::Unknown(_) if !holds(Guard::UnknownOutcome) => return Ok(intent.applied(change.mark)),
            Answer::Unknown(why) => {
                unknown += 1;
                tracing::warn!("{}: no answer to a commit ({why}), asking the table", table.name());
                if unknown >= UNKNOWN_IN_A_ROW {
                    return Err(table.away(why));
                }
            }
        }
        last = Some(attempt);
        table.host.sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn begin(table: &Table, change: &Change, base: &Loaded, prefix: String) -> Result<Attempt, SinkError> {
    let metadata = &base.metadata;
    let mut manifests =
        Manifests { io: &table.io, base: metadata, snapshot_id: change.snapshot_id, prefix: &prefix, written: vec![] };
    match manifests.write(&change.added).await {
        Ok(manifest_list) => Ok(Attempt {
            snapshot_id: change.snapshot_id,
            head: metadata.current_snapshot_id(),
            sequence_number: metadata.next_sequence_number(),
            manifest_list,
            files: manifests.written,
        }),
        Err(e) => {
            table.delete(&manifests.written).await;
            Err(table.away(storage::why(&e)))
        }
    }
}

/// Deletes the manifests of an attempt that `base` shows to have come to nothing. While its own base is still the head it may yet land.
async fn clean_up(table: &Table, attempt: Option<Attempt>, base: &Loaded) {
    let Some(attempt) = attempt else { return };
    let landed = base.metadata.snapshot_by_id(attempt.snapshot_id).is_some();
    if !landed && attempt.head != base.metadata.current_snapshot_id() {
        table.delete(&attempt.files).await;
    }
}
