//! Identities: checkpoints, incarnations, epochs, partitions, nodes.
//!
//! Newtypes, so that one number can't stand for another.
//! Keeps: two incarnations are the same only if number *and* token are equal; an equal number alone is never recognition.
use std::fmt;
use std::sync::Arc;

/// Id of a checkpoint. Rises over the whole life of a pipeline, also across restarts; never used twice for a complete checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckpointId(pub u64);

impl CheckpointId {
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for CheckpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One start of a pipeline. The number orders starts, the token tells two apart that claimed the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Incarnation {
    pub number: u64,
    pub token: u128,
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:032x}", self.number, self.token)
    }
}

/// What a sink commits: the rows between two checkpoints, named by the checkpoint that closed it and the incarnation that wrote its manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Epoch {
    pub incarnation: Incarnation,
    pub checkpoint: CheckpointId,
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of incarnation {}", self.checkpoint, self.incarnation.number)
    }
}

/// A source partition by its name in the outside world: stable over restarts. Every mark and epoch names all of them, so the texts are shared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionName {
    /// Name of the source node.
    pub source: Arc<str>,
    /// Kafka topic, or path of a file below its source's directory.
    pub topic: Arc<str>,
    pub partition: i32,
}

impl fmt::Display for PartitionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}-{}", self.source, self.topic, self.partition)
    }
}

/// A source partition by its place in the pipeline's table of partitions: what rows and state carry.
/// The table only grows and stands in every manifest, so an index means the same partition for the pipeline's whole life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionIndex(pub u32);

/// A node by its place in the plan, which is in topological order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u16);

/// A worker thread, 0-based.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoint_ids_rise_by_one() {
        assert_eq!(CheckpointId::default().next(), CheckpointId(1));
        assert_eq!(CheckpointId(18).next(), CheckpointId(19));
    }

    #[test]
    fn identities_are_told_apart_where_they_are_shown() {
        let incarnation = Incarnation { number: 3, token: 0xc4 };
        assert_eq!(incarnation.to_string(), "3-000000000000000000000000000000c4", "number and token");
        let epoch = Epoch { incarnation, checkpoint: CheckpointId(19) };
        assert_eq!(epoch.to_string(), "19 of incarnation 3");
        let partition = PartitionName { source: "events".into(), topic: "clicks".into(), partition: 7 };
        assert_eq!(partition.to_string(), "events:clicks-7");
    }
}
