//! Keys of [source.NAME].
//!
//! Part of the one table in `keys`; doesn't know what a key leads to.
use super::Default::{Absent, Derived, Required, Value};
use super::Kind::{Choice, Duration, Table, Text, Texts};
use super::{DISCARD, Group, key};

pub const SOURCE: Group = Group {
    title: "[source.NAME]",
    text: "A log that is read. Outputs: the decoded rows, and `NAME.errors` (records that can't be decoded).",
    keys: &[
        key("type", Choice(&["kafka", "file", "generator"]), Required, r#""kafka""#, "What kind of log it is."),
        key("format", Choice(&["json"]), Value("json"), r#""json""#, "How a record's value is encoded."),
        key("schema", Table { forms: "a table" }, Required, r#"{ event_id = "string" }"#, "See [source.NAME.schema]."),
        key(
            "start",
            Table { forms: "\"earliest\", \"latest\", { timestamp = … } or { offsets = … }" },
            Value("earliest"),
            r#""latest""#,
            "Where partitions begin when there is neither checkpoint nor mark. Files and generators begin at their first record.",
        ),
        key(
            "end",
            Table { forms: "\"never\", \"latest\", { timestamp = … } or { offsets = … }" },
            Derived("`never` for Kafka, `latest` for files and generators"),
            r#""latest""#,
            "Where reading stops. `latest` is what is there at the start; files and generators know `never` and `latest`.",
        ),
        key(
            "event_time",
            Table { forms: "a table" },
            Absent,
            r#"{ field = "event_time_ms" }"#,
            "See [source.NAME.event_time]. Windows and dedup need it.",
        ),
        key("watermark", Table { forms: "a table" }, Absent, r#"{ bound = "5s" }"#, "See [source.NAME.watermark]."),
        key(
            "lateness",
            Choice(&["window", "event"]),
            Value("window"),
            r#""event""#,
            "What makes a record late: `window` asks each window whether it has ended by the record's watermark; `event` calls it late for all windows when its own time has.",
        ),
        key(
            "on_error",
            Choice(&["output", "fail"]),
            Value("output"),
            r#""fail""#,
            "A record that can't be decoded: to `NAME.errors`, or the job stops.",
        ),
        key(
            "unknown_fields",
            Choice(&["ignore", "error"]),
            Value("ignore"),
            r#""error""#,
            "Fields of a record that the schema doesn't name: skipped and counted, or an error.",
        ),
        key(
            "discovery_interval",
            Duration(1),
            Value("60s"),
            r#""5s""#,
            "How often new partitions and files are looked for.",
        ),
        DISCARD,
    ],
};

pub const KAFKA: Group = Group {
    title: "[source.NAME] type = \"kafka\"",
    text: "Topics of a Kafka cluster.",
    keys: &[
        key("brokers", Text, Required, r#""localhost:9092""#, "Bootstrap servers, `host:port` with commas between."),
        key("topic", Texts, Required, r#"["events.a", "events.b"]"#, "Topic, or list of topics."),
        key(
            "properties",
            Table { forms: "a table of strings" },
            Absent,
            r#"{ "sasl.username" = "u" }"#,
            "Passed to librdkafka, except what the engine owns.",
        ),
    ],
};

pub const FILE_SOURCE: Group = Group {
    title: "[source.NAME] type = \"file\"",
    text: "NDJSON files, plain, gzip or zstd; one partition a file.",
    keys: &[key(
        "path",
        Text,
        Required,
        r#""data/events/*.ndjson.gz""#,
        "Directory, file or glob, from the working directory.",
    )],
};

pub const GENERATOR: Group = Group {
    title: "[source.NAME] type = \"generator\"",
    text: "Records made on the spot, each a function of seed, partition and offset. Every other key of the section is a dial of the workload, a number or a string.",
    keys: &[key("workload", Text, Required, r#""clickstream""#, "Which records: `clickstream`, `roster` or `orders`.")],
};

pub const EVENT_TIME: Group = Group {
    title: "[source.NAME.event_time]",
    text: "One of the two.",
    keys: &[
        key("field", Text, Absent, r#""event_time_ms""#, "A timestamp column that is never null."),
        key("from", Choice(&["log"]), Absent, r#""log""#, "The log's own timestamp."),
    ],
};

pub const WATERMARK: Group = Group {
    title: "[source.NAME.watermark]",
    text: "How far event time has come, for each partition by itself.",
    keys: &[
        key(
            "bound",
            Duration(0),
            Derived("required where windows or dedup read the source"),
            r#""5s""#,
            "Largest disorder that isn't late: the watermark is the largest time seen less this.",
        ),
        key(
            "idle",
            Duration(1),
            Absent,
            r#""30s""#,
            "A partition that was read to its end for this long no longer holds the watermark. Off unless given. For logs that are read for ever (`end = \"never\"`); not of a compressed file, whose end isn't known.",
        ),
        key(
            "align",
            Duration(1),
            Absent,
            r#""10m""#,
            "A partition whose watermark is this far ahead of the source's slowest one isn't read until the others have caught up; one that has nothing to read holds nobody. Bounds state while catching up (to this and a batch); changes no result.",
        ),
        key(
            "max_future",
            Duration(1),
            Derived("`1h`; none for files, which keep no log timestamp"),
            r#""5m""#,
            "Largest lead of an event time over its record's log timestamp; beyond it the record is an error and moves no watermark.",
        ),
    ],
};

pub const FIELD: Group = Group {
    title: "[source.NAME.schema]",
    text: "`name = \"type\"` for each column, in the order of the table; `\"type?\"` may be null. Types: bool, int32, int64, float64, decimal(p,s), string, binary, date, timestamp_ms, timestamp_us (UTC; with `_ntz` without zone). \
           A name with a leading `_`, `pos` and `file_path` are reserved. In JSON an integer has neither fraction nor exponent (`1.0` and `1e2` are errors), a decimal is a number or text, binary is base64 (file sinks write it as hex), \
           a date is `\"2026-01-31\"` or days since 1970 (dates and times lie in the years 1 to 9999, which every reader of a table can say), a time milliseconds or microseconds since 1970 by its type, or ISO-8601 text with a zone (`Z`, `+01:00`, `+0100`, `+01`; none for `_ntz`), with `T` or a space, with or without seconds. \
           The long form is a table:",
    keys: &[
        key("type", Text, Derived("that of the metadata; required otherwise"), r#""string""#, "Type of the column."),
        key(
            "path",
            Texts,
            Derived("the column's name"),
            r#""user.id""#,
            "Place in the document, keys joined by dots; a list where a key has a dot itself.",
        ),
        key(
            "from",
            Text,
            Absent,
            r#""kafka.offset""#,
            "Metadata instead of content: `kafka.topic`, `kafka.partition`, `kafka.offset`, `kafka.timestamp`, `kafka.key`, `kafka.header.NAME`. Files have the first three: path, 0, line.",
        ),
    ],
};

pub const POSITION: Group = Group {
    title: "start and end as tables",
    text: "One of the two; Kafka only.",
    keys: &[
        key(
            "timestamp",
            Table { forms: "a date-time or milliseconds since 1970" },
            Absent,
            "2026-01-01T00:00:00Z",
            "First record whose log timestamp is not before this.",
        ),
        key(
            "offsets",
            Table { forms: "a table" },
            Absent,
            r#"{ "events" = { 0 = 17, 1 = 4 } }"#,
            "Topic, partition, offset. Every partition of the topics has one.",
        ),
    ],
};
