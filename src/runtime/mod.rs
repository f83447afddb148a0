//! The data side: worker threads that read, route, deduplicate, window, and fill the outbox.
//!
//! ```text
//!  reader -> decode -> stamp -> route ==queues==> dedup -> route ==queues==> window -> outbox
//!                        barrier N goes the same way, behind the rows it follows
//! ```
//! A worker is a state machine that is stepped; [`crank`] turns its crank. Doesn't know: catalogs, manifests, the network.
pub mod alignment;
pub mod counters;
pub mod crank;
pub mod element;
pub mod exchange;
pub mod operator;
pub mod outbox;
pub mod part;
pub mod source_task;
pub mod topology;
pub mod worker;
