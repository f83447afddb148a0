//! What a source makes of its records, and what dedup and windows make of rows.
//!
//! - A record's watermark is the largest time before it in its own partition, less the bound. Every decoded record moves it, duplicates too.
//! - It is late for a window that ends at e if e − 1 ms ≤ its watermark; for sessions, and for all with `lateness = "event"`, if its own time is.
//! - Records of a key no further apart than the gap are one session, which ends a gap after the last.
//! - An id counts as seen until the watermark reaches the end of its first copy's bucket and the horizon; a record whose own bucket is past that is late.
use std::collections::BTreeMap;

use serde_json::Value as Json;
use serde_json::value::RawValue;

use crate::file::{Column, Origin, Section};
use crate::value::{Cell, Type};
use crate::{Floor, Record};

pub type Streams = BTreeMap<String, Stream>;

/// Rows of one output.
#[derive(Clone, Default)]
pub struct Stream {
    columns: Vec<Column>,
    rows: Vec<Row>,
}

/// Topic, partition, offset.
type Place = (String, i32, i64);

#[derive(Clone)]
struct Row {
    cells: Vec<Cell>,
    place: Place,
    time_ms: i64,
    /// Of the record's own partition, before the record.
    watermark_ms: Option<i64>,
    /// Why that is what it is.
    cause: String,
    late_by_event: bool,
}

impl Stream {
    pub fn lines(&self) -> Vec<String> {
        let names: Vec<_> = self.columns.iter().map(|column| Json::from(column.name.as_str()).to_string()).collect();
        let line = |row: &Row| {
            let cells = self.columns.iter().zip(&names).zip(&row.cells);
            let cells: Vec<_> =
                cells.map(|((column, name), cell)| format!("{name}:{}", column.ty.show(cell))).collect();
            format!("{{{}}}", cells.join(","))
        };
        let mut lines: Vec<_> = self.rows.iter().map(line).collect();
        lines.sort();
        lines
    }

    fn places_of(&self, columns: &[&str]) -> Result<Vec<usize>, String> {
        columns.iter().map(|column| self.place_of(column)).collect()
    }

    fn place_of(&self, column: &str) -> Result<usize, String> {
        self.columns.iter().position(|c| c.name == column).ok_or_else(|| format!("no column {column}"))
    }
}

const PLACE: &str = "_topic string, _partition int32, _offset int64";
const FIRST: &str = "_first_topic string, _first_partition int32, _first_offset int64";
const LATE: &str = "_watermark timestamp_ms, _window_node string, _window_start timestamp_ms, _window_end timestamp_ms, \
                    _reason string";
const BOUNDS: &str = "window_start timestamp_ms, window_end timestamp_ms";

fn with(columns: &[Column], more: &[&str]) -> Vec<Column> {
    let more = more.iter().flat_map(|columns| columns.split(", ")).filter_map(|column| column.split_once(' '));
    let more = more.filter_map(|(name, ty)| Some(Column { name: name.into(), ty: Type::parse(ty)?, nullable: true }));
    columns.iter().cloned().chain(more).collect()
}

fn place_cells((topic, partition, offset): &Place) -> [Cell; 3] {
    [Cell::Text(topic.clone()), Cell::Whole((*partition).into()), Cell::Whole((*offset).into())]
}

fn ms(time: i64) -> Cell {
    Cell::Whole(i128::from(time) * 1_000)
}

/// Decodes a source's records partition by partition, and gives each row its watermark.
pub fn read(name: &str, source: Section<'_>, log: &[Record], floors: &[Floor], to: &mut Streams) -> Result<(), String> {
    let schema = source.columns()?;
    let bound_ms = source.inner("watermark").map_or(Ok(None), |w| w.ms("bound"))?.unwrap_or(0);
    let late_by_event = source.text("lateness") == Some("event");
    let mut errors = Stream { columns: with(&[], &[PLACE]), rows: vec![] };
    let mut rows = Stream { columns: schema.iter().map(|(column, _)| column.clone()).collect(), rows: vec![] };
    let mut log: Vec<&Record> = log.iter().filter(|record| record.source == name).collect();
    log.sort_by_key(|record| (&record.topic, record.partition, record.offset));
    for records in log.chunk_by(|a, b| (&a.topic, a.partition) == (&b.topic, b.partition)) {
        let mut largest: Option<i64> = None;
        for record in records {
            let holds_here = |f: &&Floor| {
                let of_partition = f.source == name && f.topic == record.topic && f.partition == record.partition;
                of_partition && f.from_offset <= record.offset
            };
            let own = largest.map(|largest| largest - bound_ms);
            let floor = floors.iter().rev().filter(holds_here).max_by_key(|floor| floor.watermark_ms);
            let floor = floor.filter(|floor| own.is_none_or(|own| own < floor.watermark_ms));
            let watermark_ms = floor.map_or(own, |floor| Some(floor.watermark_ms));
            let cause = floor.map_or("late", |floor| &floor.reason).to_owned();
            let place = (record.topic.clone(), record.partition, record.offset);
            let mut row =
                Row { cells: place_cells(&place).into(), place, time_ms: 0, watermark_ms, cause, late_by_event };
            if let Some((cells, time_ms)) = decode(source, &schema, record)? {
                largest = largest.max(time_ms);
                (row.cells, row.time_ms) = (cells, time_ms.unwrap_or(0));
                rows.rows.push(row);
            } else {
                errors.rows.push(row);
            }
        }
    }
    to.insert(format!("{name}.errors"), errors);
    to.insert(name.to_owned(), rows);
    Ok(())
}

type Decoded = (Vec<Cell>, Option<i64>);

/// `None`: a record for the errors output.
fn decode(source: Section<'_>, schema: &[(Column, Origin)], record: &Record) -> Result<Option<Decoded>, String> {
    let json = record.value.as_deref().and_then(|bytes| serde_json::from_slice::<&RawValue>(bytes).ok());
    let Some(json) = json.filter(|json| json.get().starts_with('{')) else { return Ok(None) };
    let mut fields = BTreeMap::new();
    flatten(vec![], json.get(), &mut fields);
    let is_on_way = |at: &[String], path: &[String]| path.iter().zip(at).all(|(wanted, found)| wanted == found);
    let is_known =
        |at: &Vec<String>| schema.iter().any(|(_, o)| matches!(o, Origin::Path(path) if is_on_way(at, path)));
    if source.text("unknown_fields") == Some("error") && !fields.keys().all(is_known) {
        return Ok(None);
    }
    let mut cells = vec![];
    for (column, origin) in schema {
        let cell = match origin {
            Origin::Path(path) => {
                let is_open = |n: usize| fields.get(&path[..n]).is_none_or(|on| on.starts_with('{') || on == "null");
                match fields.get(path) {
                    Some(json) if json != "null" => column.ty.read(json),
                    _ => (0..path.len()).all(is_open).then_some(Cell::Null),
                }
            }
            Origin::Metadata(name) => metadata(record, name, column.ty),
        };
        let Some(cell) = cell.filter(|cell| column.nullable || *cell != Cell::Null) else { return Ok(None) };
        cells.push(cell);
    }
    let Some(event_time) = source.inner("event_time") else { return Ok(Some((cells, None))) };
    let time_ms = match event_time.text("field") {
        None => record.timestamp_ms,
        Some(name) => match schema.iter().position(|(column, _)| column.name == name).map(|at| &cells[at]) {
            Some(Cell::Whole(us)) => i64::try_from(us.div_euclid(1_000)).ok(),
            _ => return Err(format!("no time {name}")),
        },
    };
    // An hour; files have no timestamp to be ahead of.
    let default_ms = (source.text("type") != Some("file")).then_some(3_600_000);
    let max_future_ms = source.inner("watermark").map_or(Ok(None), |w| w.ms("max_future"))?.or(default_ms);
    let lead = time_ms.zip(record.timestamp_ms).map(|(time, logged)| time - logged);
    let is_future = lead.zip(max_future_ms).is_some_and(|(lead, most)| lead > most);
    Ok((!is_future && time_ms.is_some()).then_some((cells, time_ms)))
}

/// By its path, what stands at each field; of two with one path the last.
fn flatten(at: Vec<String>, json: &str, to: &mut BTreeMap<Vec<String>, String>) {
    // No path is longer.
    if json.starts_with('{') && at.len() <= 512 {
        let fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(json).unwrap_or_default();
        fields.into_iter().for_each(|(name, value)| flatten([&at[..], &[name]].concat(), value.get(), to));
    }
    to.insert(at, json.to_owned());
}

fn metadata(record: &Record, name: &str, ty: Type) -> Option<Cell> {
    let bytes = match name {
        "kafka.topic" => return Some(Cell::Text(record.topic.clone())),
        "kafka.partition" => return Some(Cell::Whole(record.partition.into())),
        "kafka.offset" => return Some(Cell::Whole(record.offset.into())),
        "kafka.timestamp" => return Some(record.timestamp_ms.map_or(Cell::Null, ms)),
        "kafka.key" => record.key.as_ref(),
        header => {
            let name = header.strip_prefix("kafka.header.")?;
            record.headers.iter().rfind(|(header, _)| header == name).map(|(_, value)| value)
        }
    };
    match (bytes, ty) {
        (None, _) => Some(Cell::Null),
        (Some(bytes), Type::Text) => String::from_utf8(bytes.clone()).ok().map(Cell::Text),
        (Some(bytes), _) => Some(Cell::Bytes(bytes.clone())),
    }
}

/// Runs one node over what its inputs give.
pub fn run(kind: &str, name: &str, node: Section<'_>, streams: &mut Streams) -> Result<(), String> {
    let mut input = Stream::default();
    for from in node.names("from") {
        let stream = &streams[from];
        input.columns.clone_from(&stream.columns);
        input.rows.extend(stream.rows.iter().cloned());
    }
    let outputs = if kind == "dedup" { dedup(name, node, &input)? } else { window(name, node, &input)? };
    for (output, stream) in outputs {
        streams.insert(if output.is_empty() { name.to_owned() } else { format!("{name}.{output}") }, stream);
    }
    Ok(())
}

type Named = Vec<(&'static str, Stream)>;

/// Two keys are one if they read the same.
fn key_of(input: &Stream, row: &Row, key: &[usize]) -> Vec<String> {
    key.iter().map(|at| input.columns[*at].ty.show(&row.cells[*at])).collect()
}

fn dedup(name: &str, rule: Section<'_>, input: &Stream) -> Result<Named, String> {
    let (key, horizon_ms) = (input.places_of(&rule.names("key"))?, rule.ms("horizon")?.ok_or("no horizon")?);
    let bucket_ms = rule.ms("bucket")?.unwrap_or((horizon_ms / 24).max(1));
    let mut unique = Stream { columns: input.columns.clone(), rows: vec![] };
    let mut duplicates = Stream { columns: with(&input.columns, &[PLACE, FIRST]), rows: vec![] };
    let mut late = Stream { columns: with(&input.columns, &[PLACE, LATE]), rows: vec![] };
    let forgotten_at = |time_ms: i64| (time_ms.div_euclid(bucket_ms) + 1) * bucket_ms + horizon_ms;
    let mut seen: BTreeMap<Vec<String>, (i64, Place)> = BTreeMap::new();
    for row in &input.rows {
        let remembered = |time_ms: i64| row.watermark_ms.is_none_or(|watermark| forgotten_at(time_ms) > watermark);
        let id = key_of(input, row, &key);
        match seen.get(&id) {
            Some((first_ms, place)) if remembered(*first_ms) => {
                let cells = [&row.cells[..], &place_cells(&row.place), &place_cells(place)].concat();
                duplicates.rows.push(Row { cells, ..row.clone() });
            }
            _ if remembered(row.time_ms) => {
                seen.insert(id, (row.time_ms, row.place.clone()));
                unique.rows.push(row.clone());
            }
            _ => late.rows.push(late_row(name, row, None, "beyond_horizon")),
        }
    }
    Ok(vec![("", unique), ("duplicates", duplicates), ("late", late)])
}

fn late_row(node: &str, row: &Row, window: Option<(i64, i64)>, reason: &str) -> Row {
    let watermark = row.watermark_ms.map_or(Cell::Null, ms);
    let (start, end) = window.map_or((Cell::Null, Cell::Null), |(start, end)| (ms(start), ms(end)));
    let late = [watermark, Cell::Text(node.to_owned()), start, end, Cell::Text(reason.to_owned())];
    Row { cells: [&row.cells[..], &place_cells(&row.place), &late].concat(), ..row.clone() }
}

/// Key, start and end.
type Window = (Vec<String>, i64, i64);
type Windows<'a> = BTreeMap<Window, Vec<&'a Row>>;

fn window(name: &str, rule: Section<'_>, input: &Stream) -> Result<Named, String> {
    let (key, gap_ms, size_ms) = (input.places_of(&rule.names("key"))?, rule.ms("gap")?, rule.ms("size")?.unwrap_or(1));
    // A tumbling window steps by its size.
    let (slide_ms, offset_ms) = (rule.ms("slide")?.unwrap_or(size_ms), rule.ms("offset")?.unwrap_or(0));
    let windows_of = |time_ms: i64| match gap_ms {
        // A record alone is a session, until it meets others.
        Some(gap_ms) => vec![(time_ms, time_ms + gap_ms)],
        None => {
            let newest = (time_ms - offset_ms).div_euclid(slide_ms) * slide_ms + offset_ms;
            let starts = (0..).map(|n| newest - n * slide_ms).take_while(|start| start + size_ms > time_ms);
            starts.map(|start| (start, start + size_ms)).collect()
        }
    };
    let mut late = Stream { columns: with(&input.columns, &[PLACE, LATE]), rows: vec![] };
    let mut windows = Windows::new();
    for row in &input.rows {
        for (start, end) in windows_of(row.time_ms) {
            let late_at = if gap_ms.is_some() || row.late_by_event { row.time_ms } else { end - 1 };
            if row.watermark_ms.is_some_and(|watermark| late_at <= watermark) {
                late.rows.push(late_row(name, row, Some((start, end)), &row.cause));
            } else {
                windows.entry((key_of(input, row, &key), start, end)).or_default().push(row);
            }
        }
    }
    let windows = if gap_ms.is_some() { sessions(windows) } else { windows };
    let (fired, errors) = fire(rule, input, &key, windows)?;
    Ok(vec![("", fired), ("late", late), ("errors", errors)])
}

/// Sessions of a key that touch are one.
fn sessions(windows: Windows<'_>) -> Windows<'_> {
    let mut merged: Vec<(Window, Vec<&Row>)> = vec![];
    for ((key, start, end), rows) in windows {
        match merged.last_mut() {
            Some(((same, _, until), all)) if *same == key && start <= *until => {
                *until = end;
                all.extend(rows);
            }
            _ => merged.push(((key, start, end), rows)),
        }
    }
    merged.into_iter().collect()
}

/// One row for each window; of those that have a total which its type can't hold, key and bounds.
fn fire(rule: Section<'_>, input: &Stream, key: &[usize], windows: Windows<'_>) -> Result<(Stream, Stream), String> {
    let mut columns = with(&[], &[BOUNDS]);
    columns.extend(key.iter().map(|at| input.columns[*at].clone()));
    let mut errors = Stream { columns: columns.clone(), rows: vec![] };
    let mut computed = vec![];
    for (name, function, column) in rule.aggregates()? {
        let column = column.map(|column| input.place_of(column)).transpose()?;
        let ty = column.map_or(Type::Int64, |at| input.columns[at].ty);
        let result = result_type(function, ty).ok_or_else(|| format!("{name}: no {function} of {ty:?}"))?;
        columns.push(Column { name: name.to_owned(), ty: result, nullable: true });
        computed.push((function, column, ty, result));
    }
    let mut fired = Stream { columns, rows: vec![] };
    for ((_, start, end), rows) in windows {
        let mut row = rows[0].clone();
        row.cells = [ms(start), ms(end)].into_iter().chain(key.iter().map(|at| rows[0].cells[*at].clone())).collect();
        let results =
            computed.iter().map(|(function, column, ty, result)| total(function, *column, *ty, *result, &rows));
        match results.collect::<Option<Vec<_>>>() {
            Some(results) => {
                row.cells.extend(results);
                fired.rows.push(row);
            }
            None => errors.rows.push(row),
        }
    }
    Ok((fired, errors))
}

fn result_type(function: &str, ty: Type) -> Option<Type> {
    Some(match (function, ty) {
        ("count", _) | ("sum", Type::Int32 | Type::Int64) => Type::Int64,
        ("sum", Type::Decimal { scale, .. }) => Type::Decimal { precision: 38, scale },
        ("avg", Type::Int32 | Type::Int64 | Type::Decimal { .. }) => {
            Type::Decimal { precision: 38, scale: ty.scale().max(6) }
        }
        ("min" | "max", ty) => ty,
        _ => return None,
    })
}

/// `None`: the result type can't hold it.
fn total(function: &str, column: Option<usize>, ty: Type, result: Type, rows: &[&Row]) -> Option<Cell> {
    let Some(column) = column else { return Some(Cell::Whole(rows.len() as i128)) };
    let values: Vec<&Cell> = rows.iter().map(|row| &row.cells[column]).filter(|cell| **cell != Cell::Null).collect();
    if function == "count" {
        return Some(Cell::Whole(values.len() as i128));
    }
    if values.is_empty() {
        return Some(Cell::Null);
    }
    if ty == Type::Float64 {
        let floats = values.iter().filter_map(|cell| if let Cell::Float(number) = cell { Some(*number) } else { None });
        // −0.0 lies before 0.0.
        let found = if function == "min" { floats.min_by(f64::total_cmp) } else { floats.max_by(f64::total_cmp) };
        return found.map(Cell::Float);
    }
    let wholes: Vec<i128> =
        values.iter().filter_map(|cell| if let Cell::Whole(n) = cell { Some(*n) } else { None }).collect();
    let sum = || wholes.iter().try_fold(0i128, |sum, n| sum.checked_add(*n));
    let whole = match function {
        "min" => *wholes.iter().min()?,
        "max" => *wholes.iter().max()?,
        "sum" => sum()?,
        _ => half_up(sum()?.checked_mul(10i128.pow(result.scale() - ty.scale()))?, wholes.len() as i128),
    };
    result.holds(whole).then_some(Cell::Whole(whole))
}

/// Away from zero where it is just between.
fn half_up(sum: i128, n: i128) -> i128 {
    let (quotient, rest) = (sum / n, (sum % n).abs());
    if 2 * rest >= n { quotient + sum.signum() } else { quotient }
}
