//! "What now?" at a start, as a pure function of what was found.
//!
//! Doesn't know: how any of it was read, or how it will be done. Keeps: a start that would lose or double rows is refused by name, with the choices.
//! Every answer has a test that reaches it and a line in docs/PROTOCOL.md.
mod told;

use crate::ids::{CheckpointId, Epoch};
use crate::mark::{Mark, Offsets};

pub use told::told;

/// Files of one state, or of one sink's rows, that are named; what is behind them is counted.
const FILES_TOLD: usize = 3;

/// What a start has found. The caller has read it all.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    pub pipeline: String,
    /// The manifest to go on from: the newest one that could be read, or the one the user named.
    pub manifest: Option<ManifestSummary>,
    /// Newer manifests that couldn't be read, by name.
    pub unreadable: Vec<String>,
    /// Sinks of the pipeline file and of the manifest.
    pub sinks: Vec<SinkState>,
    /// Nodes of the pipeline file against those of the manifest; empty without a manifest.
    pub edits: Vec<Edit>,
    /// What is wrong between the manifest's positions and the log as it is now.
    pub log_problems: Vec<String>,
    /// Files of the manifest's state that aren't there, or aren't whole.
    pub state_problems: Vec<String>,
    /// Sinks for which the user accepts that rows are missing, come twice, or are another pipeline's.
    pub accept_gap: Vec<String>,
    /// Sinks that have left the file and can't be reached, which the user gives up.
    pub forget: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ManifestSummary {
    pub name: String,
    pub pipeline: String,
    pub checkpoint: CheckpointId,
    pub epoch: Epoch,
}

/// One sink: what it says of itself, and what the manifest says of it.
#[derive(Clone, Debug)]
pub struct SinkState {
    pub name: String,
    pub found: FoundMark,
    /// `None`: the manifest doesn't know this sink.
    pub recorded: Option<Recorded>,
    /// It stands in the pipeline file.
    pub in_file: bool,
    /// Epochs that it doesn't hold, and whose rows can't be read any more: which, and what is wrong.
    pub lost: Vec<(Epoch, String)>,
}

#[derive(Clone, Debug)]
pub enum FoundMark {
    /// No table.
    Absent,
    Here(Box<Mark>),
    /// A table in which nothing is ours, and rows are another pipeline's.
    OfAnother {
        pipeline: String,
        epoch: Epoch,
    },
    /// It couldn't be asked, and has left the pipeline file.
    Unreachable(String),
    /// Its history was rolled back to before the mark.
    RolledBack(String),
    /// Its columns or layout are not what the pipeline file says.
    Differs(String),
    /// A sink that keeps no mark.
    NoMark,
}

/// The manifest's list of a sink's epochs: the last known committed, and those that may wait.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    pub base: Option<Epoch>,
    pub epochs: Vec<Epoch>,
    /// Next offsets at the last of `epochs` (or at the base), for messages.
    pub offsets: Offsets,
}

/// How a node of the file compares with the manifest's.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    Added {
        node: String,
    },
    Removed {
        node: String,
        is_sink: bool,
    },
    /// Something that its state rests on differs.
    Changed {
        node: String,
        line: usize,
        key: String,
        was: String,
        is: String,
        /// It could begin anew.
        resettable: bool,
    },
    /// The user asked to begin the node anew, whether it has changed or not.
    Reset {
        node: String,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    StartFresh { sinks: Vec<SinkPlan> },
    Resume { from: CheckpointId, sinks: Vec<SinkPlan>, added: Vec<String>, retire: Vec<String>, reset: Vec<String> },
    Refuse(Vec<Refusal>),
}

/// How a sink goes on: what it holds, and how many epochs of the manifest's list that are.
#[derive(Clone, Debug, PartialEq)]
pub struct SinkPlan {
    pub name: String,
    /// The epoch that the next commit follows: the one its mark names.
    pub base: Option<Epoch>,
    pub holds: usize,
    /// Those of the list whose rows are given up.
    pub without: Vec<Epoch>,
}

impl SinkPlan {
    fn new(name: String, base: Option<Epoch>, holds: usize) -> Self {
        Self { name, base, holds, without: vec![] }
    }
}

impl Recorded {
    /// How many epochs of the list a sink with this mark holds; `None` where the mark isn't of this list.
    pub fn held(&self, found: &FoundMark) -> Option<usize> {
        let marked = epoch_of(found);
        if marked == self.base {
            return Some(0);
        }
        self.epochs.iter().position(|e| Some(*e) == marked).map(|place| place + 1)
    }
}

/// Why a start is refused, in the words of the user, with the choices of this version.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    OtherPipeline {
        manifest: String,
        theirs: String,
        ours: String,
    },
    /// Marks with epochs, and no manifest.
    StateLost {
        sink: String,
        epoch: Epoch,
    },
    /// The sink holds epochs that the manifest doesn't know.
    SinkAhead {
        sink: String,
        at: Epoch,
        newest: CheckpointId,
    },
    /// The sink holds less than the manifest says was committed.
    SinkBehind {
        sink: String,
        expected: Epoch,
        found: Option<Epoch>,
        offsets: String,
    },
    /// Nothing was committed to it by this pipeline, and another has rows there.
    AnotherPipeline {
        sink: String,
        theirs: String,
        ours: String,
        at: Epoch,
    },
    /// It stands in the file and not in the manifest, and holds epochs of this pipeline: it was left out of the file for a while.
    SinkReturned {
        sink: String,
        at: Epoch,
        newest: CheckpointId,
    },
    RolledBack {
        sink: String,
        what: String,
    },
    RetiredUnreachable {
        sink: String,
        why: String,
        pending: usize,
    },
    NodeChanged {
        node: String,
        line: usize,
        key: String,
        was: String,
        is: String,
        resettable: bool,
    },
    Table {
        sink: String,
        difference: String,
    },
    Log(String),
    State(String),
    /// Rows that wait for the sink can't be read any more.
    RowsLost {
        sink: String,
        what: String,
        in_file: bool,
    },
}

/// Decides. Nothing is touched before this says what to do.
pub fn plan(observed: &Observed) -> Plan {
    let mut refusals: Vec<_> = observed.log_problems.iter().cloned().map(Refusal::Log).collect();
    refusals.extend(state_refusal(&observed.state_problems));
    let Some(manifest) = &observed.manifest else {
        refusals.extend(observed.sinks.iter().filter_map(|s| lost_state(s, observed)));
        if !refusals.is_empty() {
            return Plan::Refuse(refusals);
        }
        let fresh = |s: &SinkState| SinkPlan::new(s.name.clone(), epoch_of(&s.found), 0);
        return Plan::StartFresh { sinks: observed.sinks.iter().map(fresh).collect() };
    };
    if manifest.pipeline != observed.pipeline {
        let (theirs, ours) = (manifest.pipeline.clone(), observed.pipeline.clone());
        return Plan::Refuse(vec![Refusal::OtherPipeline { manifest: manifest.name.clone(), theirs, ours }]);
    }
    let (mut sinks, mut added, mut retire, mut reset) = (vec![], vec![], vec![], vec![]);
    for sink in &observed.sinks {
        match sink_plan(sink, manifest, observed) {
            Ok(plan) => sinks.push(plan),
            Err(refusal) => refusals.push(*refusal),
        }
    }
    for edit in &observed.edits {
        match edit.clone() {
            Edit::Added { node } => added.push(node),
            Edit::Removed { node, is_sink: true } => retire.push(node),
            Edit::Removed { .. } => {}
            Edit::Reset { node } => reset.push(node),
            Edit::Changed { node, line, key, was, is, resettable } => {
                refusals.push(Refusal::NodeChanged { node, line, key, was, is, resettable });
            }
        }
    }
    if !refusals.is_empty() {
        // What was edited comes first: it may explain the rest.
        refusals.sort_by_key(|refusal| !matches!(refusal, Refusal::NodeChanged { .. }));
        return Plan::Refuse(refusals);
    }
    Plan::Resume { from: manifest.checkpoint, sinks, added, retire, reset }
}

/// All that is wrong with the state in one: the choices are the same, and where one file is missing many often are.
fn state_refusal(problems: &[String]) -> Option<Refusal> {
    (!problems.is_empty()).then(|| Refusal::State(listed(problems)))
}

fn listed(problems: &[String]) -> String {
    let told = problems.get(..FILES_TOLD).unwrap_or(problems).join("\n  ");
    let rest = problems.len().saturating_sub(FILES_TOLD);
    if rest > 0 { format!("{told}\n  and {rest} files more") } else { told }
}

fn lost_state(sink: &SinkState, observed: &Observed) -> Option<Refusal> {
    match &sink.found {
        FoundMark::RolledBack(what) => Some(Refusal::RolledBack { sink: sink.name.clone(), what: what.clone() }),
        FoundMark::Differs(what) => Some(Refusal::Table { sink: sink.name.clone(), difference: what.clone() }),
        FoundMark::OfAnother { .. } => another_pipeline(sink, observed),
        FoundMark::Here(mark) if !observed.accept_gap.contains(&sink.name) => {
            mark.epoch.map(|epoch| Refusal::StateLost { sink: sink.name.clone(), epoch })
        }
        _ => None,
    }
}

/// Two pipelines may write into one table, but whoever changed an `id` has not said so: all that is read again would come twice.
fn another_pipeline(sink: &SinkState, observed: &Observed) -> Option<Refusal> {
    let FoundMark::OfAnother { pipeline, epoch } = &sink.found else { return None };
    let (sink, theirs, ours) = (sink.name.clone(), pipeline.clone(), observed.pipeline.clone());
    let is_new = !observed.accept_gap.contains(&sink);
    is_new.then_some(Refusal::AnotherPipeline { sink, theirs, ours, at: *epoch })
}

fn epoch_of(found: &FoundMark) -> Option<Epoch> {
    match found {
        FoundMark::Here(mark) => mark.epoch,
        _ => None,
    }
}

fn sink_plan(sink: &SinkState, manifest: &ManifestSummary, observed: &Observed) -> Result<SinkPlan, Box<Refusal>> {
    let name = sink.name.clone();
    let none = Recorded::default();
    let recorded = sink.recorded.as_ref().unwrap_or(&none);
    match &sink.found {
        FoundMark::NoMark => return unless_lost(sink, SinkPlan::new(name, recorded.base, 0), observed),
        FoundMark::RolledBack(what) => return Err(Box::new(Refusal::RolledBack { sink: name, what: what.clone() })),
        FoundMark::Differs(what) => return Err(Box::new(Refusal::Table { sink: name, difference: what.clone() })),
        FoundMark::Unreachable(why) => {
            let pending = recorded.epochs.len();
            if pending == 0 || observed.forget.contains(&name) {
                return Ok(SinkPlan::new(name, recorded.base, pending));
            }
            return Err(Box::new(Refusal::RetiredUnreachable { sink: name, why: why.clone(), pending }));
        }
        FoundMark::OfAnother { .. } if recorded.base.is_none() => {
            if let Some(refusal) = another_pipeline(sink, observed) {
                return Err(Box::new(refusal));
            }
        }
        FoundMark::Absent | FoundMark::Here(_) | FoundMark::OfAnother { .. } => {}
    }
    let base = epoch_of(&sink.found);
    if let Some(holds) = recorded.held(&sink.found) {
        return unless_lost(sink, SinkPlan::new(name, base, holds), observed);
    }
    if observed.accept_gap.contains(&name) {
        return unless_lost(sink, SinkPlan::new(name, base, 0), observed);
    }
    let newest_known = recorded.epochs.last().copied().or(recorded.base);
    match (base, newest_known) {
        (Some(at), None) if sink.recorded.is_none() && at.checkpoint <= manifest.checkpoint => {
            Err(Box::new(Refusal::SinkReturned { sink: name, at, newest: manifest.checkpoint }))
        }
        (Some(at), known) if known.is_none_or(|k| at.checkpoint > k.checkpoint) => {
            Err(Box::new(Refusal::SinkAhead { sink: name, at, newest: manifest.checkpoint }))
        }
        (found, _) => {
            let expected = recorded.base.or(newest_known).unwrap_or(manifest.epoch);
            let up_to = recorded.offsets.iter().map(|(p, o)| format!("{p} up to {o}"));
            let offsets = up_to.collect::<Vec<_>>().join(", ");
            Err(Box::new(Refusal::SinkBehind { sink: name, expected, found, offsets }))
        }
    }
}

/// Rows that can't be read any more are given up for a sink that the user names, and for no other.
fn unless_lost(sink: &SinkState, plan: SinkPlan, observed: &Observed) -> Result<SinkPlan, Box<Refusal>> {
    let (without, problems): (Vec<_>, Vec<_>) = sink.lost.iter().cloned().unzip();
    if problems.is_empty() || observed.accept_gap.contains(&sink.name) {
        return Ok(SinkPlan { without, ..plan });
    }
    Err(Box::new(Refusal::RowsLost { sink: sink.name.clone(), what: listed(&problems), in_file: sink.in_file }))
}

#[cfg(test)]
mod tests;
