//! From a real Kafka broker into a table: every record once, through kills of the job and of the broker, and through changes of the topic.
use std::collections::VecDeque;
use std::time::Duration;

use floodmark::steps::Point;
use floodmark_stack::broker::Broker;
use rdkafka::producer::{BaseRecord, Producer};

use crate::harness::broker::{LONG, broker, producer};
use crate::harness::dice::Dice;
use crate::harness::kills::finish_through_points;
use crate::harness::log::{Feed, Ledger, Log, generate};
use crate::harness::pipelines::{Dials, kafka};
use crate::harness::tables::{duckdb, rows_of};
use crate::harness::{FAILED, Job, Order, REFUSED, Run};

const RECORDS: u64 = 12_000;
const KILLS: usize = 20;
const KILLS_A_RUN: usize = 4;
/// Where kills fall in turn: into what is fed, a barrier, a manifest, a data file, a commit.
const PLACES: [[Point; 2]; 5] = [
    [Point::Read, Point::Read],
    [Point::Barrier, Point::Part],
    [Point::ManifestDue, Point::Manifest],
    [Point::DataFiles, Point::DataFiles],
    [Point::CommitDue, Point::Committed],
];

/// Roster from a topic into a table, as docs/examples/roster.toml has it.
fn roster(broker: &Broker, topic: &str) -> Job {
    let checkpoint = r#"{ interval = "250ms", dir = "file:data/checkpoints" }"#.into();
    let source = format!("{}\ndiscovery_interval = \"500ms\"", kafka(&broker.address(), topic));
    Job::new(&Dials { checkpoint, source, commit_interval: "500ms".into(), ..Dials::default() }.roster())
}

fn feed_roster(job: &Job, broker: &Broker, topic: &str, partitions: &str, events: &str) {
    let to = format!("kafka://{}/{topic}", broker.address());
    generate(job, &["roster", "--events", events, "--partitions", partitions, "--to", &to]);
}

/// Waits for rows in the table, no more and no less.
fn reaches(job: &Job, run: &mut Run, rows: u64) {
    job.wait_while(run, |job| job.rows("updates") >= rows);
    assert_eq!(job.rows("updates"), rows);
}

/// Feeds a topic, and kills the job that reads it at the next points, each time when some of the rows are visible and some aren't.
fn kill_while_fed(topic: &str, dice: &mut Dice, points: &mut VecDeque<Point>) {
    broker().create_topic(topic, 4).unwrap();
    let job = roster(broker(), topic);
    let to = format!("kafka://{}/{topic}", broker().address());
    let feed = Feed::start(&job, &["roster", "--events", "12000", "--partitions", "4", "--rate", "2000", "--to", &to]);
    let mut visible = 0;
    for _ in 0..KILLS_A_RUN {
        let Some(point) = points.front().copied() else { break };
        let before = visible;
        visible = killed_at(&job, point, before, dice.moment(Duration::from_millis(300)));
        assert!(visible > before, "{topic}, {point}: {visible} rows visible, {before} before it");
        if visible == RECORDS {
            // Too late for a kill that shows anything: it is left to another run.
            break;
        }
        eprintln!("{topic}: killed at {point} with {visible} of {RECORDS} rows visible");
        points.pop_front();
    }
    feed.wait();
    let mut run = job.start();
    reaches(&job, &mut run, RECORDS);
    run.stop();
    let counted = duckdb(&job.metadata("updates"), "select count(*), count(distinct seq), min(seq), max(seq) from t");
    assert_eq!(counted, "12000,12000,1,12000", "{topic}");
}

/// Has a run killed at a point, the next time it comes there after it has made rows visible and this moment has passed. Tells how many are then.
fn killed_at(job: &Job, point: Point, before: u64, moment: Duration) -> u64 {
    let mut run = job.start();
    job.wait_while(&mut run, |job| job.rows("updates") > before);
    assert_eq!(run.ended_within(moment), None, "{}", run.said());
    run.order(Order::kill(point, 1));
    if !run.is_killed_before(|| job.rows("updates") == RECORDS) {
        run.kill();
    }
    job.rows("updates")
}

#[test]
fn every_record_stands_in_the_table_once_through_kills() {
    let mut points: VecDeque<Point> = (0..KILLS).map(|kill| PLACES[kill % 5][kill / 5 % 2]).collect();
    let (mut dice, mut runs) = (Dice::new(3), 0);
    while !points.is_empty() {
        runs += 1;
        kill_while_fed(&format!("roster-{runs}"), &mut dice, &mut points);
    }
    assert!(runs >= KILLS / KILLS_A_RUN);
}

#[test]
fn clicks_of_a_topic_make_the_tables_of_the_same_clicks_in_files() {
    let dials = ["--events", "20k", "--event-rate", "200", "--users", "500"];
    let files = Log::clickstream(&dials);
    let from_files = Job::new(&Dials::default().clicks());
    files.give(&from_files);
    from_files.finish();

    let source = format!("{}\nend = \"latest\"", kafka(&broker().address(), "clicks"));
    let pipeline = Dials { source, ..Dials::default() }.clicks();
    let unkilled = Job::new(&pipeline);
    let to = format!("kafka://{}/clicks", broker().address());
    generate(&unkilled, &[&["clickstream", "--to", &to], &dials[..]].concat());
    let ledger = Ledger::read(&unkilled.path("ledger.json"));
    unkilled.finish();
    let expected = unkilled.digests();
    for table in ["events", "per_type", "sessions"] {
        assert_eq!(expected[table], from_files.digest(table), "{table}");
    }
    assert_eq!(rows_of(&expected["events"]), ledger.total("events"));
    assert_eq!(rows_of(&expected["duplicates"]), ledger.total("resent"));
    assert_eq!(rows_of(&expected["errors"]), ledger.total("poison"));
    assert_eq!(rows_of(&expected["late"]), 2 * ledger.total("late"));

    let killed = Job::new(&pipeline);
    // In the order in which a start comes to them: none before has made the next one needless.
    let points =
        [Point::Read, Point::Barrier, Point::ManifestDue, Point::DataFiles, Point::CommitDue, Point::Committed];
    assert_eq!(finish_through_points(&killed, &points.map(|point| (point, 1))), points.len());
    assert_eq!(killed.digests(), expected);
}

/// Longer than librdkafka waits for an answer, and than a session of any group lasts by default.
const DOWN: Duration = Duration::from_secs(30);

#[test]
fn a_broker_that_is_down_for_a_while_delays_rows_and_loses_none() {
    let mut broker = Broker::start().unwrap();
    broker.create_topic("roster", 4).unwrap();
    let job = roster(&broker, "roster");
    feed_roster(&job, &broker, "roster", "4", "3000");
    let mut run = job.start();
    reaches(&job, &mut run, 3000);
    broker.kill().unwrap();
    assert_eq!(run.ended_within(DOWN), None, "{}", run.said());
    assert!(run.has_said("the log can't be asked, reading goes on as far as it can"), "{}", run.said());
    broker.start_again().unwrap();
    feed_roster(&job, &broker, "roster", "4", "3000");
    reaches(&job, &mut run, 6000);
    run.stop();
    each_seq_stands(2, 3000, &job);
}

/// Of records that were all written so many times.
fn each_seq_stands(times: u64, seqs: u64, job: &Job) {
    let query = "select count(*), min(n), max(n) from (select seq, count(*) as n from t group by seq)";
    assert_eq!(duckdb(&job.metadata("updates"), query), format!("{seqs},{times},{times}"));
}

#[test]
fn a_partition_added_while_running_is_read_from_its_beginning() {
    broker().create_topic("grows", 2).unwrap();
    let job = roster(broker(), "grows");
    feed_roster(&job, broker(), "grows", "2", "2000");
    let mut run = job.start();
    reaches(&job, &mut run, 2000);
    broker().add_partitions("grows", 3).unwrap();
    feed_roster(&job, broker(), "grows", "3", "2000");
    assert_ne!(broker().offsets("grows", 2).unwrap().1, 0);
    reaches(&job, &mut run, 4000);
    run.kill();
    let mut run = job.start();
    feed_roster(&job, broker(), "grows", "3", "2000");
    reaches(&job, &mut run, 6000);
    run.stop();
    each_seq_stands(3, 2000, &job);
}

#[test]
fn a_topic_made_again_is_refused_by_name() {
    broker().create_topic("again", 2).unwrap();
    let job = roster(broker(), "again");
    feed_roster(&job, broker(), "again", "2", "2000");
    let mut run = job.start();
    reaches(&job, &mut run, 2000);
    run.stop();
    broker().delete_topic("again").unwrap();
    broker().create_topic("again", 2).unwrap();
    feed_roster(&job, broker(), "again", "2", "4000");
    let said = job.ends_with(REFUSED, &[]);
    assert!(said.contains("refused to start: the log is not the one that was read"), "{said}");
    assert!(said.contains("the topic was deleted and made again"), "{said}");
    assert_eq!(job.rows("updates"), 2000);
}

#[test]
fn a_topic_made_again_while_running_ends_the_job() {
    broker().create_topic("again-running", 2).unwrap();
    let job = roster(broker(), "again-running");
    feed_roster(&job, broker(), "again-running", "2", "2000");
    let mut run = job.start();
    reaches(&job, &mut run, 2000);
    broker().delete_topic("again-running").unwrap();
    broker().create_topic("again-running", 2).unwrap();
    assert_eq!(run.wait(), Some(FAILED), "{}", run.said());
    // Whoever sees it first: the reader by its offset, the watch by the topic's id, or the watch in between, when there is none.
    let named =
        ["the topic was deleted and made again", "this is not the log that was read before", "does not exist on"];
    assert!(named.iter().any(|why| run.has_said(why)), "{}", run.said());
}

#[test]
fn records_that_retention_took_before_they_were_read_are_refused_as_a_gap() {
    broker().create_topic("short", 1).unwrap();
    let job = roster(broker(), "short");
    feed_roster(&job, broker(), "short", "1", "1000");
    let mut run = job.start();
    reaches(&job, &mut run, 1000);
    run.stop();
    feed_roster(&job, broker(), "short", "1", "1000");
    broker().delete_records("short", 0, 1300).unwrap();
    let said = job.ends_with(REFUSED, &[]);
    let gap = "offset 1000 is no longer in the log, which begins at 1300: 300 records are gone";
    assert!(said.contains(gap), "{said}");
}

#[test]
fn records_of_aborted_transactions_are_in_no_table() {
    broker().create_topic("aborted", 1).unwrap();
    let job = roster(broker(), "aborted");
    let (code, lines) = job.ask(&["generate", "roster", "--events", "300", "--partitions", "1", "--to", "-"]);
    assert_eq!(code, Some(0), "{lines}");
    let values: Vec<&str> = lines.lines().filter_map(|line| Some(line.split_once('|')?.1)).collect();
    let transactions = producer(broker(), Some("aborted"));
    let mut run = job.start();
    for (part, commit) in values.chunks(100).zip([true, false, true]) {
        transactions.begin_transaction().unwrap();
        for value in part {
            transactions.send(BaseRecord::<(), str>::to("aborted").partition(0).payload(value)).unwrap();
        }
        transactions.flush(LONG).unwrap();
        // A checkpoint or two fall into the open transaction.
        job.wait_for_checkpoints(&mut run, 2);
        if commit {
            transactions.commit_transaction(LONG).unwrap();
        } else {
            transactions.abort_transaction(LONG).unwrap();
            run.kill();
            run = job.start();
        }
    }
    reaches(&job, &mut run, 200);
    run.stop();
    let counted = "select count(*), count(distinct seq), count(*) filter (seq between 101 and 200) from t";
    assert_eq!(duckdb(&job.metadata("updates"), counted), "200,200,0");
}

/// Clicks from two topics.
fn two_topics(name: &str, watermark: &str) -> String {
    let brokers = broker().address();
    let source = format!("type = \"kafka\"\nbrokers = \"{brokers}\"\ntopic = [\"{name}-full\", \"{name}-quiet\"]");
    Dials { source, watermark: watermark.into(), ..Dials::default() }.clicks()
}

fn of_two_topics(name: &str, watermark: &str) -> Job {
    broker().create_topic(&format!("{name}-full"), 2).unwrap();
    broker().create_topic(&format!("{name}-quiet"), 1).unwrap();
    Job::new(&two_topics(name, watermark))
}

/// 5,000 clicks of 100 seconds, all in the first topic.
fn clicks(name: &str) -> Vec<String> {
    let to = format!("kafka://{}/{name}-full", broker().address());
    let dials = ["clickstream", "--events", "5k", "--event-rate", "50", "--partitions", "2", "--to", &to];
    dials.map(str::to_owned).into()
}

/// Clicks that go on coming in one topic, nothing in another.
fn with_a_quiet_topic(name: &str, watermark: &str) -> (Job, Feed) {
    let job = of_two_topics(name, watermark);
    let mut arguments = clicks(name);
    arguments.extend(["--rate", "1000"].map(str::to_owned));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let feed = Feed::start(&job, &arguments);
    (job, feed)
}

const HOLDS: &str = r#"{ bound = "5s" }"#;
const IDLE: &str = r#"{ bound = "5s", idle = "1s" }"#;

#[test]
fn a_quiet_partition_holds_the_windows_unless_asked_otherwise() {
    let (job, feed) = with_a_quiet_topic("holds", HOLDS);
    let mut run = job.start();
    job.wait_while(&mut run, |job| job.records_seen() == 5000);
    run.stop();
    feed.wait();
    assert_eq!((job.rows("per_type"), job.rows("sessions")), (0, 0));
}

#[test]
fn a_quiet_partition_is_left_behind_where_idle_is_set() {
    let (job, feed) = with_a_quiet_topic("idle", IDLE);
    let mut run = job.start();
    job.wait_while(&mut run, |job| job.rows("per_type") > 0);
    run.stop();
    feed.wait();
}

/// All are at their ends when a run begins, so they are called idle together.
#[test]
fn windows_fire_where_all_partitions_go_idle_at_one_barrier() {
    let job = of_two_topics("all-idle", HOLDS);
    let arguments = clicks("all-idle");
    generate(&job, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let mut run = job.start();
    job.wait_while(&mut run, |job| job.records_seen() == 5000);
    run.stop();
    assert_eq!(job.rows("per_type"), 0);
    job.edit(&two_topics("all-idle", IDLE));
    let mut run = job.start();
    job.wait_while(&mut run, |job| job.rows("per_type") > 0);
    run.stop();
}

/// Its event times begin where those of the others began, so a part of them has been passed by.
#[test]
fn a_partition_that_comes_back_from_idle_counts_again_and_what_it_missed_is_late() {
    let (job, feed) = with_a_quiet_topic("returns", IDLE);
    let mut run = job.start();
    feed.wait();
    let first = Ledger::read(&job.path("ledger.json"));
    job.wait_while(&mut run, |job| job.rows("per_type") > 0 && job.records_seen() == first.total("records"));
    let to = format!("kafka://{}/returns-quiet", broker().address());
    let dials = ["--events", "5k", "--event-rate", "25", "--seed", "2", "--partitions", "1"];
    generate(&job, &[&["clickstream", "--to", &to], &dials[..]].concat());
    let second = Ledger::read(&job.path("ledger.json"));
    let records = first.total("records") + second.total("records");
    job.wait_while(&mut run, |job| job.records_seen() == records);
    run.kill();
    let mut run = job.start_with(&["--drain"]);
    job.wait_for_checkpoints(&mut run, 2);
    run.stop();

    let one = |table: &str, query: &str| duckdb(&job.metadata(table), query).parse::<u64>().unwrap();
    let late = |reason: &str| {
        let of_windows = "select count(*) from t where _window_node = 'per_type' and _reason";
        one("late", &format!("{of_windows} {reason}"))
    };
    let counted = one("per_type", "select sum(events)::bigint from t");
    assert!(late("= 'returned'") > 0);
    assert!(counted > first.total("events"), "what comes after the watermark it missed counts");
    assert_eq!(counted + late("is not null"), job.rows("events"));
    assert_eq!(one("per_type", "select count(*) - count(distinct (window_start, event_type)) from t"), 0);
}

#[test]
fn preview_shows_the_first_records_of_a_topic_and_leaves_nothing_behind() {
    broker().create_topic("previewed", 2).unwrap();
    let job = roster(broker(), "previewed");
    let preview = || job.command(&["preview", "pipeline.toml", "--limit", "5"]).output().unwrap();
    let empty = preview();
    assert!(empty.status.success() && empty.stdout.is_empty(), "{}", String::from_utf8_lossy(&empty.stderr));

    feed_roster(&job, broker(), "previewed", "2", "1000");
    let shown = preview();
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    let rows = String::from_utf8(shown.stdout).unwrap();
    let seq = |row: &str| serde_json::from_str::<serde_json::Value>(row).unwrap()["seq"].as_i64().unwrap();
    let seqs: std::collections::BTreeSet<_> = rows.lines().map(seq).collect();
    assert_eq!(seqs.len(), 5, "{rows}");
    assert_eq!(std::fs::read_dir(job.path("data")).unwrap().count(), 0);
}
