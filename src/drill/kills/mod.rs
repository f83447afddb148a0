//! `floodmark drill kills`: a job over a real broker and real catalogs, killed and frozen at seeded moments, round after round, until so many are counted.
//!
//! ```text
//! generate ──> topic ──┬─> one run without a kill ──────────────> digests of its tables
//!                      └─> round: start, SIGKILL, start, … end ─> the same digests, or a failure
//! ```
//! A round has tables and checkpoints of its own; rounds take turns between the catalogs. The table `raw` takes the records as they are read, without dedup,
//! which would hide one that comes twice.
//! Doesn't know: how the engine works. Keeps: what is counted stands in the drill's folder after each round, and the next run goes on from there; same
//! settings, same blows. Tested: each file here; tests/drill.rs.
mod aim;
mod job;
mod tally;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use floodmark_pipeline::digest::Digest;

use super::DrillError;
use super::process::{End, Process};
use aim::{Aim, Blow};
use job::Job;
pub use tally::Tally;

/// What a fenced process ends with.
const FENCED: i32 = 4;
/// Whoever takes longer to come to an end, or to a step, is stuck.
const PATIENCE: Duration = Duration::from_secs(180);

#[derive(Clone, Debug)]
pub struct Settings {
    /// Kills and freezes to count in all.
    pub n: u64,
    pub seed: u64,
    /// Records of the log.
    pub events: u64,
    pub brokers: String,
    pub catalogs: Vec<Catalog>,
    pub dir: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Catalog {
    Sqlite,
    /// By its URI.
    Rest(String),
}

/// Goes on until so many are counted; `say` gets a line for each round.
pub async fn run(settings: &Settings, say: &mut dyn FnMut(&str)) -> Result<Tally, DrillError> {
    std::fs::create_dir_all(&settings.dir).map_err(DrillError::at(&settings.dir))?;
    let mut tally = Tally::open(&settings.dir, settings)?;
    if tally.counted() >= settings.n {
        return Ok(tally);
    }
    let topic = Topic::write(settings)?;
    say(&format!("wrote {} records to {}; running the pipeline without a kill …", settings.events, topic.name));
    let (expected, whole_run) = unharmed(settings, &topic).await?;
    while tally.counted() < settings.n {
        let round = Round::new(settings, &topic, tally.rounds, whole_run)?;
        let most = settings.n - tally.counted();
        round.play(most, &expected, &mut tally).await?;
        tally.rounds += 1;
        tally.keep(&settings.dir)?;
        say(&tally.line());
    }
    Ok(tally)
}

/// The log of this drill on the broker: the same records each time, under a name of its own.
struct Topic {
    name: String,
}

impl Topic {
    fn write(settings: &Settings) -> Result<Self, DrillError> {
        let since_epoch = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_millis();
        let name = format!("floodmark-drill-{}-{since_epoch}", std::process::id());
        let log = settings.dir.join("generate.log");
        let messages = std::fs::File::create(&log).map_err(DrillError::at(&log))?;
        let mut command = Command::new(std::env::current_exe().map_err(DrillError::Spawn)?);
        command.args(["generate", "clickstream", "--partitions", "4", "--event-rate", "1000"]);
        command.args(["--events", &settings.events.to_string(), "--seed", &settings.seed.to_string()]);
        command.args(["--to", &format!("kafka://{}/{name}", settings.brokers)]).stderr(messages);
        let status = command.status().map_err(DrillError::Spawn)?;
        if !status.success() {
            return Err(DrillError::ChildFailed { what: "generate", how: status.to_string(), log });
        }
        Ok(Self { name })
    }
}

type Digests = BTreeMap<&'static str, Digest>;

/// What a run makes to which nothing happens, and how long it takes.
async fn unharmed(settings: &Settings, topic: &Topic) -> Result<(Digests, Duration), DrillError> {
    let job = Job::create(settings, topic, "unharmed", &Catalog::Sqlite)?;
    let began = Instant::now();
    match job.start()?.ended_within(PATIENCE)? {
        Some(End::Code(0)) => {}
        other => return Err(job.failed(other)),
    }
    let whole_run = began.elapsed();
    let digests = job.digests().await?;
    job.clear()?;
    Ok((digests, whole_run))
}

/// One job, from its first start to its end.
struct Round {
    number: u64,
    job: Job,
    aim: Aim,
    whole_run: Duration,
}

impl Round {
    fn new(settings: &Settings, topic: &Topic, number: u64, whole_run: Duration) -> Result<Self, DrillError> {
        let catalog = &settings.catalogs[number as usize % settings.catalogs.len()];
        let job = Job::create(settings, topic, &format!("round-{number}"), catalog)?;
        let aim = Aim::new(settings.seed, number);
        Ok(Self { number, job, aim, whole_run })
    }

    async fn play(mut self, most: u64, expected: &Digests, tally: &mut Tally) -> Result<(), DrillError> {
        let begun = tally.counted();
        let mut wrong = None;
        for blow in self.aim.blows() {
            if wrong.is_some() || tally.counted() - begun >= most {
                break;
            }
            let left = self.left(expected).await?;
            match self.strike(blow, left, tally)? {
                Struck::GoesOn => {}
                Struck::Ended => break,
                Struck::Wrong(what) => wrong = Some(what),
            }
            let visible = self.job.visible("raw").await?;
            tally.within += u64::from(0 < visible && visible < expected["raw"].rows);
        }
        let wrong = match wrong {
            None => self.compare(expected).await?,
            found => found,
        };
        match wrong {
            Some(what) => tally.failures.push(format!("round {}, {}: {what}", self.number, self.job.place())),
            // What went wrong can be looked at; what went well only takes room.
            None => self.job.clear()?,
        }
        Ok(())
    }

    /// The share of the log that isn't visible yet.
    async fn left(&self, expected: &Digests) -> Result<f64, DrillError> {
        let visible = self.job.visible("raw").await?;
        Ok(1.0 - visible as f64 / expected["raw"].rows.max(1) as f64)
    }

    fn strike(&mut self, blow: Blow, left: f64, tally: &mut Tally) -> Result<Struck, DrillError> {
        let moment = |share: f64| self.whole_run.mul_f64(share * left.max(0.05));
        match blow {
            Blow::Kill { share } => self.kill(&mut self.job.start()?, moment(share), tally),
            Blow::KillAt { point, visits } => {
                self.job.order(point, visits)?;
                let mut process = self.job.start()?;
                match process.ended_within(PATIENCE)? {
                    Some(End::Killed) => {
                        tally.kills_at_steps += 1;
                        Ok(Struck::GoesOn)
                    }
                    other => Ok(Struck::unless_well(other)),
                }
            }
            Blow::Freeze { share, awake } => self.freeze(moment(share), moment(awake), tally),
        }
    }

    fn kill(&self, process: &mut Process, after: Duration, tally: &mut Tally) -> Result<Struck, DrillError> {
        if let Some(end) = process.ended_within(after)? {
            return Ok(Struck::unless_well(Some(end)));
        }
        match process.kill()? {
            End::Killed => {
                tally.kills += 1;
                Ok(Struck::GoesOn)
            }
            end => Ok(Struck::unless_well(Some(end))),
        }
    }

    /// One sleeps while another starts. When it wakes, one of the two is fenced: the sleeper, unless it had claimed nothing yet.
    fn freeze(&self, after: Duration, asleep: Duration, tally: &mut Tally) -> Result<Struck, DrillError> {
        let mut sleeper = self.job.start()?;
        if let Some(end) = sleeper.ended_within(after)? {
            return Ok(Struck::unless_well(Some(end)));
        }
        sleeper.freeze()?;
        let mut second = self.job.start()?;
        let second_ended = second.ended_within(asleep)?;
        sleeper.wake()?;
        tally.freezes += 1;
        let (mut ends, began) = ([None, second_ended], Instant::now());
        while began.elapsed() < PATIENCE {
            ends[0] = ends[0].map_or_else(|| sleeper.ended_within(Duration::ZERO), |end| Ok(Some(end)))?;
            ends[1] = ends[1].map_or_else(|| second.ended_within(Duration::ZERO), |end| Ok(Some(end)))?;
            match ends {
                [Some(End::Code(FENCED)), None] => return self.kill(&mut second, asleep, tally),
                [None, Some(End::Code(FENCED))] => return self.kill(&mut sleeper, asleep, tally),
                [Some(one), Some(other)] => {
                    let well = |end| matches!(end, End::Code(0));
                    let fenced = |end| matches!(end, End::Code(FENCED));
                    let right = well(one) && (well(other) || fenced(other)) || fenced(one) && well(other);
                    let wrong = format!("the sleeper ended with {one}, the one that had started with {other}");
                    return Ok(if right { Struck::Ended } else { Struck::Wrong(wrong) });
                }
                [Some(end), None] | [None, Some(end)] if end != End::Code(0) => {
                    return Ok(Struck::Wrong(format!("beside another, one ended with {end}")));
                }
                _ => std::thread::sleep(Duration::from_millis(2)),
            }
        }
        Ok(Struck::Wrong("neither of two processes is fenced".into()))
    }

    /// Runs to the end; what the tables hold that they shouldn't.
    async fn compare(&self, expected: &Digests) -> Result<Option<String>, DrillError> {
        if let Struck::Wrong(what) = Struck::unless_well(self.job.start()?.ended_within(PATIENCE)?) {
            return Ok(Some(what));
        }
        let found = self.job.digests().await?;
        let differing = expected.iter().find(|(table, digest)| found.get(*table) != Some(digest));
        Ok(differing.map(|(table, digest)| {
            let found = found.get(table).map_or_else(|| "nothing".to_owned(), ToString::to_string);
            format!("table {table} holds {found}, and should hold {digest}")
        }))
    }
}

/// What came of a blow.
enum Struck {
    GoesOn,
    /// The job had come to its end before.
    Ended,
    Wrong(String),
}

impl Struck {
    fn unless_well(end: Option<End>) -> Self {
        match end {
            Some(End::Code(0)) => Self::Ended,
            Some(end) => Self::Wrong(format!("it ended with {end}")),
            None => Self::Wrong(format!("it didn't end within {} s", PATIENCE.as_secs())),
        }
    }
}
