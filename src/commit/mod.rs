//! The commit side: one committer a sink moves epochs from the outbox into the outside world, in order.
pub mod committer;
pub mod task;
