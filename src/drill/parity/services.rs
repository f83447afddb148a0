//! What both paths stand on: Kafka and Postgres, each path with a database of its own for its catalog.
//!
//! Doesn't know: the paths. Keeps: they are gone with the value. Tested: tests/flink/main.rs.
use std::path::Path;

use floodmark_stack::Port;
use floodmark_stack::broker::Broker;
use floodmark_stack::postgres::Postgres;

use super::ParityError;
use super::fault::Fault;

pub const FLINK: &str = "flink";
pub const OURS: &str = "floodmark";

pub struct Services {
    pub brokers: Vec<Broker>,
    postgres: Postgres,
}

impl Services {
    /// One of several brokers can be missed, a single one can't.
    pub fn start(fault: Fault) -> Result<Self, ParityError> {
        let nodes = if fault == Fault::Broker { 3 } else { 1 };
        let ports = (0..nodes).map(|_| Port::reserve()).collect::<Result<_, _>>()?;
        let services = Self { brokers: Broker::start_nodes(ports)?, postgres: Postgres::start()? };
        for database in [FLINK, OURS] {
            services.postgres.create_database(database)?;
        }
        Ok(services)
    }

    /// For `bootstrap.servers`.
    pub fn addresses(&self) -> String {
        self.brokers.iter().map(Broker::address).collect::<Vec<_>>().join(",")
    }

    pub fn catalog(&self, path: &str) -> String {
        self.postgres.url(path)
    }

    pub fn create_topic(&self, topic: &str, partitions: u32) -> Result<(), ParityError> {
        self.brokers.iter().take(1).try_for_each(|broker| Ok(broker.create_topic(topic, partitions as i32)?))
    }

    /// Copies what they have printed.
    pub fn keep_logs(&self, folder: &Path) -> Result<(), ParityError> {
        for (node, broker) in (1..).zip(&self.brokers) {
            keep(broker.folder(), &folder.join(format!("kafka-{node}.log")))?;
        }
        keep(self.postgres.folder(), &folder.join("postgres.log"))
    }
}

/// A service's log lies in its folder.
pub fn keep(folder: &Path, as_file: &Path) -> Result<(), ParityError> {
    std::fs::copy(folder.join("log"), as_file).map(drop).map_err(ParityError::at(as_file))
}
