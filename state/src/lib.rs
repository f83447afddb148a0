//! Keyed state: in memory and over RocksDB, behind one trait with one conformance suite.
//!
//! [`KeyedState`] is what a worker has: ids seen by dedup nodes, values of window nodes, snapshots of both.
//! `backend::Backend` is where it lies. Doesn't know: event time, threads, checkpoint stores.
mod backend;
mod digest;
mod error;
mod files;
mod key_groups;
mod memory;
mod record;
mod restore;
mod rocks;
mod seen;
mod snapshot;
mod store;
mod values;

#[cfg(test)]
mod conformance;

pub use backend::BackendKind;
pub use digest::StateDigest;
pub use error::StateError;
pub use files::{Files, LocalDisk};
pub use seen::Ids;
pub use snapshot::{OldFile, OldStore, Snapshot, StateFile};
pub use store::{KeyedState, StateSettings};
