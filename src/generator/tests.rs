//! The generator as a log: its records are the workload's, its positions are offsets, its dials are checked.
use std::collections::BTreeMap;

use floodmark_pipeline::ids::PartitionIndex;

use super::GeneratorLog;
use crate::config::model::{End, GeneratorConfig, Start};
use crate::source::{Log, Position, Reader, SourceError};
use crate::workload::dials::Dials;
use crate::workload::{Record, WorkloadName};

fn log(workload: &str, options: &[(&str, &str)]) -> Result<GeneratorLog, SourceError> {
    let options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect::<BTreeMap<_, _>>();
    GeneratorLog::new("events", &GeneratorConfig { workload: workload.to_owned(), options })
}

fn refusal(workload: &str, options: &[(&str, &str)]) -> String {
    log(workload, options).err().map(|e| e.to_string()).unwrap()
}

async fn reader(log: &GeneratorLog, from: &[i64], end: End) -> Box<dyn Reader> {
    let infos = log.partitions().await.unwrap();
    let ends = log.resolve_end(&end, &infos).await.unwrap();
    let mut reader = log.reader().unwrap();
    for (at, (info, end)) in infos.iter().zip(ends).enumerate() {
        let from = Position { offset: from.get(at).copied().unwrap_or(0), resume: vec![] };
        reader.assign(PartitionIndex(at as u32), &info.name, &from, end).unwrap();
    }
    reader
}

/// Values by partition and offset, of as many polls as give anything.
fn drain(reader: &mut dyn Reader, max: usize) -> BTreeMap<(u32, i64), Vec<u8>> {
    let mut all = BTreeMap::new();
    loop {
        let count = reader
            .poll(max, &mut |batch| {
                for record in batch.records {
                    let before = all.insert((batch.partition.0, record.offset), record.payload.unwrap().to_vec());
                    assert_eq!(before, None);
                }
            })
            .unwrap();
        assert!(count <= max);
        if count == 0 {
            return all;
        }
    }
}

#[tokio::test]
async fn a_generator_reads_the_records_of_its_workload() {
    for name in WorkloadName::ALL {
        let log = log(name.as_str(), &[("events", "1000"), ("partitions", "3")]).unwrap();
        let mut reader = reader(&log, &[], End::Latest).await;
        let read = drain(&mut *reader, 70);
        let workload = name.build(&Dials { events: 1_000, partitions: 3, ..Dials::default() }).unwrap();
        assert_eq!(read.len(), 1_000);
        let mut record = Record::default();
        for ((partition, offset), value) in &read {
            workload.record(workload.index_of(*partition, *offset as u64).unwrap(), &mut record);
            assert_eq!(value, &record.value);
        }
        assert!((0..3).all(|p| reader.progress(PartitionIndex(p)).unwrap().ended));
    }
}

#[tokio::test]
async fn a_position_is_an_offset_and_nothing_else() {
    let log = log("clickstream", &[("events", "90"), ("partitions", "3"), ("seed", "7")]).unwrap();
    let whole = drain(&mut *reader(&log, &[], End::Latest).await, 10);
    let rest = drain(&mut *reader(&log, &[5, 30, 29], End::Latest).await, 1);
    assert_eq!(rest.len(), 25 + 1);
    assert!(rest.iter().all(|(place, value)| whole[place] == *value));
}

#[tokio::test]
async fn without_events_there_is_always_a_next_record() {
    let log = log("clickstream", &[]).unwrap();
    let infos = log.partitions().await.unwrap();
    assert_eq!(log.resolve_end(&End::Latest, &infos).await.unwrap(), [None; 4]);
    let mut reader = reader(&log, &[1_000_000_000; 4], End::Latest).await;
    assert_eq!(reader.poll(100, &mut |_| ()).unwrap(), 100);
}

#[tokio::test]
async fn a_paused_partition_and_one_that_is_not_due_hand_out_nothing() {
    let log = log("clickstream", &[("rate", "0.000001"), ("events", "100")]).unwrap();
    let mut slow = reader(&log, &[], End::Latest).await;
    assert_eq!(slow.poll(100, &mut |_| ()).unwrap(), 0);
    let mut fast = reader(&self::log("roster", &[("events", "100")]).unwrap(), &[], End::Latest).await;
    (0..4).for_each(|p| fast.pause(PartitionIndex(p), true).unwrap());
    assert_eq!(fast.poll(100, &mut |_| ()).unwrap(), 0);
}

#[tokio::test]
async fn other_dials_are_another_log_but_more_events_are_not() {
    let identity = async |options: &[(&str, &str)]| {
        log("clickstream", options).unwrap().partitions().await.unwrap()[0].identity.clone()
    };
    assert_eq!(identity(&[("events", "10")]).await, identity(&[("events", "20"), ("rate", "5/s")]).await);
    assert_ne!(identity(&[("events", "10")]).await, identity(&[("events", "10"), ("seed", "2")]).await);
}

#[tokio::test]
async fn what_no_dial_knows_is_refused() {
    assert!(
        refusal("clickstream", &[("evnts", "5")])
            .starts_with("source `events`: a generator has no `evnts`; allowed: events, rate")
    );
    assert!(refusal("clickstream", &[("seed", "x")]).ends_with("`seed`: `x` is not a whole number"));
    assert!(refusal("clickstream", &[("late", "many")]).contains("`late`: `many` is not a share"));
    assert!(refusal("clicks", &[]).ends_with("unknown workload `clicks`; there are: clickstream, roster, orders"));
    assert!(refusal("roster", &[]).ends_with("roster needs `events`: only clickstream can be endless"));
    let log = log("roster", &[("events", "5")]).unwrap();
    assert!(matches!(log.resolve_start(&Start::Latest, &[]).await, Err(SourceError::Setting(_))));
}

#[tokio::test]
async fn of_one_identity_a_longer_log_begins_with_the_shorter_one() {
    for name in WorkloadName::ALL {
        let identity = async |events: &str| {
            log(name.as_str(), &[("events", events)]).unwrap().partitions().await.unwrap()[0].identity.clone()
        };
        if identity("500").await != identity("900").await {
            assert_eq!(name, WorkloadName::Orders);
            continue;
        }
        let read = async |events: &str| {
            let log = log(name.as_str(), &[("events", events)]).unwrap();
            drain(&mut *reader(&log, &[], End::Latest).await, 100)
        };
        let (short, long) = (read("500").await, read("900").await);
        assert!(short.iter().all(|(place, value)| long[place] == *value), "{name}");
    }
}

#[tokio::test]
async fn a_partition_is_drained_while_none_of_its_records_is_due() {
    let log = log("clickstream", &[("events", "90"), ("partitions", "2"), ("rate", "0.001")]).unwrap();
    let mut reader = reader(&log, &[], End::Latest).await;
    assert!(!reader.drained(PartitionIndex(0)), "nothing is known yet");
    drain(&mut *reader, 10);
    assert!(reader.drained(PartitionIndex(0)) && reader.drained(PartitionIndex(1)));
}
