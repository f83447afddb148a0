//! The rule of dedup over a plain map: the horizon, the own partition's watermark, expiry that nobody sees.
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use proptest::prelude::*;

use super::*;
use crate::hash::KeyHash;
use crate::rows::{NO_WATERMARK, Side, WatermarkCause};

/// The dumbest store: a map, scanned on expiry.
#[derive(Default)]
struct Plain(HashMap<KeyHash, Seen>);

impl SeenIds for Plain {
    type Error = Infallible;

    fn warm(&mut self, _: &[KeyHash]) -> Result<(), Infallible> {
        Ok(())
    }

    fn admit(&mut self, id: KeyHash, decide: impl FnOnce(Option<Seen>) -> Option<Seen>) {
        if let Some(new) = decide(self.0.get(&id).copied()) {
            self.0.insert(id, new);
        }
    }

    fn expire(&mut self, last: Bucket) -> Result<(), Infallible> {
        self.0.retain(|_, seen| seen.bucket > last);
        Ok(())
    }
}

/// (id, partition, event time, watermark before it)
type Record = (u128, u32, i64, i64);

fn rows(records: &[Record]) -> Rows {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(records.iter().map(|r| r.2)));
    let mut side = Side::with_capacity(records.len());
    for (offset, (_, partition, time, watermark)) in records.iter().enumerate() {
        side.partition.push(*partition);
        side.offset.push(offset as i64);
        side.event_time.push(*time);
        side.watermark.push(*watermark);
        side.cause.push(WatermarkCause::Own);
    }
    let rows = Rows::new(RecordBatch::try_from_iter([("t", column)]).unwrap(), side);
    rows.with_keys(records.iter().map(|r| KeyHash(r.0)).collect())
}

fn judged(records: &[Record]) -> Vec<Verdict> {
    let rule = Rule { horizon: Span(100), bucket: Span(10) };
    judge(rule, &rows(records), &mut Plain::default()).unwrap()
}

fn seen(bucket: i64, partition: u32, offset: i64) -> Seen {
    Seen { bucket: Bucket(bucket), partition, offset }
}

#[test]
fn the_first_copy_goes_on_and_is_named_by_the_others() {
    let verdicts = judged(&[(1, 0, 5, NO_WATERMARK), (1, 0, 5, 0), (1, 3, 7, 0)]);
    assert_eq!(verdicts, [Verdict::First, Verdict::Duplicate(seen(0, 0, 0)), Verdict::Duplicate(seen(0, 0, 0))]);
}

#[test]
fn an_id_is_new_again_once_its_bucket_left_the_horizon() {
    let last = judged(&[(1, 0, 5, NO_WATERMARK), (1, 0, 200, 109)]);
    assert_eq!(last[1], Verdict::Duplicate(seen(0, 0, 0)), "bucket [0, 10) + 100 > 109");
    let first = judged(&[(1, 0, 5, NO_WATERMARK), (1, 0, 200, 110)]);
    assert_eq!(first[1], Verdict::First);
}

#[test]
fn a_record_whose_own_bucket_left_the_horizon_is_never_new() {
    assert_eq!(judged(&[(1, 0, 5, 110)]), [Verdict::BeyondHorizon]);
    assert_eq!(judged(&[(1, 0, -5, 100)]), [Verdict::BeyondHorizon], "bucket [-10, 0) + 100");
    assert_eq!(judged(&[(1, 0, -5, 99)]), [Verdict::First]);
}

#[test]
fn the_watermark_of_the_own_partition_decides_not_that_of_another() {
    let verdicts = judged(&[(1, 0, 5, NO_WATERMARK), (2, 0, 900, 800), (1, 1, 5, 20)]);
    assert_eq!(verdicts[2], Verdict::Duplicate(seen(0, 0, 0)));
}

#[test]
fn expiry_drops_exactly_the_buckets_that_nothing_remembers() {
    let rule = Rule { horizon: Span(100), bucket: Span(10) };
    for watermark in -300..300 {
        let last = rule.expired_through(EventTime(watermark));
        assert!(!rule.remembers(last, Some(EventTime(watermark))), "at {watermark}");
        assert!(rule.remembers(Bucket(last.0 + 1), Some(EventTime(watermark))), "at {watermark}");
    }
}

proptest! {
    /// Buckets dropped at any moment after the node's watermark (the minimum over partitions) passed them change no verdict.
    #[test]
    fn expiry_at_any_cut_is_invisible(
        steps in prop::collection::vec((0u128..6, 0u32..3, 0i64..400), 1..60),
        cuts in prop::collection::vec(any::<bool>(), 60),
    ) {
        let rule = Rule { horizon: Span(40), bucket: Span(7) };
        let mut max = [None::<i64>; 3];
        let (mut kept, mut expired) = (Plain::default(), Plain::default());
        for (step, cut) in steps.iter().zip(&cuts) {
            let (id, partition, time) = *step;
            let own = &mut max[partition as usize];
            let record = rows(&[(id, partition, time, own.map_or(NO_WATERMARK, |m| m - 5))]);
            *own = (*own).max(Some(time));
            prop_assert_eq!(judge(rule, &record, &mut kept).unwrap(), judge(rule, &record, &mut expired).unwrap());
            if let (true, Some(low)) = (*cut, max.iter().copied().min().flatten()) {
                expired.expire(rule.expired_through(EventTime(low - 5))).unwrap();
            }
        }
    }
}
