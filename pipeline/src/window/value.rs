//! How open windows are stored: bytes behind a version, the same for every back end.
//!
//! Doesn't know: which table they belong to. Keeps: equal windows have equal bytes, so the state digest is over content.
use arrow_buffer::i256;

use crate::aggregate::Accumulator;
use crate::bytes::{Cursor, Damaged};

const VERSION: u8 = 1;

pub(super) fn start(key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    out.push(VERSION);
    out.extend((key.len() as u32).to_le_bytes());
    out.extend(key);
    out
}

pub(super) fn push_accs(out: &mut Vec<u8>, accs: &[Accumulator]) {
    for acc in accs {
        out.extend(acc.n.to_le_bytes());
        out.extend(acc.value.to_le_bytes());
    }
}

/// The key, and a cursor behind it.
pub(super) fn open(value: &[u8]) -> Result<(Box<[u8]>, Cursor<'_>), Damaged> {
    let mut cursor = Cursor(value);
    if cursor.u8()? != VERSION {
        return Err(Damaged("a window of another format version"));
    }
    let key = cursor.bytes()?.into();
    Ok((key, cursor))
}

pub(super) fn accs(cursor: &mut Cursor<'_>, n: usize) -> Result<Box<[Accumulator]>, Damaged> {
    (0..n).map(|_| Ok(Accumulator { n: cursor.u64()?, value: i256::from_le_bytes(cursor.array()?) })).collect()
}
