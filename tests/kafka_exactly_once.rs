//! From a real Kafka broker into a table: every record once, through kills of the job and of the broker, and through changes of the topic.
//!
//! `FLOODMARK_KILLS` asks for more kills than the few that fit into every run of the tests.
mod harness;

use std::sync::OnceLock;

use floodmark_stack::broker::Broker;
use harness::dice::Dice;
use harness::kills::{finish_through_kills, timed};
use harness::log::{Feed, Ledger, Log, generate};
use harness::pipelines::{Dials, kafka};
use harness::tables::{duckdb, rows_of};
use harness::{Job, Run};

/// What is gone for good can only be decided by a person.
const REFUSED: i32 = 3;
const FAILED: i32 = 1;
const RECORDS: u64 = 12_000;

/// Shared by the tests that leave the broker alone; each has topics of its own.
fn broker() -> &'static Broker {
    static BROKER: OnceLock<Broker> = OnceLock::new();
    BROKER.get_or_init(|| Broker::start().unwrap())
}

fn kills_wanted() -> usize {
    std::env::var("FLOODMARK_KILLS").map_or(6, |kills| kills.parse().unwrap())
}

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

/// Feeds a topic and kills the job that reads it, at most `most` times while some of the rows are visible and some aren't.
fn kills_while_fed(topic: &str, dice: &mut Dice, most: usize) -> usize {
    broker().create_topic(topic, 4).unwrap();
    let job = roster(broker(), topic);
    let to = format!("kafka://{}/{topic}", broker().address());
    let feed = Feed::start(&job, &["roster", "--events", "12000", "--partitions", "4", "--rate", "2000", "--to", &to]);
    let mut kills = 0;
    while kills < most {
        let mut run = job.start();
        assert_eq!(run.ended_within(dice.moment(std::time::Duration::from_millis(1500))), None, "{}", run.said());
        run.kill();
        let visible = job.rows("updates");
        if visible >= RECORDS {
            break;
        }
        kills += usize::from(visible > 0);
    }
    feed.wait();
    let mut run = job.start();
    reaches(&job, &mut run, RECORDS);
    run.stop();
    let counted = duckdb(&job.metadata("updates"), "select count(*), count(distinct seq), min(seq), max(seq) from t");
    assert_eq!(counted, "12000,12000,1,12000", "{topic}");
    kills
}

#[test]
fn every_record_stands_in_the_table_once_through_kills() {
    let (mut kills, mut dice, mut round) = (0, Dice::new(3), 0);
    while kills < kills_wanted() {
        round += 1;
        kills += kills_while_fed(&format!("roster-{round}"), &mut dice, kills_wanted() - kills);
    }
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
    let whole_run = timed(&unkilled);
    let expected = unkilled.digests();
    for table in ["events", "per_type", "sessions"] {
        assert_eq!(expected[table], from_files.digest(table), "{table}");
    }
    assert_eq!(rows_of(&expected["duplicates"]), ledger.total("resent"));
    assert_eq!(rows_of(&expected["errors"]), ledger.total("poison"));
    assert_eq!(rows_of(&expected["late"]), 2 * ledger.total("late"));

    let killed = Job::new(&pipeline);
    finish_through_kills(&killed, &mut Dice::new(5), 3, whole_run * 2 / 3);
    assert_eq!(killed.digests(), expected);
}

#[test]
fn a_broker_that_is_down_for_a_while_delays_rows_and_loses_none() {
    let mut broker = Broker::start().unwrap();
    broker.create_topic("roster", 4).unwrap();
    let job = roster(&broker, "roster");
    feed_roster(&job, &broker, "roster", "4", "3000");
    let mut run = job.start();
    reaches(&job, &mut run, 3000);
    broker.kill().unwrap();
    assert_eq!(run.ended_within(std::time::Duration::from_secs(3)), None, "{}", run.said());
    broker.start_again().unwrap();
    feed_roster(&job, &broker, "roster", "4", "3000");
    reaches(&job, &mut run, 6000);
    run.stop();
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

/// Clicks that go on coming in one topic, nothing in another.
fn with_a_quiet_topic(name: &str, watermark: &str) -> (Job, Feed) {
    let (full, quiet) = (format!("{name}-full"), format!("{name}-quiet"));
    broker().create_topic(&full, 2).unwrap();
    broker().create_topic(&quiet, 1).unwrap();
    let brokers = broker().address();
    let source = format!("type = \"kafka\"\nbrokers = \"{brokers}\"\ntopic = [\"{full}\", \"{quiet}\"]");
    let job = Job::new(&Dials { source, watermark: watermark.into(), ..Dials::default() }.clicks());
    let to = format!("kafka://{brokers}/{full}");
    let dials = ["--events", "5k", "--rate", "1000", "--event-rate", "50", "--partitions", "2"];
    let feed = Feed::start(&job, &[&["clickstream", "--to", &to], &dials[..]].concat());
    (job, feed)
}

#[test]
fn a_quiet_partition_holds_the_windows_unless_asked_otherwise() {
    let (job, feed) = with_a_quiet_topic("holds", r#"{ bound = "5s" }"#);
    let mut run = job.start();
    job.wait_while(&mut run, |job| job.records_seen() == 5000);
    run.stop();
    feed.wait();
    assert_eq!((job.rows("per_type"), job.rows("sessions")), (0, 0));
}

#[test]
fn a_quiet_partition_is_left_behind_where_idle_is_set() {
    let (job, feed) = with_a_quiet_topic("idle", r#"{ bound = "5s", idle = "1s" }"#);
    let mut run = job.start();
    job.wait_while(&mut run, |job| job.rows("per_type") > 0);
    run.stop();
    feed.wait();
}
