//! Keys of [sink.NAME].
//!
//! Part of the one table in `keys`; doesn't know what a key leads to.
use super::Default::{Absent, Derived, Required, Value};
use super::Kind::{Choice, Duration, Size, Table, Text, Texts};
use super::{FROM, Group, key};

pub const SINK: Group = Group {
    title: "[sink.NAME]",
    text: "Where rows go.",
    keys: &[
        FROM,
        key("type", Choice(&["iceberg", "file", "stdout"]), Required, r#""iceberg""#, "What kind of place it is."),
        key(
            "commit_interval",
            Duration(1),
            Derived("the checkpoint interval"),
            r#""30s""#,
            "Time between two commits; not less than the checkpoint interval.",
        ),
    ],
};

pub const ICEBERG: Group = Group {
    title: "[sink.NAME] type = \"iceberg\"",
    text: "An Iceberg v2 table, exactly once. Made when missing; checked when present.",
    keys: &[
        key(
            "catalog",
            Table { forms: "a table" },
            Required,
            r#"{ type = "rest", uri = "http://localhost:8181" }"#,
            "See [sink.NAME.catalog].",
        ),
        key("table", Text, Required, r#""shop.events""#, "Namespace and name, with dots between."),
        key("mode", Choice(&["append"]), Value("append"), r#""append""#, "How rows are written."),
        key(
            "partition",
            Texts,
            Absent,
            r#"["day(event_time_ms)"]"#,
            "Partition spec of a new table: `column`, `year(c)`, `month(c)`, `day(c)`, `hour(c)`, `bucket(n, c)`, `truncate(w, c)`.",
        ),
        key(
            "sort",
            Texts,
            Absent,
            r#"["event_type", "user_id desc nulls last"]"#,
            "Sort order of a new table: `column`, `column desc`, with `nulls first` or `nulls last`.",
        ),
        key(
            "target_file_size",
            Size(1 << 10),
            Value("512MiB"),
            r#""64MiB""#,
            "A data file is closed at about this size.",
        ),
        key(
            "mark_interval",
            Duration(1),
            Derived("`10m`, or the commit interval if that is longer"),
            r#""20m""#,
            "When no rows come, the offsets read are committed by themselves after this long.",
        ),
        key(
            "properties",
            Table { forms: "a table of strings" },
            Absent,
            r#"{ "write.metadata.delete-after-commit.enabled" = "true" }"#,
            "Table properties of a new table.",
        ),
    ],
};

pub const FILE_SINK: Group = Group {
    title: "[sink.NAME] type = \"file\"",
    text: "NDJSON files, each visible whole and once by its name.",
    keys: &[key("dir", Text, Required, r#""s3://bucket/out""#, "Folder: `file:PATH` or `s3://BUCKET/PREFIX`.")],
};

pub const CATALOG: Group = Group {
    title: "[sink.NAME.catalog]",
    text: "Where the table is registered.",
    keys: &[
        key("type", Choice(&["sql", "rest"]), Required, r#""sql""#, "What kind of catalog it is."),
        key(
            "uri",
            Text,
            Required,
            r#""sqlite:data/catalog.db""#,
            "`sqlite:PATH` or `postgres://…` for sql, `http(s)://…` for rest.",
        ),
    ],
};
pub const SQL_CATALOG: Group = Group {
    title: "[sink.NAME.catalog] type = \"sql\"",
    text: "The JDBC catalog's tables in SQLite or Postgres, as PyIceberg, Trino and Flink use them.",
    keys: &[
        key("name", Text, Value("floodmark"), r#""shop""#, "The catalog's name in those tables."),
        key(
            "warehouse",
            Text,
            Required,
            r#""s3://bucket/warehouse""#,
            "Where new tables lie: `file:PATH` or `s3://BUCKET/PREFIX`.",
        ),
    ],
};
pub const REST_CATALOG: Group = Group {
    title: "[sink.NAME.catalog] type = \"rest\"",
    text: "An Iceberg REST catalog.",
    keys: &[
        key("warehouse", Text, Absent, r#""s3://bucket/warehouse""#, "Warehouse that the catalog is asked for."),
        key("prefix", Text, Absent, r#""ws""#, "Path segment of the catalog's routes."),
        key("token", Text, Absent, r#""${TOKEN}""#, "Bearer token."),
        key(
            "credential",
            Text,
            Absent,
            r#""${CLIENT}:${SECRET}""#,
            "OAuth2 client credentials `id:secret`, instead of a token.",
        ),
        key(
            "token_uri",
            Text,
            Derived("the catalog's own"),
            r#""http://localhost/token""#,
            "Where a token is asked for; with `credential`.",
        ),
        key("scope", Text, Absent, r#""catalog""#, "OAuth2 scope; with `credential`."),
    ],
};
