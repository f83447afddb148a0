//! A worker's side of the outbox: rows for each sink, written as Arrow IPC as they are emitted, sealed at the barrier.
//!
//! Rows are tagged with the generation of the node that emitted them (how many barriers it has passed), since a source may be past a barrier that
//! a window behind it still waits for. Doesn't know: files, manifests, commits.
//! Keeps: a generation is sealed once, when every node of the worker has passed its barrier; rows emitted equal rows sealed.
use std::collections::BTreeMap;
use std::io;

use arrow::ipc::writer::StreamWriter;
use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use bytes::Bytes;
use floodmark_pipeline::ids::NodeId;

/// Large enough for few writes, small enough that the allocator hands the same memory out again.
const CHUNK_BYTES: usize = 256 * 1024;
/// Room for what comes last into a chunk.
const CHUNK_CAPACITY: usize = 2 * CHUNK_BYTES;

/// Number of barriers a node has passed in this run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

impl Generation {
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// The rows of one sink between two barriers.
#[derive(Clone, Debug)]
pub struct Sealed {
    pub sink: NodeId,
    pub rows: u64,
    /// An Arrow IPC stream.
    pub chunks: Vec<Bytes>,
}

impl Sealed {
    pub fn length(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.len() as u64).sum()
    }
}

#[derive(Default)]
pub struct Outbox {
    open: BTreeMap<(Generation, NodeId), Segment>,
}

struct Segment {
    writer: StreamWriter<Chunks>,
    rows: u64,
}

/// Bytes one behind the other, in chunks of whole batches: who reads them back can use them where they are.
#[derive(Default)]
struct Chunks {
    full: Vec<Bytes>,
    full_bytes: u64,
    open: Vec<u8>,
}

impl Outbox {
    pub fn append(&mut self, generation: Generation, sink: NodeId, batch: &RecordBatch) -> Result<(), ArrowError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let segment = match self.open.entry((generation, sink)) {
            std::collections::btree_map::Entry::Occupied(found) => found.into_mut(),
            std::collections::btree_map::Entry::Vacant(free) => free.insert(Segment::new(&batch.schema())?),
        };
        segment.writer.write(batch)?;
        segment.writer.get_mut().close_if_full();
        segment.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// Takes what belongs to `generation`. No node of this worker may emit into it any more.
    pub fn seal(&mut self, generation: Generation) -> Result<Vec<Sealed>, ArrowError> {
        let later = self.open.split_off(&(generation.next(), NodeId(0)));
        let sealed = std::mem::replace(&mut self.open, later);
        sealed
            .into_iter()
            .map(|((_, sink), segment)| {
                let chunks = segment.writer.into_inner()?.into_chunks();
                Ok(Sealed { sink, rows: segment.rows, chunks })
            })
            .collect()
    }

    /// Bytes that wait for a barrier.
    pub fn unsealed_bytes(&self) -> u64 {
        self.open.values().map(|s| s.writer.get_ref().len()).sum()
    }
}

impl Segment {
    fn new(schema: &SchemaRef) -> Result<Self, ArrowError> {
        Ok(Self { writer: StreamWriter::try_new(Chunks::default(), schema)?, rows: 0 })
    }
}

impl Chunks {
    fn len(&self) -> u64 {
        self.full_bytes + self.open.len() as u64
    }

    fn close_if_full(&mut self) {
        if self.open.len() >= CHUNK_BYTES {
            self.full_bytes += self.open.len() as u64;
            self.full.push(std::mem::take(&mut self.open).into());
        }
    }

    fn into_chunks(mut self) -> Vec<Bytes> {
        if !self.open.is_empty() {
            self.full.push(self.open.into());
        }
        self.full
    }
}

impl io::Write for Chunks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The first one may stay small: a sink that gets little needs no more than that.
        if self.open.capacity() == 0 && !self.full.is_empty() {
            self.open.reserve_exact(CHUNK_CAPACITY);
        }
        self.open.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array};

    use super::*;

    fn batch(values: &[i64]) -> RecordBatch {
        let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
        RecordBatch::try_from_iter([("n", column)]).unwrap()
    }

    #[test]
    fn rows_of_a_node_that_is_past_the_barrier_wait_for_the_next_one() {
        let mut outbox = Outbox::default();
        let (now, next) = (Generation(0), Generation(1));
        outbox.append(now, NodeId(3), &batch(&[1])).unwrap();
        outbox.append(next, NodeId(3), &batch(&[2, 3])).unwrap();
        outbox.append(now, NodeId(4), &batch(&[4])).unwrap();
        let rows = |sealed: Vec<Sealed>| sealed.iter().map(|s| (s.sink.0, s.rows)).collect::<Vec<_>>();
        assert_eq!(rows(outbox.seal(now).unwrap()), [(3, 1), (4, 1)]);
        assert_eq!(rows(outbox.seal(next).unwrap()), [(3, 2)]);
        assert_eq!(outbox.unsealed_bytes(), 0);
    }

    #[test]
    fn what_is_larger_than_a_chunk_comes_back_whole() {
        let mut outbox = Outbox::default();
        let values: Vec<i64> = (0..40_000).collect();
        for _ in 0..3 {
            outbox.append(Generation(0), NodeId(3), &batch(&values)).unwrap();
        }
        let unsealed = outbox.unsealed_bytes();
        let sealed = outbox.seal(Generation(0)).unwrap().remove(0);
        assert!(sealed.chunks.len() > 2 && sealed.length() > unsealed, "the end of the stream comes with the seal");
        let stream = std::io::Cursor::new(sealed.chunks.concat());
        let read = arrow::ipc::reader::StreamReader::try_new(stream, None).unwrap();
        assert!(read.map(|read| read.unwrap()).eq([batch(&values), batch(&values), batch(&values)]));
    }
}
