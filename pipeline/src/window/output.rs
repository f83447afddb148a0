//! Rows of fired windows: bounds, keys, aggregates; and the windows whose aggregates don't fit.
//!
//! Keeps: rows are in order of (end, start, key), whatever table they came from.
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_schema::ArrowError;

use super::key::decode_column;
use crate::aggregate::{Accumulator, Overflow, column_of, finish};
use crate::bytes::Cursor;
use crate::late::timestamps;
use crate::plan::{Window, window_errors_schema, window_schema};
use crate::schema::Schema;
use crate::time::EventTime;

/// Windows that have fired at one cut, in order.
#[derive(Debug, Default)]
pub struct Fired(Vec<FiredWindow>);

#[derive(Debug)]
pub(super) struct FiredWindow {
    pub start: EventTime,
    pub end: EventTime,
    pub key: Box<[u8]>,
    pub accs: Box<[Accumulator]>,
}

impl Fired {
    pub(super) fn new(mut windows: Vec<FiredWindow>) -> Self {
        windows.sort_unstable_by(|a, b| (a.end, a.start, &a.key).cmp(&(b.end, b.start, &b.key)));
        Self(windows)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn last_end(&self) -> Option<EventTime> {
        self.0.last().map(|w| w.end)
    }
}

/// Output of a cut: the window rows, and the rows of the errors output.
#[derive(Debug)]
pub struct FiredRows {
    pub rows: RecordBatch,
    pub errors: Option<RecordBatch>,
}

pub(super) fn rows(spec: &Window, input: &Schema, fired: Fired, node: &str) -> Result<FiredRows, ArrowError> {
    let mut good: Vec<&FiredWindow> = vec![];
    let mut results: Vec<Vec<Option<i128>>> = vec![vec![]; spec.aggregates.len()];
    let mut bad: Vec<(&FiredWindow, Overflow)> = vec![];
    for window in &fired.0 {
        match finish_all(spec, input, window) {
            Ok(row) => {
                good.push(window);
                row.into_iter().zip(&mut results).for_each(|(value, column)| column.push(value));
            }
            Err(overflow) => bad.push((window, overflow)),
        }
    }
    let mut columns = bounds_and_keys(spec, input, &good)?;
    columns.extend(spec.aggregates.iter().zip(results).map(|(a, values)| column_of(a.result, values)));
    let rows = RecordBatch::try_new(window_schema(input, spec).arrow(), columns)?;
    let errors = if bad.is_empty() { None } else { Some(error_rows(spec, input, &bad, node)?) };
    Ok(FiredRows { rows, errors })
}

fn finish_all(spec: &Window, input: &Schema, window: &FiredWindow) -> Result<Vec<Option<i128>>, Overflow> {
    let types = spec.aggregates.iter().map(|a| a.column.map(|c| input.fields[c].ty));
    spec.aggregates.iter().zip(types).zip(&window.accs).map(|((a, ty), acc)| finish(a, ty, acc)).collect()
}

fn error_rows(
    spec: &Window,
    input: &Schema,
    bad: &[(&FiredWindow, Overflow)],
    node: &str,
) -> Result<RecordBatch, ArrowError> {
    let windows: Vec<_> = bad.iter().map(|(w, _)| *w).collect();
    let mut columns = bounds_and_keys(spec, input, &windows)?;
    let text = |value: &dyn Fn(&Overflow) -> String| -> ArrayRef {
        std::sync::Arc::new(StringArray::from_iter_values(bad.iter().map(|(_, o)| value(o))))
    };
    columns.extend([text(&|_| node.to_owned()), text(&|_| "overflow".to_owned()), text(&ToString::to_string)]);
    RecordBatch::try_new(window_errors_schema(input, spec).arrow(), columns)
}

fn bounds_and_keys(spec: &Window, input: &Schema, windows: &[&FiredWindow]) -> Result<Vec<ArrayRef>, ArrowError> {
    let times = |time: &dyn Fn(&FiredWindow) -> EventTime| timestamps(windows.iter().map(|w| Some(time(w))));
    let mut columns = vec![times(&|w| w.start), times(&|w| w.end)];
    let mut keys: Vec<_> = windows.iter().map(|w| Cursor(&w.key)).collect();
    for column in &spec.key {
        let decoded = decode_column(input.fields[*column].ty, &mut keys);
        columns.push(decoded.map_err(|e| ArrowError::ExternalError(Box::new(e)))?);
    }
    Ok(columns)
}
