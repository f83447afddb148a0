//! Event ids that hash to the partition they are for.
//!
//! An id has the shape of a UUID (version 8). Its first 64 free bits are the record's draw; the last four hex digits are tried until
//! Kafka's partitioner sends the id to the wanted partition, which costs one murmur2 block a try.
//! Doesn't know: what an event is.
//! Keeps: two ids of a partition differ, since their draws do; two ids of different partitions differ, since their hashes do.
//! Tested: clickstream/tests.rs.
//!
//!   dddddddd-dddd-8ddd-adtt-ttttttttffff      d draw, t tail, f fitted
use std::fmt;

use super::fates::{Purpose, redraw};
use crate::workload::partitioner;

const LENGTH: usize = 36;
/// Where the fitted digits begin; also a border of murmur2's blocks.
const FITTED: usize = 32;
const FITTED_VALUES: u32 = 1 << 16;

/// An event id: the text of a UUID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId([u8; LENGTH]);

impl EventId {
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

pub struct Identities {
    partitions: u32,
}

impl Identities {
    pub fn new(partitions: u32) -> Self {
        Identities { partitions }
    }

    pub fn event_id(&self, partition: u32, draw: u64) -> EventId {
        let mut tail = redraw(draw, Purpose::IdTail);
        loop {
            let mut id = unfitted(draw, tail);
            if let Some(fitted) = self.fit(&id, partition, tail as u32) {
                id[FITTED..].copy_from_slice(&fitted);
                return EventId(id);
            }
            tail = tail.wrapping_add(1 << 32);
        }
    }

    /// Four hex digits that bring the id to the partition, tried from `first` on.
    fn fit(&self, id: &[u8; LENGTH], partition: u32, first: u32) -> Option<[u8; 4]> {
        let (blocks, _) = id[..FITTED].as_chunks::<4>();
        let start = partitioner::start(LENGTH);
        let before = blocks.iter().fold(start, |h, block| partitioner::absorb(h, *block));
        (0..FITTED_VALUES).map(|tried| hex4(first.wrapping_add(tried) as u16)).find(|digits| {
            let hash = partitioner::finish(partitioner::absorb(before, *digits));
            partitioner::to_partition(hash, self.partitions) == partition
        })
    }
}

fn unfitted(draw: u64, tail: u64) -> [u8; LENGTH] {
    let quarter = |word: u64, shift: u32| hex4((word >> shift) as u16);
    let mut id = [b'-'; LENGTH];
    id[0..4].copy_from_slice(&quarter(draw, 48));
    id[4..8].copy_from_slice(&quarter(draw, 32));
    id[9..13].copy_from_slice(&quarter(draw, 16));
    id[14..18].copy_from_slice(&quarter(draw, 4));
    id[14] = b'8';
    id[19..23].copy_from_slice(&hex4(((draw << 8) as u16 & 0x0f00) | (tail >> 56) as u16));
    id[19] = b'a';
    id[24..28].copy_from_slice(&quarter(tail, 40));
    id[28..32].copy_from_slice(&quarter(tail, 24));
    id
}

fn hex4(value: u16) -> [u8; 4] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [12, 8, 4, 0].map(|shift| DIGITS[usize::from(value >> shift & 0xf)])
}
