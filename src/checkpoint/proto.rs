//! The manifest as protobuf: field numbers are for ever.
//!
//! Doesn't know what the fields mean; [`manifest`](super::manifest) turns them into types. Unknown fields of a later version are skipped.
use std::collections::BTreeMap;

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub struct Manifest {
    #[prost(uint32, tag = "1")]
    pub format: u32,
    #[prost(string, tag = "2")]
    pub pipeline: String,
    #[prost(message, required, tag = "3")]
    pub incarnation: Incarnation,
    #[prost(uint64, tag = "4")]
    pub checkpoint: u64,
    #[prost(int64, tag = "5")]
    pub created_ms: i64,
    #[prost(uint32, tag = "6")]
    pub max_parallelism: u32,
    #[prost(message, repeated, tag = "7")]
    pub partitions: Vec<Partition>,
    #[prost(message, repeated, tag = "8")]
    pub nodes: Vec<Node>,
    #[prost(message, repeated, tag = "9")]
    pub state: Vec<WorkerState>,
    #[prost(bytes = "vec", tag = "10")]
    pub state_digest: Vec<u8>,
    #[prost(message, repeated, tag = "11")]
    pub sinks: Vec<Sink>,
    #[prost(message, repeated, tag = "12")]
    pub decisions: Vec<Decision>,
    #[prost(btree_map = "string, string", tag = "13")]
    pub settings: BTreeMap<String, String>,
    /// Name of the manifest this incarnation went on from; empty for a fresh start.
    #[prost(string, tag = "14")]
    pub restored_from: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Incarnation {
    #[prost(uint64, tag = "1")]
    pub number: u64,
    #[prost(bytes = "vec", tag = "2")]
    pub token: Vec<u8>,
}

/// One line of the table of partitions. Its place in the list is its index in rows and state.
#[derive(Clone, PartialEq, Message)]
pub struct Partition {
    #[prost(string, tag = "1")]
    pub source: String,
    #[prost(string, tag = "2")]
    pub topic: String,
    #[prost(int32, tag = "3")]
    pub partition: i32,
    #[prost(string, tag = "4")]
    pub identity: String,
    #[prost(int64, tag = "5")]
    pub offset: i64,
    #[prost(bytes = "vec", tag = "6")]
    pub resume: Vec<u8>,
    #[prost(int64, optional, tag = "7")]
    pub max_seen_ms: Option<i64>,
    #[prost(int64, optional, tag = "8")]
    pub floor_ms: Option<i64>,
    /// 1 joined, 2 returned.
    #[prost(uint32, tag = "9")]
    pub floor_cause: u32,
    /// 0 live, 1 idle, 2 ended.
    #[prost(uint32, tag = "10")]
    pub status: u32,
    #[prost(int64, optional, tag = "11")]
    pub end: Option<i64>,
    #[prost(message, repeated, tag = "12")]
    pub slices: Vec<Slice>,
    #[prost(int64, tag = "13")]
    pub begin: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct Slice {
    #[prost(sint64, tag = "1")]
    pub slice: i64,
    #[prost(int64, tag = "2")]
    pub offset: i64,
    #[prost(int64, optional, tag = "3")]
    pub watermark_ms: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Node {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(btree_map = "string, string", tag = "2")]
    pub fingerprint: BTreeMap<String, String>,
    #[prost(uint32, tag = "3")]
    pub line: u32,
    #[prost(int64, optional, tag = "4")]
    pub watermark_ms: Option<i64>,
    #[prost(int64, optional, tag = "5")]
    pub fired_floor_ms: Option<i64>,
    #[prost(uint64, repeated, tag = "6")]
    pub counters: Vec<u64>,
    #[prost(uint64, tag = "7")]
    pub state_entries: u64,
    /// Empty in manifests of builds that didn't keep it.
    #[prost(bytes = "vec", tag = "8")]
    pub state_digest: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct WorkerState {
    #[prost(message, repeated, tag = "1")]
    pub files: Vec<StateFile>,
}

#[derive(Clone, PartialEq, Message)]
pub struct StateFile {
    /// Name the store gave it.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Object in the checkpoint directory.
    #[prost(string, tag = "2")]
    pub path: String,
    #[prost(uint64, tag = "3")]
    pub length: u64,
    #[prost(bytes = "vec", tag = "4")]
    pub digest: Vec<u8>,
    #[prost(bool, tag = "5")]
    pub immutable: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct Sink {
    #[prost(string, tag = "1")]
    pub name: String,
    /// The epoch that the first of `epochs` follows: the last one known committed. Absent: none yet.
    #[prost(message, optional, tag = "2")]
    pub base: Option<Epoch>,
    #[prost(message, repeated, tag = "3")]
    pub epochs: Vec<PendingEpoch>,
    /// What the sink is, in a form that can be opened again after it left the pipeline file.
    #[prost(string, tag = "4")]
    pub definition: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Epoch {
    #[prost(message, required, tag = "1")]
    pub incarnation: Incarnation,
    #[prost(uint64, tag = "2")]
    pub checkpoint: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct PendingEpoch {
    #[prost(message, required, tag = "1")]
    pub epoch: Epoch,
    #[prost(int64, tag = "2")]
    pub commit_id: i64,
    #[prost(message, repeated, tag = "3")]
    pub segments: Vec<Segment>,
    /// In the order of the table of partitions as of that epoch.
    #[prost(int64, repeated, tag = "4")]
    pub offsets: Vec<i64>,
    #[prost(int64, optional, tag = "5")]
    pub watermark_ms: Option<i64>,
    #[prost(message, repeated, tag = "6")]
    pub replay_from: Vec<Replay>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Segment {
    #[prost(string, tag = "1")]
    pub path: String,
    #[prost(uint64, tag = "2")]
    pub offset: u64,
    #[prost(uint64, tag = "3")]
    pub length: u64,
    #[prost(uint64, tag = "4")]
    pub rows: u64,
    /// 16 bytes, little-endian; empty where it wasn't taken.
    #[prost(bytes = "vec", tag = "5")]
    pub digest: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct Replay {
    #[prost(uint32, tag = "1")]
    pub partition: u32,
    #[prost(int64, tag = "2")]
    pub offset: i64,
    #[prost(int64, optional, tag = "3")]
    pub watermark_ms: Option<i64>,
}

/// What the coordinator decided at a barrier: with it the result is a function of the log.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Decision {
    #[prost(uint64, tag = "1")]
    pub checkpoint: u64,
    #[prost(uint32, tag = "2")]
    pub partition: u32,
    /// 1 idle, 2 returned, 3 joined, 4 ended.
    #[prost(uint32, tag = "3")]
    pub kind: u32,
    #[prost(int64, tag = "4")]
    pub offset: i64,
    #[prost(int64, optional, tag = "5")]
    pub watermark_ms: Option<i64>,
}
