//! Plays a scenario: starts processes, lets happen what happens, and once all is calm waits for the end and judges what is there.
//!
//! ```text
//!   feed, faults, restarts ............ | calm: stop, start again | all is read | stop with --drain | tables = oracle
//! ```
//! Doesn't know: what a job does inside; it runs the real one (job::run_in). Keeps: one scenario, one trace.
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use floodmark_pipeline::ids::NodeId;
use floodmark_pipeline::invariants::{Invariant, Violation};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use super::end::{self, Differences};
use super::executor::{Executor, ProcessId, Program, Stepped};
use super::gate::{Gate, Upshot};
use super::judge::Judge;
use super::log::{Entry, Topic};
use super::scenario::{Event, Harm, SINKS, Scenario};
use super::table::Table;
use super::world::{Held, World};
use crate::config::Diagnostics;
use crate::config::model::Pipeline;
use crate::job::{self, Failure, Options, Request};
use crate::status::{Phase, Status};

/// All is over by then, after a calm beginning.
const LIMIT_MS: u64 = 180_000;
/// Whoever goes on for so many steps goes in circles.
const MOST_STEPS: usize = 1_000_000;
/// How often the end is looked for.
const LOOK_MS: u64 = 20;
/// So long calm waits for enough to have happened, at most.
const ENOUGH_WITHIN_MS: u64 = 2_000;
/// How long nobody runs after a process has ended.
const PAUSE_MS: std::ops::Range<u64> = 5..60;

/// How a simulation ended.
#[derive(Clone, Debug)]
pub struct Report {
    pub seed: u64,
    pub violations: Vec<Violation>,
    /// A start was refused, after harm was done.
    pub refused: Option<String>,
    pub faults: usize,
    pub checkpoints: usize,
    pub requests: usize,
    pub starts: usize,
    /// Rows of all tables.
    pub rows: usize,
    /// How the tables differ at the end from what they must hold.
    pub differences: Differences,
    pub trace: Vec<String>,
}

impl Report {
    pub fn is_right(&self) -> bool {
        self.violations.is_empty()
    }

    fn of_a_refused_file(seed: u64, refused: &Diagnostics) -> Self {
        let violations = vec![Violation::new(Invariant::R1, refused.to_string())];
        let (faults, checkpoints, requests, starts, rows) = (0, 0, 0, 0, 0);
        let differences = Differences::default();
        Self {
            seed,
            violations,
            refused: None,
            faults,
            checkpoints,
            requests,
            starts,
            rows,
            differences,
            trace: vec![],
        }
    }
}

struct Process {
    requests: UnboundedSender<Request>,
    status: watch::Receiver<Status>,
    drains: bool,
    is_told: bool,
}

/// What is to be done at a time.
enum Deed {
    Event(Event),
    /// If no process is there by then.
    Start,
    Twin,
    Thaw(ProcessId),
    Calm,
    Look,
}

/// Plays a scenario to its end.
pub fn play(scenario: &Scenario) -> Report {
    match Simulation::new(scenario.clone()) {
        Ok(simulation) => simulation.run(),
        Err(refused) => Report::of_a_refused_file(scenario.seed, &refused),
    }
}

struct Simulation {
    scenario: Scenario,
    pipeline: Arc<Pipeline>,
    world: World,
    executor: Executor,
    gate: Gate,
    judge: Judge,
    programs: BTreeMap<ProcessId, Program<Result<(), Failure>>>,
    processes: BTreeMap<ProcessId, Process>,
    starts: usize,
    agenda: BTreeMap<(u64, usize), Deed>,
    deeds: usize,
    is_calm: bool,
    is_harmed: bool,
    over: Option<Over>,
    /// Tables as they were at times, if one of them will be restored.
    copies: Option<Vec<BTreeMap<NodeId, Option<Table>>>>,
    /// What sinks held when a manifest had just become the newest, if somebody will go back there.
    past: Option<BTreeMap<String, Held>>,
    /// Where the next start goes on, and how many manifests there were when that was said: once there is another, it has gone on.
    from: Option<(String, usize)>,
}

enum Over {
    Drained,
    Refused(String),
    /// It comes to no end.
    Never(String),
}

/// Simulations of one process must not share a folder.
static NUMBER: AtomicU64 = AtomicU64::new(0);

impl Simulation {
    fn new(scenario: Scenario) -> Result<Self, Diagnostics> {
        let place = format!("s3://simulated-{}-{}/", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let text = scenario.file.replace("s3://simulated/", &place);
        let pipeline = crate::config::parse(&text, Path::new("simulated.toml"), &|_| None);
        let pipeline = Arc::new(pipeline?);
        let executor = Executor::new(scenario.seed);
        let gate = Gate::new(executor.clone(), scenario.faults.clone());
        let judge = Judge::default();
        let topic = Topic::new(scenario.partitions);
        let skew_ms = Arc::new(AtomicI64::new(0));
        let world = World::new(&pipeline, topic, (&gate, &judge), skew_ms, (scenario.is_durable, scenario.is_encoded));
        let mut simulation = Self {
            pipeline,
            world,
            executor,
            gate,
            judge,
            programs: BTreeMap::new(),
            processes: BTreeMap::new(),
            starts: 0,
            agenda: BTreeMap::new(),
            deeds: 0,
            is_calm: false,
            is_harmed: false,
            over: None,
            copies: None,
            past: None,
            from: None,
            scenario,
        };
        let comes = |is: fn(&Event) -> bool| simulation.scenario.events.iter().any(|(_, event)| is(event));
        let goes_back = comes(|event| matches!(event, Event::GoBack { .. }));
        let is_restored = comes(|event| matches!(event, Event::Harm(Harm::Restore { .. })));
        simulation.past = goes_back.then(BTreeMap::new);
        simulation.copies = is_restored.then(Vec::new);
        simulation.at(0, Deed::Start);
        for (at_ms, event) in simulation.scenario.events.clone() {
            simulation.at(at_ms, Deed::Event(event));
        }
        simulation.at(simulation.scenario.calm_at_ms, Deed::Calm);
        Ok(simulation)
    }

    fn at(&mut self, at_ms: u64, deed: Deed) {
        self.deeds += 1;
        self.agenda.insert((at_ms, self.deeds), deed);
    }

    fn after(&mut self, ms: u64, deed: Deed) {
        self.at(self.executor.now_ms() + ms, deed);
    }

    fn run(mut self) -> Report {
        let mut steps = 0;
        while self.over.is_none() && (self.judge.is_content() || !self.scenario.is_watched) {
            if let Some(stepped) = self.executor.step(&mut self.programs) {
                steps += 1;
                if let Stepped::Ended(process, end) = stepped {
                    self.ended(process, end);
                }
                self.upshots();
                self.remember();
            } else {
                self.pass_time();
            }
            if steps > MOST_STEPS {
                self.over = Some(Over::Never("it goes in circles".into()));
            }
        }
        self.report()
    }

    fn pass_time(&mut self) {
        let deed_ms = self.agenda.keys().next().map(|(at, _)| *at);
        let Some(next_ms) = deed_ms.into_iter().chain(self.executor.due_ms()).min() else {
            self.over = Some(Over::Never("nobody waits for anything".into()));
            return;
        };
        if next_ms > LIMIT_MS {
            self.over = Some(Over::Never(format!("not over after {LIMIT_MS} ms")));
            return;
        }
        self.executor.advance(next_ms);
        while let Some(entry) = self.agenda.first_entry().filter(|entry| entry.key().0 <= next_ms) {
            let deed = entry.remove();
            self.carry_out(deed);
        }
    }

    fn carry_out(&mut self, deed: Deed) {
        match deed {
            Deed::Event(event) => self.event(event),
            Deed::Start if self.processes.is_empty() => self.start(),
            Deed::Start => {}
            Deed::Twin => self.start(),
            Deed::Thaw(process) => {
                self.gate.say(format_args!("p{process} is woken"));
                self.executor.thaw(process);
            }
            Deed::Calm => self.calm_if_enough(),
            Deed::Look => self.look(),
        }
    }

    fn start(&mut self) {
        self.starts += 1;
        let process = self.starts;
        let drains = self.is_calm;
        self.gate.say(format_args!("p{process} starts{}", if drains { ", to the end" } else { "" }));
        let (requests, receiver) = unbounded_channel();
        let (status, watched) = watch::channel(Status::starting("simulated"));
        let (pipeline, world) = (self.pipeline.clone(), self.world.seen_by(process));
        let known = self.judge.checkpoints();
        self.from = self.from.take().filter(|(_, then)| *then == known);
        let from = self.from.as_ref().map(|(name, _)| name.clone());
        let options = Options { drain: drains, wait: true, from, ..Options::default() };
        let program = async move { job::run_in(|| Ok(world), &pipeline, &options, receiver, &status).await };
        self.programs.insert(process, Box::pin(program));
        self.executor.begin(process);
        self.processes.insert(process, Process { requests, status: watched, drains, is_told: false });
    }

    fn ended(&mut self, process: ProcessId, end: Result<(), Failure>) {
        let ended = self.processes.remove(&process);
        match &end {
            Ok(()) => self.gate.say(format_args!("p{process} ended as asked")),
            Err(failure) => self.gate.say(format_args!("p{process} ended: {}", first_line(failure))),
        }
        match end {
            Ok(()) if ended.is_some_and(|p| p.drains && p.is_told) => self.over = Some(Over::Drained),
            Ok(()) | Err(Failure::Failed(_) | Failure::Fenced(_)) => {
                let pause_ms = self.executor.chance(|chance| chance.u64(PAUSE_MS));
                self.after(pause_ms, Deed::Start);
            }
            Err(refused @ (Failure::Refused(_) | Failure::Stuck(_) | Failure::Usage(_))) => {
                self.over = Some(Over::Refused(refused.to_string()));
            }
        }
    }

    fn upshots(&mut self) {
        for upshot in self.gate.upshots() {
            match upshot {
                Upshot::Killed(process) => self.kill(process),
                Upshot::PowerCut => {
                    let all: Vec<_> = self.processes.keys().copied().collect();
                    all.into_iter().for_each(|process| self.kill(process));
                    self.world.cut_power();
                }
                Upshot::Frozen(process, until_ms) => {
                    self.at(until_ms, Deed::Thaw(process));
                    self.after(1, Deed::Twin);
                }
                Upshot::Twin => self.after(1, Deed::Twin),
            }
        }
    }

    fn remember(&mut self) {
        let Some(past) = &mut self.past else { return };
        for name in self.judge.there() {
            past.entry(name).or_insert_with(|| self.world.copy());
        }
    }

    fn go_back(&mut self, to: usize) {
        let all: Vec<_> = self.processes.keys().copied().collect();
        all.into_iter().for_each(|process| self.kill(process));
        let there = self.judge.there();
        let Some(past) = &self.past else { return };
        if let Some((name, copy)) = there.get(to % there.len().max(1)).and_then(|name| past.get_key_value(name)) {
            self.gate.say(format_args!("back to {name}"));
            self.world.bring_back(copy);
            self.from = Some((name.clone(), self.judge.checkpoints()));
        }
    }

    fn kill(&mut self, process: ProcessId) {
        self.gate.say(format_args!("p{process} is killed"));
        self.processes.remove(&process);
        drop(self.programs.remove(&process));
        self.executor.kill(process);
        let pause_ms = self.executor.chance(|chance| chance.u64(PAUSE_MS));
        self.after(pause_ms, Deed::Start);
    }

    fn event(&mut self, event: Event) {
        self.copies.iter_mut().for_each(|copies| copies.push(self.world.tables()));
        if !matches!(event, Event::Append { .. } | Event::Begin { .. } | Event::Close { .. }) {
            self.gate.say(format_args!("{event:?}"));
        }
        match event {
            Event::Append { partition, entries } => self.world.topic.append(partition, entries),
            Event::Begin { partition, entries } => self.world.topic.begin(partition, entries),
            Event::Close { partition, commit } => self.world.topic.close(partition, commit),
            Event::AddPartition => self.world.topic.add_partition(),
            Event::Retention => {
                for (name, offset) in self.judge.needed() {
                    self.world.topic.truncate(name.partition as usize, offset as usize);
                }
            }
            Event::Stop => self.processes.values().for_each(|p| drop(p.requests.send(Request::Stop))),
            Event::Compact { sink } => self.world.with_table(SINKS[sink], |table| table.as_mut().map(Table::compact)),
            Event::Expire { sink } => self.world.with_table(SINKS[sink], |table| table.as_mut().map(Table::expire)),
            Event::SetClock { by_ms } => self.world.skew_ms.store(by_ms, Ordering::Relaxed),
            Event::GoBack { to } => self.go_back(to),
            Event::Harm(harm) => self.harm(harm),
        }
    }

    fn harm(&mut self, harm: Harm) {
        self.is_harmed = true;
        match harm {
            Harm::RollBack { sink, by } => {
                self.world.with_table(SINKS[sink], |table| table.as_mut().map(|table| table.roll_back(by)));
            }
            Harm::Restore { sink } => {
                let copies = self.copies.as_deref().unwrap_or_default();
                let tables = self.executor.chance(|chance| chance.choice(copies));
                let copy = self.pipeline.plan.find(SINKS[sink]).and_then(|id| tables?.get(&id).cloned());
                self.world.with_table(SINKS[sink], |table| copy.map(|copy| *table = copy));
            }
            Harm::Drop { sink } => self.world.with_table(SINKS[sink], |table| table.take().map(drop)),
            Harm::Remake { sink } => self.world.with_table(SINKS[sink], |table| table.as_mut().map(Table::remake)),
            Harm::Recreate => {
                let entry = Entry { value: "{\"key\":\"another\",\"at\":0}".into(), timestamp_ms: 0 };
                self.world.topic.recreate(vec![entry; 40]);
            }
            Harm::LoseRecords => {
                for (partition, end) in self.world.topic.ends().into_iter().enumerate() {
                    self.world.topic.truncate(partition, end as usize);
                }
            }
        }
    }

    /// Waits until enough has become durable and gone wrong. A fault that doesn't come about is helped along.
    fn calm_if_enough(&mut self) {
        let least = self.scenario.least;
        let has_faults = self.gate.fired() >= least.faults || !self.gate.hurry();
        let is_enough = has_faults && self.judge.checkpoints() >= least.checkpoints;
        if is_enough || self.executor.now_ms() >= self.scenario.calm_at_ms + ENOUGH_WITHIN_MS {
            self.calm();
        } else {
            self.after(LOOK_MS, Deed::Calm);
        }
    }

    /// Nothing goes wrong any more. Who runs is stopped; who starts after this comes to the end.
    fn calm(&mut self) {
        self.gate.say("calm");
        self.is_calm = true;
        self.gate.calm();
        let all: Vec<_> = self.processes.keys().copied().collect();
        all.iter().for_each(|process| self.executor.thaw(*process));
        self.processes.values().for_each(|p| drop(p.requests.send(Request::Stop)));
        self.after(1, Deed::Start);
        self.after(LOOK_MS, Deed::Look);
    }

    /// Once all is read, the last process is told to stop.
    fn look(&mut self) {
        let read = self.judge.offsets();
        let mut ends = (0..).map(Topic::name).zip(self.world.topic.ends());
        let is_read = ends.all(|(name, end)| end == 0 || read.get(&name) == Some(&end));
        for process in self.processes.values_mut().filter(|p| p.drains && !p.is_told && is_read) {
            if process.status.borrow().phase == Phase::Running {
                process.is_told = true;
                drop(process.requests.send(Request::Stop));
            }
        }
        self.after(LOOK_MS, Deed::Look);
    }

    fn report(mut self) -> Report {
        let all: Vec<_> = self.processes.keys().copied().collect();
        for process in all {
            drop(self.programs.remove(&process));
            self.executor.kill(process);
        }
        let tables = self.world.rows();
        let mut violations = if self.scenario.is_watched { self.judge.violations() } else { vec![] };
        let mut refused = None;
        let mut differences = Differences::default();
        match self.over.take() {
            None => {}
            Some(Over::Drained) if self.is_harmed => violations.extend(end::nothing_twice(&tables)),
            Some(Over::Drained) => {
                let expected = end::expected(&self.scenario.file, &self.world.topic, &self.judge.decisions());
                differences = end::differences(&tables, &expected);
                violations.extend(end::compared(&tables, &expected));
            }
            Some(Over::Refused(why)) if self.is_harmed => refused = Some(why),
            Some(Over::Refused(why)) => violations.push(Violation::new(Invariant::R1, why)),
            // Whoever waits for what was taken away waits for ever.
            Some(Over::Never(why)) => violations.push(Violation::new(Invariant::L1, why)),
        }
        Report {
            seed: self.scenario.seed,
            violations,
            refused,
            faults: self.gate.fired(),
            checkpoints: self.judge.checkpoints(),
            requests: self.gate.requests(),
            starts: self.starts,
            rows: tables.values().map(Vec::len).sum(),
            differences,
            trace: self.gate.trace(),
        }
    }
}

fn first_line(failure: &Failure) -> String {
    let kind = match failure {
        Failure::Refused(_) => "refused",
        Failure::Usage(_) => "usage",
        Failure::Stuck(_) => "stuck",
        Failure::Fenced(_) => "fenced",
        Failure::Failed(_) => "failed",
    };
    format!("{kind}: {}", failure.to_string().lines().next().unwrap_or_default())
}
