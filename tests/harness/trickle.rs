//! A log that comes while a job reads it: the same records in small batches into files, into a topic, or made by the job itself.
//!
//! Doesn't know: who reads it. Keeps: a partition's records are those of `floodmark generate clickstream` with the same dials, in the same order.
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use floodmark::workload::dials::Dials;
use floodmark::workload::ledger::Ledger;
use floodmark::workload::{Record, Workload, WorkloadName};
use floodmark_stack::broker::Broker;
use rdkafka::config::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

/// How long a broker may take for a batch.
const LONG: Duration = Duration::from_secs(60);

/// The records, one after the other.
pub struct Trickle {
    log: Box<dyn Workload>,
    pub ledger: Ledger,
    next: u64,
    place: Place,
}

enum Place {
    /// A file for each partition.
    Files(Vec<File>),
    Topic(BaseProducer, String),
    /// The job makes them, at a rate of its own.
    Nothing,
}

impl Trickle {
    fn new(dials: &Dials, place: Place) -> Trickle {
        let log = WorkloadName::Clickstream.build(dials).unwrap();
        Trickle { log, ledger: Ledger::derive(WorkloadName::Clickstream, dials).unwrap(), next: 0, place }
    }

    /// `part-0.ndjson` and so on in a folder.
    pub fn into_files(dials: &Dials, folder: &Path) -> Trickle {
        fs::create_dir_all(folder).unwrap();
        let file = |partition| File::create_new(folder.join(format!("part-{partition}.ndjson"))).unwrap();
        Trickle::new(dials, Place::Files((0..dials.partitions).map(file).collect()))
    }

    /// A new topic.
    pub fn into_topic(dials: &Dials, broker: &Broker, topic: &str) -> Trickle {
        broker.create_topic(topic, dials.partitions as i32).unwrap();
        let producer = ClientConfig::new().set("bootstrap.servers", broker.address()).set("linger.ms", "0").create();
        Trickle::new(dials, Place::Topic(producer.unwrap(), topic.to_owned()))
    }

    pub fn made_by_the_job(dials: &Dials) -> Trickle {
        Trickle::new(dials, Place::Nothing)
    }

    pub fn records(&self) -> u64 {
        self.log.records()
    }

    /// The next so many records, as far as there are some. Tells how many have come so far.
    pub fn more(&mut self, records: u64) -> u64 {
        let end = (self.next + records).min(self.records());
        let mut lines = vec![Vec::new(); self.ledger.partitions.len()];
        let mut record = Record::default();
        for index in self.next..end {
            self.log.record(index, &mut record);
            match &self.place {
                Place::Files(_) => {
                    let lines = &mut lines[record.partition as usize];
                    lines.extend_from_slice(&record.value);
                    lines.push(b'\n');
                }
                Place::Topic(producer, topic) => {
                    let sent = BaseRecord::to(topic).partition(record.partition as i32).timestamp(record.timestamp_ms);
                    producer.send(sent.key(&record.key).payload(&record.value)).unwrap();
                }
                Place::Nothing => {}
            }
        }
        match &mut self.place {
            Place::Files(files) => {
                files.iter_mut().zip(lines).for_each(|(file, lines)| file.write_all(&lines).unwrap());
            }
            Place::Topic(producer, _) => producer.flush(LONG).unwrap(),
            Place::Nothing => {}
        }
        self.next = end;
        end
    }

    /// Whoever makes the records itself may have come further than was asked for.
    pub fn has_come_to(&mut self, read: u64) {
        self.next = self.next.max(read);
    }
}
