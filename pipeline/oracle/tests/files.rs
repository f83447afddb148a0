//! What a pipeline file can say of sources, nodes and totals, and what in it is a mistake.
use floodmark_oracle::{Floor, Outputs, Record, expected};

const SOURCE: &str = r#"
[source.events]
type = "file"
event_time = { field = "at" }
watermark = { bound = "0s" }
schema = { id = "string?", at = "timestamp_ms", n = "int64?", i = "int32?", d = "decimal(38,0)?", fine = "decimal(10,8)?", f = "float64?" }
"#;

fn record(offset: i64, json: &str) -> Record {
    let value = Some(json.as_bytes().to_vec());
    Record { source: "events".into(), topic: "a".into(), offset, value, ..Record::default() }
}

fn log(lines: &[&str]) -> Vec<Record> {
    (0..).zip(lines).map(|(offset, line)| record(offset, line)).collect()
}

fn read(nodes: &str, lines: &[&str]) -> Result<Outputs, String> {
    expected(&format!("{SOURCE}{nodes}"), &log(lines), &[])
}

fn window(aggregates: &str) -> String {
    format!("[window.w]\nfrom = \"events\"\nsize = \"10s\"\naggregates = {{ {aggregates} }}\n")
}

/// What one window of all these records gives for `aggregates`; `None`: an error.
fn totals(aggregates: &str, lines: &[&str]) -> Option<String> {
    let outputs = read(&window(aggregates), lines).unwrap();
    assert_eq!(outputs["w"].len() + outputs["w.errors"].len(), 1, "{outputs:?}");
    let bounds = r#"{"window_start":"1970-01-01T00:00:00Z","window_end":"1970-01-01T00:00:10Z","#;
    outputs["w"].first().map(|row| row.strip_prefix(bounds).unwrap().trim_end_matches('}').to_owned())
}

fn mistake(nodes: &str) -> String {
    read(nodes, &[r#"{"at":1}"#]).unwrap_err()
}

#[test]
fn a_node_may_stand_before_what_it_reads_and_read_several() {
    let nodes = r#"
[window.w]
from = ["late", "clean"]
size = "10s"
aggregates = { n = "count()" }
[dedup.clean]
from = "events"
key = ["id"]
horizon = "1h"
[dedup.late]
from = "other"
key = ["id"]
horizon = "1h"
"#;
    let other = SOURCE.replace("events", "other");
    let mut log = log(&[r#"{"id":"a","at":1}"#, r#"{"id":"a","at":2}"#, r#"{"id":"b","at":3}"#]);
    log.push(Record { source: "other".into(), ..record(0, r#"{"id":"a","at":4}"#) });
    let outputs = expected(&format!("{SOURCE}{other}{nodes}"), &log, &[]).unwrap();
    let row = r#"{"window_start":"1970-01-01T00:00:00Z","window_end":"1970-01-01T00:00:10Z","n":3}"#;
    assert_eq!(outputs["w"], [row]);
    assert_eq!((outputs["clean"].len(), outputs["late"].len(), outputs["other"].len()), (2, 1, 1));
}

#[test]
fn a_mistake_says_where_it_is() {
    assert_eq!(mistake(&window("n = \"count()\"").replace("\"events\"", "\"nobody\"")), "w: reads what no node gives");
    assert_eq!(mistake(&window("n = \"mean(n)\"")), "n: \"mean(n)\" is no aggregate");
    assert_eq!(mistake(&window("n = \"sum(n\"")), "n: \"sum(n\" is no aggregate");
    assert_eq!(mistake(&window("n = \"sum(x)\"")), "no column x");
    assert_eq!(mistake(&window("n = \"sum(id)\"")), "n: no sum of Text");
    assert_eq!(mistake(&window("n = \"avg(f)\"")), "n: no avg of Float64");
    assert_eq!(mistake("[window.w]\nfrom = \"events\"\nsize = \"10s\"\n"), "no aggregates");
    assert_eq!(mistake("[dedup.d]\nfrom = \"events\"\nkey = [\"id\"]\n"), "no horizon");
    assert_eq!(mistake("[dedup.d]\nfrom = \"events\"\nkey = [\"x\"]\nhorizon = \"1h\"\n"), "no column x");
    for duration in ["10", "s", "1 s", "1w", "", "99999999999999999999s"] {
        let file = window("n = \"count()\"").replace("10s", duration);
        assert_eq!(mistake(&file), format!("size: {duration} is no duration"));
    }
    let of = |source: &str| expected(source, &log(&[r#"{"at":1}"#]), &[]).unwrap_err();
    assert_eq!(of(&SOURCE.replace("\"at\"", "\"when\"")), "no time when");
    assert_eq!(of(&SOURCE.replace("int64?", "long")), "n: long is no type");
    assert_eq!(of(&SOURCE.replace("\"int64?\"", "{}")), "n: no type");
    assert_eq!(of("[source.events]\n"), "no schema");
}

#[test]
fn a_duration_has_a_unit() {
    for (size, end) in [
        ("250ms", "1970-01-01T00:00:00.250Z"),
        ("5s", "1970-01-01T00:00:05Z"),
        ("10m", "1970-01-01T00:10:00Z"),
        ("24h", "1970-01-02T00:00:00Z"),
        ("7d", "1970-01-08T00:00:00Z"),
    ] {
        let outputs = read(&window("n = \"count()\"").replace("10s", size), &[r#"{"at":0}"#]).unwrap();
        let row = format!(r#"{{"window_start":"1970-01-01T00:00:00Z","window_end":"{end}","n":1}}"#);
        assert_eq!(outputs["w"], [row]);
    }
}

#[test]
fn an_aggregate_may_be_spelled_in_capitals_and_with_blanks() {
    let lines = [r#"{"at":1,"n":3}"#, r#"{"at":2}"#];
    for (spelled, worth) in [
        ("count(*)", "2"),
        ("COUNT( * )", "2"),
        (" Count () ", "2"),
        ("count(n)", "1"),
        ("Sum ( n )", "3"),
        ("MAX(n)", "3"),
    ] {
        assert_eq!(totals(&format!("x = \"{spelled}\""), &lines), Some(format!("\"x\":{worth}")), "{spelled}");
    }
}

#[test]
fn the_smallest_and_largest_are_of_the_columns_type() {
    let lines = [r#"{"at":3,"id":"a","n":-4,"f":0.0}"#, r#"{"at":1,"n":7,"i":2,"f":-0.0}"#, r#"{"at":2,"n":1,"i":5}"#];
    let aggregates = r#"a = "min(n)", b = "max(n)", c = "min(at)", d = "max(i)", e = "min(f)", f = "max(f)""#;
    let row = r#""a":-4,"b":7,"c":"1970-01-01T00:00:00.001Z","d":5,"e":-0.0,"f":0.0"#;
    assert_eq!(totals(aggregates, &lines).as_deref(), Some(row));
    assert_eq!(totals(r#"ids = "count(id)""#, &lines).as_deref(), Some(r#""ids":1"#));
}

#[test]
fn of_no_values_there_is_a_count_and_nothing_else() {
    let aggregates = r#"a = "count(n)", b = "sum(n)", c = "avg(n)", d = "min(n)", e = "max(f)""#;
    let row = r#""a":0,"b":null,"c":null,"d":null,"e":null"#;
    assert_eq!(totals(aggregates, &[r#"{"at":1}"#]).as_deref(), Some(row));
}

#[test]
fn an_average_has_six_places_or_those_of_its_values() {
    let of = |aggregate: &str, column: &str, values: &[&str]| {
        let lines: Vec<_> = values.iter().map(|value| format!(r#"{{"at":1,"{column}":{value}}}"#)).collect();
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        totals(&format!("x = \"{aggregate}({column})\""), &lines)
    };
    let is = |worth: &str| Some(format!("\"x\":{worth}"));
    assert_eq!(of("avg", "i", &["1", "2"]), is("1.500000"));
    assert_eq!(of("avg", "n", &["1", "0", "0"]), is("0.333333"));
    assert_eq!(of("avg", "n", &["2", "0", "0"]), is("0.666667"));
    assert_eq!(of("avg", "fine", &["0.00000001", "0.00000002"]), is("0.00000002"), "half goes up");
    assert_eq!(of("avg", "fine", &["-0.00000001", "-0.00000002"]), is("-0.00000002"), "away from zero");
    assert_eq!(of("avg", "fine", &["0.00000001", "0", "0"]), is("0.00000000"));
    assert_eq!(of("sum", "fine", &["0.00000001", "1"]), is("1.00000001"));
}

#[test]
fn a_total_that_its_type_cannot_hold_is_an_error() {
    let widest = "9".repeat(38);
    let of = |aggregate: &str, column: &str, values: &[&str]| {
        let lines: Vec<_> = values.iter().map(|value| format!(r#"{{"at":1,"{column}":{value}}}"#)).collect();
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        totals(&format!("x = \"{aggregate}({column})\""), &lines).is_some()
    };
    assert!(of("sum", "d", &[&widest]));
    assert!(!of("sum", "d", &[&widest, "1"]));
    assert!(!of("sum", "d", &[&widest, &widest]), "beyond 128 bits");
    assert!(!of("avg", "d", &[&widest]), "no room for six places more");
    assert!(of("sum", "i", &["2147483647", "1"]), "the sum of int32 is an int64");
    assert!(of("sum", "n", &["9223372036854775807"]));
    assert!(!of("sum", "n", &["9223372036854775807", "1"]));
}

#[test]
fn windows_and_sessions_of_one_key_are_its_own() {
    let lines = [
        r#"{"at":1,"id":"a","f":0.0}"#,
        r#"{"at":2,"id":"a","f":-0.0}"#,
        r#"{"at":3,"f":0.0}"#,
        r#"{"at":4,"id":"a","f":0.0}"#,
    ];
    let nodes = window("n = \"count()\"").replace("size", "key = [\"id\", \"f\"]\nsize");
    let start = r#"{"window_start":"1970-01-01T00:00:00Z","window_end":"1970-01-01T00:00:10Z""#;
    let rows = [
        format!(r#"{start},"id":"a","f":-0.0,"n":1}}"#),
        format!(r#"{start},"id":"a","f":0.0,"n":2}}"#),
        format!(r#"{start},"id":null,"f":0.0,"n":1}}"#),
    ];
    assert_eq!(read(&nodes, &lines).unwrap()["w"], rows);
    let nodes = nodes.replace("size = \"10s\"", "gap = \"1ms\"");
    let counts: Vec<_> = read(&nodes, &lines).unwrap()["w"].iter().map(|row| row[row.len() - 2..].to_owned()).collect();
    assert_eq!(counts, ["1}"; 4], "touching times, and never twice one key");
}

#[test]
fn a_hopping_window_holds_what_lies_in_it_and_no_more() {
    let nodes = window("n = \"count()\"").replace("size", "slide = \"4s\"\nsize");
    let outputs = read(&nodes, &[r#"{"at":9999}"#]).unwrap();
    let starts: Vec<_> = outputs["w"].iter().map(|row| row[17..36].to_owned()).collect();
    assert_eq!(starts, ["1970-01-01T00:00:00", "1970-01-01T00:00:04", "1970-01-01T00:00:08"]);
    let at_the_end = read(&nodes, &[r#"{"at":10000}"#]).unwrap();
    assert_eq!(at_the_end["w"].len(), 2, "the end is not in it");
}

#[test]
fn windows_begin_at_their_offset() {
    let nodes = window("n = \"count()\"").replace("size", "offset = \"1s\"\nsize");
    let starts = |at: i64| {
        let rows = &read(&nodes, &[&format!(r#"{{"at":{at}}}"#)]).unwrap()["w"];
        rows.iter().map(|row| row[17..36].to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(starts(10_999), ["1970-01-01T00:00:01"]);
    assert_eq!(starts(11_000), ["1970-01-01T00:00:11"]);
    assert_eq!(starts(999), ["1969-12-31T23:59:51"]);
}

/// Two milliseconds of 48, so an id of 0 ms is forgotten at 50 ms.
#[test]
fn ids_are_kept_in_a_24th_of_their_horizon() {
    let nodes = "[dedup.d]\nfrom = \"events\"\nkey = [\"id\"]\nhorizon = \"48ms\"\n";
    let duplicates = |nodes: &str, watermark: i64| {
        let moves = format!(r#"{{"id":"x","at":{watermark}}}"#);
        read(nodes, &[r#"{"id":"a","at":0}"#, &moves, r#"{"id":"a","at":99}"#]).unwrap()["d.duplicates"].len()
    };
    assert_eq!((duplicates(nodes, 49), duplicates(nodes, 50)), (1, 0));
    let short = nodes.replace("48ms", "5ms");
    assert_eq!((duplicates(&short, 5), duplicates(&short, 6)), (1, 0), "a bucket has a millisecond at least");
}

#[test]
fn metadata_have_a_type_of_their_own() {
    let origins =
        r#"topic = { from = "kafka.topic" }, p = { from = "kafka.partition" }, o = { from = "kafka.offset" }, at"#;
    let file = |aggregate: &str| SOURCE.replace("at = ", &format!("{origins} = ")) + &window(aggregate);
    let log =
        [Record { partition: 4, ..record(6, r#"{"at":1}"#) }, Record { partition: 4, ..record(7, r#"{"at":1}"#) }];
    let outputs = expected(&file(r#"p = "sum(p)", o = "sum(o)""#), &log, &[]).unwrap();
    assert!(outputs["w"][0].ends_with(r#","p":8,"o":13}"#), "{outputs:?}");
    assert_eq!(expected(&file(r#"t = "sum(topic)""#), &log, &[]).unwrap_err(), "t: no sum of Text");
}

#[test]
fn a_record_may_be_nested_deeper_than_any_path() {
    let deep = format!(r#"{{"at":1,"deep":{}1{}}}"#, r#"{"a":"#.repeat(4_000), "}".repeat(4_000));
    assert_eq!(read("", &[&deep]).unwrap()["events"].len(), 1);
}

#[test]
fn a_record_far_ahead_of_its_log_timestamp_is_an_error() {
    let file = |max: &str| SOURCE.replace("\"file\"", "\"kafka\"").replace("\"0s\"", &format!("\"0s\"{max}"));
    let of = |file: &str, lead: i64| {
        let value = format!(r#"{{"at":{}}}"#, 1_000 + lead);
        let record = Record { timestamp_ms: Some(1_000), ..record(0, &value) };
        expected(file, &[record], &[]).unwrap()["events"].len()
    };
    assert_eq!((of(&file(""), 3_600_000), of(&file(""), 3_600_001)), (1, 0));
    let short = file(", max_future = \"5s\"");
    assert_eq!((of(&short, 5_000), of(&short, 5_001)), (1, 0));
    assert_eq!(of(SOURCE, 3_600_001), 1, "files have no such limit");
}

#[test]
fn event_time_may_be_the_logs() {
    let file = SOURCE.replace("{ field = \"at\" }", "{ from = \"log\" }") + &window("n = \"count()\"");
    let records =
        [Some(12_000), Some(11_000), None].map(|timestamp_ms| Record { timestamp_ms, ..record(0, r#"{"at":1}"#) });
    let outputs = expected(&file, &records[..2], &[]).unwrap();
    assert_eq!(outputs["w"], [r#"{"window_start":"1970-01-01T00:00:10Z","window_end":"1970-01-01T00:00:20Z","n":2}"#]);
}

/// By the reason of the last of two late records: 5 s under a watermark of 20 s.
fn reason(floors: &[Floor]) -> Option<String> {
    let log = log(&[r#"{"at":20000}"#, r#"{"at":5000}"#]);
    let outputs = expected(&format!("{SOURCE}{}", window("n = \"count()\"")), &log, floors).unwrap();
    let late = outputs["w.late"].iter().find(|row| row.contains(r#""_offset":1"#))?;
    Some(late.split("_reason\":\"").nth(1)?.trim_end_matches("\"}").to_owned())
}

fn floor(watermark_ms: i64, reason: &str) -> Floor {
    let (source, topic) = ("events".into(), "a".into());
    Floor { source, topic, partition: 0, from_offset: 1, watermark_ms, reason: reason.into() }
}

#[test]
fn a_floor_is_of_its_partition_and_counts_only_above_its_own_watermark() {
    let joined = floor(20_001, "joined");
    assert_eq!(reason(std::slice::from_ref(&joined)).as_deref(), Some("joined"));
    assert_eq!(reason(&[floor(20_000, "joined")]).as_deref(), Some("late"), "its own is as high");
    for other in [
        Floor { source: "other".into(), ..joined.clone() },
        Floor { topic: "b".into(), ..joined.clone() },
        Floor { partition: 1, ..joined.clone() },
        Floor { from_offset: 2, ..joined.clone() },
    ] {
        assert_eq!(reason(&[other]).as_deref(), Some("late"));
    }
}

#[test]
fn of_several_floors_the_highest_counts_and_of_equal_ones_the_first() {
    assert_eq!(reason(&[floor(30_000, "joined"), floor(40_000, "returned")]).as_deref(), Some("returned"));
    assert_eq!(reason(&[floor(40_000, "joined"), floor(30_000, "returned")]).as_deref(), Some("joined"));
    assert_eq!(reason(&[floor(30_000, "joined"), floor(30_000, "returned")]).as_deref(), Some("joined"));
}

#[test]
fn a_partition_is_one_of_its_topic() {
    let mut log = log(&[r#"{"at":20000}"#, r#"{"at":1}"#]);
    log[1] = Record { partition: 1, offset: 0, ..log[1].clone() };
    log.push(Record { topic: "b".into(), ..record(0, r#"{"at":2}"#) });
    let outputs = expected(&format!("{SOURCE}{}", window("n = \"count()\"")), &log, &[]).unwrap();
    assert!(outputs["w.late"].is_empty(), "{outputs:?}");
}
