//! The tests of the whole: real processes, real services, real files. One program, since linking the engine once a file takes minutes.
//!
//! Each module is about one promise; what they share is in `harness`.
// Real processes, real time.
#![allow(clippy::disallowed_methods)]
mod harness;

mod audit;
mod bad_places;
mod catalogs;
mod check_and_explain;
mod claims;
mod damage;
mod day_two;
mod demo;
mod drill;
mod edited_file;
mod examples;
mod flink_sql;
mod growth;
mod kafka_exactly_once;
mod kafka_source;
mod keyed_state;
mod keys;
mod kills;
mod lagging;
mod lost_output;
mod modes;
mod oracle;
mod power_cut;
mod readers;
mod retired_sinks;
mod run_and_stop;
mod same_result;
mod shapes;
mod stack;
mod steps;
mod tidy;
mod wrong_start;
mod zombie;
