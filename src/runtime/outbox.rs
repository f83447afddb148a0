//! A worker's side of the outbox: rows for each sink, written as Arrow IPC as they are emitted, sealed at the barrier.
//!
//! Rows are tagged with the generation of the node that emitted them (how many barriers it has passed), since a source may be past a barrier that
//! a window behind it still waits for. Doesn't know: files, manifests, commits.
//! Keeps: a generation is sealed once, when every node of the worker has passed its barrier; rows emitted equal rows sealed.
use std::collections::BTreeMap;

use arrow::ipc::writer::StreamWriter;
use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use floodmark_pipeline::ids::NodeId;

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
    pub bytes: Vec<u8>,
}

#[derive(Default)]
pub struct Outbox {
    open: BTreeMap<(Generation, NodeId), Segment>,
}

struct Segment {
    writer: StreamWriter<Vec<u8>>,
    rows: u64,
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
        segment.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// Takes what belongs to `generation`. No node of this worker may emit into it any more.
    pub fn seal(&mut self, generation: Generation) -> Result<Vec<Sealed>, ArrowError> {
        let later = self.open.split_off(&(generation.next(), NodeId(0)));
        let sealed = std::mem::replace(&mut self.open, later);
        sealed
            .into_iter()
            .map(|((_, sink), segment)| Ok(Sealed { sink, rows: segment.rows, bytes: segment.writer.into_inner()? }))
            .collect()
    }

    /// Bytes that wait for a barrier.
    pub fn unsealed_bytes(&self) -> u64 {
        self.open.values().map(|s| s.writer.get_ref().len() as u64).sum()
    }
}

impl Segment {
    fn new(schema: &SchemaRef) -> Result<Self, ArrowError> {
        Ok(Self { writer: StreamWriter::try_new(Vec::with_capacity(64 * 1024), schema)?, rows: 0 })
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
}
