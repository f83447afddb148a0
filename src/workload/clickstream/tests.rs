//! Clickstream against a reader that knows only the records: it follows each partition's largest event time and judges for itself.
use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::*;
use crate::workload::ledger::Ledger;
use crate::workload::{Poison, WorkloadName, partitioner};

const RECORDS: u64 = 60_000;

fn dials() -> Dials {
    Dials { events: RECORDS, ..Dials::default() }
}

fn heavy() -> Dials {
    Dials { late: 0.2, disorder: 0.3, resent: 0.2, poison: 0.02, seed: 9, ..dials() }
}

/// One event in two seconds over eight partitions: a partition's records are up to half a minute apart.
fn sparse() -> Dials {
    Dials { event_rate: 0.5, partitions: 8, ..heavy() }
}

fn log(dials: &Dials) -> Vec<Record> {
    let clicks = Clickstream::new(dials).unwrap();
    (0..clicks.records())
        .map(|index| {
            let mut record = Record::default();
            clicks.record(index, &mut record);
            record
        })
        .collect()
}

/// `event_id` and event time, if the value can be decoded.
fn decode(value: &[u8]) -> Option<(String, i64)> {
    let json: Value = serde_json::from_slice(value).ok()?;
    Some((json["event_id"].as_str()?.to_owned(), json["event_time_ms"].as_i64()?))
}

/// Counts late, out of order, copies and poison as a reader sees them, and asserts that each record is what the workload says it is.
fn read_and_compare(dials: &Dials) -> Ledger {
    let clicks = Clickstream::new(dials).unwrap();
    let mut newest: Vec<Option<i64>> = vec![None; dials.partitions as usize];
    let mut seen = HashMap::new();
    let mut offsets = vec![0; dials.partitions as usize];
    let mut ledger = Ledger::new(WorkloadName::Clickstream, dials);
    for (index, record) in (0..).zip(log(dials)) {
        let partition = record.partition as usize;
        let offset = offsets[partition];
        offsets[partition] += 1;
        ledger.note(&clicks, index);
        let fate = clicks.fate(index);
        let at = format!("partition {partition} offset {offset}");
        let watermark = newest[partition].map(|time| time - 5_000);
        assert_eq!(clicks.watermark_before(record.partition, offset), watermark, "{at}");
        let Some((event_id, time)) = decode(&record.value) else {
            assert!(matches!(fate, Fate::Poison(_)), "{at}: {fate:?}");
            continue;
        };
        assert_eq!(record.timestamp_ms, time, "{at}");
        assert_eq!(record.key, event_id.as_bytes(), "{at}");
        let late = watermark.is_some_and(|watermark| time <= watermark);
        if let Some((first_partition, first_offset, value)) = seen.get(&event_id) {
            assert_eq!(fate, Fate::Resent { original: *first_offset }, "{at}");
            assert_eq!(*first_partition, partition, "{at}");
            assert_eq!(*value, record.value, "{at}");
            assert!(!late, "{at}: a late copy");
            continue;
        }
        let expected = match newest[partition] {
            _ if late => Fate::Late,
            Some(newest) if time < newest => Fate::OutOfOrder,
            _ => Fate::OnTime,
        };
        assert_eq!(fate, expected, "{at}");
        newest[partition] = newest[partition].max(Some(time));
        seen.insert(event_id, (partition, offset, record.value));
    }
    assert_eq!(seen.len() as u64, ledger.total.events);
    ledger
}

#[test]
fn every_record_is_what_the_workload_says_of_it() {
    read_and_compare(&dials());
}

#[test]
fn heavy_faults_keep_their_promises() {
    read_and_compare(&heavy());
}

#[test]
fn records_half_a_minute_apart_keep_their_promises() {
    read_and_compare(&sparse());
}

#[test]
fn faults_come_as_often_as_asked() {
    let ledger = read_and_compare(&Dials { events: 200_000, ..dials() });
    let share = |count: u64| (count as f64 / 2_000.0 * 10.0).round() / 10.0;
    assert_eq!(share(ledger.total.late), 1.0);
    assert_eq!(share(ledger.total.out_of_order), 5.0);
    assert_eq!(share(ledger.total.resent), 2.0);
    for kind in Poison::ALL {
        assert_eq!(share(ledger.total.poison_by_kind[&kind]), 0.1, "{kind:?}");
    }
}

#[test]
fn without_faults_every_record_is_an_event_in_order() {
    let calm = Dials { late: 0.0, disorder: 0.0, resent: 0.0, poison: 0.0, ..dials() };
    let total = read_and_compare(&calm).total;
    assert_eq!((total.events, total.out_of_order), (RECORDS, 0));
}

#[test]
fn a_key_hashes_to_its_partition() {
    for partitions in [1, 3, 4, 64, 1_000] {
        for record in log(&Dials { events: 5_000, partitions, ..dials() }) {
            assert_eq!(partitioner::partition_of(&record.key, partitions), record.partition);
        }
    }
}

#[test]
fn a_record_is_the_same_whoever_asks_in_whatever_order() {
    let clicks = Clickstream::new(&dials()).unwrap();
    let log = log(&dials());
    let mut record = Record::default();
    let mut offsets = [0; 4];
    let places: Vec<(u32, u64)> = log
        .iter()
        .map(|record| {
            let offset = &mut offsets[record.partition as usize];
            *offset += 1;
            (record.partition, *offset - 1)
        })
        .collect();
    for (&(partition, offset), expected) in places.iter().zip(&log).rev() {
        clicks.record(clicks.index_of(partition, offset).unwrap(), &mut record);
        assert_eq!(&record, expected);
    }
    assert_eq!(clicks.index_of(3, offsets[3]), None);
    assert_eq!(clicks.index_of(4, 0), None);
}

#[test]
fn more_records_only_lengthen_the_log() {
    let longer = log(&Dials { events: 2 * RECORDS, ..dials() });
    assert!(longer.starts_with(&log(&dials())));
}

#[test]
fn another_seed_gives_other_events() {
    let ids = |seed| {
        let clicks = Clickstream::new(&Dials { seed, ..dials() }).unwrap();
        clicks.events().map(|event| event.event_id).collect::<HashSet<_>>()
    };
    assert!(ids(1).is_disjoint(&ids(2)));
}

#[test]
fn the_expected_events_are_those_in_the_log() {
    let clicks = Clickstream::new(&heavy()).unwrap();
    let expected: HashMap<String, i64> =
        clicks.events().map(|event| (event.event_id.to_string(), event.event_time_ms)).collect();
    let read: HashMap<String, i64> = log(&heavy()).iter().filter_map(|record| decode(&record.value)).collect();
    assert_eq!(read, expected);
}

#[test]
fn each_kind_of_poison_is_what_its_name_says() {
    let clicks = Clickstream::new(&dials()).unwrap();
    let mut kinds = HashSet::new();
    for (index, record) in (0..).zip(log(&dials())) {
        let Fate::Poison(poison) = clicks.fate(index) else { continue };
        kinds.insert(poison);
        let text = String::from_utf8_lossy(&record.value);
        let json: Result<Value, _> = serde_json::from_slice(&record.value);
        let says = match poison {
            Poison::EmptyValue => record.value.is_empty(),
            Poison::BadJson => json.is_err() && text.starts_with(r#"{"event_id":""#),
            Poison::InvalidUtf8 => json.is_err() && record.value.iter().filter(|byte| **byte == 0xff).count() == 1,
            Poison::MissingField => json.unwrap().get("event_time_ms").is_none(),
            Poison::NullInRequired => json.unwrap()["event_id"].is_null(),
            Poison::WrongType => json.unwrap()["event_time_ms"] == "soon",
            Poison::NumberTooLarge => json.unwrap()["event_time_ms"].as_u64() == Some(1 << 63),
        };
        assert!(says, "{poison:?}: {text}");
        assert!(!record.value.contains(&b'\n'));
    }
    assert_eq!(kinds.len(), Poison::ALL.len());
}

#[test]
fn a_click_has_all_its_fields_in_about_200_bytes() {
    let values: Vec<Vec<u8>> = log(&dials()).into_iter().map(|record| record.value).collect();
    let good: Vec<&Vec<u8>> = values.iter().filter(|value| decode(value).is_some()).collect();
    let mean = good.iter().map(|value| value.len()).sum::<usize>() / good.len();
    assert!((190..=205).contains(&mean), "{mean} bytes");
    let (mut nulls, mut absent) = (0, 0);
    for value in good {
        let click: Value = serde_json::from_slice(value).unwrap();
        assert_eq!(click["schema_version"], 1);
        assert!(click["user_id"].as_str().unwrap().starts_with('u'));
        assert!(click["product_id"].as_str().unwrap().starts_with('p'));
        assert!(["web", "api"].contains(&click["source"].as_str().unwrap()));
        match (click["event_type"].as_str().unwrap(), click.get("price_cents")) {
            ("browse", Some(Value::Null)) => nulls += 1,
            ("browse", None) => absent += 1,
            ("add_to_cart" | "checkout" | "pay", Some(Value::Number(_))) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(nulls > 0 && absent > 0);
}

#[test]
fn users_come_in_sessions_of_several_events() {
    let mut times: HashMap<String, Vec<i64>> = HashMap::new();
    for record in log(&Dials { events: 600_000, users: 5_000, ..dials() }) {
        if let Ok(click) = serde_json::from_slice::<Value>(&record.value) {
            let user = click["user_id"].as_str().unwrap().to_owned();
            times.entry(user).or_default().extend(click["event_time_ms"].as_i64());
        }
    }
    assert_eq!(times.len(), 5_000);
    let mut sessions = 0;
    let events: usize = times.values().map(Vec::len).sum();
    for times in times.values_mut() {
        times.sort_unstable();
        sessions += 1 + times.windows(2).filter(|pair| pair[1] - pair[0] > 30_000).count();
    }
    let per_user = sessions as f64 / 5_000.0;
    assert!((2.0..=6.0).contains(&per_user), "{per_user} sessions a user in ten minutes");
    assert!(events / sessions >= 10, "{} events a session", events / sessions);
}
