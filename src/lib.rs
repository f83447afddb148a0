//! floodmark: a stream processor for Kafka → check → dedup → windows → Iceberg on one machine, exactly once, counted.
//!
//! This crate is everything that touches the world; the rules are in `floodmark-pipeline`, keyed state in `floodmark-state`.
// They panic where nobody reads: see cli::say and cli::print.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

pub mod checkpoint;
pub mod cli;
pub mod commit;
pub mod config;
pub mod decode;
pub mod demo;
pub mod digest;
pub mod drill;
pub mod file;
pub mod flink_sql;
pub mod generator;
pub mod host;
pub mod iceberg;
pub mod job;
pub mod kafka;
pub mod runtime;
pub mod simulate;
pub mod sink;
pub mod source;
pub mod status;
pub mod steps;
pub mod store;
pub mod table;
pub mod workload;
