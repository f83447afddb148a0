//! Windows over small logs: assignment, lateness, firing, sessions that merge, state that survives, and the vectors taken from Flink.
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMicrosecondType};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use proptest::prelude::*;

use super::*;
use crate::plan::Aggregate;
use crate::rows::{NO_WATERMARK, Side};
use crate::schema::{Field, FieldType};

type Event = (&'static str, i64, Option<i64>);

fn input() -> Schema {
    Schema::new(vec![Field::required("user", FieldType::String), Field::nullable("cents", FieldType::Int64)])
}

fn window(assigner: Assigner) -> WindowState {
    let aggregate = |name: &str, function, column, result| Aggregate { name: name.into(), function, column, result };
    let spec = Window {
        assigner,
        key: vec![0],
        aggregates: vec![
            aggregate("n", Function::Count, None, FieldType::Int64),
            aggregate("cents", Function::Sum, Some(1), FieldType::Int64),
        ],
    };
    WindowState::new(spec, input(), false)
}

fn tumbling(size: i64) -> Assigner {
    Assigner::Hopping { size: Span(size), slide: Span(size), offset: Span(0) }
}

/// Events (user, time, watermark met), one cent each.
fn rows(events: &[Event]) -> Rows {
    let users: ArrayRef = Arc::new(StringArray::from_iter_values(events.iter().map(|e| e.0)));
    let cents: ArrayRef = Arc::new(Int64Array::from_iter_values(events.iter().map(|_| 1)));
    let columns = RecordBatch::try_new(input().arrow(), vec![users, cents]).unwrap();
    let mut side = Side::with_capacity(events.len());
    for (offset, (_, time, watermark)) in events.iter().enumerate() {
        side.partition.push(0);
        side.offset.push(offset as i64);
        side.event_time.push(*time);
        side.watermark.push(watermark.unwrap_or(NO_WATERMARK));
        side.cause.push(WatermarkCause::Own);
    }
    Rows::new(columns, side).keyed_by(&[0])
}

/// (start, end, user, count)
fn read(state: &WindowState, fired: Fired) -> Vec<(i64, i64, String, i64)> {
    let rows = state.rows(fired, "w").unwrap().rows;
    let time = |column: usize, row| rows.column(column).as_primitive::<TimestampMicrosecondType>().value(row) / 1_000;
    let read = |row| {
        let user = rows.column(2).as_string::<i32>().value(row).to_owned();
        let (n, cents) = (rows.column(3).as_primitive::<Int64Type>(), rows.column(4).as_primitive::<Int64Type>());
        assert_eq!(n.value(row), cents.value(row));
        (time(0, row), time(1, row), user, n.value(row))
    };
    (0..rows.num_rows()).map(read).collect()
}

fn all(assigner: Assigner, events: &[Event]) -> Vec<(i64, i64, String, i64)> {
    let mut state = window(assigner);
    state.assign(&rows(events));
    let fired = state.drain();
    read(&state, fired)
}

fn row(start: i64, end: i64, user: &str, n: i64) -> (i64, i64, String, i64) {
    (start, end, user.to_owned(), n)
}

#[test]
fn flink_vectors_tumbling_windows_before_1970_use_floor() {
    let events = [("a", -10_001, None), ("a", -10_000, None), ("a", -1, None)];
    assert_eq!(all(tumbling(10_000), &events), [row(-20_000, -10_000, "a", 1), row(-10_000, 0, "a", 2)]);
}

#[test]
fn flink_vectors_touching_sessions_merge() {
    let gap = Assigner::Session { gap: Span(5_000) };
    let touching = all(gap, &[("a", 0, None), ("a", 5_000, None), ("a", 10_001, None)]);
    assert_eq!(touching, [row(0, 10_000, "a", 2), row(10_001, 15_001, "a", 1)]);
    let around_zero = all(gap, &[("a", -10_000, None), ("a", -10_001, None), ("a", -1, None), ("a", 0, None)]);
    assert_eq!(around_zero, [row(-10_001, -5_000, "a", 2), row(-1, 5_000, "a", 2)]);
}

#[test]
fn a_record_between_two_sessions_makes_them_one() {
    let gap = Assigner::Session { gap: Span(10) };
    let events = [("a", 0, None), ("a", 20, None), ("b", 40, None), ("a", 10, None)];
    assert_eq!(all(gap, &events), [row(0, 30, "a", 3), row(40, 50, "b", 1)]);
}

#[test]
fn hopping_windows_overlap_and_may_be_offset() {
    let hopping = Assigner::Hopping { size: Span(10), slide: Span(5), offset: Span(2) };
    assert_eq!(all(hopping, &[("a", 7, None)]), [row(2, 12, "a", 1), row(7, 17, "a", 1)]);
    assert_eq!(all(hopping, &[("a", 6, None)]), [row(-3, 7, "a", 1), row(2, 12, "a", 1)]);
}

#[test]
fn a_late_record_names_each_window_it_missed() {
    let mut state = window(Assigner::Hopping { size: Span(10), slide: Span(5), offset: Span(0) });
    let assigned = state.assign(&rows(&[("a", 7, Some(9)), ("a", 7, Some(8)), ("a", 7, Some(14))]));
    assert_eq!(assigned.counted, 1 + 2, "[5, 15) is open at 9; both are at 8");
    let missed: Vec<_> = assigned.late.iter().map(|l| (l.row, l.window.map(|w| w.0.0))).collect();
    assert_eq!(missed, [(0, Some(0)), (2, Some(5)), (2, Some(0))]);
}

#[test]
fn a_window_fires_at_its_last_millisecond_and_a_session_at_its_end() {
    let mut state = window(tumbling(10));
    state.assign(&rows(&[("a", 5, None)]));
    assert!(state.fire(EventTime(8)).is_empty());
    assert_eq!(state.fire(EventTime(9)).len(), 1);
    let mut state = window(Assigner::Session { gap: Span(10) });
    state.assign(&rows(&[("a", 5, None)]));
    assert!(state.fire(EventTime(14)).is_empty());
    assert_eq!(state.fire(EventTime(15)).len(), 1);
}

#[test]
fn what_comes_after_a_drain_is_late_up_to_the_last_end_and_open_after_it() {
    let mut state = window(tumbling(10));
    state.assign(&rows(&[("a", 5, None)]));
    state.drain();
    let assigned = state.assign(&rows(&[("a", 9, Some(0)), ("a", 10, Some(0))]));
    assert_eq!((assigned.late.len(), assigned.late[0].reason, assigned.counted), (1, "ended", 1));
    let mut state = window(Assigner::Session { gap: Span(10) });
    state.assign(&rows(&[("a", 5, None)]));
    state.drain();
    let assigned = state.assign(&rows(&[("a", 15, Some(0)), ("a", 16, Some(0))]));
    assert_eq!((assigned.late.len(), assigned.counted), (1, 1), "a record at 15 would have touched [5, 15)");
}

#[test]
fn a_sum_that_overflows_goes_to_the_errors_with_its_place() {
    let mut state = window(tumbling(10));
    let batch = rows(&[("a", 5, None), ("a", 6, None), ("b", 6, None)]);
    let cents: ArrayRef = Arc::new(Int64Array::from(vec![i64::MAX, 1, 7]));
    let columns = RecordBatch::try_new(input().arrow(), vec![batch.columns().column(0).clone(), cents]).unwrap();
    let batch = Rows::new(columns, batch.side().clone()).keyed_by(&[0]);
    state.assign(&batch);
    let fired = state.drain();
    let rows = state.rows(fired, "per_user").unwrap();
    assert_eq!(rows.rows.num_rows(), 1);
    let errors = rows.errors.unwrap();
    assert_eq!(errors.column(2).as_string::<i32>().value(0), "a");
    assert_eq!(
        errors.column(5).as_string::<i32>().value(0),
        "sum: a total of 9223372036854775808 over 2 values doesn't fit int64"
    );
}

#[test]
fn damaged_bytes_are_an_error_and_never_a_panic() {
    let mut state = window(Assigner::Session { gap: Span(10) });
    state.assign(&rows(&[("a", 5, None), ("a", 50, None)]));
    let change = state.changes().remove(0);
    let value = change.value.unwrap();
    for cut in 0..value.len() {
        assert!(window(Assigner::Session { gap: Span(10) }).load(&change.key, &value[..cut]).is_err(), "cut at {cut}");
    }
    assert!(window(Assigner::Session { gap: Span(10) }).load(&change.key[1..], &value).is_err());
}

/// Writes the changes to a map and reads them all back into an empty state, as a crash and a restore would.
struct Stored(std::collections::BTreeMap<Vec<u8>, Vec<u8>>);

impl Stored {
    fn barrier(&mut self, state: &mut WindowState) {
        for change in state.changes() {
            match change.value {
                Some(value) => self.0.insert(change.key, value),
                None => self.0.remove(&change.key),
            };
        }
    }

    fn restore(&self, assigner: Assigner) -> WindowState {
        let mut state = window(assigner);
        self.0.iter().for_each(|(key, value)| state.load(key, value).unwrap());
        state
    }
}

fn assigners() -> impl Strategy<Value = Assigner> {
    prop_oneof![
        (1i64..30).prop_map(|gap| Assigner::Session { gap: Span(gap) }),
        (1i64..30, 1i64..30, -10i64..10).prop_map(|(size, slide, offset)| Assigner::Hopping {
            size: Span(size),
            slide: Span(slide.min(size)),
            offset: Span(offset),
        }),
    ]
}

proptest! {
    /// However the same records are cut into batches, cuts and restores, the rows are the same in the end, and nothing is left behind.
    #[test]
    fn batches_cuts_and_restores_change_nothing(
        assigner in assigners(),
        steps in prop::collection::vec((0usize..3, -20i64..20, any::<bool>(), any::<bool>()), 1..40),
    ) {
        let users = ["a", "b", "c"];
        let (mut max, mut low) = (None::<i64>, 0i64);
        let mut events = vec![];
        for (user, jitter, _, _) in &steps {
            low += 3;
            events.push((users[*user], low + jitter, max.map(|m| m - 10)));
            max = max.max(Some(low + jitter));
        }
        let mut straight = window(assigner);
        let assigned = straight.assign(&rows(&events));
        let straight_late = assigned.late.len();
        prop_assert_eq!(assigned.windows, assigned.counted + straight_late as u64);
        let fired = straight.drain();
        let mut expected = read(&straight, fired);

        let mut state = window(assigner);
        let mut stored = Stored(Default::default());
        let (mut found, mut late) = (vec![], 0);
        for (event, (_, _, cut, crash)) in events.iter().zip(&steps) {
            late += state.assign(&rows(std::slice::from_ref(event))).late.len();
            if let (true, Some(watermark)) = (*cut, event.2) {
                let fired = state.fire(EventTime(watermark));
                found.extend(read(&state, fired));
                stored.barrier(&mut state);
                if *crash {
                    state = stored.restore(assigner);
                }
            }
        }
        let fired = state.drain();
        found.extend(read(&state, fired));
        stored.barrier(&mut state);
        found.sort();
        expected.sort();
        prop_assert_eq!(found, expected);
        prop_assert_eq!(late, straight_late);
        prop_assert!(stored.0.is_empty() && state.open() == 0 && state.oldest().is_none());
    }
}

proptest! {
    #[test]
    fn any_stored_bytes_are_a_window_or_an_error(
        assigner in assigners(),
        key in prop::collection::vec(any::<u8>(), 0..40),
        value in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut state = window(assigner);
        if state.load(&key, &value).is_ok() {
            let fired = state.drain();
            let _ = state.rows(fired, "w");
        }
    }

    #[test]
    fn a_stored_window_that_was_changed_is_a_window_or_an_error(
        assigner in assigners(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        in_key in any::<bool>(),
    ) {
        let mut state = window(assigner);
        state.assign(&rows(&[("a", 5, None), ("a", 7, None), ("b", 6, None)]));
        let mut other = window(assigner);
        for Change { mut key, value, .. } in state.changes() {
            let mut value = value.unwrap();
            let changed = if in_key { &mut key } else { &mut value };
            let at = at.index(changed.len());
            changed[at] = byte;
            let _ = other.load(&key, &value);
        }
        let fired = other.drain();
        let _ = other.rows(fired, "w");
    }
}
