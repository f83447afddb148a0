//! Logs written by hand, and the tables that a person has worked out for them.
use floodmark_oracle::{Floor, Outputs, Record, expected};

/// One partition a file: `a`, `b` …; each line is a record.
fn log(files: &[&[&str]]) -> Vec<Record> {
    let mut log = vec![];
    for (file, lines) in files.iter().enumerate() {
        for (offset, line) in lines.iter().enumerate() {
            let topic = ["a", "b"][file].to_owned();
            let value = Some(line.as_bytes().to_vec());
            log.push(Record { source: "events".into(), topic, offset: offset as i64, value, ..Record::default() });
        }
    }
    log
}

/// A source of ids and times, and these nodes.
fn pipeline(bound: &str, nodes: &str) -> String {
    format!(
        r#"
[source.events]
type = "file"
path = "data"
event_time = {{ field = "at" }}
watermark = {{ bound = "{bound}" }}
schema = {{ id = "string", at = "timestamp_ms" }}
{nodes}"#
    )
}

/// Lines of id and time in milliseconds.
fn events(events: &[(&str, i64)]) -> Vec<String> {
    events.iter().map(|(id, at)| format!(r#"{{"id":"{id}","at":{at}}}"#)).collect()
}

fn outputs(file: &str, files: &[&[(&str, i64)]]) -> Outputs {
    let files: Vec<Vec<String>> = files.iter().map(|lines| events(lines)).collect();
    let files: Vec<Vec<&str>> = files.iter().map(|lines| lines.iter().map(String::as_str).collect()).collect();
    let files: Vec<&[&str]> = files.iter().map(Vec::as_slice).collect();
    expected(file, &log(&files), &[]).unwrap()
}

/// Start, end and count of each window, as short words: `00:00:00 00:00:10 2`.
fn windows(outputs: &Outputs, node: &str) -> Vec<String> {
    let short = |line: &String| {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let time = |column: &str| row[column].as_str().unwrap().split('T').nth(1).unwrap().replace('Z', "");
        format!("{} {} {}", time("window_start"), time("window_end"), row["n"])
    };
    outputs[node].iter().map(short).collect()
}

/// Ids of an output's rows, in the order of the lines.
fn ids(outputs: &Outputs, output: &str) -> Vec<String> {
    let id =
        |line: &String| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].as_str().unwrap().to_owned();
    outputs[output].iter().map(id).collect()
}

fn window(keys: &str) -> String {
    format!("[window.w]\nfrom = \"events\"\n{keys}\naggregates = {{ n = \"count()\" }}\n")
}

#[test]
fn a_record_is_late_for_a_window_that_has_ended_by_its_own_partitions_watermark() {
    let file = pipeline("0s", &window("type = \"tumbling\"\nsize = \"10s\""));
    let outputs = outputs(&file, &[&[("in", 5_000), ("next", 12_000), ("late", 8_000)], &[("other", 8_000)]]);
    assert_eq!(windows(&outputs, "w"), ["00:00:00 00:00:10 2", "00:00:10 00:00:20 1"]);
    let row = concat!(
        r#"{"id":"late","at":"1970-01-01T00:00:08Z","_topic":"a","_partition":0,"_offset":2,"#,
        r#""_watermark":"1970-01-01T00:00:12Z","_window_node":"w","_window_start":"1970-01-01T00:00:00Z","#,
        r#""_window_end":"1970-01-01T00:00:10Z","_reason":"late"}"#
    );
    assert_eq!(outputs["w.late"], [row]);
}

#[test]
fn a_window_ends_one_millisecond_before_its_end() {
    let file = pipeline("0s", &window("type = \"tumbling\"\nsize = \"10s\""));
    let outputs = outputs(&file, &[&[("x", 9_999), ("late", 3_000)], &[("x", 9_998), ("in", 3_000)]]);
    assert_eq!(ids(&outputs, "w.late"), ["late"]);
    assert_eq!(windows(&outputs, "w"), ["00:00:00 00:00:10 3"]);
}

#[test]
fn the_bound_holds_the_watermark_back() {
    let file = pipeline("5s", &window("type = \"tumbling\"\nsize = \"10s\""));
    let outputs = outputs(&file, &[&[("x", 14_998), ("in", 1_000), ("x", 14_999), ("late", 1_000)]]);
    assert_eq!(ids(&outputs, "w.late"), ["late"]);
}

/// FLINK_SEMANTICS 6.9.
#[test]
fn windows_before_1970_begin_at_the_floor() {
    let file = pipeline("1d", &window("type = \"tumbling\"\nsize = \"10s\""));
    let outputs = outputs(&file, &[&[("a", -10_001), ("b", -10_000), ("c", -1)]]);
    assert_eq!(windows(&outputs, "w"), ["23:59:40 23:59:50 1", "23:59:50 00:00:00 2"]);
}

/// FLINK_SEMANTICS 6.9.
#[test]
fn sessions_touch_at_their_gap_and_not_beyond() {
    let file = pipeline("1d", &window("type = \"session\"\ngap = \"5s\""));
    let after_ten = outputs(&file, &[&[("a", 0), ("b", 5_000), ("c", 10_001)]]);
    assert_eq!(windows(&after_ten, "w"), ["00:00:00 00:00:10 2", "00:00:10.001 00:00:15.001 1"]);
    let around_zero = outputs(&file, &[&[("a", -10_000), ("b", -10_001), ("c", -1), ("d", 0)]]);
    assert_eq!(windows(&around_zero, "w"), ["23:59:49.999 23:59:55 2", "23:59:59.999 00:00:05 2"]);
}

#[test]
fn a_record_between_two_sessions_makes_them_one() {
    let file = pipeline("1d", &window("type = \"session\"\ngap = \"5s\"\nkey = [\"id\"]"));
    let outputs = outputs(&file, &[&[("k", 20_000), ("k", 28_000)], &[("k", 24_000), ("other", 24_000)]]);
    assert_eq!(windows(&outputs, "w"), ["00:00:20 00:00:33 3", "00:00:24 00:00:29 1"]);
}

#[test]
fn a_record_is_late_for_sessions_as_soon_as_the_watermark_has_its_time() {
    let file = pipeline("1s", &window("type = \"session\"\ngap = \"5s\""));
    let outputs = outputs(&file, &[&[("x", 10_000), ("in", 9_001), ("late", 9_000)]]);
    assert_eq!(ids(&outputs, "w.late"), ["late"]);
    assert_eq!(windows(&outputs, "w"), ["00:00:09.001 00:00:15 2"]);
}

#[test]
fn lateness_by_the_event_counts_for_every_window() {
    let hopping = window("type = \"hopping\"\nsize = \"10s\"\nslide = \"5s\"\noffset = \"1s\"");
    let of = |lateness: &str| {
        let file =
            pipeline("0s", &hopping).replace("type = \"file\"", &format!("type = \"file\"\nlateness = \"{lateness}\""));
        outputs(&file, &[&[("x", 7_000), ("y", 6_000)]])
    };
    assert_eq!(windows(&of("window"), "w"), ["00:00:01 00:00:11 2", "00:00:06 00:00:16 2"]);
    assert_eq!(windows(&of("event"), "w"), ["00:00:01 00:00:11 1", "00:00:06 00:00:16 1"]);
    assert_eq!(ids(&of("event"), "w.late"), ["y", "y"], "one row for each window missed");
}

fn dedup(keys: &str) -> String {
    format!("[dedup.clean]\nfrom = \"events\"\nkey = [\"id\"]\n{keys}\n")
}

#[test]
fn the_first_copy_stays_and_the_others_name_it() {
    let outputs = outputs(&pipeline("1d", &dedup("horizon = \"1h\"")), &[&[("b", 0), ("a", 1_000), ("a", 2_000)]]);
    assert_eq!(ids(&outputs, "clean"), ["a", "b"]);
    let row = concat!(
        r#"{"id":"a","at":"1970-01-01T00:00:02Z","_topic":"a","_partition":0,"_offset":2,"#,
        r#""_first_topic":"a","_first_partition":0,"_first_offset":1}"#
    );
    assert_eq!(outputs["clean.duplicates"], [row]);
}

/// Buckets of a second: an id of [0 s, 1 s) is forgotten when the watermark has reached 11 s.
#[test]
fn an_id_is_forgotten_with_its_bucket() {
    let file = pipeline("0s", &dedup("horizon = \"10s\"\nbucket = \"1s\""));
    let outputs =
        outputs(&file, &[&[("a", 500), ("x", 10_999), ("a", 10_999), ("y", 11_000), ("a", 11_000), ("old", 999)]]);
    assert_eq!(ids(&outputs, "clean.duplicates"), ["a"], "under a watermark of 10.999 s");
    assert_eq!(ids(&outputs, "clean"), ["a", "a", "x", "y"]);
    assert_eq!(ids(&outputs, "clean.late"), ["old"]);
    assert!(
        outputs["clean.late"][0].ends_with(r#""_window_start":null,"_window_end":null,"_reason":"beyond_horizon"}"#)
    );
}

#[test]
fn duplicates_move_the_watermark_too() {
    let nodes =
        dedup("horizon = \"1h\"") + &window("type = \"tumbling\"\nsize = \"10s\"").replace("\"events\"", "\"clean\"");
    let outputs = outputs(&pipeline("0s", &nodes), &[&[("a", 5_000), ("a", 12_000), ("b", 6_000)]]);
    assert_eq!(ids(&outputs, "w.late"), ["b"]);
    assert_eq!(windows(&outputs, "w"), ["00:00:00 00:00:10 1"]);
}

#[test]
fn a_floor_is_a_watermark_of_its_own() {
    let file = pipeline("0s", &window("type = \"tumbling\"\nsize = \"10s\""));
    let lines = events(&[("in", 5_000), ("late", 5_000), ("own", 25_000), ("late", 5_000)]);
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let floor = Floor {
        source: "events".into(),
        topic: "a".into(),
        partition: 0,
        from_offset: 1,
        watermark_ms: 10_000,
        reason: "returned".into(),
    };
    let outputs = expected(&file, &log(&[&lines]), &[floor]).unwrap();
    let reasons: Vec<_> = outputs["w.late"].iter().map(|row| row.split("_reason").nth(1).unwrap()).collect();
    assert_eq!(reasons, [r#"":"returned"}"#, r#"":"late"}"#]);
}

#[test]
fn totals_are_exact_and_averages_round_half_away_from_zero() {
    let file = r#"
[source.events]
type = "file"
path = "data"
event_time = { field = "at" }
watermark = { bound = "1d" }
[source.events.schema]
at = "timestamp_ms"
n = "int64?"
d = "decimal(6,2)?"
f = "float64"
[window.w]
from = "events"
type = "tumbling"
size = "10s"
aggregates = { all = "count()", n = "count(n)", s = "sum(n)", a = "avg(n)", ds = "sum(d)", da = "avg(d)", lo = "min(f)", hi = "max(d)" }
"#;
    let lines = [
        r#"{"at":1,"n":-1,"d":"0.05","f":1.5}"#,
        r#"{"at":2,"n":-1,"d":1,"f":-2.0}"#,
        r#"{"at":3,"n":0,"d":null,"f":0.0}"#,
        r#"{"at":4,"f":0.0}"#,
        r#"{"at":10000,"n":9223372036854775807,"f":0.0}"#,
        r#"{"at":10001,"n":1,"f":0.0}"#,
    ];
    let outputs = expected(file, &log(&[&lines]), &[]).unwrap();
    let row = concat!(
        r#"{"window_start":"1970-01-01T00:00:00Z","window_end":"1970-01-01T00:00:10Z","all":4,"n":3,"s":-2,"#,
        r#""a":-0.666667,"ds":1.05,"da":0.525000,"lo":-2.0,"hi":1.00}"#
    );
    assert_eq!(outputs["w"], [row]);
    assert_eq!(outputs["w.errors"].len(), 1, "2⁶³ is no int64: {:?}", outputs["w.errors"]);
}

#[test]
fn what_is_no_row_is_an_error_and_moves_nothing() {
    let file = pipeline("0s", &window("type = \"session\"\ngap = \"1s\""));
    let bad = [
        r#"{"id":"x","at":9000"#,
        r#"{"at":9000}"#,
        r#"{"id":null,"at":9000}"#,
        r#"{"id":7,"at":9000}"#,
        r#"{"id":"x","at":9000.5}"#,
        r#"{"id":"x","at":99999999999999999999}"#,
        "[]",
        "",
        r#"{"id":"in","at":"1970-01-01T00:00:01.5Z","more":0}"#,
    ];
    let mut records = log(&[&bad]);
    records.push(Record { value: None, offset: 9, ..records[0].clone() });
    let outputs = expected(&file, &records, &[]).unwrap();
    assert_eq!(outputs["events.errors"].len(), 9);
    assert_eq!(outputs["events"], [r#"{"id":"in","at":"1970-01-01T00:00:01.500Z"}"#]);
    assert_eq!(windows(&outputs, "w"), ["00:00:01.500 00:00:02.500 1"]);
}
