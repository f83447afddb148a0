//! What happens in one simulation, all of it drawn from a seed before it begins: the pipeline file, what the log gets and when, and what goes wrong.
//!
//! Doesn't know: how it is played. Keeps: a scenario with less in it is a scenario too, so that one that fails can be made small.
use super::gate::{Class, Fault, Trouble};
use super::log::Entry;

pub const SINKS: [&str; 4] = ["rows", "hop_rows", "visit_rows", "late_rows"];
/// Between checkpoints, and how long it is eventful then: about as many become durable in either.
const PACES_MS: [(u64, u64); 3] = [(10, 150), (20, 220), (40, 380)];
/// Event time that passes in the eventful time of any.
const EVENT_TIME_MS: u64 = 175;
/// A run that gets no further has shown little. At its end there are three checkpoints more, at least.
const LEAST: Least = Least { checkpoints: 7, faults: 3 };

#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    /// The pipeline file.
    pub file: String,
    /// Partitions that are there from the first.
    pub partitions: usize,
    /// By the time at which it happens.
    pub events: Vec<(u64, Event)>,
    pub faults: Vec<Fault>,
    /// Everything has happened by then; and once that is enough, nothing goes wrong any more.
    pub calm_at_ms: u64,
    pub least: Least,
    /// What a store has answered for survives a power cut.
    pub is_durable: bool,
    /// Tables are Iceberg's, by the real sink and encoder.
    pub is_encoded: bool,
    /// Manifests, removals and commits are judged as they come, and the first that breaks an invariant is the end; else only the tables are, at the end.
    pub is_watched: bool,
}

/// What there must have been before it is calm, as far as the scenario has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Least {
    pub checkpoints: usize,
    pub faults: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Append {
        partition: usize,
        entries: Vec<Entry>,
    },
    /// The records of a transaction that is decided later.
    Begin {
        partition: usize,
        entries: Vec<Entry>,
    },
    Close {
        partition: usize,
        commit: bool,
    },
    AddPartition,
    /// Retention takes what no checkpoint that is there needs.
    Retention,
    /// Somebody asks the job to stop, and starts it again.
    Stop,
    Compact {
        sink: usize,
    },
    Expire {
        sink: usize,
    },
    /// The wall clock is set.
    SetClock {
        by_ms: i64,
    },
    /// Somebody stops all and starts it again from a complete checkpoint, with the tables as they were when it was the newest.
    GoBack {
        /// Which of those that are there.
        to: usize,
    },
    /// From here on outside help is needed: the start that finds it is refused.
    Harm(Harm),
}

/// What no engine can make good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    RollBack {
        sink: usize,
        by: usize,
    },
    /// The table as it was a while ago, by a copy of the catalog.
    Restore {
        sink: usize,
    },
    Drop {
        sink: usize,
    },
    /// The table is made again with the properties that it had: empty, and with the old mark.
    Remake {
        sink: usize,
    },
    /// The topic is deleted and made again.
    Recreate,
    /// Retention takes records that weren't read.
    LoseRecords,
}

impl Scenario {
    pub fn of(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (interval_ms, eventful_ms) = PACES_MS[rng.usize(0..PACES_MS.len())];
        let mut draw = Draw { rng, interval_ms, eventful_ms };
        let file = draw.file();
        let partitions = draw.rng.usize(1..=3);
        let mut events = draw.log(partitions);
        events.extend(draw.happenings());
        let faults = (0..draw.rng.usize(LEAST.faults..=6)).map(|_| draw.fault()).collect();
        if draw.one_in(12) {
            let at = draw.rng.u64(eventful_ms / 4..eventful_ms);
            events.push((at, Event::Harm(draw.harm())));
        }
        events.sort_by_key(|(at, _)| *at);
        Self {
            seed,
            file,
            partitions,
            events,
            faults,
            calm_at_ms: eventful_ms,
            least: LEAST,
            is_durable: true,
            is_encoded: false,
            is_watched: true,
        }
    }

    /// The same over the real encoder, where nobody else touches the tables.
    pub fn encoded(seed: u64) -> Self {
        let mut scenario = Self { is_encoded: true, ..Self::of(seed) };
        scenario.events.retain(|(_, event)| !matches!(event, Event::Harm(_)));
        scenario
    }
}

struct Draw {
    rng: fastrand::Rng,
    /// Between checkpoints.
    interval_ms: u64,
    /// All events come within this time.
    eventful_ms: u64,
}

impl Draw {
    fn one_in(&mut self, n: u32) -> bool {
        self.rng.u32(0..n) == 0
    }

    fn among<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.rng.usize(0..of.len())]
    }

    fn file(&mut self) -> String {
        let slide = self.rng.i64(1..30);
        let size = slide + self.rng.i64(0..30);
        let horizon = self.rng.i64(1..60);
        let bucket = self.rng.i64(1..=horizon);
        let interval = self.interval_ms;
        let commits: Vec<_> = SINKS.iter().map(|_| interval * self.among(&[1, 1, 2, 5])).collect();
        let inputs = ["\"clean\"", "\"hops\"", "\"visits\"", "[\"clean.late\", \"hops.late\", \"visits.late\"]"];
        let kinds = [TABLE, TABLE, FILE, TABLE];
        let sinks = SINKS.iter().zip(inputs).zip(kinds).zip(commits).map(|(((name, from), kind), commit)| {
            format!("\n[sink.{name}]\nfrom = {from}\n{}commit_interval = \"{commit}ms\"\n", kind.replace("NAME", name))
        });
        format!(
            r#"
[pipeline]
id = "simulated"
state = "memory"
workers = {workers}
batch_rows = {batch_rows}
queue_batches = {queue_batches}
checkpoint = {{ interval = "{interval}ms", dir = "s3://simulated/checkpoints", retain = {retain} }}

[source.events]
type = "kafka"
brokers = "sim:9092"
topic = "t"
discovery_interval = "20ms"
event_time = {{ field = "at" }}
watermark = {{ bound = "{bound}ms"{idle} }}
lateness = "{lateness}"
discard = ["errors"]
schema = {{ key = "string", user = "string?", at = "timestamp_ms", price = "int64?" }}

[dedup.clean]
from = "events"
key = ["key"]
horizon = "{horizon}ms"
bucket = "{bucket}ms"
discard = ["duplicates"]

[window.hops]
from = "clean"
type = "hopping"
size = "{size}ms"
slide = "{slide}ms"
offset = "{offset}ms"
key = ["user"]
aggregates = {{ n = "count()", lowest = "min(price)" }}

[window.visits]
from = "clean"
type = "session"
gap = "{gap}ms"
key = ["user"]
aggregates = {{ n = "count(price)", highest = "max(price)" }}
{sinks}"#,
            workers = self.rng.usize(1..=3),
            batch_rows = self.among(&[1, 2, 7, 100]),
            queue_batches = self.among(&[1, 1, 4]),
            retain = self.among(&[1, 2, 5]),
            bound = self.rng.i64(0..40),
            idle = if self.one_in(3) { ", idle = \"25ms\"" } else { "" },
            lateness = self.among(&["window", "event"]),
            offset = self.rng.i64(0..slide),
            gap = self.rng.i64(1..15),
            sinks = sinks.collect::<String>(),
        )
    }

    /// Few ids, users and times, so that copies, ties and gaps of every width come up. Copies of an id lie in one partition.
    fn entry(&mut self, partition: usize, about_ms: i64) -> Entry {
        let at = about_ms + self.rng.i64(-30..30);
        let user = if self.one_in(5) { "null".into() } else { format!("\"u{}\"", self.rng.u32(0..3)) };
        let price = if self.one_in(4) { String::new() } else { format!(",\"price\":{}", self.rng.i64(-9..9)) };
        let id = self.rng.i64(0..12) + about_ms / 8;
        let value = match self.rng.u32(0..25) {
            0 => self.among(&["", "{", "[]", "{\"key\":1,\"at\":0}"]).to_owned(),
            _ => format!("{{\"key\":\"{partition}-{id}\",\"user\":{user},\"at\":{at}{price}}}"),
        };
        Entry { value, timestamp_ms: at }
    }

    /// Every partition gets its records in some portions, alone or in transactions. Event time goes on as time does.
    fn log(&mut self, partitions: usize) -> Vec<(u64, Event)> {
        let mut events = vec![];
        let fed_by_ms = self.eventful_ms * 2 / 3;
        let joined = if self.one_in(3) { 1 } else { 0 };
        for partition in 0..partitions + joined {
            let from_ms = if partition < partitions { 0 } else { self.rng.u64(fed_by_ms / 8..fed_by_ms / 2) };
            if partition >= partitions {
                events.push((from_ms, Event::AddPartition));
            }
            let mut at_ms = from_ms;
            for _ in 0..self.rng.usize(2..=6) {
                at_ms += self.rng.u64(0..(fed_by_ms - from_ms) / 6);
                let about_ms = (at_ms * EVENT_TIME_MS / self.eventful_ms) as i64;
                let entries = (0..self.rng.usize(1..=7)).map(|_| self.entry(partition, about_ms)).collect();
                if self.one_in(4) {
                    events.push((at_ms, Event::Begin { partition, entries }));
                    at_ms += self.rng.u64(1..self.eventful_ms / 16);
                    events.push((at_ms, Event::Close { partition, commit: !self.one_in(3) }));
                } else {
                    events.push((at_ms, Event::Append { partition, entries }));
                }
            }
        }
        events
    }

    /// What happens in the best of worlds too.
    fn happenings(&mut self) -> Vec<(u64, Event)> {
        let mut events = vec![];
        for _ in 0..self.rng.usize(0..=4) {
            let sink = self.among(&[0, 1, 3]);
            let event = match self.rng.u32(0..5) {
                0 => Event::Retention,
                1 => Event::Stop,
                2 => Event::Compact { sink },
                3 => Event::Expire { sink },
                _ => Event::SetClock { by_ms: self.rng.i64(-7_200_000..7_200_000) },
            };
            events.push((self.rng.u64(self.eventful_ms / 14..self.eventful_ms), event));
        }
        events
    }

    fn fault(&mut self) -> Fault {
        let ms = self.among(&[3, 20, 60, 150]);
        let trouble = match self.rng.u32(0..16) {
            0..4 => Trouble::Kill,
            4 => Trouble::PowerCut,
            5..7 => Trouble::Freeze { ms },
            7..9 => Trouble::Refuse,
            9..12 => Trouble::LoseAnswer,
            12..14 => Trouble::Delay { ms },
            14 => self.among(&[Trouble::Away { ms }, Trouble::Full { ms }]),
            _ => Trouble::Twin,
        };
        // A request on its way that may arrive later is one that changes a table.
        let class = match trouble {
            Trouble::Delay { .. } => Some(Class::CommitTable),
            _ if self.one_in(4) => None,
            _ => Some(self.among(&Class::ALL)),
        };
        let nth = self.rng.usize(0..in_half_of_all_runs(class));
        Fault { class, nth, trouble }
    }

    fn harm(&mut self) -> Harm {
        let sink = self.among(&[0, 1, 3]);
        match self.rng.u32(0..6) {
            0 => Harm::RollBack { sink, by: self.rng.usize(1..4) },
            1 => Harm::Restore { sink },
            2 => Harm::Drop { sink },
            3 => Harm::Remake { sink },
            4 => Harm::Recreate,
            _ => Harm::LoseRecords,
        }
    }
}

/// So many requests of a class come before it is calm, or more, in half of all runs: what is ordered for one of them mostly comes about.
fn in_half_of_all_runs(class: Option<Class>) -> usize {
    match class {
        None => 300,
        Some(Class::Claim | Class::MakeTable) => 3,
        Some(Class::Segment) => 6,
        Some(Class::Object | Class::Read | Class::CommitTable) => 13,
        Some(Class::Manifest) => 23,
        Some(Class::StateFile | Class::LoadTable | Class::AskLog) => 30,
        Some(Class::List | Class::Delete) => 45,
    }
}

const TABLE: &str = r#"type = "iceberg"
catalog = { type = "sql", uri = "sqlite:simulated.db", warehouse = "s3://simulated/warehouse" }
table = "lake.NAME"
"#;
const FILE: &str = r#"type = "file"
dir = "s3://simulated/NAME"
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_scenario_and_seeds_differ() {
        let shown = |seed| format!("{:?}", Scenario::of(seed));
        assert_eq!(shown(7), shown(7));
        assert_ne!(shown(7), shown(8));
    }

    #[test]
    fn every_kind_of_trouble_and_event_comes_up() {
        let all: String = (0..400).map(|seed| format!("{:?}", Scenario::of(seed))).collect();
        for what in [
            "Kill",
            "PowerCut",
            "Freeze",
            "Refuse",
            "LoseAnswer",
            "Delay",
            "Away",
            "Full",
            "Twin",
            "Begin",
            "commit: false",
            "AddPartition",
            "Retention",
            "Stop",
            "Compact",
            "Expire",
            "SetClock",
            "RollBack",
            "Restore",
            "Drop",
            "Remake",
            "Recreate",
            "LoseRecords",
        ] {
            assert!(all.contains(what), "{what}");
        }
    }
}
