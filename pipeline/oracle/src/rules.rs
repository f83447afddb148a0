//! What a source makes of its records, and what dedup and windows make of rows.
//!
//! - A record's watermark is the largest time before it in its own partition, less the bound. Every decoded record moves it, duplicates too.
//! - It is late for a window that ends at e if e − 1 ms ≤ its watermark; for sessions, and for all with `lateness = "event"`, if its own time is.
//! - Records of a key no further apart than the gap are one session, which ends a gap after the last.
//! - An id counts as seen until the watermark reaches the end of its first copy's bucket and the horizon; a record whose own bucket is past that is late.
use std::collections::BTreeMap;

use serde_json::Value as Json;

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
        let cell =
            |(column, cell): (&Column, &Cell)| format!("{}:{}", Json::from(column.name.as_str()), column.ty.show(cell));
        let line = |row: &Row| {
            let cells: Vec<_> = self.columns.iter().zip(&row.cells).map(cell).collect();
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

const HOUR_MS: i64 = 3_600_000;
const MS: Type = Type::Time { ms: true, utc: true };
const PLACE: [(&str, Type); 3] = [("_topic", Type::Text), ("_partition", Type::Int32), ("_offset", Type::Int64)];
const FIRST: [(&str, Type); 3] =
    [("_first_topic", Type::Text), ("_first_partition", Type::Int32), ("_first_offset", Type::Int64)];
const LATE: [(&str, Type); 5] = [
    ("_watermark", MS),
    ("_window_node", Type::Text),
    ("_window_start", MS),
    ("_window_end", MS),
    ("_reason", Type::Text),
];

fn with(columns: &[Column], more: &[&[(&str, Type)]]) -> Vec<Column> {
    let more = more.iter().flat_map(|columns| columns.iter());
    let more = more.map(|(name, ty)| Column { name: (*name).to_owned(), ty: *ty, nullable: true });
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
    let (columns, origins): (Vec<_>, Vec<_>) = source.columns()?.into_iter().unzip();
    let watermark = source.inner("watermark");
    let bound_ms = watermark.map_or(Ok(None), |w| w.ms("bound"))?.unwrap_or(0);
    // Files have no timestamp to be ahead of.
    let max_future_ms = watermark.map_or(Ok(None), |w| w.ms("max_future"))?;
    let max_future_ms = max_future_ms.or((source.text("type") != Some("file")).then_some(HOUR_MS));
    let late_by_event = source.text("lateness") == Some("event");
    let mut errors = Stream { columns: with(&[], &[&PLACE]), rows: vec![] };
    let mut rows = Stream { columns, rows: vec![] };
    let mut partitions: BTreeMap<(&str, i32), Vec<&Record>> = BTreeMap::new();
    for record in log.iter().filter(|record| record.source == name) {
        partitions.entry((&record.topic, record.partition)).or_default().push(record);
    }
    for ((topic, partition), mut records) in partitions {
        records.sort_by_key(|record| record.offset);
        let of_partition = |f: &&Floor| f.source == name && f.topic == topic && f.partition == partition;
        let floors: Vec<&Floor> = floors.iter().filter(of_partition).collect();
        let mut largest: Option<i64> = None;
        for record in records {
            let own = largest.map(|largest| largest - bound_ms);
            let (watermark_ms, cause) = floors.iter().filter(|floor| floor.from_offset <= record.offset).fold(
                (own, "late"),
                |(highest, cause), floor| match highest {
                    Some(highest) if highest >= floor.watermark_ms => (Some(highest), cause),
                    _ => (Some(floor.watermark_ms), &floor.reason),
                },
            );
            let place = (topic.to_owned(), partition, record.offset);
            let row = |cells, time_ms| Row {
                cells,
                place: place.clone(),
                time_ms,
                watermark_ms,
                cause: cause.to_owned(),
                late_by_event,
            };
            match decode(source, &rows.columns, &origins, max_future_ms, record)? {
                Some((cells, time_ms)) => {
                    largest = largest.max(time_ms);
                    rows.rows.push(row(cells, time_ms.unwrap_or(0)));
                }
                None => errors.rows.push(row(place_cells(&place).into(), 0)),
            }
        }
    }
    to.insert(format!("{name}.errors"), errors);
    to.insert(name.to_owned(), rows);
    Ok(())
}

type Decoded = (Vec<Cell>, Option<i64>);

/// `None`: a record for the errors output.
fn decode(
    source: Section<'_>,
    columns: &[Column],
    origins: &[Origin],
    max_future_ms: Option<i64>,
    record: &Record,
) -> Result<Option<Decoded>, String> {
    let json: Option<Json> = record.value.as_ref().and_then(|bytes| serde_json::from_slice(bytes).ok());
    let Some(Json::Object(fields)) = json else { return Ok(None) };
    let is_known =
        |name: &String| origins.iter().any(|origin| matches!(origin, Origin::Path(path) if path.first() == Some(name)));
    if source.text("unknown_fields") == Some("error") && !fields.keys().all(is_known) {
        return Ok(None);
    }
    let mut cells = vec![];
    for (column, origin) in columns.iter().zip(origins) {
        let cell = match origin {
            Origin::Path(path) => {
                let (first, rest) = path.split_first().ok_or("an empty path")?;
                let found = rest.iter().fold(fields.get(first), |value, key| value?.get(key));
                found.filter(|value| !value.is_null()).map_or(Some(Cell::Null), |value| column.ty.read(value))
            }
            Origin::Metadata(name) => metadata(record, name, column.ty),
        };
        match cell {
            None => return Ok(None),
            Some(Cell::Null) if !column.nullable => return Ok(None),
            Some(cell) => cells.push(cell),
        }
    }
    let Some(event_time) = source.inner("event_time") else { return Ok(Some((cells, None))) };
    let time_ms = match event_time.text("field") {
        None => record.timestamp_ms,
        Some(name) => match columns.iter().position(|column| column.name == name).map(|at| &cells[at]) {
            Some(Cell::Whole(us)) => i64::try_from(us.div_euclid(1_000)).ok(),
            _ => return Err(format!("no time {name}")),
        },
    };
    let lead = time_ms.zip(record.timestamp_ms).map(|(time, logged)| time - logged);
    let is_future = lead.zip(max_future_ms).is_some_and(|(lead, most)| lead > most);
    Ok((!is_future).then_some((cells, time_ms)))
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
    let mut duplicates = Stream { columns: with(&input.columns, &[&PLACE, &FIRST]), rows: vec![] };
    let mut late = Stream { columns: with(&input.columns, &[&PLACE, &LATE]), rows: vec![] };
    let forgotten_at = |time_ms: i64| (time_ms.div_euclid(bucket_ms) + 1) * bucket_ms + horizon_ms;
    let mut seen: BTreeMap<Vec<String>, (i64, Place)> = BTreeMap::new();
    for row in &input.rows {
        let remembered = |time_ms: i64| row.watermark_ms.is_none_or(|watermark| forgotten_at(time_ms) > watermark);
        let id = key_of(input, row, &key);
        match seen.get(&id) {
            Some((first_ms, place)) if remembered(*first_ms) => {
                let mut row = row.clone();
                row.cells.extend(place_cells(&row.place));
                row.cells.extend(place_cells(place));
                duplicates.rows.push(row);
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
    let mut row = row.clone();
    row.cells.extend(place_cells(&row.place));
    row.cells.push(row.watermark_ms.map_or(Cell::Null, ms));
    row.cells.push(Cell::Text(node.to_owned()));
    row.cells.extend([window.map_or(Cell::Null, |w| ms(w.0)), window.map_or(Cell::Null, |w| ms(w.1))]);
    row.cells.push(Cell::Text(reason.to_owned()));
    row
}

/// Rows of one window, by key and bounds.
type Windows<'a> = BTreeMap<(Vec<String>, i64, i64), Vec<&'a Row>>;

fn window(name: &str, rule: Section<'_>, input: &Stream) -> Result<Named, String> {
    let (key, gap_ms, size_ms) = (input.places_of(&rule.names("key"))?, rule.ms("gap")?, rule.ms("size")?.unwrap_or(1));
    // A tumbling window steps by its size.
    let (slide_ms, offset_ms) = (rule.ms("slide")?.unwrap_or(size_ms), rule.ms("offset")?.unwrap_or(0));
    let mut late = Stream { columns: with(&input.columns, &[&PLACE, &LATE]), rows: vec![] };
    let mut windows = Windows::new();
    let mut by_key: BTreeMap<Vec<String>, Vec<&Row>> = BTreeMap::new();
    for row in &input.rows {
        let is_past = row.watermark_ms.is_some_and(|watermark| row.time_ms <= watermark);
        let mut too_late = |window| late.rows.push(late_row(name, row, Some(window), &row.cause));
        if let Some(gap_ms) = gap_ms {
            if is_past {
                too_late((row.time_ms, row.time_ms + gap_ms));
            } else {
                by_key.entry(key_of(input, row, &key)).or_default().push(row);
            }
            continue;
        }
        let mut start = (row.time_ms - offset_ms).div_euclid(slide_ms) * slide_ms + offset_ms;
        while start + size_ms > row.time_ms {
            let end = start + size_ms;
            let has_ended = row.watermark_ms.is_some_and(|watermark| end - 1 <= watermark);
            if if row.late_by_event { is_past } else { has_ended } {
                too_late((start, end));
            } else {
                windows.entry((key_of(input, row, &key), start, end)).or_default().push(row);
            }
            start -= slide_ms;
        }
    }
    by_key.into_iter().for_each(|(key, rows)| sessions(&key, rows, gap_ms.unwrap_or(0), &mut windows));
    let (fired, errors) = fire(rule, input, &key, windows)?;
    Ok(vec![("", fired), ("late", late), ("errors", errors)])
}

fn sessions<'a>(key: &[String], mut rows: Vec<&'a Row>, gap_ms: i64, to: &mut Windows<'a>) {
    rows.sort_by_key(|row| row.time_ms);
    let begins = |pair: &[&Row]| pair[1].time_ms > pair[0].time_ms + gap_ms;
    let mut from = 0;
    for end in 1..=rows.len() {
        if end == rows.len() || begins(&rows[end - 1..=end]) {
            let (first, last) = (rows[from].time_ms, rows[end - 1].time_ms);
            to.insert((key.to_vec(), first, last + gap_ms), rows[from..end].to_vec());
            from = end;
        }
    }
}

/// One row for each window; of those that have a total which its type can't hold, key and bounds.
fn fire(rule: Section<'_>, input: &Stream, key: &[usize], windows: Windows<'_>) -> Result<(Stream, Stream), String> {
    let mut columns = with(&[], &[&[("window_start", MS), ("window_end", MS)]]);
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
        let pick = if function == "min" { f64::min } else { f64::max };
        return floats.reduce(pick).map(Cell::Float);
    }
    let wholes: Vec<i128> =
        values.iter().filter_map(|cell| if let Cell::Whole(n) = cell { Some(*n) } else { None }).collect();
    let whole = match function {
        "min" => *wholes.iter().min()?,
        "max" => *wholes.iter().max()?,
        sum_or_avg => {
            let sum = wholes.iter().try_fold(0i128, |sum, n| sum.checked_add(*n))?;
            if sum_or_avg == "sum" {
                sum
            } else {
                half_up(sum.checked_mul(10i128.pow(result.scale() - ty.scale()))?, wholes.len() as i128)
            }
        }
    };
    result.holds(whole).then_some(Cell::Whole(whole))
}

/// Away from zero where it is just between.
fn half_up(sum: i128, n: i128) -> i128 {
    let (quotient, rest) = (sum / n, (sum % n).abs());
    if 2 * rest >= n { quotient + sum.signum() } else { quotient }
}
