//! Turns every crank of a run in one thread: the machines are the real ones, threads, channels and clocks are not there.
//!
//! Time goes on by [`ROUND_MS`] a round, in which a worker takes a few steps. Publishing is slower than cutting, so that two manifests are on their way
//! at times.
use std::collections::VecDeque;

use floodmark_pipeline::ids::NodeId;

use super::store::Switch;
use super::world::World;
use crate::checkpoint::coordinator::{Coordinator, Effect, Input, Publication};
use crate::commit::committer::{Committer, Effect as CommitEffect, Input as CommitInput};
use crate::job::effects::{FromPublisher, Publishing, committer};
use crate::job::machines::Machines;
use crate::job::start::start_in;
use crate::job::workers::{Built, Crew};
use crate::job::{Failure, Options};
use crate::runtime::worker::{Step, Worker};
use crate::sink::Sink;
use crate::source::names::PartitionNames;

const ROUND_MS: u64 = 5;
/// A run that isn't over by then never is.
const MOST_ROUNDS: usize = 1_000;
const PUBLISH_EVERY: usize = 3;
/// Enough for a barrier to pass a worker: with fewer, and short intervals, nothing but barriers would be moved.
const STEPS_A_ROUND: usize = 8;

/// One start, to the end of its input. False: it was killed.
pub async fn run(world: &World, switch: &Switch) -> Result<bool, Failure> {
    tokio::select! {
        biased;
        ended = to_the_end(world, switch) => ended.map(|()| true),
        () = switch.killed() => Ok(false),
    }
}

async fn to_the_end(world: &World, switch: &Switch) -> Result<(), Failure> {
    let pipeline = &world.pipeline;
    let mut started = start_in(world.open(switch), pipeline, &Options::default()).await?;
    let names = PartitionNames::new(started.beginning.partitions.names());
    let crew = Crew {
        pipeline,
        dir: &started.dir,
        incarnation: started.incarnation,
        restored: started.restored.as_ref(),
        logs: &started.logs,
        partitions: &started.beginning.partitions.table,
        names: names.clone(),
        reset: &[],
    };
    let Built { workers, restored } = crew.build(started.beginning.last_id.next()).await?;
    let workers = workers.into_iter().map(|(worker, _)| worker).collect();
    let sinks = std::mem::take(&mut started.sinks);
    let Machines { mut coordinator, publishing, .. } = Machines::of(pipeline, &started, restored, 0).await?;
    let hand = |(id, sink): (NodeId, Box<dyn Sink>)| {
        let book = coordinator.sinks()[&id].clone();
        (id, committer(&pipeline.sinks[&id], book), sink)
    };
    let committers = sinks.into_iter().map(hand).collect();
    let first = coordinator.begin();
    let (publications, inputs) = (VecDeque::new(), VecDeque::new());
    let run = Run { switch, coordinator, publishing, workers, committers, names, publications, inputs, now_ms: 0 };
    run.turn(first).await
}

struct Run<'a> {
    switch: &'a Switch,
    coordinator: Coordinator,
    publishing: Publishing,
    workers: Vec<Worker>,
    committers: Vec<(NodeId, Committer, Box<dyn Sink>)>,
    names: PartitionNames,
    /// Checkpoints whose manifests wait to be made durable.
    publications: VecDeque<Publication>,
    inputs: VecDeque<Input>,
    now_ms: u64,
}

impl Run<'_> {
    async fn turn(mut self, first: Vec<Effect>) -> Result<(), Failure> {
        if self.carry_out(first).await? {
            return Ok(());
        }
        for round in 0..MOST_ROUNDS {
            self.now_ms += ROUND_MS;
            for worker in 0..self.workers.len() {
                self.step_worker(worker).await?;
            }
            if round % PUBLISH_EVERY == 0 {
                self.publish().await?;
            }
            for place in 0..self.committers.len() {
                self.step_committer(place, CommitInput::Tick).await?;
            }
            self.inputs.push_back(Input::Tick);
            while let Some(input) = self.inputs.pop_front() {
                let effects = self.coordinator.step(self.now_ms, input);
                if self.carry_out(effects).await? {
                    return Ok(());
                }
            }
        }
        Err(Failure::Failed("it comes to no end".into()))
    }

    async fn step_worker(&mut self, place: usize) -> Result<(), Failure> {
        let worker = &mut self.workers[place];
        for _ in 0..STEPS_A_ROUND {
            let step = worker.step().map_err(|error| Failure::Failed(error.to_string()))?;
            self.inputs.extend(worker.reports().map(Input::Worker));
            if step != Step::Busy {
                break;
            }
            self.switch.step(format!("worker {place}")).await;
        }
        Ok(())
    }

    async fn publish(&mut self) -> Result<(), Failure> {
        let Some(publication) = self.publications.pop_front() else { return Ok(()) };
        let mut told = vec![];
        self.publishing
            .one(publication, &mut |report| {
                told.push(report);
                true
            })
            .await;
        for report in told {
            match report {
                FromPublisher::Published { id, name } => self.inputs.push_back(Input::Published(id, name)),
                other => return Err(Failure::Failed(format!("{other:?}"))),
            }
        }
        Ok(())
    }

    async fn step_committer(&mut self, place: usize, input: CommitInput) -> Result<(), Failure> {
        let (id, committer, sink) = &mut self.committers[place];
        let mut effects = VecDeque::from(committer.step(self.now_ms, input));
        while let Some(effect) = effects.pop_front() {
            match effect {
                CommitEffect::Commit { base, epochs, even_if_empty } => {
                    let done = sink.commit(base, &epochs, even_if_empty).await;
                    self.switch.step("commit answered").await;
                    effects.extend(committer.step(self.now_ms, CommitInput::Done(done)));
                }
                CommitEffect::Committed { epoch, .. } => self.inputs.push_back(Input::Committed(*id, epoch)),
                other => return Err(Failure::Failed(format!("{other:?}"))),
            }
        }
        Ok(())
    }

    /// True: the run is over.
    async fn carry_out(&mut self, effects: Vec<Effect>) -> Result<bool, Failure> {
        for effect in effects {
            match effect {
                Effect::Names(names) => self.names.set(names),
                Effect::Worker(worker, command) => self.command(usize::from(worker.0), command)?,
                Effect::AllWorkers(command) => {
                    (0..self.workers.len()).try_for_each(|worker| self.command(worker, command.clone()))?;
                }
                Effect::Publish(publication) => self.publications.push_back(*publication),
                Effect::Epoch(sink, epoch) => {
                    let place = self.committers.iter().position(|(id, ..)| *id == sink);
                    let place = place.ok_or_else(|| Failure::Failed("an epoch for no sink".into()))?;
                    self.step_committer(place, CommitInput::Epoch(epoch)).await?;
                }
                Effect::CommitNow => {
                    for place in 0..self.committers.len() {
                        self.step_committer(place, CommitInput::Flush).await?;
                    }
                }
                Effect::Finished => return Ok(true),
                Effect::Failed(error) => return Err(Failure::Failed(error.to_string())),
            }
            self.switch.step("effect").await;
        }
        Ok(false)
    }

    fn command(&mut self, worker: usize, command: crate::runtime::part::ToWorker) -> Result<(), Failure> {
        self.workers[worker].command(command).map_err(|error| Failure::Failed(error.to_string()))
    }
}
