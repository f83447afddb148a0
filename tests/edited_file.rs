//! A pipeline file that was edited between two runs: what is compatible goes on, what would make another result of the same state is refused.
use std::collections::BTreeMap;
use std::fs;

use crate::harness::log::Log;
use crate::harness::pipelines::{Dials, TABLES};
use crate::harness::tables::{Digest, duckdb, forget_table, rows_of};
use crate::harness::{Job, REFUSED, Run};

fn log() -> Log {
    Log::clickstream(&["--events", "8k", "--partitions", "2", "--event-rate", "100", "--users", "500"])
}

/// Waits for more, and commits only what was first and at the end.
fn endless(pipeline: &str) -> Dials {
    let source = "type = \"file\"\npath = \"data/events\"\nend = \"never\"".to_owned();
    Dials { source, commit_interval: "1h".into(), ..Dials::pipeline(pipeline) }
}

/// Half of the log is read and committed, and the newest manifest knows it.
fn half_done(log: &Log) -> Job {
    let job = Job::new(&Dials::default().clicks());
    log.grow(&job, 0, 500);
    job.finish();
    job
}

/// Digests of the tables that there are.
fn found(job: &Job) -> BTreeMap<&'static str, Option<Digest>> {
    TABLES.map(|table| (table, job.digest_with(table, &[]))).into()
}

fn line_of(job: &Job, section: &str) -> usize {
    let file = fs::read_to_string(job.path("pipeline.toml")).unwrap();
    1 + file.lines().position(|line| line == section).unwrap_or_else(|| panic!("no {section} in {file}"))
}

/// Text of the file to replace, what replaces it, the section that is refused, and the key with what it was and is.
type Edit = (&'static str, &'static str, &'static str, &'static str);

const REFUSED_EDITS: [Edit; 18] = [
    (
        r#"key = ["event_id"]"#,
        r#"key = ["event_id", "user_id"]"#,
        "[dedup.clean]",
        "key was event_id, and is event_id, user_id",
    ),
    (r#"horizon = "24h""#, r#"horizon = "48h""#, "[dedup.clean]", "horizon was 1d, and is 2d"),
    (r#"horizon = "24h""#, "horizon = \"24h\"\nbucket = \"2h\"", "[dedup.clean]", "bucket was 1h, and is 2h"),
    (r#"size = "10s""#, r#"size = "20s""#, "[window.per_type]", "size was 10s, and is 20s"),
    (
        "type = \"tumbling\"\nsize = \"10s\"",
        "type = \"hopping\"\nsize = \"10s\"\nslide = \"5s\"",
        "[window.per_type]",
        "type was tumbling, and is hopping",
    ),
    (
        r#"key = ["event_type"]"#,
        r#"key = ["event_type", "source"]"#,
        "[window.per_type]",
        "key was event_type, and is event_type, source",
    ),
    (
        r#"aggregates = { events = "count()","#,
        r#"aggregates = { events = "count()", highest = "max(price_cents)","#,
        "[window.per_type]",
        "aggregates.highest was not set, and is max(price_cents) int64",
    ),
    (
        "[window.per_type]\nfrom = \"clean\"",
        "[window.per_type]\nfrom = \"events\"",
        "[window.per_type]",
        "from was clean, and is events",
    ),
    (r#"gap = "30s""#, r#"gap = "40s""#, "[window.sessions]", "gap was 30s, and is 40s"),
    ("workers = 2", "workers = 2\nmax_parallelism = 64", "[source.events]", "max_parallelism was 128, and is 64"),
    (r#"bound = "5s""#, r#"bound = "6s""#, "[source.events]", "watermark.bound was 5s, and is 6s"),
    (
        r#"bound = "5s" }"#,
        "bound = \"5s\" }\nlateness = \"event\"",
        "[source.events]",
        "lateness was window, and is event",
    ),
    (
        r#"price_cents = "int64?""#,
        r#"price_cents = "int32?""#,
        "[source.events]",
        "schema.price_cents was int64?, and is int32?",
    ),
    ("product_id = \"string\"\n", "", "[source.events]", "schema.product_id was string, and is not set"),
    (
        "product_id = \"string\"\n",
        "product_id = \"string\"\ncoupon = \"string\"\n",
        "[source.events]",
        "schema.coupon was not set, and is string",
    ),
    (
        r#"path = "data/events""#,
        r#"path = "data/events/*""#,
        "[source.events]",
        "path was data/events, and is data/events/*",
    ),
    (
        r#"table = "shop.per_type""#,
        r#"table = "shop.per_kind""#,
        "[sink.per_type_table]",
        "table was shop.per_type, and is shop.per_kind",
    ),
    (
        r#"from = ["per_type.late", "sessions.late", "clean.late"]"#,
        r#"from = ["per_type.late", "sessions.late"]"#,
        "[sink.late_table]",
        "from was per_type.late, sessions.late, clean.late, and is per_type.late, sessions.late",
    ),
];

#[test]
fn what_state_or_table_rest_on_can_not_change() {
    let job = half_done(&log());
    log().grow(&job, 500, 1000);
    let (before, file) = (found(&job), Dials::default().clicks());
    for (from, to, section, change) in REFUSED_EDITS {
        job.edit(&file);
        job.change(from, to);
        // An output that nobody takes any more would be refused before anything else.
        if section == "[sink.late_table]" {
            job.change("[dedup.clean]\n", "[dedup.clean]\ndiscard = [\"late\"]\n");
        }
        let node = section.trim_matches(['[', ']']).split_once('.').unwrap().1;
        let line = line_of(&job, section);
        let said = job.ends_with(REFUSED, &[]);
        let refusal = format!(
            "error: refused to start: node {node} is not what its state was made by (line {line})\n  {change}\n"
        );
        assert!(said.contains(&refusal), "{refusal}{said}");
        assert!(said.contains("\n  choose: change it back\n"), "{said}");
        assert_eq!(found(&job), before, "{change}");
    }
    job.edit(&file);
    job.finish();
    assert_eq!(job.rows("events"), log().ledger.total("events"), "the file as it was goes on");
}

#[test]
fn several_nodes_that_changed_are_told_together() {
    let job = half_done(&log());
    let edits = [REFUSED_EDITS[1], REFUSED_EDITS[3], REFUSED_EDITS[8]];
    edits.iter().for_each(|(from, to, ..)| job.change(from, to));
    let said = job.ends_with(REFUSED, &[]);
    for (_, _, section, change) in edits {
        let (line, node) = (line_of(&job, section), section.trim_matches(['[', ']']).split_once('.').unwrap().1);
        let refusal = format!("node {node} is not what its state was made by (line {line})\n  {change}\n");
        assert!(said.contains(&refusal), "{refusal}{said}");
    }
    assert_eq!(said.matches("\n\nand: ").count(), 2, "{said}");
}

#[test]
fn another_pipelines_checkpoints_are_refused() {
    let job = half_done(&log());
    job.change("id = \"clicks\"", "id = \"clocks\"");
    let said = job.ends_with(REFUSED, &[]);
    let refusal = "error: refused to start: the checkpoint belongs to another pipeline\n  manifests/";
    assert!(said.contains(refusal), "{said}");
    let choices = "was written by pipeline `clicks`, this file is `clocks`\n  choose: give this pipeline a checkpoint directory of its own, or correct `id`\n";
    assert!(said.contains(choices), "{said}");
}

/// Edits that change how a job runs, and not what it makes: each follows those before it.
const COSMETIC: [(&str, &str); 7] = [
    ("workers = 2", "workers = 3"),
    (r#"interval = "50ms""#, r#"retain = 2, interval = "70ms""#),
    ("workers = 3", "workers = 3\nmemory = \"64MiB\"\nbatch_rows = 50"),
    ("workers = 3", "workers = 1\nstate = \"memory\""),
    (r#"bound = "5s""#, r#"bound = "5s", align = "1h""#),
    (r#"commit_interval = "100ms""#, r#"commit_interval = "300ms""#),
    ("state = \"memory\"", "state = \"rocksdb\""),
];

/// The same sections the other way round, with comments and spaces.
fn reorder(job: &Job) {
    let file = fs::read_to_string(job.path("pipeline.toml")).unwrap();
    let mut sections: Vec<_> = file.split("\n[").collect();
    let first = sections.remove(0);
    let rest: Vec<_> = sections.iter().rev().map(|s| format!("\n\n# {}\n[{s}", s.lines().next().unwrap())).collect();
    job.edit(&format!("# Edited.\n{first}{}", rest.concat().replace(" = ", "   =  ")));
}

#[test]
fn what_only_says_how_a_job_runs_may_change_between_any_two_runs() {
    let log = log();
    let [unedited, edited] = [(); 2].map(|()| Job::new(&Dials::default().clicks()));
    for step in 0..=COSMETIC.len() {
        for job in [&unedited, &edited] {
            log.grow(job, step * 120, (step + 1) * 120);
        }
        unedited.finish();
        match COSMETIC.get(step) {
            Some((from, to)) => edited.change(from, to),
            None => reorder(&edited),
        }
        let said = edited.ends_with(0, &[]);
        assert_eq!(said.contains("going on from it"), step > 0, "{step}: {said}");
        assert_eq!(edited.digests(), unedited.digests(), "{step}");
    }
}

/// Checkpoints are complete whose rows only wait for their sinks: what has come before the end stands in `events` already.
fn killed_with_rows_waiting(job: &Job, log: &Log) {
    log.grow(job, 0, 300);
    let mut run = job.start();
    job.wait_while(&mut run, |job| job.rows("events") > 0);
    log.grow(job, 300, 500);
    job.wait_for_checkpoints(&mut run, 4);
    run.kill();
}

#[test]
fn a_column_added_that_may_be_null_is_filled_from_then_on() {
    let log = log();
    let job = Job::new(&endless("workers = 2").clicks());
    job.change("product_id = \"string\"\n", "");
    killed_with_rows_waiting(&job, &log);
    log.grow(&job, 500, 1000);
    job.edit(&Dials::default().clicks());
    job.change("product_id = \"string\"", "product_id = \"string?\"");
    let said = job.ends_with(0, &[]);
    assert!(said.contains("rows to commit to events_table"), "{said}");
    let rows = duckdb(&job.metadata("events"), "select count(*), count(product_id) from t");
    let (all, filled) = rows.split_once(',').unwrap();
    assert_eq!(all.parse::<u64>().unwrap(), log.ledger.total("events"));
    let filled: u64 = filled.parse().unwrap();
    assert!(0 < filled && filled < log.ledger.total("events"), "{filled}");
    assert_eq!(job.rows("duplicates"), log.ledger.total("resent"));
}

const COPY: &str = r#"
[sink.copy_table]
from = "clean"
type = "iceberg"
table = "shop.copy"
catalog = { type = "sql", uri = "sqlite:data/catalog.db", warehouse = "file:data/warehouse" }
"#;

fn lines_of_the_first_file(job: &Job) -> usize {
    let bytes = fs::read(job.path("data/events/part-00000.ndjson")).unwrap();
    bytes.split_inclusive(|byte| *byte == b'\n').count()
}

#[test]
fn a_sink_that_is_added_gets_what_comes_from_then_on_and_it_is_said_from_where() {
    let log = log();
    let job = half_done(&log);
    let (before, read) = (job.rows("events"), lines_of_the_first_file(&job));
    log.grow(&job, 500, 1000);
    job.edit(&(Dials::default().clicks() + COPY));
    let said = job.ends_with(0, &[]);
    assert!(said.contains(&format!("copy_table is new: it gets events:part-00000.ndjson-0 from {read}, ")), "{said}");
    assert_eq!(job.rows("events"), log.ledger.total("events"));
    assert_eq!(job.rows("copy"), log.ledger.total("events") - before);
}

#[test]
fn a_window_that_is_added_begins_at_the_cut_and_can_be_taken_out_again() {
    let log = log();
    let job = half_done(&log);
    let (before, read) = (job.rows("events"), lines_of_the_first_file(&job));
    log.grow(&job, 500, 1000);
    let window = r#"
[window.per_user]
from = "clean"
type = "tumbling"
size = "1m"
key = ["user_id"]
aggregates = { events = "count()" }
discard = ["late"]
"#;
    let table = COPY.replace("copy", "per_user").replace("\"clean\"", "\"per_user\"");
    job.edit(&(Dials::default().clicks() + window + &table));
    let said = job.ends_with(0, &[]);
    assert!(said.contains(&format!("per_user is new: it gets events:part-00000.ndjson-0 from {read}, ")), "{said}");
    assert_eq!(job.rows("events"), log.ledger.total("events"));
    let counted: u64 = duckdb(&job.metadata("per_user"), "select sum(events) from t").parse().unwrap();
    let later = log.ledger.total("events") - before;
    assert!(counted <= later && counted > later * 9 / 10, "all but late ones: {counted} of {later}");

    job.finish();
    let rows = job.rows("per_user");
    job.edit(&Dials::default().clicks());
    job.finish();
    assert_eq!((job.rows("per_user"), job.rows("events")), (rows, log.ledger.total("events")));
}

/// The click pipeline without its table of duplicates.
fn without_duplicates() -> String {
    let file = Dials::default().clicks();
    let begin = file.find("\n[sink.duplicates_table]").unwrap();
    let end = file.find("\n[sink.per_type_table]").unwrap();
    let file = format!("{}{}", &file[..begin], &file[end..]);
    file.replace("[dedup.clean]\n", "[dedup.clean]\ndiscard = [\"duplicates\"]\n")
}

#[test]
fn a_sink_that_was_left_out_for_a_while_comes_back_only_with_its_gap_accepted() {
    let log = log();
    let job = half_done(&log);
    let first = job.digest("duplicates");
    job.edit(&without_duplicates());
    log.grow(&job, 500, 700);
    job.finish();
    let gone_by = job.rows("events");
    assert_eq!(job.digest("duplicates"), first, "a retired sink's table stays as it is");

    job.edit(&Dials::default().clicks());
    log.grow(&job, 700, 1000);
    let said = job.ends_with(REFUSED, &[]);
    let refusal = "error: refused to start: the table holds rows from before its sink was left out of the file\n  sink duplicates_table holds checkpoint ";
    assert!(said.contains(refusal), "{said}");
    assert!(
        said.contains("floodmark run pipeline.toml --accept-gap duplicates_table   go on with this table"),
        "{said}"
    );
    assert_eq!(job.rows("events"), gone_by);
    job.ends_with(0, &["--accept-gap", "duplicates_table"]);
    assert_eq!(job.rows("events"), log.ledger.total("events"));
    let rows = job.rows("duplicates");
    assert!(rows_of(&first) < rows && rows < log.ledger.total("resent"), "{rows}");
    job.finish();
}

#[test]
fn rows_of_a_retired_sink_that_is_out_of_reach_are_kept_until_they_are_given_up() {
    let log = log();
    let elsewhere = |file: String| {
        let begin = file.find("[sink.duplicates_table]").unwrap();
        format!("{}{}", &file[..begin], file[begin..].replacen("data/catalog.db", "data/other.db", 1))
    };
    let job = Job::new(&elsewhere(endless("workers = 2").clicks()));
    killed_with_rows_waiting(&job, &log);
    fs::write(job.path("data/other.db"), "not a database").unwrap();
    job.edit(&without_duplicates());
    let before = job.digest("events");
    let said = job.ends_with(REFUSED, &[]);
    let refusal = "error: refused to start: a sink has left the pipeline file with rows that wait for it\n  sink duplicates_table: ";
    assert!(said.contains(refusal), "{said}");
    assert!(said.contains("floodmark run pipeline.toml --forget duplicates_table   give these rows up"), "{said}");
    assert_eq!(job.digest("events"), before);
    log.grow(&job, 500, 1000);
    job.ends_with(0, &["--forget", "duplicates_table"]);
    assert_eq!(job.rows("events"), log.ledger.total("events"));
    assert_eq!(job.rows("errors"), log.ledger.total("poison"));
    job.finish();
}

/// A second source with a table of its own.
fn with_more(file: String, end: &str) -> String {
    let begin = file.find("[source.events]").unwrap();
    let events = file[begin..file.find("[dedup.clean]").unwrap()].to_owned();
    let more = events
        .replace("source.events", "source.more")
        .replace("\"data/events\"", &format!("\"data/more\"\nend = \"{end}\"\ndiscard = [\"errors\"]"));
    let table = COPY.replace("copy", "more").replace("\"clean\"", "\"more\"");
    format!("{file}{more}{table}")
}

#[test]
fn a_source_may_come_go_and_come_back() {
    let log = log();
    let later = Log::clickstream(&["--events", "2k", "--partitions", "1", "--seed", "3", "--poison", "0"]);
    let job = half_done(&log);
    fs::create_dir_all(job.path("data/more")).unwrap();
    later.give_as(&job, |_, _| "../more/a.ndjson".to_owned());

    job.edit(&with_more(Dials::default().clicks(), "never"));
    log.grow(&job, 500, 700);
    let mut run = job.start();
    run.wait_until(|run| run.has_said("more_table is new: it gets everything, nothing was read yet"));
    job.wait_while(&mut run, |job| job.rows("more") == 2_000);
    run.stop();

    // Its partition isn't at an end, and nobody waits for it.
    job.edit(&Dials::default().clicks());
    log.grow(&job, 700, 1000);
    job.ends_with(0, &["--forget", "more_table"]);
    assert_eq!(job.rows("events"), log.ledger.total("events"));
    job.finish();

    job.edit(&with_more(Dials::default().clicks(), "latest"));
    later.give_as(&job, |_, _| "../more/b.ndjson".to_owned());
    job.ends_with(0, &["--accept-gap", "more_table"]);
    assert_eq!(job.rows("more"), 4_000, "the first file isn't read again");
}

#[test]
fn an_accepted_gap_leaves_out_what_the_table_has_lost_and_goes_on() {
    let log = log();
    let job = half_done(&log);
    let before = job.rows("events");
    forget_table(&job, "events");
    log.grow(&job, 500, 1000);
    let said = job.ends_with(REFUSED, &[]);
    assert!(
        said.contains("error: refused to start: the table is behind the state\n  sink events_table should hold"),
        "{said}"
    );
    job.ends_with(0, &["--accept-gap", "events_table"]);
    assert_eq!(job.rows("events"), log.ledger.total("events") - before);
    assert_eq!(job.rows("duplicates"), log.ledger.total("resent"), "no other sink has a gap");
    job.finish();
    assert_eq!(job.rows("events"), log.ledger.total("events") - before, "it is accepted once");
}

#[test]
fn a_lost_directory_whose_rows_may_come_twice_begins_again_if_every_sink_accepts_it() {
    let log = log();
    let job = Job::new(&Dials::default().clicks());
    log.give(&job);
    job.finish();
    fs::remove_dir_all(job.path("data/checkpoints")).unwrap();
    let said = job.ends_with(REFUSED, &["--accept-gap", "events_table"]);
    assert!(!said.contains("sink events_table holds") && said.contains("sink late_table holds"), "{said}");
    let all = TABLES.map(|table| format!("{table}_table"));
    let options: Vec<_> = all.iter().flat_map(|sink| ["--accept-gap", sink.as_str()]).collect();
    let said = job.ends_with(0, &options);
    assert!(said.contains("starting fresh"), "{said}");
    assert_eq!(job.rows("events"), 2 * log.ledger.total("events"));
    job.finish();
    assert_eq!(job.rows("events"), 2 * log.ledger.total("events"));
}

/// Read to the end of what there is.
fn read_all(job: &Job, run: &mut Run, log: &Log) {
    job.wait_while(run, |job| job.records_seen() == log.ledger.total("records"));
}

#[test]
fn a_drained_job_has_fired_its_windows_as_one_that_came_to_its_end() {
    let log = log();
    let whole = Job::new(&Dials::default().clicks());
    log.give(&whole);
    whole.finish();

    let dials = Dials { commit_interval: "100ms".into(), ..endless("workers = 2") };
    let job = Job::new(&dials.clicks());
    log.grow(&job, 0, 1000);
    let mut run = job.start_with(&["--drain"]);
    read_all(&job, &mut run, &log);
    run.stop();
    assert_eq!(job.digests(), whole.digests());
    let mut run = job.start();
    job.wait_for_checkpoints(&mut run, 3);
    run.stop();
    assert_eq!(job.digests(), whole.digests(), "what has fired does so once");
}

#[test]
fn the_first_line_tells_what_was_found() {
    let log = log();
    let job = Job::new(&endless("workers = 2").clicks());
    log.grow(&job, 0, 300);
    let mut run = job.start();
    run.wait_until(|run| run.has_said("found neither checkpoint nor marks: starting fresh"));
    job.wait_while(&mut run, |job| job.rows("events") > 0 && job.rows("per_type") > 0);
    log.grow(&job, 300, 500);
    job.wait_for_checkpoints(&mut run, 4);
    run.kill();
    let mut run = job.start();
    run.wait_until(|run| run.has_said("found a checkpoint: going on from it; "));
    assert!(run.has_said(" rows to commit to events_table"), "{}", run.said());
    assert!(run.has_said(" rows to commit to per_type_table"), "{}", run.said());
    run.stop();
    let bounded = Dials::default().clicks();
    job.edit(&bounded);
    job.finish();
    let said = job.ends_with(0, &[]);
    assert!(said.contains("found a checkpoint: going on from it; every sink has all of it"), "{said}");
    assert_eq!(said.matches("found ").count(), 1, "one line: {said}");
}
