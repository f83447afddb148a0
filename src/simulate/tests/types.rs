//! The engine against the oracle on values and keys of every type, each spelled in all the ways that JSON and people have for it.
//!
//! A dedup key has a column that says the partition: copies of an id lie in one, and every output is a function of the log.
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::super::log::Entry;
use super::super::{Event, Fault, Least, Report, Scenario, Trouble, play};

const PARTITIONS: usize = 2;
const CASES: u32 = 150;
/// Types that can be a key. The columns of a dedup key are named `d_TYPE`, those of a window's key, which may be null, `w_TYPE`.
const TYPES: [(&str, &str); 9] = [
    ("bool", "bool"),
    ("int32", "int32"),
    ("int64", "int64"),
    ("string", "string"),
    ("decimal", "decimal(5,2)"),
    ("date", "date"),
    ("ms", "timestamp_ms"),
    ("us", "timestamp_us_ntz"),
    ("binary", "binary"),
];

/// Ways to write value number `n` of a type, of which there are four.
fn spellings(ty: &str, n: usize) -> Vec<String> {
    let date = ["2024-02-29", "2024-03-01", "1969-12-31", "1970-01-01"][n];
    match ty {
        "bool" => vec![["true", "false"][n % 2].into()],
        "int32" | "int64" => {
            [["0", "-0"], ["1", "1"], ["-1", "-1"], ["2147483647", "2147483647"]][n].map(Into::into).into()
        }
        "string" => vec![format!("\"s{n}é\""), format!("\"\\u0073{n}\\u00e9\"")],
        "decimal" => vec![
            format!("{n}.5"),
            format!("{n}.50"),
            format!("\"{n}.5\""),
            format!("\"+0{n}.500\""),
            format!("{}e-1", n * 10 + 5),
            format!("0.0{n}5E2"),
        ],
        "date" => vec![format!("\"{date}\""), ["19782", "19783", "-1", "0"][n].into(), format!("\"+{date}\"")],
        "ms" => vec![
            format!("{}", 1_767_225_600_000 + n),
            format!("\"2026-01-01T00:00:00.00{n}Z\""),
            format!("\"2026-01-01t00:00:00,00{n}000z\""),
            format!("\"2026-01-01 01:30:00.00{n}+01:30\""),
            format!("\"2025-12-31T19:00:00.00{n}-0500\""),
            format!("\"2026-01-01T02:00:00.00{n}+02\""),
        ],
        "us" => vec![
            format!("{}", 1_767_225_600_000_000 + 60_000_000 * n),
            format!("\"2026-01-01T00:0{n}:00\""),
            format!("\"2026-01-01 00:0{n}\""),
            format!("\"2026-01-01T00:0{n}:00.000000000\""),
        ],
        _ => vec![
            ["\"AA==\"", "\"AQ==\"", "\"/w==\"", "\"\""][n].into(),
            ["\"AA\"", "\"AQ\"", "\"/w\"", "\"\""][n].into(),
        ],
    }
}

/// Values of a type that aren't any.
const WRONG: [(&str, &str); 18] = [
    ("bool", "\"true\""),
    ("int32", "2147483648"),
    ("int64", "1.0"),
    ("int64", "9223372036854775808"),
    ("string", "7"),
    ("string", "\"\\ud800\""),
    ("decimal", "1.005"),
    ("decimal", "1e3"),
    ("decimal", "\".5\""),
    ("date", "\"2023-02-29\""),
    ("date", "\"2024-2-9\""),
    ("ms", "\"2026-01-01T23:59:60Z\""),
    ("ms", "\"2026-01-01T00:00:00\""),
    ("ms", "\"2026-01-01T00:00:00+24:00\""),
    ("us", "\"2026-01-01T00:00:00Z\""),
    ("us", "\"2026-01-01\""),
    ("binary", "\"?\""),
    ("binary", "[]"),
];

/// Floats are no keys; they are shown as they were read.
const FLOATS: [&str; 16] = [
    "0",
    "-0",
    "-0.0",
    "0.1",
    "1e308",
    "15e-1",
    "1e-7",
    "123456789012345680",
    "-1.7976931348623157e308",
    "5e-324",
    "1e9",
    "1e10",
    "12345678901.5",
    "0.00001",
    "0.000009",
    "150",
];

#[derive(Clone, Debug)]
struct Dials {
    dedup_key: Vec<&'static str>,
    window_key: Vec<&'static str>,
    workers: usize,
    batch_rows: usize,
    kill_at: Option<usize>,
}

impl Dials {
    fn file(&self) -> String {
        let columns =
            |prefix: &str, null: &str| TYPES.map(|(name, ty)| format!("{prefix}_{name} = \"{ty}{null}\"")).join("\n");
        let names =
            |prefix: &str, key: &[&str]| key.iter().map(|name| format!(", \"{prefix}_{name}\"")).collect::<String>();
        let sinks = ["clean", "clean.duplicates", "hops", "visits", "events.errors"].map(|output| {
            let name = output.replace('.', "_");
            format!("\n[sink.{name}_rows]\nfrom = \"{output}\"\ntype = \"file\"\ndir = \"s3://simulated/{name}\"\ncommit_interval = \"20ms\"\n")
        });
        let totals = ["int32", "int64", "decimal", "date", "ms", "us"]
            .map(|name| format!("low_{name} = \"MIN(w_{name})\", high_{name} = \"max(w_{name})\""));
        format!(
            r#"
[pipeline]
id = "simulated"
state = "memory"
queue_batches = 1
checkpoint = {{ interval = "10ms", dir = "s3://simulated/checkpoints", retain = 2 }}
workers = {workers}
batch_rows = {batch_rows}

[source.events]
type = "kafka"
brokers = "sim:9092"
topic = "t"
event_time = {{ field = "at" }}
watermark = {{ bound = "5ms" }}
[source.events.schema]
part = "int32"
at = "timestamp_ms"
f = {{ path = "in.f", type = "float64?" }}
{required}
{nullable}

[dedup.clean]
from = "events"
key = ["part"{dedup_key}]
horizon = "60ms"
discard = ["late"]

[window.hops]
from = "clean"
type = "hopping"
size = "20ms"
slide = "5ms"
key = ["part"{window_key}]
aggregates = {{ n = "Count(*)", low = "min(f)", high = "max(f)" }}
discard = ["late"]

[window.visits]
from = "clean"
type = "session"
gap = "5ms"
key = ["part"{window_key}]
aggregates = {{ {totals} }}
discard = ["late"]
{sinks}"#,
            workers = self.workers,
            batch_rows = self.batch_rows,
            required = columns("d", ""),
            nullable = columns("w", "?"),
            dedup_key = names("d", &self.dedup_key),
            window_key = names("w", &self.window_key),
            totals = totals.join(", "),
            sinks = sinks.concat(),
        )
    }
}

fn dials() -> impl Strategy<Value = Dials> {
    let key = |range: std::ops::RangeInclusive<usize>| subsequence(TYPES.map(|(name, _)| name).to_vec(), range);
    let run = (1usize..4, select(vec![1usize, 2, 7, 100]), proptest::option::weighted(0.3, 0usize..150));
    (key(1..=2), key(0..=2), run).prop_map(|(dedup_key, window_key, (workers, batch_rows, kill_at))| Dials {
        dedup_key,
        window_key,
        workers,
        batch_rows,
        kill_at,
    })
}

/// Few values of each type, so that all the ways to write one of them meet.
fn record(partition: usize) -> impl Strategy<Value = String> {
    let column = || (0..4usize, any::<usize>());
    let columns = proptest::collection::vec((column(), proptest::option::weighted(0.8, column())), TYPES.len());
    let float = proptest::option::weighted(0.8, select(FLOATS.to_vec()));
    let inner = select(vec!["{}", "null", "[]", "7"]);
    let wrong = proptest::option::weighted(0.06, (select(WRONG.to_vec()), select(vec!["d", "w"])));
    (0i64..40, columns, float, inner, wrong).prop_map(move |(at, columns, float, inner, wrong)| {
        let mut fields = vec![format!("\"part\":{partition}"), format!("\"at\":{at}")];
        for ((name, _), (required, nullable)) in TYPES.iter().zip(columns) {
            let is_wrong =
                |prefix: &str| wrong.filter(|((of, _), at)| of == name && *at == prefix).map(|((_, value), _)| value);
            let spelled = |(n, which): (usize, usize)| {
                let all = spellings(name, n);
                all[which % all.len()].clone()
            };
            fields.push(format!("\"d_{name}\":{}", is_wrong("d").map_or(spelled(required), str::to_owned)));
            let value = nullable.map(spelled).or((at % 2 == 0).then(|| "null".to_owned()));
            fields.extend(is_wrong("w").map(str::to_owned).or(value).map(|value| format!("\"w_{name}\":{value}")));
        }
        // Mostly an object, seldom something that no path leads through.
        fields.extend(match float {
            Some(float) => Some(format!("\"in\":{{\"f\":{float},\"g\":[1e400]}}")),
            None => (at % 7 == 0).then(|| format!("\"in\":{inner}")),
        });
        format!("{{{}}}", fields.join(","))
    })
}

fn log() -> impl Strategy<Value = [Vec<String>; PARTITIONS]> {
    [proptest::collection::vec(record(0), 0..20), proptest::collection::vec(record(1), 0..20)]
}

fn played(dials: &Dials, log: &[Vec<String>]) -> Report {
    let entries =
        |values: &[String]| values.iter().map(|value| Entry { value: value.clone(), timestamp_ms: 0 }).collect();
    let append =
        |(partition, values): (usize, &Vec<String>)| (0, Event::Append { partition, entries: entries(values) });
    let kill = dials.kill_at.map(|nth| Fault { class: None, nth, trouble: Trouble::Kill });
    play(&Scenario {
        seed: dials.kill_at.unwrap_or(0) as u64,
        file: dials.file(),
        partitions: PARTITIONS,
        events: log.iter().enumerate().map(append).collect(),
        faults: kill.into_iter().collect(),
        calm_at_ms: 60,
        least: Least::default(),
        is_durable: true,
        is_encoded: false,
        is_watched: true,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn the_engine_makes_of_values_and_keys_of_every_type_what_the_oracle_says(dials in dials(), log in log()) {
        let report = played(&dials, &log);
        prop_assert!(report.is_right(), "{}\n{}", report.violations[0], report.trace.join("\n"));
    }
}

fn alone(ty: &str, prefix: &str, value: &str) -> Vec<String> {
    let fields: Vec<_> = TYPES.iter().map(|(name, _)| format!("\"d_{name}\":{}", spellings(name, 0)[0])).collect();
    let at = fields.len();
    let mut fields = [fields, TYPES.iter().map(|(name, _)| format!("\"w_{name}\":null")).collect()].concat();
    let place = TYPES.iter().position(|(name, _)| *name == ty).expect("a type") + if prefix == "d" { 0 } else { at };
    fields[place] = format!("\"{prefix}_{ty}\":{value}");
    vec![format!("{{\"part\":0,\"at\":1,{}}}", fields.join(","))]
}

/// One record alone, so that none hides behind another.
#[test]
fn engine_and_oracle_agree_on_every_spelling_by_itself() {
    let dials =
        Dials { dedup_key: vec!["int64"], window_key: vec!["int64"], workers: 1, batch_rows: 100, kill_at: None };
    for (ty, _) in TYPES {
        let right = (0..4).flat_map(|n| spellings(ty, n)).map(|value| (value, 3));
        let wrong = WRONG.iter().filter(|(of, _)| *of == ty).map(|(_, value)| ((*value).to_owned(), 1));
        for (value, rows) in right.chain(wrong) {
            for prefix in ["d", "w"] {
                let report = played(&dials, &[alone(ty, prefix, &value), vec![]]);
                assert!(report.is_right(), "{prefix}_{ty} {value}: {}", report.violations[0]);
                // A survivor and its windows, or an error.
                assert!((report.rows == 1) == (rows == 1), "{prefix}_{ty} {value}: {} rows", report.rows);
            }
        }
    }
}
