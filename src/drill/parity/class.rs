//! What is run: a log, a pipeline file over it, and which tables must be equal (classes of docs/PARITY.md).
//!
//! Each class is an example of docs/examples with its log in Kafka and its tables in a catalog of its own. Both paths read the same file.
//! Doesn't know: how it is run. Keeps: the input ends at offsets that the seed decides, written in the file. Tested: here.
use std::path::Path;

use clap::ValueEnum;
use serde::Serialize;

use super::Settings;
use crate::workload::WorkloadName;
use crate::workload::dials::Dials;

const CLICKSTREAM: &str = include_str!("../../../docs/examples/clickstream.toml");
const ROSTER: &str = include_str!("../../../docs/examples/roster.toml");
const ORDERS: &str = include_str!("../../../docs/examples/orders.toml");
/// Event time that a clickstream covers, whatever its size: enough for sessions to end and begin.
const SPAN_S: f64 = 600.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Several partitions, disorder inside the bound: all tables equal
    D1,
    /// One partition, late records, lateness by event: all tables equal, late rows too
    D2,
    /// Several partitions, late records: Flink's late rows are some of ours, and nothing is lost
    D3,
    /// Several partitions, copies of events in others with another payload: each id once, and each row one that was written
    D4,
    /// D1 with records that can't be decoded: ours are counted, Flink skips them silently
    Poison,
    /// Provider updates as they are
    Roster,
    /// The state of orders
    Orders,
}

/// A table of both paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// `shop.events`
    pub name: &'static str,
    /// Outputs of the oracle whose rows it holds.
    pub outputs: &'static [&'static str],
    pub must: Must,
}

/// Which sides must be equal. What floodmark writes must always be what the oracle says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Must {
    AllBeEqual,
    /// Flink may differ, and how it does is told.
    OursBeRight,
    /// No sides, only the readers of each: which copy of an id survives is nobody's to say.
    ReadersAgree,
}

const EVENTS: Table = Table { name: "shop.events", outputs: &["clean"], must: Must::AllBeEqual };
const PER_TYPE: Table = Table { name: "shop.per_type", outputs: &["per_type"], must: Must::AllBeEqual };
const SESSIONS: Table = Table { name: "shop.sessions", outputs: &["sessions"], must: Must::AllBeEqual };
const LATE: Table =
    Table { name: "shop.late", outputs: &["per_type.late", "sessions.late", "clean.late"], must: Must::AllBeEqual };

impl Table {
    const fn of_ours(self) -> Self {
        Self { must: Must::OursBeRight, ..self }
    }
}

/// Where things are.
pub struct Places<'a> {
    pub folder: &'a Path,
    pub brokers: &'a str,
    pub catalog: &'a str,
    pub listen: &'a str,
    /// Where each partition ends.
    pub ends: &'a [u64],
}

impl Class {
    pub fn workload(self) -> WorkloadName {
        match self {
            Class::D1 | Class::D2 | Class::D3 | Class::D4 | Class::Poison => WorkloadName::Clickstream,
            Class::Roster => WorkloadName::Roster,
            Class::Orders => WorkloadName::Orders,
        }
    }

    /// The log's, also its topic's.
    pub fn source(self) -> &'static str {
        match self {
            Class::D1 | Class::D2 | Class::D3 | Class::D4 | Class::Poison => "events",
            Class::Roster => "updates",
            Class::Orders => "orders",
        }
    }

    /// The first is the one whose rows are watched.
    pub fn tables(self) -> Vec<Table> {
        match self {
            Class::D1 => vec![EVENTS, PER_TYPE, SESSIONS],
            Class::D2 => vec![EVENTS, PER_TYPE, SESSIONS, LATE],
            Class::D3 => vec![EVENTS, PER_TYPE.of_ours(), SESSIONS.of_ours(), LATE.of_ours()],
            // All that was written, of which each path has kept one row an id.
            Class::D4 => vec![Table { outputs: &["events"], must: Must::ReadersAgree, ..EVENTS }],
            Class::Poison => [EVENTS, PER_TYPE, SESSIONS].map(Table::of_ours).into(),
            Class::Roster => vec![Table { name: "roster.updates", outputs: &["updates"], must: Must::AllBeEqual }],
            Class::Orders => vec![Table { name: "cdc_lab.orders", outputs: &["orders"], must: Must::AllBeEqual }],
        }
    }

    /// Flink's watermarks don't survive a restore, so that what is late there isn't late again: only where nothing is late may Flink be hurt.
    pub fn hurts_flink(self) -> bool {
        self != Class::D2
    }

    /// Keys of the file that are given up in the printed job.
    pub fn accepted_losses(self) -> &'static [&'static str] {
        if self == Class::Poison { &["on_error"] } else { &[] }
    }

    pub fn dials(self, settings: &Settings) -> Dials {
        let events = settings.events;
        let dials = Dials { events, seed: settings.seed, partitions: settings.partitions, ..Dials::default() };
        match self {
            Class::Roster | Class::Orders => dials,
            Class::D1 | Class::D2 | Class::D3 | Class::D4 | Class::Poison => Dials {
                users: (events / 20).max(20),
                event_rate: (events as f64 / SPAN_S).max(1.0),
                late: if matches!(self, Class::D2 | Class::D3) { dials.late } else { 0.0 },
                poison: if self == Class::Poison { dials.poison } else { 0.0 },
                ..dials
            },
        }
    }

    /// What `floodmark generate` is told to make the same log of these dials.
    pub fn generate(self, dials: &Dials) -> Vec<String> {
        let mut words = vec!["generate".to_owned(), self.workload().to_string()];
        let mut say = |flag: &str, value: String| words.extend([format!("--{flag}"), value]);
        say("events", dials.events.to_string());
        say("partitions", dials.partitions.to_string());
        if self.workload() != WorkloadName::Roster {
            say("seed", dials.seed.to_string());
        }
        if self.workload() == WorkloadName::Clickstream {
            say("users", dials.users.to_string());
            say("event-rate", dials.event_rate.to_string());
            say("late", dials.late.to_string());
            say("poison", dials.poison.to_string());
        }
        words
    }

    /// The pipeline file of both paths.
    pub fn pipeline(self, places: &Places<'_>) -> String {
        let Places { folder, brokers, catalog, listen, ends } = places;
        let topic = self.source();
        let ends: Vec<String> = (0..).zip(*ends).map(|(partition, end)| format!("{partition} = {end}")).collect();
        let end = format!("end = {{ offsets = {{ {topic} = {{ {} }} }} }}", ends.join(", "));
        let lateness = if self == Class::D2 { "\nlateness = \"event\"" } else { "" };
        let kafka = format!("type = \"kafka\"\nbrokers = \"{brokers}\"\ntopic = \"{topic}\"\n{end}{lateness}\n");
        let text = match self {
            Class::Roster => {
                ROSTER.replace("type = \"kafka\"\nbrokers = \"localhost:9092\"\ntopic = \"roster.updates\"\n", &kafka)
            }
            Class::Orders => ORDERS.replace(
                "type = \"kafka\"\nbrokers = \"localhost:9092\"\ntopic = \"orders\"\ndiscovery_interval = \"10s\"\n",
                &kafka,
            ),
            Class::D1 | Class::D2 | Class::D3 | Class::D4 | Class::Poison => {
                CLICKSTREAM.replace("type = \"file\"\npath = \"data/events\"\n", &kafka).replace(
                    "discard = [\"duplicates\"] # counted; take them with a sink to see them",
                    "discard = [\"duplicates\"]",
                )
            }
        };
        let text = if self == Class::D2 { text.replace("workers = 2", "workers = 1") } else { text };
        let folder = folder.display().to_string();
        let data = match self {
            Class::Roster => "data/roster",
            Class::Orders => "data/orders",
            Class::D1 | Class::D2 | Class::D3 | Class::D4 | Class::Poison => "data",
        };
        text.replace(&format!("sqlite:{data}/catalog.db"), catalog)
            .replace(&format!("file:{data}/"), &format!("file:{folder}/floodmark/"))
            .replacen("[pipeline]\n", &format!("[pipeline]\nlisten = \"{listen}\"\n"), 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use crate::config::model::{End, SourceConfig};
    use crate::workload::ledger::Ledger;

    const ALL: [Class; 7] = [Class::D1, Class::D2, Class::D3, Class::D4, Class::Poison, Class::Roster, Class::Orders];

    fn settings() -> Settings {
        Settings { events: 2_000, partitions: 3, ..Settings::default() }
    }

    #[test]
    fn the_file_of_every_class_is_accepted_and_names_all_its_places() {
        let folder = tempfile::tempdir().unwrap();
        for class in ALL {
            let places = Places {
                folder: folder.path(),
                brokers: "127.0.0.1:1,127.0.0.1:2",
                catalog: "postgres://nobody@127.0.0.1:3/ours",
                listen: "127.0.0.1:4",
                ends: &[7, 8, 9],
            };
            let text = class.pipeline(&places);
            let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
            for of_the_example in ["localhost", "sqlite", "data/"] {
                let left: Vec<_> = lines.iter().filter(|line| line.contains(of_the_example)).collect();
                assert!(left.is_empty(), "{class:?}: {left:?}");
            }
            let file = folder.path().join("pipeline.toml");
            std::fs::write(&file, text).unwrap();
            let pipeline = config::load(&file).unwrap();
            let ends: Vec<&End> = pipeline.sources.values().map(|source: &SourceConfig| &source.end).collect();
            assert!(matches!(ends[..], [End::Offsets(offsets)] if offsets.values().sum::<i64>() == 24), "{class:?}");
        }
    }

    #[test]
    fn only_where_late_records_are_wanted_are_there_any() {
        let late = |class: Class| Ledger::derive(class.workload(), &class.dials(&settings())).unwrap().total.late > 0;
        assert_eq!(ALL.map(late), [false, true, true, false, false, false, false]);
    }
}
