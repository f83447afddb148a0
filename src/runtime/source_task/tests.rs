//! Which partitions of a source are read, and how far they get from each other.
use std::collections::BTreeMap;

use floodmark_pipeline::schema::{Field, FieldType, Schema};
use floodmark_pipeline::time::Span;
use floodmark_pipeline::watermark::PartitionWatermark;

use super::*;
use crate::config::model::{JsonFormat, Origin};
use crate::decode::json::JsonDecoder;
use crate::simulate::log::{Entry, SimulatedLog, Topic};
use crate::source::Log;
use crate::source::names::PartitionNames;

const EVENTS: NodeId = NodeId(0);
const BATCH: usize = 10;
const ALIGN: i64 = 50;
/// Partition 0 has a record every millisecond, partition 1 one in a hundred of them.
const STEPS: [i64; 2] = [1, 100];

fn alignment() -> Option<Arc<Alignment>> {
    Some(Arc::new(Alignment::new(Span(ALIGN))))
}

fn entry(at: i64) -> Entry {
    Entry { value: format!("{{\"at\":{at}}}"), timestamp_ms: at }
}

/// A log of 500 records in each partition.
fn log() -> Topic {
    let log = Topic::new(STEPS.len());
    for (partition, step) in STEPS.into_iter().enumerate() {
        log.append(partition, (0..500).map(|n| entry(n * step)));
    }
    log
}

fn task(log: &Topic, alignment: Option<Arc<Alignment>>) -> SourceTask {
    stamped_by(log, EventTimeFrom::Column(0)).aligned(alignment)
}

fn stamped_by(log: &Topic, event_time: EventTimeFrom) -> SourceTask {
    let schema = Schema::new(vec![Field::required("at", FieldType::TIMESTAMP_MS)]);
    let format =
        JsonFormat { schema, origins: vec![Origin::Path(vec!["at".into()])], unknown_fields_are_errors: false };
    let decoder = JsonDecoder::new(&format, PartitionNames::new(vec![Topic::name(0), Topic::name(1)])).unwrap();
    let spec = Source {
        event_time: Some(event_time),
        bound: Span(0),
        max_future: None,
        late_by_event: false,
        on_error: OnError::Output,
    };
    let reader = SimulatedLog::undisturbed(log).reader().unwrap();
    SourceTask::new(EVENTS, spec, reader, Box::new(decoder), SliceWidth(Span(1_000)))
}

fn admission(partition: u32, offset: i64, end: Option<i64>) -> Admission {
    Admission {
        source: EVENTS,
        partition: PartitionIndex(partition),
        name: Topic::name(partition as usize),
        position: Position { offset, resume: vec![] },
        time: PartitionTime::new(PartitionWatermark::new(Span(0)), BTreeMap::new()),
        end,
        left: None,
    }
}

/// Reads with all tasks in turn until nothing comes any more; tells the largest lead of partition 1 over partition 0, where that hadn't ended, and how
/// many records were read.
fn read_all(tasks: &mut [SourceTask]) -> (i64, usize) {
    let (mut read, mut lead, mut empty) = (0, 0, 0);
    let mut seen = [0; 2];
    loop {
        let mut polled = 0;
        for task in tasks.iter_mut() {
            let batch = task.poll(BATCH).unwrap();
            task.exhausted();
            for rows in &batch.rows {
                seen[rows.side().partition[0] as usize] = *rows.side().event_time.last().unwrap();
            }
            polled += batch.read;
            if seen[0] < 499 {
                lead = lead.max(seen[1] - seen[0]);
            }
        }
        read += polled;
        // What a worker knows of the others may be as old as their last poll.
        empty = if polled == 0 { empty + 1 } else { 0 };
        if empty == 2 {
            return (lead, read);
        }
    }
}

#[test]
fn without_alignment_a_partition_runs_ahead_as_far_as_it_is_read() {
    let log = log();
    let mut task = task(&log, None);
    (0..2).for_each(|p| task.admit(admission(p, 0, Some(500))).unwrap());
    let (lead, read) = read_all(&mut [task]);
    assert_eq!(read, 1_000);
    assert!(lead > 40_000, "{lead}");
}

/// As far as it may be ahead, and the batch that took it there.
const FURTHEST: i64 = ALIGN + BATCH as i64 * STEPS[1];

#[test]
fn a_partition_that_is_too_far_ahead_waits_until_the_other_has_caught_up() {
    let log = log();
    let mut task = task(&log, alignment());
    (0..2).for_each(|p| task.admit(admission(p, 0, Some(500))).unwrap());
    let (lead, read) = read_all(&mut [task]);
    assert_eq!(read, 1_000, "all of it, in the end");
    assert!(lead <= FURTHEST, "{lead}");
}

#[test]
fn partitions_of_two_workers_wait_for_each_other() {
    let (log, alignment) = (log(), alignment());
    let mut tasks = [task(&log, alignment.clone()), task(&log, alignment)];
    (0..2).for_each(|p| tasks[p].admit(admission(p as u32, 0, Some(500))).unwrap());
    let (lead, read) = read_all(&mut tasks);
    assert_eq!(read, 1_000);
    assert!(lead <= FURTHEST, "{lead}");
}

#[test]
fn one_that_has_nothing_to_read_is_not_waited_for() {
    let log = Topic::new(2);
    log.append(0, [entry(0)]);
    log.append(1, (0..500).map(|n| entry(n * 100)));
    let mut task = task(&log, alignment());
    (0..2).for_each(|p| task.admit(admission(p, 0, None)).unwrap());
    assert_eq!(read_all(&mut [task]).1, 501);
}

#[test]
fn one_that_has_left_is_not_waited_for() {
    let log = log();
    let mut task = task(&log, alignment());
    (0..2).for_each(|p| task.admit(admission(p, 0, None)).unwrap());
    task.poll(BATCH).unwrap();
    task.cut(&[Leaving { partition: PartitionIndex(0), ended: false }]).unwrap();
    let of_first = task.cut(&[]).unwrap().1[0].position.offset;
    let before = task.counters.records_in as usize;
    assert_eq!(before + read_all(&mut [task]).1, of_first as usize + 500, "the other is read to its end");
}

#[test]
fn one_that_comes_back_within_a_run_goes_on_where_it_was_left() {
    let log = log();
    let mut task = task(&log, None);
    task.admit(admission(0, 0, None)).unwrap();
    task.poll(BATCH).unwrap();
    let left = Leaving { partition: PartitionIndex(0), ended: false };
    let (_, parts) = task.cut(&[left]).unwrap();
    assert_eq!(task.poll(BATCH).unwrap().read, 0, "left");
    let back = Admission { position: parts[0].position.clone(), time: parts[0].time.clone(), ..admission(0, 0, None) };
    task.admit(back).unwrap();
    let polled = task.poll(BATCH).unwrap();
    assert_eq!(polled.rows[0].side().offset[0], BATCH as i64);
}

#[test]
fn a_record_without_the_timestamp_that_its_event_time_is_joins_the_errors() {
    let log = Topic::new(1);
    // What the decoder has for a record that its log gives no time.
    let undated = Entry { value: "{\"at\":2}".into(), timestamp_ms: i64::MIN };
    log.append(0, [entry(1), undated, entry(3)]);
    let mut task = stamped_by(&log, EventTimeFrom::Log);
    task.admit(admission(0, 0, Some(3))).unwrap();
    let polled = task.poll(BATCH).unwrap();
    assert_eq!(polled.rows[0].side().event_time, [1, 3]);
    let told: Vec<_> = polled.errors.iter().map(|bad| (bad.offset, bad.reason, bad.timestamp_ms)).collect();
    assert_eq!(told, [(1, "missing", None)]);
}
