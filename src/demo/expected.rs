//! What the tables must hold, made from seed and dials alone: no file, table or manifest is read.
//!
//! The rules of windows and sessions are told here a second time, in the plainest way (sort, then count), so that an error of the engine's
//! doesn't hide behind itself.
//! Doesn't know: the engine, the tables. Rows are written down as `found` writes them.
//! Tested: here.
use std::collections::HashMap;
use std::ops::AddAssign;

use serde::Deserialize;
use uuid::Uuid;

use super::DemoError;
use crate::decode::reason;
use crate::workload::clickstream::Clickstream;
use crate::workload::dials::Dials;
use crate::workload::ledger::{Counts, Ledger};
use crate::workload::{Fate, Poison, Record, Workload, WorkloadName};

const WINDOW_MS: i64 = 10_000;
const GAP_MS: i64 = 30_000;
/// Windows that read the events; each has late rows of its own.
const WINDOW_NODES: [&str; 2] = ["per_type", "sessions"];

pub struct Expected {
    pub counts: Counts,
    pub events: Vec<Uuid>,
    pub per_type: Vec<String>,
    pub sessions: Vec<String>,
    pub late: Vec<String>,
    pub errors: Vec<String>,
}

#[derive(Deserialize)]
struct Click<'a> {
    event_id: &'a str,
    user_id: &'a str,
    event_type: &'a str,
    #[serde(default)]
    price_cents: Option<i64>,
    event_time_ms: i64,
}

/// `count()` and `sum(price_cents)`; the sum of nothing but nulls is null.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    events: i64,
    revenue_cents: Option<i64>,
}

/// Counts events as they come; sessions are cut when all are known.
#[derive(Default)]
struct Windows {
    per_type: HashMap<(String, i64), Totals>,
    by_user: HashMap<String, Vec<(i64, Totals)>>,
}

impl Expected {
    pub fn derive(dials: &Dials) -> Result<Self, DemoError> {
        let log = Clickstream::new(dials)?;
        let mut ledger = Ledger::new(WorkloadName::Clickstream, dials);
        let (mut events, mut late, mut errors) = (Vec::new(), Vec::new(), Vec::new());
        let mut windows = Windows::default();
        let mut record = Record::default();
        for index in 0..log.records() {
            ledger.note(&log, index);
            let place = Place { partition: log.partition_of(index), offset: index / u64::from(dials.partitions) };
            let fate = log.fate(index);
            match fate {
                Fate::Resent { .. } => continue,
                Fate::Poison(poison) => {
                    errors.push(place.error(poison));
                    continue;
                }
                Fate::OnTime | Fate::OutOfOrder | Fate::Late => {}
            }
            log.record(index, &mut record);
            let click: Click<'_> =
                serde_json::from_slice(&record.value).map_err(|error| DemoError::Record { index, error })?;
            events.push(event_id(click.event_id)?);
            if fate == Fate::Late {
                late.extend(WINDOW_NODES.map(|node| place.late(node)));
            } else {
                windows.add(&click);
            }
        }
        let (per_type, sessions) = windows.rows();
        Ok(Expected { counts: ledger.total, events, per_type, sessions, late, errors })
    }
}

pub fn event_id(text: &str) -> Result<Uuid, DemoError> {
    Uuid::parse_str(text).map_err(|_| DemoError::EventId(text.to_owned()))
}

struct Place {
    partition: u32,
    offset: u64,
}

impl Place {
    fn late(&self, node: &str) -> String {
        format!("part-{:05}.ndjson {} {node}", self.partition, self.offset)
    }

    fn error(&self, poison: Poison) -> String {
        let reason = match poison {
            Poison::BadJson => reason::BAD_JSON,
            Poison::MissingField => reason::MISSING,
            Poison::NullInRequired => reason::NULL,
            Poison::WrongType => reason::TYPE,
            Poison::NumberTooLarge => reason::RANGE,
            Poison::InvalidUtf8 => reason::UTF8,
            Poison::EmptyValue => reason::EMPTY,
        };
        format!("part-{:05}.ndjson {} {reason}", self.partition, self.offset)
    }
}

impl Windows {
    fn add(&mut self, click: &Click<'_>) {
        let totals = Totals { events: 1, revenue_cents: click.price_cents };
        let time = click.event_time_ms;
        let window = (click.event_type.to_owned(), time - time.rem_euclid(WINDOW_MS));
        *self.per_type.entry(window).or_default() += totals;
        self.by_user.entry(click.user_id.to_owned()).or_default().push((time, totals));
    }

    fn rows(self) -> (Vec<String>, Vec<String>) {
        let window = |((key, start), totals)| row(start, start + WINDOW_MS, key, totals);
        let per_type = self.per_type.iter().map(|((key, start), totals)| window(((key.as_str(), *start), *totals)));
        let sessions = self.by_user.into_iter().flat_map(|(user, events)| {
            let sessions = sessions(events).into_iter();
            sessions.map(move |(start, end, totals)| row(start, end, &user, totals)).collect::<Vec<_>>()
        });
        (per_type.collect(), sessions.collect())
    }
}

fn row(start_ms: i64, end_ms: i64, key: &str, totals: Totals) -> String {
    let revenue = totals.revenue_cents.map_or_else(|| "null".to_owned(), |cents| cents.to_string());
    format!("{start_ms} {end_ms} {key} {} {revenue}", totals.events)
}

/// Events no further apart than the gap are one session; it ends a gap after its last event.
fn sessions(mut events: Vec<(i64, Totals)>) -> Vec<(i64, i64, Totals)> {
    events.sort_unstable_by_key(|(time, _)| *time);
    let mut sessions: Vec<(i64, i64, Totals)> = Vec::new();
    for (time, totals) in events {
        match sessions.last_mut() {
            Some((_, end, sum)) if time <= *end => {
                *end = time + GAP_MS;
                *sum += totals;
            }
            _ => sessions.push((time, time + GAP_MS, totals)),
        }
    }
    sessions
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.events += other.events;
        self.revenue_cents = match (self.revenue_cents, other.revenue_cents) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Totals = Totals { events: 1, revenue_cents: None };

    #[test]
    fn touching_events_are_one_session() {
        let found = sessions(vec![(30_000, ONE), (0, ONE), (60_001, ONE)]);
        let expected = [(0, 60_000, Totals { events: 2, revenue_cents: None }), (60_001, 90_001, ONE)];
        assert_eq!(found, expected);
    }

    #[test]
    fn nulls_are_left_out_of_a_sum() {
        let mut sum = ONE;
        sum += Totals { events: 1, revenue_cents: Some(5) };
        sum += ONE;
        assert_eq!(sum, Totals { events: 3, revenue_cents: Some(5) });
        assert_eq!(row(0, 10_000, "browse", ONE), "0 10000 browse 1 null");
    }

    #[test]
    fn every_record_of_the_log_is_an_event_a_copy_or_an_error() {
        let dials = Dials { events: 20_000, ..Dials::default() };
        let expected = Expected::derive(&dials).unwrap();
        assert_eq!(expected.events.len() as u64, expected.counts.events);
        assert_eq!(expected.errors.len() as u64, expected.counts.poison);
        assert_eq!(expected.late.len() as u64, 2 * expected.counts.late);
        let records = expected.counts.events + expected.counts.resent + expected.counts.poison;
        assert_eq!(records, dials.events);
    }
}
