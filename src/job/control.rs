//! The control side of a running job: feeds the coordinator with what happens, and carries out what it decides.
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::watch;

use super::board::Board;
use super::effects::{FromPublisher, Hands};
use super::machines::Machines;
use super::savepoints::Savepoints;
use super::start::Started;
use super::watch::{Seen, Watch};
use super::workers::Crew;
use super::{Failure, Options, Request, work};
use crate::checkpoint::coordinator::{Coordinator, Effect, Input};
use crate::commit::committer::StopReason;
use crate::commit::task::FromCommitter;
use crate::config::model::Pipeline;
use crate::config::value::show_duration;
use crate::host::Host;
use crate::runtime::part::{FromWorker, ToWorker};
use crate::source::names::PartitionNames;
use crate::status::{Phase, Status};
use crate::steps::{self, Point};

/// How often the coordinator is asked whether something is due.
const TICK: Duration = Duration::from_millis(5);
/// How often the status is made anew.
const STATUS_MS: u64 = 200;

/// Everything that can happen to a running job.
enum Event {
    Tick,
    Worker(FromWorker),
    Publisher(FromPublisher),
    Committer(FromCommitter),
    Watch(Seen),
    Request(Request),
}

pub async fn run(
    pipeline: &Pipeline,
    options: &Options,
    mut started: Started,
    mut requests: UnboundedReceiver<Request>,
    status: &watch::Sender<Status>,
) -> Result<(), Failure> {
    let (worker_reports, mut from_workers) = unbounded_channel();
    let (publications, to_publisher) = unbounded_channel();
    let (published, mut from_publisher) = unbounded_channel();
    let (commit_reports, mut from_committers) = unbounded_channel();

    let names = PartitionNames::new(started.beginning.partitions.names());
    let host = started.host.clone();
    let crew = Crew {
        pipeline,
        host: &host,
        dir: &started.dir,
        incarnation: started.incarnation,
        restored: started.restored.as_ref(),
        logs: &started.logs,
        partitions: &started.beginning.partitions.table,
        names: names.clone(),
        reset: &started.reset,
    };
    let workers = crew.start(started.beginning.last_id.next(), started.turn, &worker_reports).await?;
    steps::reached(Point::Restored);
    let sinks = std::mem::take(&mut started.sinks);
    let machines = Machines::of(pipeline, &started, workers.restored, host.now_ms()).await?;
    steps::reached(Point::Owned);
    let Machines { terms, mut coordinator, publishing, first } = machines;
    let publishing = host.spawn(Box::pin(publishing.all(to_publisher, published)));

    let mut hands = Hands::new(workers.handles, publications, names);
    hands.apply(Effect::AllWorkers(ToWorker::Release(first)));
    hands.start_committers(pipeline, sinks, coordinator.sinks(), &host, &commit_reports);
    let watch = Watch::start(pipeline, &started.logs, &host);
    let mut board = Board::new(pipeline, &terms, &coordinator, host.now_ms());
    board.published(first, host.now_ms());
    let mut effects = coordinator.begin();
    let savepoints = Savepoints::default();
    let mut running = Running {
        options,
        host: host.clone(),
        coordinator,
        watch,
        hands,
        board,
        savepoints,
        status,
        stop_asked_ms: None,
        status_at_ms: 0,
    };
    let mut tick = host.sleep(TICK);
    let end = loop {
        if let Some(end) = running.carry_out(effects) {
            break end;
        }
        let event = tokio::select! {
            biased;
            Some(report) = from_workers.recv() => Event::Worker(report),
            Some(report) = from_publisher.recv() => Event::Publisher(report),
            Some(report) = from_committers.recv() => Event::Committer(report),
            Some(request) = requests.recv() => Event::Request(request),
            Some(seen) = running.watch.next() => Event::Watch(seen),
            () = &mut tick => {
                tick = host.sleep(TICK);
                Event::Tick
            }
        };
        effects = match running.take(event) {
            Ok(effects) => effects,
            Err(failure) => break Err(failure),
        };
    };
    // Before workers end: whatever is under way would find their files gone.
    drop(publishing);
    running.board.phase(Phase::Ended);
    running.show();
    drop(running);
    if end.is_ok() {
        work::leave(&*started.host.files(), pipeline, started.incarnation);
    }
    match end {
        // What fails because a newer start has swept up behind us isn't tried again.
        Err(Failure::Failed(why)) => match started.dir.newer_start(started.incarnation).await {
            Ok(Some(newest)) => Err(Failure::Fenced(super::fenced(newest))),
            _ => Err(Failure::Failed(why)),
        },
        end => end,
    }
}

/// The job between two events.
struct Running<'a> {
    options: &'a Options,
    host: Arc<dyn Host>,
    coordinator: Coordinator,
    watch: Watch,
    hands: Hands,
    board: Board,
    savepoints: Savepoints,
    status: &'a watch::Sender<Status>,
    stop_asked_ms: Option<u64>,
    /// When the status is due again.
    status_at_ms: u64,
}

impl Running<'_> {
    /// Returns how the run ends, if it does.
    fn carry_out(&mut self, effects: Vec<Effect>) -> Option<Result<(), Failure>> {
        effects.into_iter().find_map(|effect| {
            self.board.saw(&effect, &self.coordinator, self.host.now_ms());
            self.hands.apply(effect)
        })
    }

    fn take(&mut self, event: Event) -> Result<Vec<Effect>, Failure> {
        let now_ms = self.host.now_ms();
        let input = match event {
            Event::Tick => return self.tick(now_ms),
            Event::Worker(FromWorker::Trouble { worker, node, why }) => {
                self.board.trouble(worker, node, why);
                return Ok(vec![]);
            }
            Event::Worker(report) => Input::Worker(report),
            Event::Publisher(report) => return self.publisher(report, now_ms),
            Event::Committer(report) => return self.committer(report, now_ms),
            Event::Request(Request::Stop) => {
                self.stop_asked_ms = Some(now_ms);
                self.board.phase(Phase::Stopping);
                tracing::info!("stopping: the last checkpoint, then all commits");
                Input::Stop { drain: self.options.drain }
            }
            Event::Request(Request::Savepoint(asked)) => match self.savepoints.ask(asked) {
                Some(name) => Input::Savepoint(name),
                None => return Ok(vec![]),
            },
            Event::Request(Request::Abort) => return Err(super::aborted()),
            Event::Watch(seen) => {
                let inputs = self.watch.judge(seen, self.coordinator.partitions(), now_ms).map_err(Failure::Failed)?;
                return Ok(inputs.into_iter().flat_map(|i| self.coordinator.step(now_ms, i)).collect());
            }
        };
        Ok(self.coordinator.step(now_ms, input))
    }

    fn tick(&mut self, now_ms: u64) -> Result<Vec<Effect>, Failure> {
        if now_ms >= self.status_at_ms {
            self.status_at_ms = now_ms + STATUS_MS;
            self.show();
        }
        let limit_ms = self.options.stop_within.as_millis() as u64;
        if self.stop_asked_ms.is_some_and(|asked| now_ms >= asked + limit_ms) {
            return self.out_of_time();
        }
        Ok(self.coordinator.step(now_ms, Input::Tick))
    }

    fn publisher(&mut self, report: FromPublisher, now_ms: u64) -> Result<Vec<Effect>, Failure> {
        match report {
            FromPublisher::Published { id, name } => {
                self.board.published(id, now_ms);
                Ok(self.coordinator.step(now_ms, Input::Published(id, name)))
            }
            FromPublisher::Savepoint { id, result } => {
                let sinks = self.coordinator.sinks().keys().copied();
                if let Some(tag) = self.savepoints.written(id, result, sinks) {
                    self.hands.tag(&tag);
                }
                Ok(vec![])
            }
            FromPublisher::Fenced { by } => Err(Failure::Fenced(super::fenced(by))),
            FromPublisher::Failed(why) => Err(Failure::Failed(why)),
        }
    }

    fn committer(&mut self, report: FromCommitter, now_ms: u64) -> Result<Vec<Effect>, Failure> {
        match report {
            FromCommitter::Committed { sink, epoch, mark } => {
                self.board.committed(sink, &mark, now_ms);
                Ok(self.coordinator.step(now_ms, Input::Committed(sink, epoch)))
            }
            FromCommitter::Tagged { sink, result } => {
                self.board.reached(sink);
                self.savepoints.tagged(sink, result);
                Ok(vec![])
            }
            FromCommitter::Away { sink, why } => {
                if self.board.away(sink, &why) {
                    tracing::warn!("a sink is away, its rows wait in the outbox: {why}");
                }
                Ok(vec![])
            }
            FromCommitter::Stopped { reason, .. } => Err(stopped(reason)),
        }
    }

    /// A stop doesn't wait for ever: once the last checkpoint is durable, what sinks haven't taken is as safe in the outbox.
    fn out_of_time(&self) -> Result<Vec<Effect>, Failure> {
        let limit = show_duration(self.options.stop_within);
        if !self.coordinator.waits_only_for_sinks() {
            let why = format!(
                "the last checkpoint was not durable {limit} after the stop: the next start goes on from the one before"
            );
            return Err(Failure::Failed(why));
        }
        for sink in self.status.borrow().sinks.iter().filter(|s| s.waiting_epochs > 0) {
            tracing::warn!(
                sink = sink.name,
                rows = sink.waiting_rows,
                "not committed {limit} after the stop: these rows stay in the outbox, and the next start commits them"
            );
        }
        Ok(vec![Effect::Finished])
    }

    fn show(&mut self) {
        let status = self.board.status(self.host.now_ms(), self.host.wall_ms(), &self.coordinator, &self.watch);
        self.status.send_replace(status);
    }
}

fn stopped(reason: StopReason) -> Failure {
    match reason {
        StopReason::Fenced { .. } => Failure::Fenced(reason.to_string()),
        StopReason::Foreign { .. } | StopReason::Sink(_) => Failure::Failed(reason.to_string()),
    }
}
