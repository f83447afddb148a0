//! What becomes of each key of the pipeline file on Flink, in one table: comments in the job and docs/FLINK_SQL.md are printed from it.
//!
//! Doesn't know: a file's values; where the answer depends on the value, the code that reads it refuses or adds a note (`job`).
//! Keeps: every key of the reference has one answer. Tested: flink_sql/tests.rs (the walk over all keys).
use std::fmt::Write;

use Answer::{Depends, Here, Loss, Nearest, Refused, Same};

use crate::config::keys::{GROUPS, Group, Key};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The job means the same by it; how it is said there.
    Same(&'static str),
    /// The nearest that Flink has; this comment stands in the job.
    Nearest(&'static str),
    /// The same or the nearest, by the value; the code that reads it adds the comment.
    Depends(&'static str),
    /// Nothing of the job's, only of how floodmark runs; this comment stands in the job.
    Here(&'static str),
    /// Refused, unless `--accept-loss` names the key.
    Loss(&'static str),
    /// Refused.
    Refused(&'static str),
}

/// Group, key, answer. The order is that of the reference.
const ANSWERS: &[(&str, &[(&str, Answer)])] = &[
    (
        "[pipeline]",
        &[
            ("id", Same("`pipeline.name`, and the beginning of every operator's uid")),
            ("checkpoint", Same("see [pipeline.checkpoint]")),
            ("state", Same("`state.backend.type`: `hashmap` or `rocksdb`, the latter with incremental checkpoints")),
            (
                "memory",
                Here(
                    "the memory of Flink's TaskManagers is set where the cluster is (taskmanager.memory.managed.size)",
                ),
            ),
            (
                "outbox",
                Here(
                    "Flink has no outbox: when a catalog is away its commits fail, and the job restarts from its last checkpoint",
                ),
            ),
            ("workers", Same("`parallelism.default`; without it the cluster's own holds")),
            ("max_parallelism", Same("`pipeline.max-parallelism`")),
            ("batch_rows", Here("Flink passes rows one by one: there are no batches")),
            (
                "queue_batches",
                Here("what waits between two operators lies in Flink's network buffers, which are the cluster's"),
            ),
            ("listen", Here("status and metrics of a Flink job are the cluster's (rest.port, metrics.reporters)")),
            ("s3", Same("see [pipeline.s3]")),
        ],
    ),
    (
        "[pipeline.checkpoint]",
        &[
            ("interval", Same("`execution.checkpointing.interval`, aligned, exactly once")),
            (
                "dir",
                Nearest(
                    "the folder of Flink's checkpoints is the cluster's (execution.checkpointing.dir), and never floodmark's own",
                ),
            ),
            ("retain", Nearest("a job can't set it: set state.checkpoints.num-retained for the cluster")),
        ],
    ),
    (
        "[pipeline.s3]",
        &[
            (
                "endpoint",
                Same(
                    "`s3.endpoint` of the catalogs. Flink's own S3 file system, for checkpoints and files, is set in the cluster",
                ),
            ),
            ("region", Same("`client.region` of the catalogs")),
            ("access_key", Same("`s3.access-key-id` of the catalogs")),
            ("secret_key", Same("`s3.secret-access-key` of the catalogs")),
        ],
    ),
    (
        "[source.NAME]",
        &[
            (
                "type",
                Same(
                    "connector `kafka` or `filesystem`. A generator is refused: write its records to Kafka and say `--kafka`",
                ),
            ),
            (
                "format",
                Depends(
                    "Flink's json is more lenient: it takes numbers in quotes, cuts the fraction off an integer, rounds a decimal or makes it null where it doesn't fit, takes what isn't `true` for false, and numbers, arrays and objects for strings. Text of a time needs its seconds, and `Z` as its zone. A record without value (a tombstone) is passed over silently. floodmark calls each of these an error",
                ),
            ),
            (
                "schema",
                Same(
                    "columns of the table and of the view over it; a column that is missing and may not be stops the job",
                ),
            ),
            ("start", Same("`scan.startup.mode`. Offsets only of one topic")),
            ("end", Same("`scan.bounded.mode`. Offsets only of one topic")),
            ("event_time", Same("see [source.NAME.event_time]")),
            ("watermark", Same("see [source.NAME.watermark]; emitted with every record")),
            (
                "lateness",
                Same(
                    "where the one predicate over CURRENT_WATERMARK stands: behind the windows of a record, or before all windows",
                ),
            ),
            (
                "on_error",
                Depends(
                    "`fail` is the same. With `output` the job stops too, at the first record that can't be decoded, and the errors output has no rows; with `--accept-loss on_error` such records are skipped silently",
                ),
            ),
            (
                "unknown_fields",
                Loss("Flink's json skips fields that the schema doesn't name; it has no word for `error`"),
            ),
            (
                "discovery_interval",
                Same("`scan.topic-partition-discovery.interval`, or `source.monitor-interval` of files"),
            ),
            ("discard", Nearest("Flink doesn't count the rows of an output that nobody takes")),
        ],
    ),
    (
        "[source.NAME] type = \"kafka\"",
        &[
            ("brokers", Same("`properties.bootstrap.servers`")),
            ("topic", Same("`topic`")),
            (
                "properties",
                Loss(
                    "passed under the name that Java's Kafka client has for it. One that it has no name for is refused",
                ),
            ),
        ],
    ),
    (
        "[source.NAME] type = \"file\"",
        &[(
            "path",
            Loss(
                "`path`, a folder or a file. Flink has one watermark over all files of a source, floodmark one for each: with event time this is refused; write the records to Kafka and say `--kafka`",
            ),
        )],
    ),
    (
        "[source.NAME] type = \"generator\"",
        &[(
            "workload",
            Refused(
                "write the records to Kafka (floodmark generate … --to kafka://HOST:PORT/TOPIC) and say `--kafka SOURCE=HOST:PORT/TOPIC`",
            ),
        )],
    ),
    (
        "[source.NAME.schema]",
        &[
            ("type", Same("the type of the table's column; times are read from text or number, as floodmark does")),
            ("path", Same("rows inside rows")),
            (
                "from",
                Same(
                    "metadata columns of the connector; a key or header that isn't UTF-8 gets replacement characters. Files have no line numbers: there `kafka.offset` is refused",
                ),
            ),
        ],
    ),
    (
        "[source.NAME.event_time]",
        &[("field", Same("the time attribute")), ("from", Same("the time attribute, made of the record's timestamp"))],
    ),
    (
        "[source.NAME.watermark]",
        &[
            (
                "bound",
                Same(
                    "`WATERMARK FOR`, one millisecond less, which the late predicate adds again: so sessions fire at their end as floodmark's do",
                ),
            ),
            (
                "idle",
                Nearest(
                    "Flink goes by the clock: a partition without records for this long is idle, also when the broker was away, and what it brings later may be late. The decision isn't kept",
                ),
            ),
            ("align", Nearest("it becomes scan.watermark.alignment, which is approximate. No result depends on it")),
            (
                "max_future",
                Depends(
                    "a record beyond it moves no watermark, and counts as one that can't be decoded (see on_error)",
                ),
            ),
        ],
    ),
    (
        "start and end as tables",
        &[("timestamp", Same("mode `timestamp`")), ("offsets", Same("mode `specific-offsets`, of one topic"))],
    ),
    (
        "[dedup.NAME]",
        &[
            ("from", Same("the view it reads; several are a UNION ALL")),
            (
                "key",
                Same("`PARTITION BY` of ROW_NUMBER() = 1; where `NAME.duplicates` is taken, of a running COUNT(*)"),
            ),
            (
                "horizon",
                Nearest(
                    "Flink's dedup forgets nothing, so its state grows for ever and no record is too old. To forget after a time on the clock, set table.exec.state.ttl: then a duplicate that comes later passes as new",
                ),
            ),
            ("bucket", Here("the slices in which floodmark forgets keys: Flink's dedup forgets none")),
            ("discard", Nearest("Flink doesn't count the rows of an output that nobody takes")),
        ],
    ),
    (
        "[window.NAME]",
        &[
            ("from", Same("the view it reads; several are a UNION ALL")),
            ("type", Same("the window functions TUMBLE, HOP and SESSION")),
            ("key", Same("`GROUP BY`")),
            (
                "aggregates",
                Depends(
                    "integers are summed as DECIMAL and compared with the range of BIGINT, since Flink's SUM(BIGINT) wraps silently. A sum of decimals beyond 38 digits isn't noticed",
                ),
            ),
            ("discard", Nearest("Flink doesn't count the rows of an output that nobody takes")),
        ],
    ),
    (
        "[window.NAME] type = \"tumbling\"",
        &[
            ("size", Same("the size of TUMBLE")),
            ("offset", Refused("windows with an offset lose rows in Flink 1.20 (FLINK-36664)")),
        ],
    ),
    (
        "[window.NAME] type = \"hopping\"",
        &[
            ("size", Same("the size of HOP")),
            (
                "slide",
                Same("the slide of HOP. Refused where the size isn't a multiple of it: Flink's HOP can't do that"),
            ),
            ("offset", Refused("windows with an offset lose rows in Flink 1.20 (FLINK-36664)")),
        ],
    ),
    ("[window.NAME] type = \"session\"", &[("gap", Same("the gap of SESSION"))]),
    (
        "[sink.NAME]",
        &[
            ("from", Same("`INSERT INTO … SELECT`; several are a UNION ALL")),
            ("type", Same("Iceberg table, `filesystem`, `print`")),
            ("commit_interval", Depends("Flink commits at every checkpoint; files are closed after this long")),
        ],
    ),
    (
        "[sink.NAME] type = \"iceberg\"",
        &[
            ("catalog", Same("see [sink.NAME.catalog]")),
            ("table", Same("catalog, database and table")),
            ("mode", Same("no primary key, no upsert")),
            (
                "partition",
                Depends(
                    "Flink's SQL makes tables partitioned by plain columns only. With other fields the table is made without partitions, unless it is there already (floodmark makes it as the file says)",
                ),
            ),
            ("sort", Nearest("Flink's SQL can't give a table a sort order, and its writer doesn't sort")),
            ("target_file_size", Same("table property `write.target-file-size-bytes`")),
            (
                "mark_interval",
                Nearest(
                    "Flink commits nothing but rows; after so many empty checkpoints (flink.max-continuous-empty-commits) an empty snapshot",
                ),
            ),
            ("properties", Same("table properties")),
        ],
    ),
    (
        "[sink.NAME] type = \"file\"",
        &[(
            "dir",
            Nearest(
                "files lie in a folder of the sink's name below it, named by Flink, without marks: what is read of them before a checkpoint completes may be written again",
            ),
        )],
    ),
    (
        "[sink.NAME.catalog]",
        &[
            ("type", Same("`catalog-impl` JdbcCatalog, or `catalog-type` rest")),
            ("uri", Same("`uri`. SQLite is refused, with several sinks it ends in SQLITE_BUSY: say `--catalog-uri`")),
        ],
    ),
    (
        "[sink.NAME.catalog] type = \"sql\"",
        &[
            ("name", Same("the name of the Flink catalog")),
            ("warehouse", Same("`warehouse`; `--warehouse` names another")),
        ],
    ),
    (
        "[sink.NAME.catalog] type = \"rest\"",
        &[
            ("warehouse", Same("`warehouse`")),
            ("prefix", Same("`prefix`")),
            ("token", Same("`token`")),
            ("credential", Same("`credential`")),
            ("token_uri", Same("`oauth2-server-uri`")),
            ("scope", Same("`scope`")),
        ],
    ),
];

pub fn answer(group: &Group, key: &Key) -> Option<Answer> {
    let (_, keys) = ANSWERS.iter().find(|(title, _)| *title == group.title)?;
    keys.iter().find(|(name, _)| *name == key.name).map(|(_, answer)| *answer)
}

const HEAD: &str = "\
# The keys of the pipeline file on Flink

`floodmark flink-sql FILE` prints a pipeline file as one SQL job of Apache Flink 1.20. This is what becomes of each key; when to move there, and
how, is in [SCALE_OUT.md](SCALE_OUT.md).

- **same**: the job means the same by it; said is how.
- **nearest**: the nearest that Flink has. What differs stands as a comment in the job, above the statement that it concerns.
- **here**: nothing of the job's, only of how floodmark runs. A comment says so.
- **loss**: refused, with its line, unless `--accept-loss KEY` is given.
- **refused**: with its line, and what to do.

This page is printed from the code by `floodmark flink-sql --print-reference`; don't edit it.
";

/// docs/FLINK_SQL.md.
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    for group in GROUPS {
        let _ = write!(page, "\n## {}\n\n| key | | on Flink |\n|---|---|---|\n", group.title);
        for key in group.keys {
            let (word, text) = match answer(group, key) {
                Some(Same(text)) => ("same", text),
                Some(Nearest(text) | Depends(text)) => ("nearest", text),
                Some(Here(text)) => ("here", text),
                Some(Loss(text)) => ("loss", text),
                Some(Refused(text)) => ("refused", text),
                None => ("", ""),
            };
            let _ = writeln!(page, "| `{}` | {word} | {} |", key.name, text.replace('|', "\\|"));
        }
    }
    page
}
