//! floodmark: a stream processor for Kafka → check → dedup → windows → Iceberg on one machine, exactly once, counted.
//!
//! This crate is everything that touches the world; the rules are in `floodmark-pipeline`, keyed state in `floodmark-state`.
pub mod config;
pub mod decode;
pub mod iceberg;
pub mod sink;
pub mod source;
pub mod store;
