//! The plan as the workers see it: which output feeds which operator through an exchange, and which sink without one.
//!
//! Keeps: edges are numbered in the order of their receiving nodes, so a larger number is nearer the sinks.
use std::sync::Arc;

use floodmark_pipeline::ids::NodeId;
use floodmark_pipeline::plan::{NodeKind, OutputRef, Plan};

/// An exchange: one output into one input of an operator, spread by the hash of its key.
#[derive(Clone, Debug)]
pub struct Edge {
    pub from: OutputRef,
    pub to: NodeId,
    /// Key columns in the rows of `from`.
    pub key: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EdgeId(pub usize);

#[derive(Debug)]
pub struct Topology {
    pub plan: Arc<Plan>,
    pub edges: Vec<Edge>,
    /// (output, sink) pairs.
    pub into_sinks: Vec<(OutputRef, NodeId)>,
}

impl Topology {
    pub fn of(plan: Arc<Plan>) -> Self {
        let (mut edges, mut into_sinks) = (vec![], vec![]);
        for to in plan.ids() {
            let node = plan.node(to);
            let key = match &node.kind {
                NodeKind::Dedup(dedup) => &dedup.key,
                NodeKind::Window(window) => &window.key,
                NodeKind::Sink => {
                    into_sinks.extend(node.inputs.iter().map(|from| (*from, to)));
                    continue;
                }
                NodeKind::Source(_) => continue,
            };
            edges.extend(node.inputs.iter().map(|from| Edge { from: *from, to, key: key.clone() }));
        }
        Self { plan, edges, into_sinks }
    }

    pub fn edge(&self, id: EdgeId) -> &Edge {
        &self.edges[id.0]
    }

    /// Edges that carry the rows of an output.
    pub fn edges_from(&self, output: OutputRef) -> impl Iterator<Item = EdgeId> + '_ {
        (0..self.edges.len()).map(EdgeId).filter(move |e| self.edge(*e).from == output)
    }

    /// Edges that leave any output of a node.
    pub fn edges_out_of(&self, node: NodeId) -> impl Iterator<Item = EdgeId> + '_ {
        (0..self.edges.len()).map(EdgeId).filter(move |e| self.edge(*e).from.node == node)
    }

    pub fn edges_into(&self, node: NodeId) -> impl Iterator<Item = EdgeId> + '_ {
        (0..self.edges.len()).map(EdgeId).filter(move |e| self.edge(*e).to == node)
    }

    pub fn sinks_of(&self, output: OutputRef) -> impl Iterator<Item = NodeId> + '_ {
        self.into_sinks.iter().filter(move |(from, _)| *from == output).map(|(_, sink)| *sink)
    }

    pub fn sinks(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.plan.ids().filter(|id| matches!(self.plan.node(*id).kind, NodeKind::Sink))
    }

    pub fn sources(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.plan.ids().filter(|id| matches!(self.plan.node(*id).kind, NodeKind::Source(_)))
    }

    /// Operators, in the order of the plan.
    pub fn operators(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.plan.ids().filter(|id| matches!(self.plan.node(*id).kind, NodeKind::Dedup(_) | NodeKind::Window(_)))
    }
}
