//! The pure machine of floodmark: rows, event time, dedup, windows, the plan, marks, recovery decisions, the digest.
//!
//! Doesn't know: threads, clocks, files, networks, tokio, randomness. The same calls in the same order give the same rows, always.
//! Everything that touches the world is in the root package; keyed state is in `floodmark-state`.
//!
//! ```text
//! record bytes -> (decode) -> Rows -> dedup -> window -> rows of a sink
//!                               |        |        |
//!                             errors  duplicates late
//! ```
pub mod aggregate;
pub mod align;
pub mod bytes;
pub mod dedup;
pub mod digest;
pub mod guard;
pub mod hash;
pub mod ids;
pub mod invariants;
pub mod late;
pub mod mark;
pub mod plan;
pub mod recovery;
pub mod rows;
pub mod schema;
pub mod stamp;
pub mod state;
pub mod time;
pub mod watermark;
pub mod window;
