//! The sink of a simulated table: DESIGN.md 8 without an encoder. The real sink over the real encoder has simulations of its own.
//!
//! Keeps: mark and fence are judged on the very base that the request names; while the outcome of a request is unknown, the same one is made again.
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use floodmark_pipeline::guard::{Guard, holds};
use floodmark_pipeline::ids::{CheckpointId, Epoch, Incarnation};
use floodmark_pipeline::mark::{Mark, OnBase, OnFence, RunningDigest, on_base, on_fence};
use xxhash_rust::xxh3::xxh3_64;

use super::executor::ProcessId;
use super::gate::{Class, Fate, Gate};
use super::judge::Judge;
use super::table::{Answer, DataFile, Request, Table};
use crate::job::running_digest;
use crate::sink::mark_json::unmarked;
use crate::sink::ndjson::lines;
use crate::sink::{Found, Opened, Outcome, PendingEpoch, SharedSegments, Sink, SinkError};

/// Unknown answers in a row after which the catalog is called away.
const UNKNOWN_IN_A_ROW: usize = 5;
const PAUSE: Duration = Duration::from_millis(5);

/// A table that may be missing; a clone is the same.
pub type Place = Arc<Mutex<Option<Table>>>;

pub struct TableSink {
    pub place: Place,
    pub name: String,
    pub pipeline: String,
    pub segments: SharedSegments,
    pub gate: Gate,
    pub process: ProcessId,
    pub judge: Judge,
    pub claim: Option<Claim>,
}

pub struct Claim {
    ours: Incarnation,
    uuid: String,
    mark: Mark,
}

/// What a request came to.
enum Came {
    Applied,
    Conflict,
    Unknown,
}

/// What to do on a base.
enum Next<E> {
    Ask(Box<Request>),
    End(E),
}

impl TableSink {
    fn away(&self, why: &str) -> SinkError {
        SinkError::Away { what: self.name.clone(), why: why.into() }
    }

    fn table(&self) -> MutexGuard<'_, Option<Table>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn request(&self, class: Class, what: &str) -> Fate {
        self.gate.request(self.process, class, format!("{}: {what}", self.name)).await
    }

    async fn load(&self) -> Result<Option<Table>, SinkError> {
        match self.request(Class::LoadTable, "load").await {
            Fate::Refused(why) => Err(self.away(why)),
            Fate::AnswerLost | Fate::Later { .. } => Err(self.away("no answer")),
            Fate::Go => Ok(self.table().clone()),
        }
    }

    fn mark_of(&self, table: &Table) -> Result<Mark, SinkError> {
        let of_this_table = |mark: &Mark| mark.table_uuid == table.uuid || !holds(Guard::TableIdentity);
        let Some(stamped) = table.stamped.as_ref().filter(|stamped| of_this_table(&stamped.mark)) else {
            return Ok(unmarked(&table.uuid, &self.pipeline, &self.name));
        };
        if table.is_rolled_back() && holds(Guard::Rollback) && stamped.mark.table_uuid == table.uuid {
            return Err(SinkError::RolledBack { table: self.name.clone(), expected: stamped.snapshot });
        }
        Ok(stamped.mark.clone())
    }

    async fn ask(&self, request: Request) -> Result<Came, SinkError> {
        let what = format!("commit {} on {:?}", request.snapshot, request.head);
        let apply = |request: Request| {
            let (place, judge, name) = (self.place.clone(), self.judge.clone(), self.name.clone());
            move || {
                let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(table) = place.as_mut() else { return Answer::Conflict };
                let before = table.clone();
                // Asked for before somebody set the table back, it lands on an older head than the mark's: that is the harm's doing.
                let is_ours = request.setbacks == table.setbacks;
                let answer = table.apply(request);
                if answer == Answer::Applied && is_ours {
                    judge.committed(&name, &before, table);
                }
                answer
            }
        };
        Ok(match self.request(Class::CommitTable, &what).await {
            Fate::Refused(why) => return Err(self.away(why)),
            Fate::Go => match apply(request)() {
                Answer::Applied => Came::Applied,
                Answer::Conflict => Came::Conflict,
            },
            Fate::AnswerLost => {
                apply(request)();
                Came::Unknown
            }
            Fate::Later { ms } => {
                self.gate.later(ms, format!("{}: the held request arrives", self.name), apply(request));
                Came::Unknown
            }
        })
    }

    /// Until the table says how it ended.
    async fn settle<E>(
        &mut self,
        mut judge: impl FnMut(&mut Self, &Table, Mark) -> Next<E>,
        applied: impl FnOnce(&mut Self, Mark) -> E,
    ) -> Result<E, SinkError> {
        let mut unknown = 0;
        loop {
            let dropped = || SinkError::Dropped { table: self.name.clone() };
            let table = self.load().await?.ok_or_else(dropped)?;
            let mark = self.mark_of(&table)?;
            let request = match judge(self, &table, mark) {
                Next::End(end) => return Ok(end),
                Next::Ask(request) => *request,
            };
            let mark = request.mark.clone();
            match self.ask(request).await? {
                Came::Applied => return Ok(applied(self, mark)),
                Came::Conflict => unknown = 0,
                Came::Unknown if !holds(Guard::UnknownOutcome) => return Ok(applied(self, mark)),
                Came::Unknown => unknown += 1,
            }
            if unknown == UNKNOWN_IN_A_ROW {
                return Err(self.away("no answer"));
            }
            self.gate.executor.sleep(PAUSE).await;
        }
    }

    /// The rows of `epochs` as one file.
    async fn write(&self, epochs: &[PendingEpoch]) -> Result<DataFile, SinkError> {
        let mut file = DataFile { epochs: vec![], lines: vec![], digest: RunningDigest::default() };
        for pending in epochs {
            file.epochs.push(pending.epoch);
            for segment in &pending.segments {
                let batches = self.segments.read(segment).await?;
                for batch in &batches {
                    file.digest = file.digest.plus(running_digest(batch)?);
                }
                let text = lines(&batches).map_err(|error| SinkError::Segment(error.to_string()))?;
                file.lines.extend(String::from_utf8_lossy(&text).lines().map(str::to_owned));
            }
        }
        Ok(file)
    }
}

#[async_trait]
impl Sink for TableSink {
    async fn look(&mut self) -> Result<Found, SinkError> {
        match self.load().await? {
            None => Ok(Found::Absent),
            Some(table) => Ok(Found::Here(self.mark_of(&table)?)),
        }
    }

    async fn open(&mut self, ours: Incarnation) -> Result<Opened, SinkError> {
        if self.load().await?.is_none() {
            let fate = self.request(Class::MakeTable, "make").await;
            if let Fate::Refused(why) = fate {
                return Err(self.away(why));
            }
            let uuid = format!("{:032x}", self.gate.executor.chance(|chance| chance.u128(..)));
            self.table().get_or_insert_with(|| Table::new(uuid));
            if fate != Fate::Go {
                return Err(self.away("no answer"));
            }
        }
        let fence = (xxh3_64(format!("{} {ours}", self.name).as_bytes()) >> 1) as i64;
        let judge = |sink: &mut Self, table: &Table, found: Mark| match on_fence(found.fence, ours) {
            OnFence::Ours => Next::End(sink.opened(ours, found)),
            OnFence::ClaimAgain => Next::End(Opened::ClaimAgain),
            OnFence::Fenced { by } => Next::End(Opened::Fenced { by }),
            OnFence::Put => Next::Ask(Box::new(Request {
                uuid: table.uuid.clone(),
                head: table.head,
                setbacks: table.setbacks,
                snapshot: fence,
                added: None,
                mark: Mark { fence: Some(ours), ..found },
                by: ours,
            })),
        };
        self.settle(judge, |sink, mark| sink.opened(ours, mark)).await
    }

    async fn commit(
        &mut self,
        base: Option<Epoch>,
        epochs: &[PendingEpoch],
        even_if_empty: bool,
    ) -> Result<Outcome, SinkError> {
        let Some(claim) = &self.claim else {
            return Err(SinkError::Setting(format!("{}: committed to before it was opened", self.name)));
        };
        let (ours, uuid, mark) = (claim.ours, claim.uuid.clone(), claim.mark.clone());
        if epochs.is_empty() || (!even_if_empty && epochs.iter().all(|e| e.rows() == 0)) {
            return Ok(Outcome::Applied(mark));
        }
        let list: Vec<_> = epochs.iter().map(|e| e.epoch).collect();
        // Which epochs are missing is known once the table is loaded, and rows can't be read between judging and asking: all that may be missing.
        let mut files = vec![];
        for pending in epochs {
            files.push(self.write(std::slice::from_ref(pending)).await?);
        }
        let judge = |sink: &mut Self, table: &Table, found: Mark| {
            if table.uuid != uuid && holds(Guard::TableIdentity) {
                return Next::End(Outcome::Foreign(found));
            }
            let first = match on_base(&found, ours, base, &list) {
                OnBase::Done => return Next::End(sink.landed(found)),
                OnBase::Fenced { by } => return Next::End(Outcome::Fenced { by }),
                OnBase::FenceLost | OnBase::Foreign => return Next::End(Outcome::Foreign(found)),
                OnBase::CommitFrom(first) => first,
            };
            let missing = &epochs[first..];
            let Some(last) = missing.last().filter(|_| even_if_empty || missing.iter().any(|e| e.rows() > 0)) else {
                return Next::End(sink.landed(found));
            };
            let added = merged(&files[first..]);
            let mark = Mark {
                epoch: Some(last.epoch),
                offsets: last.offsets.clone(),
                event_time_watermark: last.event_time_watermark,
                replay_from: last.replay_from.clone(),
                digest: found.digest.plus(added.digest),
                ..found
            };
            let (uuid, head, setbacks) = (table.uuid.clone(), table.head, table.setbacks);
            let (snapshot, added) = (last.commit_id, Some(Arc::new(added)));
            Next::Ask(Box::new(Request { uuid, head, setbacks, snapshot, added, mark, by: ours }))
        };
        self.settle(judge, Self::landed).await
    }

    async fn tag(&mut self, _: &str, _: CheckpointId) -> Result<(), SinkError> {
        self.load().await.map(drop)
    }
}

impl TableSink {
    fn opened(&mut self, ours: Incarnation, mark: Mark) -> Opened {
        self.claim = Some(Claim { ours, uuid: mark.table_uuid.clone(), mark: mark.clone() });
        Opened::Here(mark)
    }

    fn landed(&mut self, mark: Mark) -> Outcome {
        if let Some(claim) = &mut self.claim {
            claim.mark = mark.clone();
        }
        Outcome::Applied(mark)
    }
}

fn merged(files: &[DataFile]) -> DataFile {
    DataFile {
        epochs: files.iter().flat_map(|file| file.epochs.iter().copied()).collect(),
        lines: files.iter().flat_map(|file| file.lines.iter().cloned()).collect(),
        digest: files.iter().fold(RunningDigest::default(), |sum, file| sum.plus(file.digest)),
    }
}
