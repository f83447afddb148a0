//! Values as records spell them: what is one and of which worth, by type; and fields by their paths.
use floodmark_oracle::{Record, expected};

fn file(schema: &str) -> String {
    format!("[source.events]\ntype = \"file\"\npath = \"data\"\n{schema}\n")
}

/// The row that a record becomes; `None`: an error.
fn row(schema: &str, record: &str) -> Option<String> {
    let record = Record { source: "events".into(), value: Some(record.as_bytes().to_vec()), ..Record::default() };
    let outputs = expected(&file(schema), &[record], &[]).unwrap();
    assert_eq!(outputs["events"].len() + outputs["events.errors"].len(), 1);
    outputs["events"].first().cloned()
}

/// How a value of this type reads; `None`: it isn't one.
fn value(ty: &str, json: &str) -> Option<String> {
    let row = row(&format!("schema = {{ v = \"{ty}\" }}"), &format!("{{\"v\":{json}}}"))?;
    Some(row.strip_prefix("{\"v\":")?.strip_suffix('}')?.to_owned())
}

fn all_read(ty: &str, spellings: &[&str], worth: &str) {
    for json in spellings {
        assert_eq!(value(ty, json).as_deref(), Some(worth), "{ty} {json}");
    }
}

fn none_read(ty: &str, spellings: &[&str]) {
    for json in spellings {
        assert_eq!(value(ty, json), None, "{ty} {json}");
    }
}

#[test]
fn a_time_is_text_with_its_zone_or_a_number() {
    let spellings = [
        "1767225600123",
        r#""2026-01-01T00:00:00.123Z""#,
        r#""2026-01-01t00:00:00.123z""#,
        r#""2026-01-01 00:00:00.123Z""#,
        r#""2026-01-01T00:00:00,123000000Z""#,
        r#""2026-01-01T01:30:00.123+01:30""#,
        r#""2026-01-01T01:30:00.123+0130""#,
        r#""2026-01-01T01:00:00.123+01""#,
        r#""2025-12-31T23:30:00.123-00:30""#,
        r#""2025-12-31T19:00:00.123-0500""#,
        r#""+2026-01-01T00:00:00.123-00:00""#,
    ];
    all_read("timestamp_ms", &spellings, r#""2026-01-01T00:00:00.123Z""#);
    all_read("timestamp_us", &["1767225600123000"], r#""2026-01-01T00:00:00.123Z""#);
    all_read("timestamp_us_ntz", &["1767225600123000", r#""2026-01-01T00:00:00.123""#], r#""2026-01-01T00:00:00.123""#);
    all_read("timestamp_ms", &[r#""2026-01-01T00:00Z""#, r#""2026-01-01T10:59+10:59""#], r#""2026-01-01T00:00:00Z""#);
    all_read("timestamp_ms", &[r#""2026-01-01T23:59:59.999999Z""#], r#""2026-01-01T23:59:59.999999Z""#);
    all_read("timestamp_ms", &["-1", r#""1969-12-31T23:59:59.999Z""#], r#""1969-12-31T23:59:59.999Z""#);
    all_read("timestamp_ms_ntz", &["0", r#""1970-01-01 00:00""#], r#""1970-01-01T00:00:00""#);
}

#[test]
fn what_no_clock_or_calendar_shows_is_no_time() {
    let no_times = [
        r#""2026-01-01T23:59:60Z""#,
        r#""2026-01-01T23:60:00Z""#,
        r#""2026-01-01T24:00:00Z""#,
        r#""2026-02-29T00:00:00Z""#,
        r#""2026-01-01T00:00:00.1234567Z""#,
        r#""2026-01-01T00:00:00.Z""#,
        r#""2026-01-01T00:00.5Z""#,
        r#""2026-01-01T0:00:00Z""#,
        r#""2026-1-01T00:00:00Z""#,
        r#""26-01-01T00:00:00Z""#,
        r#""02026-01-01T00:00:00Z""#,
        r#""2026-01-01T00:00:00+24:00""#,
        r#""2026-01-01T00:00:00+00:60""#,
        r#""2026-01-01T00:00:00+1""#,
        r#""2026-01-01T00:00:00+01:""#,
        r#""2026-01-01T00:00:00ZZ""#,
        r#""2026-01-01""#,
        r#""2026-01-01T00:00:00""#,
        "0.0",
        "1e3",
        "9223372036854776",
        "true",
        r#""0""#,
    ];
    none_read("timestamp_ms", &no_times);
    none_read("timestamp_ms_ntz", &[r#""2026-01-01T00:00:00Z""#, r#""2026-01-01T00:00:00+00:00""#]);
    none_read("timestamp_ms", &["253402300800000", "-62135596800001", r#""+10000-01-01T00:00:00Z""#]);
    all_read("timestamp_ms", &["253402300799999"], r#""9999-12-31T23:59:59.999Z""#);
    all_read("timestamp_ms", &["-62135596800000", r#""0001-01-01T00:00:00Z""#], r#""0001-01-01T00:00:00Z""#);
}

#[test]
fn dates_are_days_or_text() {
    all_read("date", &["19782", r#""2024-02-29""#], r#""2024-02-29""#);
    all_read("date", &["-1", r#""1969-12-31""#], r#""1969-12-31""#);
    all_read("date", &["-719162", r#""0001-01-01""#], r#""0001-01-01""#);
    all_read("date", &["2932896", r#""+9999-12-31""#], r#""9999-12-31""#);
    none_read("date", &["-719163", "2932897", r#""0000-12-31""#, r#""+10000-01-01""#, r#""-0001-12-31""#]);
    none_read(
        "date",
        &[r#""2023-02-29""#, r#""2024-2-29""#, r#""2024-02-29T00:00""#, r#"" 2024-02-29""#, "2147483648"],
    );
}

#[test]
fn whole_numbers_have_no_fraction_and_no_exponent() {
    all_read("int64", &["-0", "0"], "0");
    all_read("int64", &["9223372036854775807"], "9223372036854775807");
    all_read("int64", &["-9223372036854775808"], "-9223372036854775808");
    all_read("int32", &["-2147483648"], "-2147483648");
    none_read("int64", &["9223372036854775808", "-9223372036854775809", "5.0", "1e3", "\"5\"", "true"]);
    none_read("int32", &["2147483648", "-2147483649"]);
}

#[test]
fn decimals_are_read_to_their_last_digit_however_they_are_spelled() {
    all_read("decimal(10,2)", &["12.34", "\"12.34\"", "1234e-2", "\"+0012.340\"", "0.1234E+2", "1.234e1"], "12.34");
    all_read("decimal(10,2)", &["-0.01", "\"-1e-2\""], "-0.01");
    all_read("decimal(38,0)", &["1e37"], &format!("1{}", "0".repeat(37)));
    all_read("decimal(10,2)", &["1e3", "\"1e3\"", "1000"], "1000.00");
    all_read("decimal(10,2)", &["0", "-0", "-0.00", "0e999999999999999999999", "0.000000"], "0.00");
    all_read(
        "decimal(38,0)",
        &["99999999999999999999999999999999999999", "99999999999999999999999999999999999999.0"],
        &"9".repeat(38),
    );
    let most = "0.99999999999999999999999999999999999999";
    all_read("decimal(38,38)", &[most, "99999999999999999999999999999999999999e-38"], most);
    none_read(
        "decimal(10,2)",
        &[
            "12.345",
            "1e-3",
            "1e8",
            "1e99",
            "1e99999999999999999999",
            "\"a lot\"",
            "\"\"",
            "\"1e\"",
            "\".5\"",
            "\"5.\"",
            "\"1 \"",
            "true",
        ],
    );
    none_read("decimal(38,0)", &["100000000000000000000000000000000000000", "0.5", "1e38"]);
}

#[test]
fn floats_are_finite_numbers() {
    all_read("float64", &["1e308", &format!("1{}", "0".repeat(308)), "0.1e309", "1E+308"], "1.0e308");
    all_read("float64", &["12345678901.5"], "1.23456789015e10");
    all_read("float64", &["1e9"], "1000000000.0");
    all_read("float64", &["0.00001", "1e-5"], "0.00001");
    all_read("float64", &["0.000009"], "9.0e-6");
    all_read("float64", &["-0", "-0.0"], "-0.0");
    all_read("float64", &["1.5e2", "150"], "150.0");
    none_read("float64", &["1e309", "-1e309", "\"7\"", "true"]);
}

#[test]
fn text_and_bytes_are_strings() {
    all_read("string", &[r#""a\n\u00e9\/""#], r#""a\né/""#);
    none_read("string", &[r#""\ud800""#, "5"]);
    all_read("binary", &["\"AP8=\"", "\"AP8\""], "\"00ff\"");
    none_read("binary", &["\"not base64!\"", "5"]);
    all_read("bool", &["true"], "true");
    none_read("bool", &["\"true\"", "1"]);
}

const NESTED: &str = r#"
schema = { id = { path = "user.id", type = "int64?" }, city = { path = ["user", "address", "city"], type = "string?" } }"#;

#[test]
fn paths_lead_through_objects_and_nothing_else() {
    let read = |record| row(NESTED, record);
    assert_eq!(
        read(r#"{"user":{"id":1,"address":{"city":"x","zip":[1e400]}}}"#).as_deref(),
        Some(r#"{"id":1,"city":"x"}"#)
    );
    let nothing = Some(r#"{"id":null,"city":null}"#);
    for record in
        ["{}", r#"{"user":null}"#, r#"{"user":{}}"#, r#"{"user":{"id":1},"user":{}}"#, r#"{"user":{"address":null}}"#]
    {
        assert_eq!(read(record).as_deref(), nothing, "{record}");
    }
    for record in [r#"{"user":7}"#, r#"{"user":[{"id":1}]}"#, r#"{"user":{"address":"x"}}"#, r#"{"user":{"id":{}}}"#] {
        assert_eq!(read(record), None, "{record}");
    }
}

#[test]
fn a_field_that_no_path_leads_to_is_an_error_where_that_is_asked_for() {
    let strict = format!("unknown_fields = \"error\"\n{NESTED}");
    for record in [r#"{"user":{"id":1}}"#, r#"{"user":{"address":{}}}"#, r#"{"user":null}"#] {
        assert!(row(&strict, record).is_some(), "{record}");
    }
    for record in [r#"{"x":1}"#, r#"{"user":{"x":1}}"#, r#"{"user":{"address":{"zip":1}}}"#] {
        assert_eq!(row(&strict, record), None, "{record}");
        assert!(row(NESTED, record).is_some(), "{record}");
    }
}

#[test]
fn what_is_no_object_in_utf8_is_an_error() {
    for bad in ["", " ", "[]", "null", "{", "{} {}", r#"{"user":01}"#, r#"{"x":"\q"}"#] {
        assert_eq!(row(NESTED, bad), None, "{bad}");
    }
    assert!(row(NESTED, " {\"x\": 1e400} ").is_some(), "a number that nobody reads");
    let bad = Record { source: "events".into(), value: Some(b"{\"x\":\"\xff\"}".to_vec()), ..Record::default() };
    assert_eq!(expected(&file(NESTED), &[bad], &[]).unwrap()["events.errors"].len(), 1);
}

#[test]
fn metadata_are_columns_like_the_others() {
    let schema = r#"
schema = { topic = { from = "kafka.topic" }, partition = { from = "kafka.partition" }, offset = { from = "kafka.offset" }, logged = { from = "kafka.timestamp" }, key = { from = "kafka.key", type = "string?" }, trace = { from = "kafka.header.trace" } }"#;
    let header = |name: &str, value: &[u8]| (name.to_owned(), value.to_vec());
    let full = Record {
        source: "events".into(),
        topic: "t".into(),
        partition: 5,
        offset: 9,
        timestamp_ms: Some(3),
        key: Some(b"k".to_vec()),
        headers: vec![header("trace", b"1"), header("trace", b"2"), header("other", b"3")],
        value: Some(b"{}".to_vec()),
    };
    let bare = Record { offset: 10, timestamp_ms: None, key: None, headers: vec![], ..full.clone() };
    let bad_key = Record { offset: 11, key: Some(b"\xff".to_vec()), ..full.clone() };
    let outputs = expected(&file(schema), &[full, bare, bad_key], &[]).unwrap();
    let rows = [
        r#"{"topic":"t","partition":5,"offset":10,"logged":null,"key":null,"trace":null}"#,
        r#"{"topic":"t","partition":5,"offset":9,"logged":"1970-01-01T00:00:00.003Z","key":"k","trace":"32"}"#,
    ];
    assert_eq!(outputs["events"], rows);
    assert_eq!(outputs["events.errors"], [r#"{"_topic":"t","_partition":5,"_offset":11}"#]);
}
