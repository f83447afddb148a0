//! Files as a log: NDJSON, plain or compressed, one partition a file, one record a line.
//!
//! Doesn't know: what is in a line. Keeps: what was read of a file before is still what it begins with, or it is refused.
pub mod content;
pub mod lines;
pub mod listing;
pub mod log;
pub mod prefix;
pub mod reader;

pub use log::FileLog;

#[cfg(test)]
mod tests;
