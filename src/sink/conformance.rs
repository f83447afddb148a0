//! What every fenced sink must do, told once: `sink_conformance!(world)` makes the tests for a sink.
//!
//! A world is one place (a table, a folder) that several starts can open at once, and that can be read without any sink.
use std::collections::{BTreeMap, HashMap};
use std::slice::from_ref;
use std::sync::{Arc, Mutex};

use arrow_array::{Array, RecordBatch, StringArray};
use async_trait::async_trait;
use floodmark_pipeline::ids::{CheckpointId, Epoch, Incarnation, PartitionName};
use floodmark_pipeline::mark::{Mark, RunningDigest};
use floodmark_pipeline::schema::{Field, FieldType, Schema};
use floodmark_pipeline::time::EventTime;
use xxhash_rust::xxh3::xxh3_128;

use super::{Found, Opened, Outcome, PendingEpoch, SegmentRef, Segments, SharedSegments, Sink, SinkError};

#[async_trait]
pub trait World: Sync {
    /// One more start's sink on the same place.
    fn sink(&self) -> Box<dyn Sink>;
    fn rows(&self) -> &Rows;
    /// Names of all rows that a reader sees, sorted.
    async fn visible(&self) -> Vec<String>;
}

/// One column `name`.
pub fn schema() -> Schema {
    Schema::new(vec![Field::required("name", FieldType::String)])
}

pub fn start(number: u64) -> Incarnation {
    Incarnation { number, token: u128::from(number) << 64 | 7 }
}

pub fn epoch(incarnation: Incarnation, checkpoint: u64) -> Epoch {
    Epoch { incarnation, checkpoint: CheckpointId(checkpoint) }
}

pub fn digest(batch: &RecordBatch) -> Result<RunningDigest, SinkError> {
    let names = batch.column(0).as_any().downcast_ref::<StringArray>().unwrap();
    let sum = names.iter().fold(0u128, |sum, name| sum.wrapping_add(xxh3_128(name.unwrap_or_default().as_bytes())));
    Ok(RunningDigest { rows: names.len() as u64, sum })
}

/// The outbox.
#[derive(Clone, Default)]
pub struct Rows(Arc<Mutex<HashMap<String, RecordBatch>>>);

impl Rows {
    pub fn shared(&self) -> SharedSegments {
        Arc::new(self.clone())
    }

    pub fn epoch(&self, epoch: Epoch, names: &[&str]) -> PendingEpoch {
        let column: arrow_array::ArrayRef = Arc::new(StringArray::from(names.to_vec()));
        let batch = RecordBatch::try_new(schema().arrow(), vec![column]).unwrap();
        self.epoch_of(epoch, batch)
    }

    pub fn epoch_of(&self, epoch: Epoch, batch: RecordBatch) -> PendingEpoch {
        let path = format!("{epoch}");
        let rows = batch.num_rows() as u64;
        self.0.lock().unwrap().insert(path.clone(), batch);
        let partition = PartitionName { source: "events".into(), topic: "t".into(), partition: 0 };
        let segment = SegmentRef { path, offset: 0, length: 1, rows, digest: None };
        PendingEpoch {
            epoch,
            commit_id: (epoch.incarnation.number * 1_000 + epoch.checkpoint.0) as i64,
            segments: if rows > 0 { vec![segment] } else { vec![] },
            offsets: BTreeMap::from([(partition, epoch.checkpoint.0 as i64 * 10)]).into(),
            event_time_watermark: Some(EventTime(epoch.checkpoint.0 as i64 * 1_000)),
            replay_from: Default::default(),
        }
    }
}

#[async_trait]
impl Segments for Rows {
    async fn read(&self, segment: &SegmentRef) -> Result<Vec<RecordBatch>, SinkError> {
        let found = self.0.lock().unwrap().get(&segment.path).cloned();
        found.map(|batch| vec![batch]).ok_or_else(|| SinkError::Segment(segment.path.clone()))
    }
}

pub async fn opened(sink: &mut dyn Sink, ours: Incarnation) -> Mark {
    match sink.open(ours).await.unwrap() {
        Opened::Here(mark) => mark,
        other => panic!("not opened: {other:?}"),
    }
}

pub async fn applied(sink: &mut dyn Sink, base: Option<Epoch>, epochs: &[PendingEpoch]) -> Mark {
    match sink.commit(base, epochs, false).await.unwrap() {
        Outcome::Applied(mark) => mark,
        other => panic!("not applied: {other:?}"),
    }
}

pub async fn looking_changes_nothing(world: &impl World) {
    assert_eq!(world.sink().look().await.unwrap(), Found::Absent);
    assert_eq!(world.sink().look().await.unwrap(), Found::Absent);
}

pub async fn opening_makes_it_and_puts_the_fence(world: &impl World) {
    let mark = opened(&mut *world.sink(), start(1)).await;
    assert_eq!((mark.epoch, mark.fence), (None, Some(start(1))));
    assert_eq!(world.sink().look().await.unwrap(), Found::Here(mark.clone()));
    assert_eq!(opened(&mut *world.sink(), start(1)).await, mark, "an answer that was lost: the fence is there");
    let later = opened(&mut *world.sink(), start(2)).await;
    assert_eq!(later, Mark { fence: Some(start(2)), ..mark }, "a fence changes only the fence");
}

pub async fn a_fence_goes_only_over_a_lower_number(world: &impl World) {
    opened(&mut *world.sink(), start(5)).await;
    assert_eq!(world.sink().open(start(4)).await.unwrap(), Opened::Fenced { by: start(5) });
    let twin = Incarnation { token: 1, ..start(5) };
    assert_eq!(world.sink().open(twin).await.unwrap(), Opened::ClaimAgain);
}

pub async fn epochs_become_visible_with_their_mark(world: &impl World) {
    let mut sink = world.sink();
    opened(&mut *sink, start(1)).await;
    let first = world.rows().epoch(epoch(start(1), 1), &["a", "b"]);
    let second = world.rows().epoch(epoch(start(1), 2), &["c"]);
    applied(&mut *sink, None, from_ref(&first)).await;
    let mark = applied(&mut *sink, Some(first.epoch), from_ref(&second)).await;
    assert_eq!(world.visible().await, ["a", "b", "c"]);
    assert_eq!(mark.epoch, Some(second.epoch));
    assert_eq!((&mark.offsets, mark.event_time_watermark), (&second.offsets, second.event_time_watermark));
    let names: arrow_array::ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
    assert_eq!(mark.digest, digest(&RecordBatch::try_new(schema().arrow(), vec![names]).unwrap()).unwrap());
    assert_eq!(world.sink().look().await.unwrap(), Found::Here(mark));
}

pub async fn what_is_there_is_not_committed_again(world: &impl World) {
    let mut sink = world.sink();
    opened(&mut *sink, start(1)).await;
    let epochs: Vec<_> =
        (1..4).map(|k| world.rows().epoch(epoch(start(1), k), &[["x", "y", "z"][k as usize - 1]])).collect();
    let once = applied(&mut *sink, None, &epochs[..2]).await;
    assert_eq!(applied(&mut *sink, None, &epochs[..2]).await, once, "all of it");
    let more = applied(&mut *sink, None, &epochs).await;
    assert_eq!(more.epoch, Some(epochs[2].epoch), "the rest of it");
    assert_eq!(world.visible().await, ["x", "y", "z"]);
    // The next start's list begins further back than the table.
    let mut next = world.sink();
    opened(&mut *next, start(2)).await;
    assert_eq!(applied(&mut *next, None, &epochs).await.epoch, more.epoch);
    assert_eq!(world.visible().await, ["x", "y", "z"]);
}

pub async fn a_zombie_commits_nothing(world: &impl World) {
    let mut zombie = world.sink();
    opened(&mut *zombie, start(1)).await;
    let mut owner = world.sink();
    opened(&mut *owner, start(2)).await;
    let rows = [world.rows().epoch(epoch(start(1), 1), &["a"])];
    assert_eq!(zombie.commit(None, &rows, false).await.unwrap(), Outcome::Fenced { by: start(2) });
    assert_eq!(world.visible().await, [""; 0]);
    applied(&mut *owner, None, &rows).await;
    assert_eq!(zombie.commit(None, &rows, false).await.unwrap(), Outcome::Fenced { by: start(2) });
    assert_eq!(world.visible().await, ["a"]);
}

pub async fn an_epoch_of_another_history_is_foreign(world: &impl World) {
    let mut sink = world.sink();
    opened(&mut *sink, start(1)).await;
    let first = world.rows().epoch(epoch(start(1), 1), &["a"]);
    let mark = applied(&mut *sink, None, from_ref(&first)).await;
    let other = world.rows().epoch(epoch(start(9), 1), &["other"]);
    let after_other = world.rows().epoch(epoch(start(9), 2), &["after"]);
    for (base, epochs) in [(None, vec![other.clone()]), (Some(other.epoch), vec![after_other])] {
        assert_eq!(sink.commit(base, &epochs, false).await.unwrap(), Outcome::Foreign(mark.clone()));
    }
    assert_eq!(world.visible().await, ["a"]);
}

pub async fn empty_epochs_are_written_only_when_asked(world: &impl World) {
    let mut sink = world.sink();
    let before = opened(&mut *sink, start(1)).await;
    let empty = world.rows().epoch(epoch(start(1), 1), &[]);
    assert_eq!(applied(&mut *sink, None, from_ref(&empty)).await, before, "nothing to write");
    let full = world.rows().epoch(epoch(start(1), 2), &["a"]);
    let trailing = world.rows().epoch(epoch(start(1), 3), &[]);
    let mark = applied(&mut *sink, None, &[empty, full, trailing.clone()]).await;
    assert_eq!(mark.epoch, Some(trailing.epoch));
    let asked = world.rows().epoch(epoch(start(1), 4), &[]);
    let outcome = sink.commit(Some(trailing.epoch), from_ref(&asked), true).await.unwrap();
    let Outcome::Applied(mark) = outcome else { panic!("{outcome:?}") };
    assert_eq!((mark.epoch, mark.offsets), (Some(asked.epoch), asked.offsets));
    assert_eq!(world.visible().await, ["a"]);
}

macro_rules! sink_conformance {
    ($world:expr; $($test:ident)*) => {
        $(#[tokio::test]
        async fn $test() {
            crate::sink::conformance::$test(&$world).await;
        })*
    };
    ($world:expr) => {
        crate::sink::conformance::sink_conformance! { $world;
            looking_changes_nothing
            opening_makes_it_and_puts_the_fence
            a_fence_goes_only_over_a_lower_number
            epochs_become_visible_with_their_mark
            what_is_there_is_not_committed_again
            a_zombie_commits_nothing
            an_epoch_of_another_history_is_foreign
            empty_epochs_are_written_only_when_asked
        }
    };
}
pub(crate) use sink_conformance;
