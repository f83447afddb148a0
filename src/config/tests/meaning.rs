//! What a right file means: defaults, order, columns, fingerprints.
use std::time::Duration;

use floodmark_pipeline::plan::{Assigner, EventTimeFrom, NodeKind, OnError, OutputId, OutputRef};
use floodmark_pipeline::time::Span;

use super::super::model::{
    CatalogConfig, End, Location, Origin, Pipeline, SinkConnector, SourceConnector, Start, StateBackend,
};
use super::{BASE, edited, parse_text, pipeline};

fn columns(pipeline: &Pipeline, node: &str, output: OutputId) -> String {
    let node = pipeline.plan.find(node).unwrap();
    let schema = pipeline.plan.schema_of(OutputRef { node, output });
    schema.fields.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn names(pipeline: &Pipeline) -> Vec<&str> {
    pipeline.plan.nodes.iter().map(|n| n.name.as_str()).collect()
}

#[test]
fn what_is_not_written_has_its_default() {
    let pipeline = pipeline("");
    let settings = &pipeline.settings;
    assert_eq!(pipeline.plan.max_parallelism, 128);
    assert_eq!(settings.checkpoint_interval, Duration::from_secs(1));
    assert_eq!(settings.checkpoint_dir, Location::File("data/shop/checkpoints".into()));
    assert_eq!((settings.retain, settings.batch_rows, settings.queue_batches), (5, 4096, 4));
    assert_eq!(settings.state, StateBackend::RocksDb);
    assert_eq!((settings.memory_bytes, settings.outbox_bytes), (2 << 30, 4 << 30));
    let source = &pipeline.sources.values().next().unwrap();
    assert_eq!((&source.start, &source.end), (&Start::Earliest, &End::Never));
    assert_eq!((source.idle, source.align_ms), (None, None));
    assert_eq!(source.discovery_interval, Duration::from_secs(60));
    let sink = &pipeline.sinks[&pipeline.plan.find("lake").unwrap()];
    assert_eq!(sink.commit_interval, Duration::from_secs(1));
    let SinkConnector::Iceberg(iceberg) = &sink.connector else { panic!() };
    assert_eq!((iceberg.namespace.join("."), iceberg.table.as_str()), ("shop".into(), "events"));
    assert_eq!((iceberg.target_file_size_bytes, iceberg.mark_interval), (512 << 20, Duration::from_secs(600)));
    assert!(matches!(&iceberg.catalog, CatalogConfig::Sql { name, .. } if name == "floodmark"));
}

#[test]
fn event_time_has_its_column_bound_and_test() {
    let pipeline = pipeline("");
    let NodeKind::Source(source) = &pipeline.plan.nodes[0].kind else { panic!() };
    assert_eq!(source.event_time, Some(EventTimeFrom::Column(5)));
    assert_eq!((source.bound, source.max_future), (Span(5_000), Some(Span(3_600_000))));
    assert_eq!((source.late_by_event, source.on_error), (false, OnError::Output));
}

#[test]
fn sections_in_any_order_make_one_plan() {
    let mut sections: Vec<&str> = BASE.split("\n\n").collect();
    sections.reverse();
    let reversed = parse_text(&sections.join("\n\n")).unwrap();
    assert_eq!(names(&pipeline("")), ["events", "clean", "per_type", "lake", "counts", "bad", "late", "overflows"]);
    assert_eq!(names(&reversed), ["events", "bad", "clean", "lake", "per_type", "overflows", "late", "counts"]);
    let parts = |p: &Pipeline| p.fingerprints.iter().map(|(n, f)| (n.clone(), f.parts.clone())).collect::<Vec<_>>();
    assert_eq!(parts(&pipeline("")), parts(&reversed));
}

#[test]
fn columns_stand_in_the_order_of_the_file() {
    let source = "event_id string, user_id string?, event_type string, price float64, price_cents int64?, event_time_ms timestamp_ms";
    let pipeline = pipeline("");
    assert_eq!(columns(&pipeline, "clean", OutputId::MAIN), source);
    assert_eq!(
        columns(&pipeline, "per_type", OutputId::MAIN),
        "window_start timestamp_ms, window_end timestamp_ms, event_type string, n int64, revenue int64?"
    );
    assert_eq!(
        columns(&pipeline, "per_type", OutputId::WINDOW_LATE),
        format!(
            "{source}, _topic string, _partition int32, _offset int64, _watermark timestamp_ms, _window_node string, \
             _window_start timestamp_ms?, _window_end timestamp_ms?, _reason string"
        )
    );
}

#[test]
fn aggregates_have_the_types_of_the_page() {
    let pipeline = pipeline(
        "- price = \"float64\"\n+ price = \"decimal(10,2)\"\n\
         - aggregates = { n = \"count()\", revenue = \"sum(price_cents)\" }\n\
         + aggregates = { a = \"count(price)\", b = \"sum(price)\", c = \"avg(price)\", d = \"avg(price_cents)\", e = \"max(price)\" }",
    );
    assert_eq!(
        columns(&pipeline, "per_type", OutputId::MAIN),
        "window_start timestamp_ms, window_end timestamp_ms, event_type string, \
         a int64, b decimal(38,2), c decimal(38,6), d decimal(38,6)?, e decimal(10,2)"
    );
}

#[test]
fn a_bucket_is_a_24th_of_the_horizon() {
    let pipeline = pipeline("- horizon = \"24h\"\n+ horizon = \"2d\"");
    let NodeKind::Dedup(dedup) = &pipeline.plan.nodes[1].kind else { panic!() };
    assert_eq!((dedup.horizon, dedup.bucket), (Span(172_800_000), Span(7_200_000)));
}

#[test]
fn windows_are_what_they_are_called() {
    let assigner = |edits: &str| {
        let pipeline = pipeline(edits);
        let NodeKind::Window(window) = &pipeline.plan.nodes[2].kind else { panic!() };
        window.assigner
    };
    let hopping =
        |size, slide, offset| Assigner::Hopping { size: Span(size), slide: Span(slide), offset: Span(offset) };
    assert_eq!(assigner(""), hopping(10_000, 10_000, 0));
    assert_eq!(
        assigner("- type = \"tumbling\"\n+ type = \"hopping\"\n+ slide = \"3s\"\n+ offset = \"1s\""),
        hopping(10_000, 3_000, 1_000)
    );
    assert_eq!(
        assigner("- type = \"tumbling\"\n- size = \"10s\"\n+ type = \"session\"\n+ gap = \"30s\""),
        Assigner::Session { gap: Span(30_000) }
    );
}

#[test]
fn a_window_without_a_key_counts_all_rows() {
    let pipeline = pipeline("- key = [\"event_type\"]");
    assert_eq!(
        columns(&pipeline, "per_type", OutputId::MAIN),
        "window_start timestamp_ms, window_end timestamp_ms, n int64, revenue int64?"
    );
}

#[test]
fn fields_come_from_paths_and_metadata() {
    let pipeline = pipeline(
        "- price = \"float64\"\n+ city = { path = \"user.home.city\", type = \"string?\" }\n+ dotted = { path = [\"a.b\", \"c\"], type = \"int32\" }\n\
         + at = { from = \"kafka.offset\" }\n+ k = { from = \"kafka.key\", type = \"binary?\" }\n+ h = { from = \"kafka.header.trace\", type = \"string?\" }",
    );
    let format = &pipeline.sources.values().next().unwrap().format;
    let path = |parts: &[&str]| Origin::Path(parts.iter().map(|p| (*p).to_owned()).collect());
    assert_eq!(
        format.origins[3..8],
        [
            path(&["user", "home", "city"]),
            path(&["a.b", "c"]),
            Origin::Offset,
            Origin::Key,
            Origin::Header("trace".into())
        ]
    );
}

#[test]
fn positions_are_words_times_and_offsets() {
    let source = |edits: &str| pipeline(edits).sources.into_values().next().unwrap();
    let both = source(
        "= topic = \"events\"\n+ start = { timestamp = 2026-01-01T01:00:00+01:00 }\n+ end = { offsets = { \"events\" = { 0 = 17, 1 = 4 } } }",
    );
    assert_eq!(both.start, Start::TimestampMs(1_767_225_600_000));
    assert_eq!(both.end, End::Offsets([(("events".into(), 0), 17), (("events".into(), 1), 4)].into()));
    assert_eq!(source("= topic = \"events\"\n+ start = \"latest\"").start, Start::Latest);
}

#[test]
fn a_variable_is_put_in_and_never_shown() {
    let topic = |properties: &str| format!("= topic = \"events\"\n+ properties = {{ {properties} }}");
    let good = pipeline(&topic("\"sasl.password\" = \"${SECRET}\", \"sasl.username\" = \"$${SECRET}\""));
    let SourceConnector::Kafka(kafka) = &good.sources.values().next().unwrap().connector else { panic!() };
    assert_eq!(kafka.properties["sasl.password"].0, "hunter2");
    assert_eq!(kafka.properties["sasl.username"].0, "${SECRET}");
    assert!(!format!("{good:?}").contains("hunter2"));
    let bad = parse_text(&edited("- horizon = \"24h\"\n+ horizon = \"${SECRET}\"")).unwrap_err();
    assert!(!bad.to_string().contains("hunter2"), "{bad}");
}

#[test]
fn two_sinks_may_share_a_table_of_one_schema() {
    let shared = pipeline(
        "- from = \"per_type.late\"\n- type = \"stdout\"\n+ from = \"clean\"\n+ type = \"iceberg\"\n+ table = \"shop.events\"\n\
         + catalog = { type = \"sql\", uri = \"sqlite:data/catalog.db\", warehouse = \"file:data/warehouse\" }\n\
         = size = \"10s\"\n+ discard = [\"late\"]",
    );
    assert_eq!(shared.plan.nodes.len(), 8);
    assert!(shared.plan.nodes[2].outputs[1].discard);
}

#[test]
fn a_fingerprint_changes_with_what_state_depends_on() {
    let parts = |edits: &str, node: &str| (*pipeline(edits).fingerprints[node].parts).clone();
    for (edits, node, key, was, is) in [
        ("- horizon = \"24h\"\n+ horizon = \"48h\"", "clean", "horizon", "1d", "2d"),
        ("- size = \"10s\"\n+ size = \"20s\"", "per_type", "size", "10s", "20s"),
        ("- key = [\"event_type\"]\n+ key = [\"user_id\"]", "per_type", "key", "event_type", "user_id"),
        ("- watermark = { bound = \"5s\" }\n+ watermark = { bound = \"6s\" }", "events", "watermark.bound", "5s", "6s"),
        ("= workers = 2\n+ max_parallelism = 64", "events", "max_parallelism", "128", "64"),
        ("- price = \"float64\"\n+ price = \"int64\"", "events", "schema.price", "float64", "int64"),
        ("- topic = \"events\"\n+ topic = \"other\"", "events", "topic", "events", "other"),
        ("- table = \"shop.events\"\n+ table = \"shop.all\"", "lake", "table", "shop.events", "shop.all"),
    ] {
        let (before, mut after) = (parts("", node), parts(edits, node));
        assert_eq!((before[key].as_str(), after[key].as_str()), (was, is));
        after.insert(key.into(), was.into());
        assert_eq!(
            before.iter().filter(|(k, _)| *k != "slide" && *k != "bucket").collect::<Vec<_>>(),
            after.iter().filter(|(k, _)| *k != "slide" && *k != "bucket").collect::<Vec<_>>(),
        );
    }
}

#[test]
fn a_fingerprint_does_not_change_with_what_state_survives() {
    let parts = |edits: &str| pipeline(edits).fingerprints.into_iter().map(|(n, f)| (n, f.parts)).collect::<Vec<_>>();
    for edits in [
        "- workers = 2\n+ workers = 3",
        "= workers = 2\n+ checkpoint = { interval = \"5s\", retain = 9, dir = \"file:elsewhere\" }",
        "= workers = 2\n+ memory = \"1GiB\"\n+ batch_rows = 7",
        "- watermark = { bound = \"5s\" }\n+ watermark = { bound = \"5s\", idle = \"30s\", align = \"10m\" }",
        "- brokers = \"localhost:9092\"\n+ brokers = \"other:9092\"\n+ properties = { \"sasl.password\" = \"${SECRET}\" }",
        "= table = \"shop.events\"\n+ commit_interval = \"5s\"",
    ] {
        assert_eq!(parts(""), parts(edits), "{edits}");
    }
    let added = pipeline("= price = \"float64\"\n+ coupon = \"string?\"");
    assert_eq!(added.fingerprints["events"].parts["schema.coupon"], "string?");
    assert_eq!(pipeline("").fingerprints["clean"].line, 20);
}
