//! What it costs to decode a record: 200 bytes with 7 fields, as the clickstream has them.
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use floodmark::config::model::{JsonFormat, Origin};
use floodmark::decode::Decoder;
use floodmark::decode::json::JsonDecoder;
use floodmark::source::names::PartitionNames;
use floodmark::source::{RawBatch, RawRecord};
use floodmark_pipeline::ids::PartitionIndex;
use floodmark_pipeline::schema::{Field, FieldType, Schema};

const RECORDS: usize = 1_000;

fn format() -> JsonFormat {
    let fields = vec![
        Field::required("event_id", FieldType::String),
        Field::required("user_id", FieldType::String),
        Field::required("event_type", FieldType::String),
        Field::required("page", FieldType::String),
        Field::nullable("price_cents", FieldType::Int64),
        Field::required("session_seq", FieldType::Int32),
        Field::required("event_time_ms", FieldType::TIMESTAMP_MS),
    ];
    let origins = fields.iter().map(|f| Origin::Path(vec![f.name.clone()])).collect();
    JsonFormat { schema: Schema::new(fields), origins, unknown_fields_are_errors: false }
}

fn payloads(page: &str) -> Vec<Vec<u8>> {
    let record = |i: usize| {
        format!(
            r#"{{"event_id":"{:032x}","user_id":"user-{:06}","event_type":"add_to_cart","page":"{page}","price_cents":{},"session_seq":{},"event_time_ms":{}}}"#,
            i as u128 * 0x9e37_79b9_7f4a_7c15,
            i % 10_000,
            i * 37,
            i % 50,
            1_767_225_600_000_u64 + i as u64
        )
        .into_bytes()
    };
    (0..RECORDS).map(record).collect()
}

fn decode(c: &mut Criterion) {
    let mut group = c.benchmark_group("decode");
    group.throughput(Throughput::Elements(RECORDS as u64));
    for (name, page) in
        [("7_fields_200_bytes", "/products/17/red-shoes"), ("with_an_escape", r"/products/17/red\/shoes")]
    {
        let payloads = payloads(page);
        let records: Vec<_> = payloads.iter().map(|p| RawRecord { payload: Some(p), ..Default::default() }).collect();
        group.bench_function(name, |b| {
            let mut decoder = match JsonDecoder::new(&format(), PartitionNames::default()) {
                Ok(decoder) => decoder,
                Err(error) => return eprintln!("{error}"),
            };
            let mut errors = vec![];
            b.iter(|| {
                decoder.decode(&RawBatch { partition: PartitionIndex(0), records: &records }, &mut errors);
                decoder.finish()
            });
            assert!(errors.is_empty());
        });
    }
    group.finish();
}

criterion_group!(benches, decode);
criterion_main!(benches);
