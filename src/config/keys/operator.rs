//! Keys of [dedup.NAME] and [window.NAME].
//!
//! Part of the one table in `keys`; doesn't know what a key leads to.
use super::Default::{Derived, Required, Value};
use super::Kind::{Choice, Duration, Table, Texts};
use super::{DISCARD, FROM, Group, Key, key};

pub const DEDUP: Group = Group {
    title: "[dedup.NAME]",
    text: "Keeps the first record of each key. Outputs: the kept rows, `NAME.duplicates`, and `NAME.late` (too old to be judged).",
    keys: &[
        FROM,
        key(
            "key",
            Texts,
            Required,
            r#"["event_id", "user_id"]"#,
            "Columns that make a record the same; none may be null.",
        ),
        key("horizon", Duration(1), Required, r#""24h""#, "How long in event time a key is remembered."),
        key(
            "bucket",
            Duration(1),
            Derived("horizon / 24"),
            r#""30m""#,
            "Keys are forgotten in slices of this width; at most 1,000 of them in the horizon.",
        ),
        DISCARD,
    ],
};

pub const WINDOW: Group = Group {
    title: "[window.NAME]",
    text: "Groups rows by event time and key. Output columns: `window_start`, `window_end`, the key, the aggregates. Other outputs: `NAME.late`, and `NAME.errors` (an aggregate that doesn't fit its type).",
    keys: &[
        FROM,
        key("type", Choice(&["tumbling", "hopping", "session"]), Required, r#""tumbling""#, "How time is cut."),
        key("key", Texts, Required, r#"["event_type", "source"]"#, "Columns that are counted apart."),
        key(
            "aggregates",
            Table { forms: "a table" },
            Required,
            r#"{ n = "count()" }"#,
            "Column name = `count()`, `count(column)`, `sum(column)`, `min(column)`, `max(column)` or `avg(column)`. sum(int) is int64, sum(decimal(p,s)) decimal(38,s), avg(int) decimal(38,6), avg(decimal(p,s)) decimal(38,max(s,6)).",
        ),
        DISCARD,
    ],
};

pub const TUMBLING: Group = Group {
    title: "[window.NAME] type = \"tumbling\"",
    text: "Windows of one size, side by side.",
    keys: &[SIZE, OFFSET],
};
pub const HOPPING: Group = Group {
    title: "[window.NAME] type = \"hopping\"",
    text: "Windows of one size that begin every slide; a record is in several.",
    keys: &[
        SIZE,
        key("slide", Duration(1), Required, r#""5s""#, "Distance of the beginnings; not more than the size."),
        OFFSET,
    ],
};
pub const SESSION: Group = Group {
    title: "[window.NAME] type = \"session\"",
    text: "Records of a key that follow each other within the gap.",
    keys: &[key("gap", Duration(1), Required, r#""45s""#, "Records at this distance or less are one session.")],
};
const SIZE: Key = key("size", Duration(1), Required, r#""20s""#, "Length of a window.");
const OFFSET: Key = key(
    "offset",
    Duration(0),
    Value("0ms"),
    r#""3s""#,
    "Windows begin at this much after the full step since 1970; less than a step.",
);
