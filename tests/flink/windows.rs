//! Floodmark's windows against Flink's own window operators (compose/flink, `windows`), on one log with many late records.
//!
//! With one partition, a watermark after each event and no parallelism Flink's result is a function of the log too, so that the two can be compared row by row.
//! Tumbling and hopping windows have one rule. Sessions have two: floodmark calls a record late when the watermark has passed it, Flink when the session that it
//! would make or join has ended. Held against each other here is that nothing else differs.
use floodmark_stack::flink::Program;

use crate::rows::{ask, count};
use crate::{Stack, alone};

/// Records are up to 4 s behind, or 60 to 120 s: some miss all their windows, some a few, some only their session.
const DIALS: [&str; 10] =
    ["--events", "20000", "--partitions", "1", "--poison", "0", "--event-rate", "50", "--users", "500"];
const SLIDES: u64 = 20;

fn pipeline(stack: &Stack) -> String {
    let window = |name: &str, rest: &str, key: &str| {
        format!(
            r#"
[window.{name}]
from = "log"
{rest}
key = ["{key}"]
aggregates = {{ events = "count()", revenue_cents = "sum(price_cents)" }}
discard = ["errors"]
"#
        )
    };
    let sink = |from: &str, table: &str| {
        let (uri, warehouse) = (stack.postgres.url("ours"), "file:data/warehouse");
        format!(
            r#"
[sink.{table}_lake]
from = "{from}"
type = "iceberg"
table = "shop.{table}"
catalog = {{ type = "sql", uri = "{uri}", warehouse = "{warehouse}" }}
"#
        )
    };
    let source = format!(
        r#"[pipeline]
id = "windows"
workers = 2
checkpoint = {{ interval = "1s", dir = "file:data/checkpoints" }}

[source.log]
type = "kafka"
brokers = "{}"
topic = "late"
end = "latest"
event_time = {{ field = "event_time_ms" }}
watermark = {{ bound = "1s" }}
discard = ["errors"]

[source.log.schema]
event_id = "string"
user_id = "string"
event_type = "string"
product_id = "string"
price_cents = "int64?"
event_time_ms = "timestamp_ms"
source = "string"
schema_version = "int32"
"#,
        stack.broker.address()
    );
    [
        source,
        window("tumbling", "type = \"tumbling\"\nsize = \"2s\"", "event_type"),
        window("hopping", "type = \"hopping\"\nsize = \"2s\"\nslide = \"100ms\"", "event_type"),
        window("sessions", "type = \"session\"\ngap = \"30s\"", "user_id"),
        sink("log", "log"),
        sink("tumbling", "per_type"),
        sink("hopping", "hopping"),
        sink("sessions", "sessions"),
        sink("tumbling.late", "late_tumbling"),
        sink("hopping.late", "late_hopping"),
        sink("sessions.late", "late_sessions"),
    ]
    .concat()
}

fn windows(stack: &Stack) -> Program {
    let dials = [("bound", "1s"), ("size", "2s"), ("slide", "100ms"), ("gap", "30s")];
    stack.program("floodmark.windows.Windows", "late", &dials)
}

#[test]
fn windows_hold_and_miss_what_those_of_flinks_own_operators_do() {
    let _alone = alone();
    let stack = Stack::start();
    stack.generate("clickstream", "late", &DIALS);
    stack.both_run(&stack.write(&pipeline(&stack)), &windows(&stack));

    stack.are_equal(&["per_type", "hopping", "late_tumbling"]);
    assert_ne!(count(&stack, "select count(*) from ours.late_tumbling"), 0);
    a_record_late_for_all_hopping_windows_is_late_on_flink(&stack);
    some_records_are_late_by_one_millisecond(&stack);
    no_two_records_of_a_user_are_a_gap_apart(&stack);
    sessions_differ_only_by_records_that_flink_still_takes(&stack);
}

/// Floodmark has a row for each window that a record missed. Flink has one for a record that missed all; of the others it says nothing, but its windows lack them.
fn a_record_late_for_all_hopping_windows_is_late_on_flink(stack: &Stack) {
    let columns = "event_id, user_id, event_type, product_id, price_cents, event_time_ms, source, schema_version";
    let missed_all =
        format!("select {columns} from ours.late_hopping group by _offset, {columns} having count(*) = {SLIDES}");
    let flinks = format!("select {columns} from flinks.late_hopping");
    nothing_in(stack, &format!("({missed_all}) except all ({flinks})"));
    nothing_in(stack, &format!("({flinks}) except all ({missed_all})"));
    let some = "select _offset from ours.late_hopping group by _offset having count(*)";
    let [missed_all, missed_some] =
        ["=", "<"].map(|than| count(stack, &format!("select count(*) from ({some} {than} {SLIDES})")));
    println!("hopping: late for all windows {missed_all}, for some {missed_some}");
    assert!(missed_all > 0 && missed_some > 0);
}

/// With hops so short, some meet the very watermark at which their window is fired. A rule that is one millisecond off would show.
fn some_records_are_late_by_one_millisecond(stack: &Stack) {
    let just = "select count(*) from ours.late_hopping where epoch_ms(_watermark) = epoch_ms(_window_end) - 1";
    assert_ne!(count(stack, just), 0);
}

/// Then no session touches another exactly, which is the other thing that may differ.
fn no_two_records_of_a_user_are_a_gap_apart(stack: &Stack) {
    let distances = "select epoch_ms(event_time_ms) - lag(epoch_ms(event_time_ms))
        over (partition by user_id order by event_time_ms) as distance from ours.log";
    nothing_in(stack, &format!("select * from ({distances}) where distance = 30000"));
}

fn sessions_differ_only_by_records_that_flink_still_takes(stack: &Stack) {
    nothing_in(stack, "select _offset from flinks.late_sessions except select _offset from ours.late_sessions");
    let taken = "taken as (
        select user_id, _offset, epoch_ms(event_time_ms) as t, epoch_ms(_watermark) as watermark from ours.late_sessions
        where _offset not in (select _offset from flinks.late_sessions))";

    // Together they are the log: of each user, on both sides.
    let together = |of: &str| {
        format!(
            "select user_id, sum(n), sum(cents) from (
                select user_id, events as n, coalesce(revenue_cents, 0) as cents from {of}.sessions union all
                select user_id, 1, coalesce(price_cents, 0) from {of}.late_sessions) group by user_id"
        )
    };
    nothing_in(stack, &format!("({}) except all ({})", together("ours"), together("flinks")));
    nothing_in(stack, &format!("({}) except all ({})", together("flinks"), together("ours")));

    // Each is behind the watermark by less than the gap, or was taken into a session that was still open.
    let session = "select 1 from flinks.sessions s where s.user_id = taken.user_id
        and t between epoch_ms(window_start) and epoch_ms(window_end) - 30000";
    nothing_in(stack, &format!("with {taken} select * from taken where t > watermark or not exists ({session})"));

    // A session of ours that Flink doesn't have was touched by one; one of Flink's that we don't have holds one.
    let rows = |of: &str| {
        format!(
            "select user_id, epoch_ms(window_start) as s, epoch_ms(window_end) as e, events, revenue_cents from {of}.sessions"
        )
    };
    let [ours, flinks] = ["ours", "flinks"].map(rows);
    let touched = format!(
        "with {taken}, differing as ({ours} except all ({flinks})) select * from differing
        where not exists (select 1 from taken where taken.user_id = differing.user_id and t between s - 30000 and e)"
    );
    let holding = format!(
        "with {taken}, differing as ({flinks} except all ({ours})) select * from differing
        where not exists (select 1 from taken where taken.user_id = differing.user_id and t between s and e - 30000)"
    );
    nothing_in(stack, &touched);
    nothing_in(stack, &holding);

    let within = count(stack, &format!("with {taken} select count(*) from taken where t > watermark - 30000"));
    let open = count(stack, &format!("with {taken} select count(*) from taken where t <= watermark - 30000"));
    let late = count(stack, "select count(*) from flinks.late_sessions");
    println!("sessions: late on both sides {late}; taken by Flink: {within} within a gap, {open} into an open session");
    assert!(within > 0 && open > 0 && late > 0);
}

fn nothing_in(stack: &Stack, query: &str) {
    let rows = ask(stack, query);
    assert_eq!(rows.first(), None, "{} rows of\n{query}", rows.len());
}
