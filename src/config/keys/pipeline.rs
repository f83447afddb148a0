//! Keys of [pipeline].
//!
//! Part of the one table in `keys`; doesn't know what a key leads to.
use super::Default::{Absent, Derived, Required, Value};
use super::Kind::{Choice, Duration, Integer, Size, Table, Text};
use super::{Group, key};

pub const PIPELINE: Group = Group {
    title: "[pipeline]",
    text: "The job as a whole.",
    keys: &[
        key(
            "id",
            Text,
            Required,
            r#""clickstream""#,
            "Stable identity, part of every commit. Another id is another pipeline: it reads all from its start, and is refused where a table or folder holds another pipeline's rows.",
        ),
        key(
            "checkpoint",
            Table { forms: "a table" },
            Derived("as there"),
            r#"{ interval = "250ms" }"#,
            "See [pipeline.checkpoint].",
        ),
        key(
            "state",
            Choice(&["memory", "rocksdb"]),
            Value("rocksdb"),
            r#""memory""#,
            "Where keyed state lives between checkpoints.",
        ),
        key("memory", Size(16 << 20), Value("2GiB"), r#""512MiB""#, "Memory for keyed state, over all workers."),
        key(
            "outbox",
            Size(1 << 20),
            Value("4GiB"),
            r#""1GiB""#,
            "Rows that may wait on disk for sinks that are away, before sources pause.",
        ),
        key(
            "workers",
            Integer(1, 1024),
            Derived("the number of cores"),
            "2",
            "Worker threads. May be changed between runs.",
        ),
        key(
            "max_parallelism",
            Integer(1, 32_767),
            Value("128"),
            "64",
            "Key groups, the units in which state is spread over workers. Fixed for the pipeline's life.",
        ),
        key(
            "batch_rows",
            Integer(1, 1_000_000),
            Value("4096"),
            "1000",
            "Largest number of records in one batch. Changes speed, never results.",
        ),
        key("queue_batches", Integer(1, 10_000), Value("4"), "1", "Batches that one queue between two workers holds."),
        key("listen", Text, Absent, r#""127.0.0.1:8080""#, "Address of `/status`, `/metrics` and `/healthz`."),
        key("s3", Table { forms: "a table" }, Derived("as there"), r#"{ region = "eu-west-1" }"#, "See [pipeline.s3]."),
    ],
};

pub const CHECKPOINT: Group = Group {
    title: "[pipeline.checkpoint]",
    text: "Also written `checkpoint = { … }` in [pipeline].",
    keys: &[
        key("interval", Duration(1), Value("1s"), r#""250ms""#, "Time between two checkpoints."),
        key(
            "dir",
            Text,
            Derived("`file:data/ID/checkpoints`"),
            r#""s3://bucket/checkpoints""#,
            "Where they are kept: `file:PATH` (from the working directory) or `s3://BUCKET/PREFIX`.",
        ),
        key("retain", Integer(1, 10_000), Value("5"), "3", "Newest checkpoints that are kept."),
    ],
};

pub const S3: Group = Group {
    title: "[pipeline.s3]",
    text: "For every `s3://` place of the file. What isn't given is taken from the usual AWS environment variables.",
    keys: &[
        key("endpoint", Text, Absent, r#""http://127.0.0.1:7070""#, "URL of a store that isn't AWS."),
        key("region", Text, Absent, r#""eu-west-1""#, "Region of the buckets."),
        key("access_key", Text, Absent, r#""user""#, "Access key id."),
        key("secret_key", Text, Absent, r#""secret""#, "Secret access key; best as `\"${VAR}\"`."),
    ],
};
