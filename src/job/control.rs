//! The control side of a running job: feeds the coordinator with what happens, and carries out what it decides.
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::effects::{Collector, End, FromPublisher, Hands, publish_all};
use super::start::{StartError, Started};
use super::watch::{Seen, Watch};
use super::workers::Crew;
use super::{Failure, Options, Request};
use crate::checkpoint::coordinator::{Coordinator, Effect, Input, Terms};
use crate::checkpoint::publish::Publisher;
use crate::commit::committer::StopReason;
use crate::commit::task::FromCommitter;
use crate::config::model::Pipeline;
use crate::runtime::part::FromWorker;
use crate::source::names::PartitionNames;

/// How often the coordinator is asked whether something is due.
const TICK: Duration = Duration::from_millis(5);

pub struct Control<'a> {
    pipeline: &'a Pipeline,
    drain: bool,
    started: Started,
    clock: Instant,
}

/// Everything that can happen to a running job.
enum Event {
    Tick,
    Worker(FromWorker),
    Publisher(FromPublisher),
    Committer(FromCommitter),
    Watch(Seen),
    Request(Request),
}

impl<'a> Control<'a> {
    pub fn new(pipeline: &'a Pipeline, options: &Options, started: Started, clock: Instant) -> Self {
        Self { pipeline, drain: options.drain, started, clock }
    }

    pub async fn run(self, mut requests: UnboundedReceiver<Request>) -> Result<(), Failure> {
        let Self { pipeline, drain, mut started, clock } = self;
        let (worker_reports, mut from_workers) = unbounded_channel();
        let (publications, to_publisher) = unbounded_channel();
        let (published, mut from_publisher) = unbounded_channel();
        let (commit_reports, mut from_committers) = unbounded_channel();

        let names = PartitionNames::new(started.beginning.partitions.names());
        let crew = Crew {
            pipeline,
            dir: &started.dir,
            incarnation: started.incarnation,
            restored: started.restored.as_ref(),
            logs: &started.logs,
            names: names.clone(),
        };
        let workers = crew.start(&worker_reports).await?;
        let restored = started.restored.as_ref().map_or(vec![], |n| n.manifest.state.clone());
        let same_workers = restored.len() == usize::from(pipeline.settings.workers);
        let mut collector = Collector::new(&started, pipeline.settings.retain);
        let publisher =
            Publisher::new(started.dir.clone(), started.incarnation, if same_workers { &restored } else { &[] });

        let sinks = std::mem::take(&mut started.sinks);
        let terms = terms(pipeline, &started);
        let mut coordinator = Coordinator::new(terms, started.beginning, now(clock));
        let mut first = coordinator.first_manifest(super::now_ms());
        first.state = restored;
        let name = started.dir.publish(&first).await.map_err(StartError::Dir)?;
        collector.add(crate::checkpoint::collect::Retained { name, manifest: first });
        let publishing = tokio::spawn(publish_all(publisher, collector, to_publisher, published));

        let mut hands = Hands::new(workers, publications, names);
        hands.start_committers(pipeline, sinks, coordinator.sinks(), clock, &commit_reports);
        let mut watch = Watch::start(pipeline, &started.logs);
        let mut tick = tokio::time::interval(TICK);
        let mut effects = coordinator.begin();
        let end = loop {
            if let Some(end) = effects.into_iter().find_map(|e| hands.apply(e)) {
                break end;
            }
            let event = tokio::select! {
                biased;
                Some(report) = from_workers.recv() => Event::Worker(report),
                Some(report) = from_publisher.recv() => Event::Publisher(report),
                Some(report) = from_committers.recv() => Event::Committer(report),
                Some(request) = requests.recv() => Event::Request(request),
                Some(seen) = watch.next() => Event::Watch(seen),
                _ = tick.tick() => Event::Tick,
            };
            effects = match input(event, drain, &mut coordinator, &mut watch, now(clock)) {
                Ok(effects) => effects,
                Err(failure) => {
                    hands.stop();
                    publishing.abort();
                    return Err(failure);
                }
            };
        };
        hands.stop();
        publishing.abort();
        match end {
            End::Finished => Ok(()),
            End::Failed(why) => Err(Failure::Failed(why)),
        }
    }
}

fn input(
    event: Event,
    drain: bool,
    coordinator: &mut Coordinator,
    watch: &mut Watch,
    now_ms: u64,
) -> Result<Vec<Effect>, Failure> {
    let input = match event {
        Event::Tick => Input::Tick,
        Event::Worker(report) => Input::Worker(report),
        Event::Publisher(FromPublisher::Published { id, name }) => Input::Published(id, name),
        Event::Publisher(FromPublisher::Fenced { by }) => return Err(Failure::Fenced(super::fenced(by))),
        Event::Publisher(FromPublisher::Failed(why)) => return Err(Failure::Failed(why)),
        Event::Committer(FromCommitter::Committed { sink, epoch, .. }) => Input::Committed(sink, epoch),
        Event::Committer(FromCommitter::Away { why, .. }) => {
            tracing::warn!("a sink is away, its rows wait in the outbox: {why}");
            Input::Tick
        }
        Event::Committer(FromCommitter::Stopped { reason, .. }) => return Err(stopped(reason)),
        Event::Request(Request::Stop) => Input::Stop { drain },
        Event::Request(Request::Savepoint(name)) => Input::Savepoint(name),
        Event::Request(Request::Abort) => return Err(Failure::Failed("stopped at once, as asked".into())),
        Event::Watch(seen) => {
            let inputs = watch.judge(seen, coordinator.partitions(), now_ms).map_err(Failure::Failed)?;
            return Ok(inputs.into_iter().flat_map(|i| coordinator.step(now_ms, i)).collect());
        }
    };
    Ok(coordinator.step(now_ms, input))
}

fn stopped(reason: StopReason) -> Failure {
    match reason {
        StopReason::Fenced { .. } => Failure::Fenced(reason.to_string()),
        StopReason::Foreign { .. } | StopReason::Sink(_) => Failure::Failed(reason.to_string()),
    }
}

fn terms(pipeline: &Pipeline, started: &Started) -> Terms {
    let settings = &pipeline.settings;
    let named = [
        ("checkpoint.interval_ms", settings.checkpoint_interval.as_millis().to_string()),
        ("state", format!("{:?}", settings.state).to_lowercase()),
        ("memory_bytes", settings.memory_bytes.to_string()),
        ("workers", settings.workers.to_string()),
        ("batch_rows", settings.batch_rows.to_string()),
        ("queue_batches", settings.queue_batches.to_string()),
        ("outbox_bytes", settings.outbox_bytes.to_string()),
    ];
    Terms {
        plan: std::sync::Arc::new(pipeline.plan.clone()),
        fingerprints: pipeline.fingerprints.clone(),
        settings: named.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
        incarnation: started.incarnation,
        workers: settings.workers,
        interval_ms: settings.checkpoint_interval.as_millis() as u64,
        outbox_bytes: settings.outbox_bytes,
        restored_from: started.restored.as_ref().map(|n| n.name.clone()),
    }
}

fn now(clock: Instant) -> u64 {
    clock.elapsed().as_millis() as u64
}
