//! A workload as a log that is never written: records are made when they are read.
//!
//! Doesn't know: how a workload makes them. Keeps: an offset of a partition is the same record at any time, in any process.
//! Tested: generator/tests.rs.
pub mod log;
pub mod options;
pub mod reader;

pub use log::GeneratorLog;

#[cfg(test)]
mod tests;
