//! JSON records: what becomes a row, and which reason what doesn't is given.
use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Decimal128Type, Float64Type, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, RecordBatch};
use floodmark_pipeline::ids::PartitionIndex;
use floodmark_pipeline::schema::{Field as SchemaField, TimestampUnit};
use proptest::prelude::*;

use super::*;

/// What decoding some records gave.
struct Tried {
    rows: RecordBatch,
    offsets: Vec<i64>,
    unknown_fields: u64,
    errors: Vec<BadRecord>,
}

impl Tried {
    fn reasons(&self) -> Vec<&'static str> {
        self.errors.iter().map(|e| e.reason).collect()
    }

    fn int64(&self, column: &str) -> Vec<Option<i64>> {
        self.rows[column].as_primitive::<Int64Type>().iter().collect()
    }

    fn string(&self, column: &str) -> Vec<Option<&str>> {
        self.rows[column].as_string::<i32>().iter().collect()
    }
}

/// A format whose fields are found by their names.
fn format(fields: Vec<SchemaField>) -> JsonFormat {
    let origins = fields.iter().map(|f| Origin::Path(vec![f.name.clone()])).collect();
    JsonFormat { schema: Schema::new(fields), origins, unknown_fields_are_errors: false }
}

fn one_field(ty: FieldType) -> JsonFormat {
    format(vec![SchemaField::required("v", ty)])
}

fn at(field: SchemaField, path: &str) -> (SchemaField, Origin) {
    (field, Origin::Path(path.split('.').map(str::to_owned).collect()))
}

fn with_origins(fields: Vec<(SchemaField, Origin)>) -> JsonFormat {
    let (fields, origins) = fields.into_iter().unzip();
    JsonFormat { schema: Schema::new(fields), origins, unknown_fields_are_errors: false }
}

fn names() -> PartitionNames {
    PartitionNames::new(vec![PartitionName { source: "events".into(), topic: "clicks".into(), partition: 5 }])
}

fn decode_records(format: &JsonFormat, records: &[RawRecord<'_>]) -> Tried {
    let mut decoder = JsonDecoder::new(format, names()).unwrap();
    let mut errors = vec![];
    decoder.decode(&RawBatch { partition: PartitionIndex(0), records }, &mut errors);
    let decoded = decoder.finish().unwrap();
    Tried { rows: decoded.columns, offsets: decoded.offset, unknown_fields: decoded.unknown_fields, errors }
}

fn decode(format: &JsonFormat, payloads: &[&[u8]]) -> Tried {
    let records: Vec<_> = payloads
        .iter()
        .zip(0..)
        .map(|(p, offset)| RawRecord { offset, payload: Some(p), ..Default::default() })
        .collect();
    decode_records(format, &records)
}

fn reason_of(format: &JsonFormat, payload: &str) -> &'static str {
    let result = decode(format, &[payload.as_bytes()]);
    assert_eq!(result.rows.num_rows() + result.errors.len(), 1);
    result.errors.first().map_or("row", |e| e.reason)
}

fn clicks() -> JsonFormat {
    format(vec![
        SchemaField::required("id", FieldType::String),
        SchemaField::nullable("price", FieldType::Int64),
        SchemaField::required("time", FieldType::TIMESTAMP_MS),
    ])
}

#[test]
fn fields_are_found_whatever_their_order_and_company() {
    let result = decode(
        &clicks(),
        &[
            br#"{"id":"a","price":1,"time":5}"#,
            br#" { "time" : 6 , "extra" : [1e400, {"x":"}"}] , "price" : 2 , "id" : "b" } "#,
            br#"{"price":3,"time":7,"id":"c"}"#,
            br#"{"id":"d","time":8}"#,
            br#"{"id":"e","price":null,"time":9}"#,
        ],
    );
    assert!(result.errors.is_empty(), "{:?}", result.errors);
    assert_eq!(result.string("id"), ["a", "b", "c", "d", "e"].map(Some));
    assert_eq!(result.int64("price"), [Some(1), Some(2), Some(3), None, None]);
    assert_eq!(
        result.rows["time"].as_primitive::<TimestampMicrosecondType>().values(),
        &[5_000, 6_000, 7_000, 8_000, 9_000]
    );
    assert_eq!(result.unknown_fields, 1);
}

#[test]
fn a_bad_record_leaves_nothing_behind() {
    let result = decode(
        &clicks(),
        &[
            br#"{"id":"a","price":1,"time":1}"#,
            br#"{"id":"bad","price":2,"time":"yesterday","extra":1}"#,
            br#"{"id":"b","price":null,"time":2}"#,
            br#"{"id":"bad","price":null}"#,
        ],
    );
    assert_eq!(result.string("id"), ["a", "b"].map(Some));
    assert_eq!(result.int64("price"), [Some(1), None]);
    assert_eq!(result.offsets, [0, 2]);
    assert_eq!(result.reasons(), [reason::TYPE, reason::MISSING]);
    assert_eq!(result.errors[0].detail, "time: expected timestamp_ms, found \"yesterday\"");
    assert_eq!(result.errors[0].value.as_deref(), Some(&br#"{"id":"bad","price":2,"time":"yesterday","extra":1}"#[..]));
    assert_eq!(result.errors[1].offset, 3);
    assert_eq!(result.unknown_fields, 0);
}

#[test]
fn every_reason_has_its_record() {
    let format = clicks();
    assert_eq!(reason_of(&format, ""), reason::EMPTY);
    assert_eq!(reason_of(&format, " "), reason::BAD_JSON);
    assert_eq!(reason_of(&format, r#"{"price":1,"time":1}"#), reason::MISSING);
    assert_eq!(reason_of(&format, r#"{"id":null,"time":1}"#), reason::NULL);
    assert_eq!(reason_of(&format, r#"{"id":5,"time":1}"#), reason::TYPE);
    assert_eq!(reason_of(&format, r#"{"id":"a","price":"5","time":1}"#), reason::TYPE);
    assert_eq!(reason_of(&format, r#"{"id":"a","price":[5],"time":1}"#), reason::TYPE);
    assert_eq!(reason_of(&format, r#"{"id":"a","price":9223372036854775808,"time":1}"#), reason::RANGE);
    assert_eq!(reason_of(&format, r#"{"id":"a","price":5.0,"time":1}"#), reason::RANGE);
    assert_eq!(reason_of(&format, r#"{"id":"a\ud800","time":1}"#), reason::UTF8);
    assert_eq!(reason_of(&format, r#"[1]"#), reason::TYPE);
    assert_eq!(reason_of(&format, "null"), reason::TYPE);
    assert_eq!(decode(&format, &[b"{\"id\":\"\xff\"}"]).reasons(), [reason::UTF8]);
    let tombstone = decode_records(&format, &[RawRecord { key: Some(b"k"), ..Default::default() }]);
    assert_eq!(tombstone.reasons(), [reason::TOMBSTONE]);
    assert_eq!(tombstone.errors[0].key.as_deref(), Some(&b"k"[..]));
}

#[test]
fn the_whole_document_must_be_json_also_where_nobody_looks() {
    for bad in [
        r#"{"id":"a","time":1"#,
        r#"{"id":"a","time":1}}"#,
        r#"{"id":"a","time":1} {"id":"b","time":1}"#,
        r#"{"id":"a","time":1,}"#,
        r#"{"id":"a","time":1,"x":01}"#,
        r#"{"id":"a","time":1,"x":tru}"#,
        r#"{"id":"a","time":1,"x":"\q"}"#,
        r#"{"id":"a","time":1,"x":"\u12G4"}"#,
        r#"{"id":"a","time":1,"x":"\u"}"#,
        r#"{"id":"a","time":1,"x":[1,2}}"#,
        r#"{"id":"a","time":1,"x":{"y"}}"#,
        r#"{"id":"a" "time":1}"#,
        "{\"id\":\"a\nb\",\"time\":1}",
        r#"{'id':"a","time":1}"#,
        r#"{"id":"a","time":NaN}"#,
    ] {
        assert_eq!(reason_of(&clicks(), bad), reason::BAD_JSON, "{bad}");
    }
}

#[test]
fn the_first_reason_in_schema_order_is_the_records_one() {
    assert_eq!(reason_of(&clicks(), r#"{"time":"x","price":"x","id":null}"#), reason::NULL);
    assert_eq!(reason_of(&clicks(), r#"{"time":"x","price":1.5,"id":"a"}"#), reason::RANGE);
}

#[test]
fn a_document_too_deep_is_refused_and_does_no_harm() {
    let nested = |depth: usize| format!(r#"{{"id":"a","time":1,"x":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    assert_eq!(reason_of(&clicks(), &nested(511)), "row");
    assert_eq!(reason_of(&clicks(), &nested(512)), reason::BAD_JSON);
    assert_eq!(reason_of(&clicks(), &nested(2_000_000)), reason::BAD_JSON);
    assert_eq!(reason_of(&clicks(), &"[".repeat(2_000_000)), reason::BAD_JSON);
    let brackets = format!(r#"{{"id":"a","time":1,"x":"{}"}}"#, "[".repeat(5_000));
    assert_eq!(reason_of(&clicks(), &brackets), "row");
}

#[test]
fn of_a_key_that_stands_twice_the_last_counts() {
    let result = decode(&clicks(), &[br#"{"id":"a","id":"b","time":"x","time":1,"price":1,"price":null}"#]);
    assert_eq!(result.string("id"), [Some("b")]);
    assert_eq!(result.int64("price"), [None]);
    let nested = with_origins(vec![at(SchemaField::nullable("id", FieldType::Int64), "user.id")]);
    assert_eq!(decode(&nested, &[br#"{"user":{"id":1},"user":{}}"#]).int64("id"), [None]);
}

#[test]
fn paths_reach_into_objects() {
    let format = with_origins(vec![
        at(SchemaField::required("id", FieldType::Int64), "user.id"),
        at(SchemaField::nullable("city", FieldType::String), "user.address.city"),
        at(SchemaField::nullable("again", FieldType::Int64), "user.id"),
    ]);
    let result = decode(
        &format,
        &[
            br#"{"user":{"id":1,"address":{"city":"K\u00f6ln","zip":5}}}"#,
            br#"{"user":{"address":null,"id":2}}"#,
            br#"{"user":{"id":3}}"#,
        ],
    );
    assert_eq!(result.int64("id"), [Some(1), Some(2), Some(3)]);
    assert_eq!(result.int64("again"), [Some(1), Some(2), Some(3)]);
    assert_eq!(result.string("city"), [Some("Köln"), None, None]);
    assert_eq!(result.unknown_fields, 1);
    assert_eq!(reason_of(&format, r#"{"user":null}"#), reason::NULL);
    assert_eq!(reason_of(&format, r#"{}"#), reason::MISSING);
    assert_eq!(reason_of(&format, r#"{"user":7}"#), reason::TYPE);
    assert_eq!(reason_of(&format, r#"{"user":{"id":1,"address":"\n"}}"#), reason::TYPE);
    let error = &decode(&format, &[br#"{"user":{"id":"x"}}"#]).errors[0];
    assert_eq!(error.detail, "id (user.id): expected int64, found \"x\"");
}

#[test]
fn unknown_fields_are_errors_where_that_is_asked_for() {
    let mut format = clicks();
    format.unknown_fields_are_errors = true;
    let result = decode(&format, &[br#"{"id":5,"extra":1,"more":2}"#, br#"{"id":"a","time":1}"#]);
    assert_eq!(result.reasons(), [reason::UNKNOWN_FIELD]);
    assert_eq!(result.errors[0].detail, "`extra` is not in the schema");
    assert_eq!(result.string("id"), [Some("a")]);
}

#[test]
fn each_type_has_its_column() {
    let decimal = FieldType::Decimal { precision: 5, scale: 2 };
    let v = |ty, value: &str| decode(&one_field(ty), &[format!(r#"{{"v":{value}}}"#).as_bytes()]);
    assert!(v(FieldType::Bool, "true").rows["v"].as_boolean().value(0));
    assert_eq!(v(FieldType::Int32, "-7").rows["v"].as_primitive::<Int32Type>().value(0), -7);
    assert_eq!(v(FieldType::Float64, "1.5e2").rows["v"].as_primitive::<Float64Type>().value(0), 150.0);
    assert_eq!(v(decimal, "1.50").rows["v"].as_primitive::<Decimal128Type>().value(0), 150);
    assert_eq!(v(decimal, "\"-1.5\"").rows["v"].as_primitive::<Decimal128Type>().value(0), -150);
    assert_eq!(v(FieldType::Binary, "\"AAE=\"").rows["v"].as_binary::<i32>().value(0), [0, 1]);
    assert_eq!(v(FieldType::Date, "\"1970-01-02\"").rows["v"].as_primitive::<Date32Type>().value(0), 1);
    let no_zone = FieldType::Timestamp { unit: TimestampUnit::Us, utc: false };
    let result = v(no_zone, "\"1970-01-01T00:00:01\"");
    assert_eq!(result.rows["v"].as_primitive::<TimestampMicrosecondType>().value(0), 1_000_000);
    for ty in [FieldType::Bool, FieldType::Int32, decimal, FieldType::Binary, FieldType::Date, no_zone] {
        assert_eq!(v(ty, "{}").reasons(), [reason::TYPE], "{ty}");
    }
    assert_eq!(v(decimal, "1.505").reasons(), [reason::RANGE]);
    assert_eq!(v(decimal, "1000").reasons(), [reason::RANGE]);
    assert_eq!(v(decimal, "\"a lot\"").reasons(), [reason::TYPE]);
}

#[test]
fn a_null_of_each_type_is_taken_back_with_its_record() {
    let types = [
        FieldType::Bool,
        FieldType::Int32,
        FieldType::Float64,
        FieldType::Decimal { precision: 5, scale: 2 },
        FieldType::Binary,
        FieldType::Date,
        FieldType::TIMESTAMP_MS,
    ];
    let mut fields: Vec<_> = types.iter().map(|ty| SchemaField::nullable(ty.to_string(), *ty)).collect();
    fields.push(SchemaField::required("last", FieldType::Int64));
    let result =
        decode(&format(fields), &[br#"{"last":1}"#, br#"{"bool":true,"binary":"AAE="}"#, br#"{"bool":true,"last":2}"#]);
    assert_eq!(result.int64("last"), [Some(1), Some(2)]);
    assert_eq!(result.rows["bool"].as_boolean().iter().collect::<Vec<_>>(), [None, Some(true)]);
    assert_eq!(result.rows["binary"].null_count(), 2);
}

#[test]
fn metadata_are_fields_like_the_others() {
    let format = with_origins(vec![
        (SchemaField::required("topic", FieldType::String), Origin::Topic),
        (SchemaField::required("partition", FieldType::Int32), Origin::Partition),
        (SchemaField::required("offset", FieldType::Int64), Origin::Offset),
        (SchemaField::nullable("logged", FieldType::TIMESTAMP_MS), Origin::Timestamp),
        (SchemaField::nullable("key", FieldType::String), Origin::Key),
        (SchemaField::nullable("trace", FieldType::Binary), Origin::Header("trace".into())),
    ]);
    let headers: &[(&str, Option<&[u8]>)] = &[("trace", Some(b"1")), ("other", Some(b"x")), ("trace", Some(b"2"))];
    let full = RawRecord { offset: 9, payload: Some(b"{}"), key: Some(b"k"), timestamp_ms: Some(3), headers };
    let bare = RawRecord { offset: 10, payload: Some(b"{}"), ..Default::default() };
    let bad_key = RawRecord { offset: 11, key: Some(b"\xff"), ..bare };
    let result = decode_records(&format, &[full, bare, bad_key]);
    assert_eq!(result.string("topic"), [Some("clicks"); 2]);
    assert_eq!(result.rows["partition"].as_primitive::<Int32Type>().values(), &[5, 5]);
    assert_eq!(result.int64("offset"), [Some(9), Some(10)]);
    assert_eq!(
        result.rows["logged"].as_primitive::<TimestampMicrosecondType>().iter().collect::<Vec<_>>(),
        [Some(3_000), None]
    );
    assert_eq!(result.string("key"), [Some("k"), None]);
    assert_eq!(result.rows["trace"].as_binary::<i32>().iter().collect::<Vec<_>>(), [Some(&b"2"[..]), None]);
    assert_eq!(result.reasons(), [reason::UTF8]);
}

#[test]
fn a_metadata_column_of_another_type_is_refused_at_the_start() {
    let format = with_origins(vec![(SchemaField::required("o", FieldType::String), Origin::Offset)]);
    let error = JsonDecoder::new(&format, names()).err().map(|e| e.to_string());
    assert_eq!(error.as_deref(), Some("field `o` is string, but what it is from needs int64"));
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::Value;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,40}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::hash_map("id|price|time|user|.{0,3}", inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// JSON text with a few bytes changed, so that most is nearly right.
fn nearly_json() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![any::<u8>(), prop::sample::select(b"{}[]\",:\\u0123eE.-+ tfn".to_vec())];
    (json(), prop::collection::vec((any::<prop::sample::Index>(), byte, 0..3_u8), 0..4)).prop_map(|(value, edits)| {
        let mut text = value.to_string().into_bytes();
        for (at, byte, kind) in edits {
            let at = at.index(text.len().max(1));
            match kind {
                _ if text.is_empty() => {}
                0 => text[at] = byte,
                1 => text.insert(at, byte),
                _ => drop(text.remove(at)),
            }
        }
        text
    })
}

/// So many, unless more (or fewer) are asked for.
fn cases(usual: u32) -> ProptestConfig {
    if std::env::var_os("PROPTEST_CASES").is_some() {
        ProptestConfig::default()
    } else {
        ProptestConfig::with_cases(usual)
    }
}

proptest! {
    #![proptest_config(cases(4_000))]

    #[test]
    fn any_bytes_are_a_row_or_an_error(payloads in prop::collection::vec(
        prop_oneof![nearly_json(), prop::collection::vec(any::<u8>(), 0..80)], 1..6)) {
        let format = with_origins(vec![
            at(SchemaField::nullable("id", FieldType::String), "id"),
            at(SchemaField::nullable("price", FieldType::Decimal { precision: 9, scale: 2 }), "price"),
            at(SchemaField::nullable("time", FieldType::TIMESTAMP_MS), "time"),
            at(SchemaField::nullable("user", FieldType::Int64), "user.id"),
        ]);
        let payloads: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
        let together = decode(&format, &payloads);
        let mut offsets: Vec<i64> = together.offsets.iter().copied().chain(together.errors.iter().map(|e| e.offset)).collect();
        offsets.sort_unstable();
        prop_assert_eq!(offsets, (0..payloads.len() as i64).collect::<Vec<_>>());
        prop_assert_eq!(together.rows.num_rows(), together.offsets.len());
        for (offset, payload) in (0..).zip(&payloads) {
            let alone = decode(&format, &[payload]);
            let error = together.errors.iter().find(|e| e.offset == offset);
            let alone = alone.errors.first().map(|e| e.reason);
            prop_assert_eq!(alone, error.map(|e| e.reason), "alone and in a batch");
        }
    }

    #[test]
    fn what_is_json_is_for_serde_json_to_say(payload in nearly_json()) {
        let result = decode(&one_field(FieldType::Int64), &[&payload]);
        let Ok(text) = std::str::from_utf8(&payload) else {
            prop_assert_eq!(result.reasons(), [reason::UTF8]);
            return Ok(());
        };
        let refused = result.reasons().iter().any(|r| [reason::BAD_JSON, reason::EMPTY].contains(r));
        // Halves of surrogate pairs in a key are grammar, but no text.
        if !text.to_ascii_lowercase().contains("\\ud") {
            prop_assert_eq!(refused, serde_json::from_str::<serde::de::IgnoredAny>(text).is_err(), "{}", text);
        }
    }
}
