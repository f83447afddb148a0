//! Windows over small logs: assignment, lateness, firing, sessions that merge, state that survives, and the vectors taken from Flink.
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMicrosecondType};
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array,
    RecordBatch, StringArray, TimestampMicrosecondArray,
};
use proptest::prelude::*;

use super::*;
use crate::plan::Aggregate;
use crate::rows::{NO_WATERMARK, Side};
use crate::schema::{Field, FieldType, UTC};

type Event = (&'static str, i64, Option<i64>);

fn input() -> Schema {
    Schema::new(vec![Field::required("user", FieldType::String), Field::nullable("cents", FieldType::Int64)])
}

pub(super) fn window(assigner: Assigner) -> WindowState {
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
pub(super) fn rows(events: &[Event]) -> Rows {
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
fn the_floor_of_what_fired_at_the_end_goes_on_in_a_later_run() {
    let mut ended = window(tumbling(10));
    assert_eq!(ended.fired_floor(), None);
    ended.assign(&rows(&[("a", 5, None), ("a", 15, None)]));
    ended.drain();
    assert_eq!(ended.fired_floor(), Some(EventTime(20)));
    let mut later = window(tumbling(10));
    later.set_fired_floor(ended.fired_floor());
    let assigned = later.assign(&rows(&[("a", 19, Some(18)), ("a", 19, Some(19)), ("a", 20, Some(19))]));
    let reasons: Vec<_> = assigned.late.iter().map(|late| (late.row, late.reason)).collect();
    assert_eq!(reasons, [(0, "ended"), (1, "late")], "the second was late by its own watermark");
    assert_eq!(assigned.counted, 1);
}

#[test]
fn open_windows_are_counted_and_the_oldest_tells_what_is_still_needed() {
    let events = [("a", 25, None), ("b", 25, None), ("a", 17, None)];
    for (assigner, oldest, open, then) in [(tumbling(10), 10, 3, 20), (Assigner::Session { gap: Span(5) }, 17, 3, 25)] {
        let mut state = window(assigner);
        assert_eq!((state.open(), state.oldest()), (0, None));
        state.assign(&rows(&events));
        assert_eq!((state.open(), state.oldest()), (open, Some(EventTime(oldest))));
        assert_eq!(state.fire(EventTime(22)).len(), 1);
        assert_eq!((state.open(), state.oldest()), (2, Some(EventTime(then))));
        let rest = state.fire(EventTime(30));
        assert_eq!((rest.len(), rest.is_empty(), state.open()), (2, false, 0));
    }
}

#[test]
fn a_session_that_takes_in_an_earlier_record_begins_there() {
    let mut state = window(Assigner::Session { gap: Span(10) });
    state.assign(&rows(&[("a", 20, None), ("b", 20, None), ("a", 15, None)]));
    assert_eq!(state.oldest(), Some(EventTime(15)));
    assert_eq!(state.fire(EventTime(29)).len(), 0);
    state.assign(&rows(&[("a", 16, None)]));
    let fired = state.fire(EventTime(30));
    assert_eq!(read(&state, fired), [row(15, 30, "a", 3), row(20, 30, "b", 1)]);
}

#[test]
fn a_record_may_be_late_by_its_own_time_though_its_window_is_open() {
    let mut state = window(tumbling(10));
    let event = [("a", 5, Some(5))];
    assert_eq!(state.assign(&rows(&event)).counted, 1);
    state.late_by_event = true;
    let assigned = state.assign(&rows(&event));
    assert_eq!((assigned.counted, assigned.late.len(), assigned.windows), (0, 1, 1));
}

#[test]
fn a_count_over_a_column_leaves_out_its_nulls_and_a_count_of_records_does_not() {
    let mut state = window(tumbling(10));
    state.spec.aggregates[1].function = Function::Count;
    let batch = rows(&[("a", 5, None), ("a", 6, None), ("a", 7, None)]);
    let cents: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None, None]));
    let columns = RecordBatch::try_new(input().arrow(), vec![batch.columns().column(0).clone(), cents]).unwrap();
    state.assign(&Rows::new(columns, batch.side().clone()).keyed_by(&[0]));
    let fired = state.drain();
    let rows = state.rows(fired, "w").unwrap().rows;
    let counts = [3, 4].map(|column| rows.column(column).as_primitive::<Int64Type>().value(0));
    assert_eq!(counts, [3, 1]);
}

/// One column of each type that a key may have, with the smallest value, a null and others.
fn keys() -> Vec<(FieldType, ArrayRef)> {
    let price = FieldType::Decimal { precision: 38, scale: 2 };
    let wide = Decimal128Array::from(vec![Some(-(10i128.pow(38) - 1)), None, Some(7), Some(-1)]);
    let times = TimestampMicrosecondArray::from(vec![Some(i64::MIN), None, Some(7), Some(-1)]).with_timezone(UTC);
    vec![
        (FieldType::Bool, Arc::new(BooleanArray::from(vec![Some(false), None, Some(true), Some(false)]))),
        (FieldType::Int32, Arc::new(Int32Array::from(vec![Some(i32::MIN), None, Some(7), Some(-1)]))),
        (FieldType::Int64, Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(7), Some(-1)]))),
        (FieldType::Float64, Arc::new(Float64Array::from(vec![Some(-1.5), None, Some(2.25), Some(-0.0)]))),
        (price, Arc::new(wide.with_data_type(price.arrow()))),
        (FieldType::String, Arc::new(StringArray::from(vec![Some("a"), None, Some(""), Some("long")]))),
        (FieldType::Binary, Arc::new(BinaryArray::from(vec![Some(&[0u8, 255][..]), None, Some(b""), Some(b"b")]))),
        (FieldType::Date, Arc::new(Date32Array::from(vec![Some(i32::MIN), None, Some(7), Some(-1)]))),
        (FieldType::TIMESTAMP_MS, Arc::new(times)),
    ]
}

#[test]
fn a_key_of_any_types_comes_out_of_its_window_as_it_went_in() {
    let (types, columns): (Vec<_>, Vec<_>) = keys().into_iter().unzip();
    let fields = types.iter().enumerate().map(|(n, ty)| Field::nullable(format!("k{n}"), *ty)).collect();
    let input = Schema::new(fields);
    let key: Vec<_> = (0..types.len()).collect();
    // Each row has a window of its own, so that the rows come out in their order.
    let side = rows(&[("", 0, None), ("", 10, None), ("", 20, None), ("", 30, None)]).side().clone();
    let batch = RecordBatch::try_new(input.arrow(), columns.clone()).unwrap();
    let mut state =
        WindowState::new(Window { assigner: tumbling(10), key: key.clone(), aggregates: vec![] }, input, false);
    state.assign(&Rows::new(batch, side).keyed_by(&key));
    let fired = state.drain();
    let rows = state.rows(fired, "w").unwrap().rows;
    assert_eq!(rows.columns()[2..], columns);
}

/// The accumulators of [`window`] after `n` records: of a count the number only, of a sum both.
fn stored(n: u8) -> Vec<u8> {
    let number = |first: u8, width| {
        let mut bytes = vec![0; width];
        bytes[0] = first;
        bytes
    };
    [number(n, 8), number(0, 32), number(n, 8), number(n, 32)].concat()
}

#[test]
fn a_stored_window_has_the_form_that_its_version_says() {
    let key = [1, 1, 0, 0, 0, b'a'];
    let head = [&[1, 6, 0, 0, 0][..], &key].concat();
    let hash = xxhash_rust::xxh3::xxh3_128(&key).to_be_bytes();
    let time = |t: i64| t.to_le_bytes();
    let changes = |assigner| {
        let mut state = window(assigner);
        state.assign(&rows(&[("a", 5, None), ("a", 7, None)]));
        let changes = state.changes();
        assert_eq!(state.changes(), [], "each change once");
        changes
    };
    let change = |key: &[u8], value: &[&[u8]]| {
        let (hash, key, value) = (KeyHash(u128::from_be_bytes(hash)), key.to_vec(), Some(value.concat()));
        [Change { hash, key, value }]
    };
    let of_window = change(&[&hash[..], &time(0)].concat(), &[&head, &time(10), &stored(2)]);
    assert_eq!(changes(tumbling(10)), of_window);
    let of_sessions = change(&hash, &[&head, &[1, 0, 0, 0], &time(5), &time(12), &stored(2)]);
    assert_eq!(changes(Assigner::Session { gap: Span(5) }), of_sessions);
}

#[test]
fn a_session_that_was_looked_at_and_went_on_is_not_written_again() {
    let mut state = window(Assigner::Session { gap: Span(10) });
    state.assign(&rows(&[("a", 0, None), ("a", 5, None)]));
    assert_eq!(state.changes().len(), 1);
    assert!(state.fire(EventTime(12)).is_empty(), "it would have ended at 10 without the second record");
    assert_eq!(state.changes(), []);
    assert_eq!(state.fire(EventTime(15)).len(), 1, "and it is found again");
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

#[test]
fn a_stored_window_of_another_version_or_length_is_an_error() {
    for assigner in [tumbling(10), Assigner::Session { gap: Span(10) }] {
        let mut state = window(assigner);
        state.assign(&rows(&[("a", 5, None)]));
        let Change { key, value, .. } = state.changes().remove(0);
        let value = value.unwrap();
        assert_eq!(window(assigner).load(&key, &value), Ok(()));
        let newer = [&[2], &value[1..]].concat();
        assert_eq!(window(assigner).load(&key, &newer), Err(Damaged("a window of another format version")));
        let longer = [&value[..], &[0]].concat();
        assert_eq!(window(assigner).load(&key, &longer), Err(Damaged("they go on behind their end")));
    }
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
