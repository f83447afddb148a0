//! Kafka as a source: topics read by position, on the terms of [`source`](crate::source).
//!
//! `log` asks the brokers (control side), `reader` takes records (one a worker), `client` says how librdkafka is set up, `watch` hears its events,
//! `native` is the only file that calls it directly.
//! Keeps: an offset is never jumped. There is no offset reset and no rebalance; what can't be read on from where it was is an error with a name.
// librdkafka has threads and clocks of its own.
#![allow(clippy::disallowed_methods)]
mod client;
mod log;
mod native;
mod reader;
#[cfg(test)]
mod tests;
mod watch;

pub use log::KafkaLog;
pub use reader::KafkaReader;
