//! Runs the whole engine in a world of its own, on one thread, from one seed: everything that can go wrong outside goes wrong, and the tables must be right.
//!
//! ```text
//!  scenario (from the seed) --> simulation --> processes: the real job (start, coordinator, workers, publisher, committers)
//!                                   |              | requests
//!                                   |            gate: time, faults, trace
//!                                   |              |
//!                                   +--------- log, store, tables ------> judge (invariants), oracle at the end
//! ```
//! Not in here: threads, real disks, brokers, catalogs and encoders. Keeps: same seed, same trace, byte for byte.
//! Tested: tests.rs beside it; `floodmark simulate`.
mod end;
mod executor;
mod files;
mod gate;
mod host;
mod judge;
mod lake;
pub mod log;
mod minimise;
mod scenario;
mod simulation;
mod sink;
mod store;
mod table;
mod world;

pub use end::{Differences, floor};
pub use gate::{Class, Fault, Trouble};
pub use minimise::minimise;
pub use scenario::{Event, Harm, Least, Scenario};
pub use simulation::{Report, play};

/// Plays the scenario of this seed.
pub fn run(seed: u64) -> Report {
    play(&Scenario::of(seed))
}

#[cfg(test)]
mod tests;
