//! Windows over event time: which windows a record belongs to, when they fire, and which records come too late.
//!
//! A window fires only at a cut, when the node's watermark has passed it; since every partition's own watermark is at least that, no on-time record
//! can come after it. What a window holds is thus a function of the log.
//! Doesn't know: batches, workers, clocks, where its state is kept between runs. Keeps: in × windows of a record = counted + late rows; rows come out
//! in order of (window, key), never in the order of a hash map. Tested: tests.rs here; against runs of Flink 1.20.5 in tests.rs, `flink_vectors`.
mod hopping;
mod key;
mod output;
mod session;
mod value;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;

use crate::aggregate::{Accumulator, WholeNumbers};
use crate::bytes::Damaged;
use crate::hash::KeyHash;
use crate::late::LateRow;
use crate::plan::{Assigner, Function, Window};
use crate::rows::{Rows, Side, WatermarkCause};
use crate::schema::Schema;
use crate::time::{EventTime, Span};

pub use output::{Fired, FiredRows};

/// One window node on one worker: its open windows.
pub struct WindowState {
    spec: Window,
    input: Schema,
    late_by_event: bool,
    table: Table,
    /// Last end that fired before its time, because the input had ended: from then on a floor under every watermark of this node.
    fired_floor: Option<EventTime>,
}

enum Table {
    Hopping(hopping::HoppingTable),
    Session(session::SessionTable),
}

/// A change of durable state, to be written at the barrier. `value` is `None` for what is no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub hash: KeyHash,
    pub key: Vec<u8>,
    pub value: Option<Vec<u8>>,
}

/// What became of a batch: rows that came too late (one for each window missed) and how often a record was counted into a window.
#[derive(Debug, Default)]
pub struct Assigned {
    pub late: Vec<LateRow>,
    pub counted: u64,
    /// Windows of all records of the batch: what `counted` and the late rows must add up to.
    pub windows: u64,
}

impl WindowState {
    pub fn new(spec: Window, input: Schema, late_by_event: bool) -> Self {
        let table = match spec.assigner {
            Assigner::Hopping { .. } => Table::Hopping(hopping::HoppingTable::default()),
            Assigner::Session { .. } => Table::Session(session::SessionTable::default()),
        };
        Self { spec, input, late_by_event, table, fired_floor: None }
    }

    /// Counts rows, which are keyed by the window's key, into their windows.
    pub fn assign(&mut self, rows: &Rows) -> Assigned {
        let keys = key::KeyColumns::of(rows.columns(), &self.spec.key);
        let inputs = Inputs::of(rows.columns(), &self.spec, &self.input);
        let mut assigned = Assigned::default();
        for (row, hash) in rows.places().zip(rows.keys()) {
            let (watermark, cause) = self.met(rows.side(), row);
            let record = Record { row: row as u32, time: rows.side().event_time(row), watermark, cause };
            let place = Place { hash: *hash, keys: &keys, row };
            match (&mut self.table, self.spec.assigner) {
                (Table::Hopping(table), Assigner::Hopping { size, slide, offset }) => {
                    for start in hopping::starts(record.time, size, slide, offset) {
                        let end = start.plus(size);
                        if record.too_late_for_window(end, self.late_by_event) {
                            assigned.late.push(record.late(start, end));
                        } else {
                            table.add(&place, start, end, &inputs);
                            assigned.counted += 1;
                        }
                    }
                }
                (Table::Session(table), Assigner::Session { gap }) => {
                    if record.too_late_for_session() {
                        assigned.late.push(record.late(record.time, record.time.plus(gap)));
                    } else {
                        table.add(&place, record.time, gap, &inputs);
                        assigned.counted += 1;
                    }
                }
                _ => {}
            }
        }
        assigned.windows = self.windows_of(rows);
        assigned
    }

    fn windows_of(&self, rows: &Rows) -> u64 {
        match self.spec.assigner {
            Assigner::Session { .. } => rows.len() as u64,
            Assigner::Hopping { size, slide, offset } => {
                rows.places().map(|row| hopping::windows_of(rows.side().event_time(row), size, slide, offset)).sum()
            }
        }
    }

    /// Fires every window that a watermark has passed.
    pub fn fire(&mut self, watermark: EventTime) -> Fired {
        match &mut self.table {
            Table::Hopping(table) => table.fire(watermark),
            Table::Session(table) => table.fire(watermark),
        }
    }

    /// Fires all windows, since the input has ended, and remembers the last end as a floor for what may come in a later run.
    pub fn drain(&mut self) -> Fired {
        let fired = self.fire(EventTime::MAX);
        self.fired_floor = self.fired_floor.max(fired.last_end());
        fired
    }

    /// Rows of fired windows as columns, and those whose aggregates don't fit their types.
    pub fn rows(&self, fired: Fired, node: &str) -> Result<FiredRows, ArrowError> {
        output::rows(&self.spec, &self.input, fired, node)
    }

    /// What changed since the last call, in no particular order.
    pub fn changes(&mut self) -> Vec<Change> {
        match &mut self.table {
            Table::Hopping(table) => table.changes(),
            Table::Session(table) => table.changes(),
        }
    }

    /// Takes back what [`changes`](Self::changes) once gave.
    pub fn load(&mut self, key: &[u8], value: &[u8]) -> Result<(), Damaged> {
        let aggregates = self.spec.aggregates.len();
        match &mut self.table {
            Table::Hopping(table) => table.load(key, value, aggregates),
            Table::Session(table) => table.load(key, value, aggregates),
        }
    }

    /// Earliest event time that an open window may hold.
    pub fn oldest(&self) -> Option<EventTime> {
        match &self.table {
            Table::Hopping(table) => table.oldest(),
            Table::Session(table) => table.oldest(),
        }
    }

    pub fn fired_floor(&self) -> Option<EventTime> {
        self.fired_floor
    }

    pub fn set_fired_floor(&mut self, floor: Option<EventTime>) {
        self.fired_floor = floor;
    }

    /// Number of open windows.
    pub fn open(&self) -> usize {
        match &self.table {
            Table::Hopping(table) => table.open(),
            Table::Session(table) => table.open(),
        }
    }

    /// The watermark a record met, raised to the end that this node has already fired. A session that ended at e would have taken a record at e
    /// (touching merges); a window that ended at e would not.
    fn met(&self, side: &Side, row: usize) -> (Option<EventTime>, WatermarkCause) {
        let own = side.watermark(row);
        let floor = match self.spec.assigner {
            Assigner::Hopping { .. } => self.fired_floor.map(|end| end.minus(Span(1))),
            Assigner::Session { .. } => self.fired_floor,
        };
        if floor > own { (floor, WatermarkCause::Ended) } else { (own, side.cause[row]) }
    }
}

/// One record as the lateness rules see it.
struct Record {
    row: u32,
    time: EventTime,
    watermark: Option<EventTime>,
    cause: WatermarkCause,
}

impl Record {
    fn too_late_for_window(&self, end: EventTime, by_event: bool) -> bool {
        if by_event { self.too_late_for_session() } else { crate::watermark::too_late_for_window(end, self.watermark) }
    }

    fn too_late_for_session(&self) -> bool {
        crate::watermark::too_late_for_session(self.time, self.watermark)
    }

    fn late(&self, start: EventTime, end: EventTime) -> LateRow {
        let reason = self.cause.reason();
        LateRow { row: self.row, watermark: self.watermark, window: Some((start, end)), reason }
    }
}

/// Where a record's key is to be found.
struct Place<'a> {
    hash: KeyHash,
    keys: &'a key::KeyColumns<'a>,
    row: usize,
}

impl Place<'_> {
    fn key(&self) -> Box<[u8]> {
        self.keys.encode(self.row)
    }
}

/// The aggregated columns of a batch.
struct Inputs<'a> {
    functions: Vec<Function>,
    /// `None` for `count()`, which takes every record.
    columns: Vec<Option<WholeNumbers<'a>>>,
}

impl<'a> Inputs<'a> {
    fn of(batch: &'a RecordBatch, spec: &Window, input: &Schema) -> Self {
        let values = |column: usize| WholeNumbers::of(batch.column(column), input.fields[column].ty);
        Self {
            functions: spec.aggregates.iter().map(|a| a.function).collect(),
            columns: spec.aggregates.iter().map(|a| a.column.map(values)).collect(),
        }
    }

    fn add(&self, row: usize, accs: &mut [Accumulator]) {
        for ((acc, function), column) in accs.iter_mut().zip(&self.functions).zip(&self.columns) {
            match column {
                None => acc.n += 1,
                Some(values) => {
                    if let Some(value) = values.at(row) {
                        acc.add(*function, value);
                    }
                }
            }
        }
    }

    fn len(&self) -> usize {
        self.functions.len()
    }
}

#[cfg(test)]
mod tests;
