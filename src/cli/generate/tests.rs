//! `floodmark generate` as a user calls it, and what lies at each destination afterwards.
use std::fs;
use std::io::Read;
use std::time::Duration;

use clap::Parser;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::mocking::MockCluster;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tempfile::TempDir;

use super::destination::LogWriter;
use super::kafka::TopicWriter;
use super::terminal::Terminal;
use super::*;
use crate::workload::Workload;
use crate::workload::clickstream::Clickstream;

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    generate: GenerateArgs,
}

fn parse(line: &str) -> Result<GenerateArgs, clap::Error> {
    let words = line.split_whitespace();
    Ok(CommandLine::try_parse_from(["generate"].into_iter().chain(words))?.generate)
}

fn generate(line: &str) -> Result<(), GenerateError> {
    run(parse(line).unwrap())
}

fn records(dials: &Dials) -> Vec<Record> {
    let log = Clickstream::new(dials).unwrap();
    let record = |index| {
        let mut record = Record::default();
        log.record(index, &mut record);
        record
    };
    (0..log.records()).map(record).collect()
}

/// Lines that a partition's file should hold.
fn lines_of(partition: u32, dials: &Dials) -> Vec<u8> {
    let records = records(dials);
    let own = records.iter().filter(|record| record.partition == partition);
    own.flat_map(|record| [record.value.as_slice(), b"\n"].concat()).collect()
}

fn dials() -> Dials {
    Dials { events: 3_000, seed: 5, partitions: 3, poison: 0.01, ..Dials::default() }
}

const LOG: &str = "clickstream --events 3k --seed 5 --partitions 3 --poison 1%";

#[test]
fn a_file_a_partition_holds_a_value_a_line() {
    let dir = TempDir::new().unwrap();
    generate(&format!("{LOG} --to file:{}", dir.path().display())).unwrap();
    for partition in 0..3 {
        let path = dir.path().join(format!("part-0000{partition}.ndjson"));
        assert!(fs::read(path).unwrap() == lines_of(partition, &dials()), "{partition}");
    }
}

#[test]
fn compressed_files_hold_the_same_lines() {
    let gzip = TempDir::new().unwrap();
    generate(&format!("{LOG} --compress gzip --to file:{}", gzip.path().display())).unwrap();
    let file = fs::File::open(gzip.path().join("part-00001.ndjson.gz")).unwrap();
    let mut lines = Vec::new();
    flate2::read::GzDecoder::new(file).read_to_end(&mut lines).unwrap();
    assert!(lines == lines_of(1, &dials()));

    let zstd = TempDir::new().unwrap();
    generate(&format!("{LOG} --compress zstd --to file:{}", zstd.path().display())).unwrap();
    let file = fs::File::open(zstd.path().join("part-00002.ndjson.zst")).unwrap();
    assert!(zstd::decode_all(file).unwrap() == lines_of(2, &dials()));
}

#[test]
fn a_folder_with_part_files_is_refused() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("part-00007.ndjson.gz"), "").unwrap();
    let path = dir.path().display();
    let error = generate(&format!("{LOG} --to file:{path}")).unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "{path} already holds part-00007.ndjson.gz; a log is written into a folder without part files, so name another or remove them"
        )
    );
}

#[test]
fn the_ledger_written_is_the_one_derived_from_its_dials() {
    let dir = TempDir::new().unwrap();
    let ledger = dir.path().join("ledger.json");
    generate(&format!("{LOG} --to file:{} --ledger {}", dir.path().join("log").display(), ledger.display())).unwrap();
    let ledger: Ledger = serde_json::from_slice(&fs::read(ledger).unwrap()).unwrap();
    assert_eq!(ledger, Ledger::derive(WorkloadName::Clickstream, &dials()).unwrap());
    assert_eq!(ledger.total.records, 3_000);
}

#[test]
fn a_rate_only_slows_the_log() {
    let dir = TempDir::new().unwrap();
    generate(&format!("{LOG} --rate 100k/s --to file:{}", dir.path().display())).unwrap();
    assert!(fs::read(dir.path().join("part-00000.ndjson")).unwrap() == lines_of(0, &dials()));
}

#[test]
fn parts_of_a_log_are_the_log() {
    let dir = TempDir::new().unwrap();
    let part = |only: &str| {
        let to = dir.path().join(only);
        generate(&format!("{LOG} --only {only} --to file:{}", to.display())).unwrap();
        fs::read(to.join("part-00001.ndjson")).unwrap()
    };
    assert!([part("0..1000"), part("1000..2k"), part("2000..")].concat() == lines_of(1, &dials()));
    assert!(part("3k..").is_empty());
    assert!(
        parse(&format!("{LOG} --to - --only 5..4")).is_err_and(|e| e.to_string().contains("write 0..5000 or 5000.."))
    );
}

#[test]
fn a_flag_of_another_workload_is_refused() {
    let error = generate("roster --events 1 --seed 3 --to -").unwrap_err().to_string();
    assert_eq!(error, "roster has no --seed; it belongs to clickstream and orders");
    let error = generate("orders --events 1 --late 1% --to -").unwrap_err().to_string();
    assert_eq!(error, "orders has no --late; it belongs to clickstream");
}

#[test]
fn compression_of_anything_but_files_is_refused() {
    let error = generate("roster --events 1 --compress zstd --to -").unwrap_err().to_string();
    assert_eq!(error, "--compress is for file:DIR; this log goes to -");
}

#[test]
fn mistakes_on_the_command_line_show_what_is_allowed() {
    for (line, hint) in [
        ("clicks --events 1 --to -", "unknown workload `clicks`; there are: clickstream, roster, orders"),
        ("clickstream --events 1 --to - --late-by 60", "`60` is not a duration; write 250ms, 5s"),
        ("clickstream --events 1 --to - --late 3", "`3` is not a share; write 1% or 0.01"),
        ("clickstream --events 1 --to topic", "`topic` is no destination; write kafka://BROKER:PORT/TOPIC"),
    ] {
        let error = parse(line).unwrap_err().to_string();
        assert!(error.contains(hint), "{error}");
    }
}

fn terminal_lines(log: &dyn Workload, keys_in_hex: bool) -> String {
    let mut out = Vec::new();
    let mut terminal = Terminal::to(&mut out, 1, keys_in_hex);
    let mut record = Record::default();
    for index in 0..log.records() {
        log.record(index, &mut record);
        terminal.write(&record).unwrap();
    }
    String::from_utf8(out).unwrap()
}

#[test]
fn the_terminal_shows_key_and_value_and_bytes_in_hex() {
    let two = Dials { events: 2, ..Dials::default() };
    let roster = terminal_lines(WorkloadName::Roster.build(&two).unwrap().as_ref(), false);
    let (key, value) = roster.lines().next().unwrap().split_once('|').unwrap();
    assert!(value.starts_with(&format!(r#"{{"npi":"{key}","source":""#)), "{roster}");
    let orders = terminal_lines(WorkloadName::Orders.build(&two).unwrap().as_ref(), true);
    let keys: Vec<&str> = orders.lines().filter_map(|line| line.split('|').next()).collect();
    assert_eq!(keys, ["000000000102", "000000000104"]);
}

/// Every record of a topic: key, value, timestamp, by partition and in offset order.
fn consume(brokers: &str, topic: &str, partitions: u32, count: usize) -> Vec<Vec<Record>> {
    let consumer: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", brokers).set("group.id", "test").create().unwrap();
    let mut assignment = TopicPartitionList::new();
    for partition in 0..partitions as i32 {
        assignment.add_partition_offset(topic, partition, Offset::Beginning).unwrap();
    }
    consumer.assign(&assignment).unwrap();
    let mut log = vec![Vec::new(); partitions as usize];
    for _ in 0..count {
        let message = consumer.poll(Duration::from_secs(30)).unwrap().unwrap();
        let partition = &mut log[message.partition() as usize];
        assert_eq!(message.offset(), partition.len() as i64);
        partition.push(Record {
            partition: message.partition() as u32,
            timestamp_ms: message.timestamp().to_millis().unwrap(),
            key: message.key().unwrap().to_vec(),
            value: message.payload().unwrap().to_vec(),
        });
    }
    log
}

#[test]
fn a_topic_holds_each_record_in_its_partition_with_its_event_time() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("clicks", 3, 1).unwrap();
    let brokers = cluster.bootstrap_servers();
    generate(&format!("{LOG} --to kafka://{brokers}/clicks")).unwrap();
    let log = consume(&brokers, "clicks", 3, 3_000);
    for (partition, found) in log.iter().enumerate() {
        let records = records(&dials());
        let expected = records.iter().filter(|record| record.partition as usize == partition);
        assert!(expected.eq(found), "partition {partition}");
    }
}

#[test]
fn a_second_log_begins_where_the_first_ended() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("clicks", 3, 1).unwrap();
    let brokers = cluster.bootstrap_servers();
    generate(&format!("{LOG} --to kafka://{brokers}/clicks")).unwrap();
    let writer = TopicWriter::open(&brokers, "clicks", 3).unwrap();
    assert_eq!(writer.first_offsets(), [1_000; 3]);
}

#[test]
fn a_topic_whose_leaders_do_not_answer_yet_is_waited_for() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("clicks", 3, 1).unwrap();
    let not_yet = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION; 3];
    cluster.request_errors(RDKafkaApiKey::ListOffsets, &not_yet);
    let writer = TopicWriter::open(&cluster.bootstrap_servers(), "clicks", 3).unwrap();
    assert_eq!(writer.first_offsets(), [0; 3]);
}

#[test]
fn a_topic_with_other_partitions_is_refused() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("clicks", 5, 1).unwrap();
    let to = format!("kafka://{}/clicks", cluster.bootstrap_servers());
    assert_eq!(
        generate(&format!("{LOG} --to {to}")).unwrap_err().to_string(),
        "topic clicks has 5 partitions, not 3; name another topic, or ask for --partitions 5"
    );
}

#[test]
fn a_broker_that_refuses_records_fails_the_command() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("clicks", 3, 1).unwrap();
    let refusals = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED; 100];
    cluster.request_errors(RDKafkaApiKey::Produce, &refusals);
    let to = format!("kafka://{}/clicks", cluster.bootstrap_servers());
    let error = generate(&format!("{LOG} --to {to}")).unwrap_err();
    assert!(matches!(error, GenerateError::Kafka(KafkaError::Undelivered { .. })), "{error}");
}
