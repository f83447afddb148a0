//! The two ways through which the same log goes.
//!
//! Doesn't know: the feed, comparisons.
pub mod flink;
pub mod ours;

/// What a path says of a fault that it has been through.
pub struct Hit {
    /// Rows of the watched table at the hit.
    pub rows: u64,
    /// That it happened.
    pub seen: String,
}
