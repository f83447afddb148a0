//! Checkpoints: what they record, where they lie, who may write them, and how a start goes on from one.
//!
//! ```text
//!   DIR/incarnations/<number>                       claimed create-if-absent, holds the token
//!   DIR/manifests/<number>-<token>-<id>             one complete checkpoint each, create-if-absent
//!   DIR/segments/<number>-<token>/<id>-<worker>     rows for the sinks
//!   DIR/state/<number>-<token>/<id>-<worker>-<name> state files, shared between manifests
//!   DIR/savepoints/<name>/...                       self-contained, never collected
//! ```
pub mod adopt;
pub mod book;
pub mod collect;
pub mod coordinator;
pub mod cut;
pub mod dir;
pub mod manifest;
pub mod partitions;
pub mod proto;
pub mod publish;
pub mod recent;
pub mod savepoint;
