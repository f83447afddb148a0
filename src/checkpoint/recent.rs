//! Segments that were just written, still in memory: who commits them soon needn't read them back.
//!
//! Only a shortcut: what isn't here is in the checkpoint directory. Doesn't know: sinks, epochs, Arrow.
//! Keeps: at most [`LIMIT_BYTES`], the newest; what has been handed out whole is let go of. Tested: here.
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

const LIMIT_BYTES: u64 = 64 << 20;

/// Shared by all; a clone is the same memory.
#[derive(Clone, Default)]
pub struct Recent(Arc<Mutex<VecDeque<Object>>>);

struct Object {
    path: String,
    chunks: Vec<Bytes>,
    length: u64,
    handed_out: u64,
}

impl Recent {
    pub fn keep(&self, path: &str, chunks: impl Iterator<Item = Bytes>) {
        let chunks: Vec<_> = chunks.collect();
        let length = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        let mut objects = self.lock();
        objects.push_back(Object { path: path.to_owned(), chunks, length, handed_out: 0 });
        while objects.iter().map(|object| object.length).sum::<u64>() > LIMIT_BYTES {
            objects.pop_front();
        }
    }

    /// Part of an object, in the pieces that it was written in.
    pub fn take(&self, path: &str, offset: u64, length: u64) -> Option<Vec<Bytes>> {
        let mut objects = self.lock();
        let at = objects.iter().position(|object| object.path == path)?;
        let object = &mut objects[at];
        let part = part(&object.chunks, offset, length);
        object.handed_out += length;
        if object.handed_out >= object.length {
            objects.remove(at);
        }
        Some(part)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Object>> {
        // Every step under the lock leaves the list whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn part(chunks: &[Bytes], offset: u64, length: u64) -> Vec<Bytes> {
    let mut begin = 0;
    let mut found = vec![];
    for chunk in chunks {
        let end = begin + chunk.len() as u64;
        let (from, to) = (offset.max(begin), (offset + length).min(end));
        if from < to {
            found.push(chunk.slice((from - begin) as usize..(to - begin) as usize));
        }
        begin = end;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(recent: &Recent, path: &str, chunks: &[&'static str]) {
        recent.keep(path, chunks.iter().map(|chunk| Bytes::from_static(chunk.as_bytes())));
    }

    fn taken(recent: &Recent, path: &str, offset: u64, length: u64) -> Option<String> {
        let chunks = recent.take(path, offset, length)?;
        Some(String::from_utf8(chunks.concat()).unwrap())
    }

    #[test]
    fn each_part_is_handed_out_and_then_the_object_is_let_go_of() {
        let recent = Recent::default();
        keep(&recent, "a", &["one", "two", "three"]);
        assert_eq!(taken(&recent, "a", 6, 5).as_deref(), Some("three"));
        assert_eq!(taken(&recent, "b", 0, 1), None);
        assert_eq!(taken(&recent, "a", 0, 6).as_deref(), Some("onetwo"));
        assert_eq!(taken(&recent, "a", 0, 6), None);
    }

    #[test]
    fn the_oldest_makes_room_for_the_newest() {
        let recent = Recent::default();
        let large = Bytes::from(vec![0; LIMIT_BYTES as usize / 2]);
        for path in ["a", "b", "c"] {
            recent.keep(path, [large.clone()].into_iter());
        }
        assert!(recent.take("a", 0, 1).is_none());
        assert!(recent.take("b", 0, 1).is_some() && recent.take("c", 0, 1).is_some());
    }
}
