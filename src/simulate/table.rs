//! A simulated table with snapshots, and its catalog: one compare-and-set on the head. Others compact, expire, roll back and restore it.
//!
//! Doesn't know: processes, what is lost on the way. Keeps: a request is applied only where the table and its head are those that it names.
use std::collections::BTreeMap;
use std::sync::Arc;

use floodmark_pipeline::ids::{Epoch, Incarnation};
use floodmark_pipeline::mark::{Mark, RunningDigest};

/// Rows of some epochs, written once.
#[derive(Debug, PartialEq)]
pub struct DataFile {
    pub epochs: Vec<Epoch>,
    /// Rows as lines of JSON.
    pub lines: Vec<String>,
    pub digest: RunningDigest,
}

#[derive(Clone, Debug)]
pub struct Snapshot {
    pub parent: Option<i64>,
    pub sequence: u64,
    pub files: Arc<[Arc<DataFile>]>,
}

/// The mark and the snapshot that it came with.
#[derive(Clone, Debug)]
pub struct Stamped {
    pub mark: Mark,
    /// Who asked for it.
    pub by: Incarnation,
    pub snapshot: i64,
    pub sequence: u64,
}

#[derive(Clone, Debug)]
pub struct Table {
    pub uuid: String,
    pub head: Option<i64>,
    pub stamped: Option<Stamped>,
    /// How often others have set `main` back.
    pub setbacks: usize,
    snapshots: BTreeMap<i64, Snapshot>,
    sequence: u64,
    /// Ids of snapshots by others.
    foreign: i64,
}

/// A request to put one snapshot on the head.
#[derive(Clone, Debug)]
pub struct Request {
    pub uuid: String,
    pub head: Option<i64>,
    /// Of the table that it was asked for. A catalog can't assert this: where `main` is set back to `head` meanwhile, the request still lands.
    pub setbacks: usize,
    pub snapshot: i64,
    pub added: Option<Arc<DataFile>>,
    pub mark: Mark,
    pub by: Incarnation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Applied,
    Conflict,
}

impl Table {
    pub fn new(uuid: String) -> Self {
        Self { uuid, head: None, stamped: None, setbacks: 0, snapshots: BTreeMap::new(), sequence: 0, foreign: -1 }
    }

    /// Files of the head.
    pub fn files(&self) -> &[Arc<DataFile>] {
        self.head.and_then(|head| self.snapshots.get(&head)).map_or(&[], |snapshot| &snapshot.files)
    }

    /// Rows of the head, sorted.
    pub fn rows(&self) -> Vec<String> {
        let mut rows: Vec<_> = self.files().iter().flat_map(|file| file.lines.iter().cloned()).collect();
        rows.sort();
        rows
    }

    pub fn apply(&mut self, request: Request) -> Answer {
        if request.uuid != self.uuid || request.head != self.head {
            return Answer::Conflict;
        }
        let mut files = self.files().to_vec();
        files.extend(request.added);
        self.put(request.snapshot, files);
        self.stamped =
            Some(Stamped { mark: request.mark, by: request.by, snapshot: request.snapshot, sequence: self.sequence });
        Answer::Applied
    }

    fn put(&mut self, id: i64, files: Vec<Arc<DataFile>>) {
        self.sequence += 1;
        self.snapshots.insert(id, Snapshot { parent: self.head, sequence: self.sequence, files: files.into() });
        self.head = Some(id);
    }

    /// `main` no longer holds the snapshot that the mark came with. A chain that was cut off above it by expiry counts as whole.
    pub fn is_rolled_back(&self) -> bool {
        let Some(stamped) = &self.stamped else { return false };
        let mut at = self.head;
        loop {
            let Some(id) = at else { return true };
            let Some(snapshot) = self.snapshots.get(&id) else { return false };
            if id == stamped.snapshot {
                return false;
            }
            if snapshot.sequence <= stamped.sequence {
                return true;
            }
            at = snapshot.parent;
        }
    }

    /// Another engine writes all files as one.
    pub fn compact(&mut self) {
        let merged = DataFile {
            epochs: self.files().iter().flat_map(|file| file.epochs.iter().copied()).collect(),
            lines: self.files().iter().flat_map(|file| file.lines.iter().cloned()).collect(),
            digest: self.files().iter().fold(RunningDigest::default(), |sum, file| sum.plus(file.digest)),
        };
        self.foreign -= 1;
        self.put(self.foreign, vec![Arc::new(merged)]);
    }

    /// Another engine removes all snapshots but the head.
    pub fn expire(&mut self) {
        let head = self.head;
        self.snapshots.retain(|id, _| Some(*id) == head);
    }

    /// Somebody makes it anew, with the properties that it had.
    pub fn remake(&mut self) {
        *self = Self { stamped: self.stamped.take(), ..Self::new(format!("{}-anew", self.uuid)) };
    }

    /// Somebody sets `main` back by so many snapshots. Properties stay as they are.
    pub fn roll_back(&mut self, by: usize) {
        self.setbacks += 1;
        for _ in 0..by {
            let parent = self.head.and_then(|head| self.snapshots.get(&head)).and_then(|snapshot| snapshot.parent);
            if parent.is_some_and(|parent| self.snapshots.contains_key(&parent)) {
                self.head = parent;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use floodmark_pipeline::mark::RunningDigest;

    use super::*;
    use crate::sink::mark_json::unmarked;

    fn request(table: &Table, snapshot: i64, line: &str) -> Request {
        let added =
            DataFile { epochs: vec![], lines: vec![line.to_owned()], digest: RunningDigest { rows: 1, sum: 1 } };
        let mark = unmarked(&table.uuid, "p", "s");
        let by = Incarnation { number: 1, token: 1 };
        let (uuid, head, setbacks) = (table.uuid.clone(), table.head, table.setbacks);
        Request { uuid, head, setbacks, snapshot, added: Some(Arc::new(added)), mark, by }
    }

    fn table() -> Table {
        let mut table = Table::new("u".into());
        for (id, line) in [(1, "a"), (2, "b")] {
            assert_eq!(table.apply(request(&table, id, line)), Answer::Applied);
        }
        table
    }

    #[test]
    fn a_request_on_another_head_or_table_changes_nothing() {
        let mut table = table();
        let mut late = request(&table, 3, "c");
        table.compact();
        assert_eq!(table.apply(late.clone()), Answer::Conflict);
        late.head = table.head;
        late.uuid = "other".into();
        assert_eq!(table.apply(late), Answer::Conflict);
        assert_eq!(table.rows(), ["a", "b"]);
    }

    #[test]
    fn only_a_head_without_the_marks_snapshot_is_rolled_back() {
        let mut whole = table();
        whole.compact();
        whole.compact();
        assert!(!whole.is_rolled_back());
        whole.expire();
        assert!(!whole.is_rolled_back(), "the chain is cut off above the mark");
        let mut back = table();
        back.roll_back(1);
        assert!(back.is_rolled_back());
    }
}
