//! Where requests of simulated processes pass on their way to the outside: each takes its time, is written into the trace, and may go wrong as ordered.
//!
//! Doesn't know: what a request does. Keeps: a fault fires at most once, and the trace says so.
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::executor::{Executor, ProcessId};
use super::host::pass;

/// What is on its way belongs to no process.
const OUTSIDE: ProcessId = usize::MAX;

/// What a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    Claim,
    Segment,
    StateFile,
    Manifest,
    /// Another object of a store: rows and marks of a file sink, probes.
    Object,
    Read,
    List,
    Delete,
    LoadTable,
    MakeTable,
    /// A fence or rows.
    CommitTable,
    AskLog,
}

impl Class {
    pub const ALL: [Self; 12] = [
        Self::Claim,
        Self::Segment,
        Self::StateFile,
        Self::Manifest,
        Self::Object,
        Self::Read,
        Self::List,
        Self::Delete,
        Self::LoadTable,
        Self::MakeTable,
        Self::CommitTable,
        Self::AskLog,
    ];

    /// What is away when such a request can't be made.
    fn place(self) -> Place {
        match self {
            Self::LoadTable | Self::MakeTable | Self::CommitTable => Place::Catalog,
            Self::AskLog => Place::Log,
            _ => Place::Store,
        }
    }

    fn writes_object(self) -> bool {
        matches!(self, Self::Claim | Self::Segment | Self::StateFile | Self::Manifest | Self::Object)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    Store,
    Catalog,
    Log,
}

/// What goes wrong with a request, or with who makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The process is gone before the request is made.
    Kill,
    /// All processes are gone, and what stores have not made durable.
    PowerCut,
    /// The process stands still; another one is started meanwhile.
    Freeze { ms: u64 },
    /// Nothing happens, and the process hears so.
    Refuse,
    /// It is done, and the answer lost.
    LoseAnswer,
    /// It is done later, and the process hears that nobody knows.
    Delay { ms: u64 },
    /// The place can't be reached for a while.
    Away { ms: u64 },
    /// Stores take nothing for a while.
    Full { ms: u64 },
    /// A second start beside this one.
    Twin,
}

/// Trouble with the `nth` request (from 0) of a class, or of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub class: Option<Class>,
    pub nth: usize,
    pub trouble: Trouble,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Go,
    /// Nothing happens; why.
    Refused(&'static str),
    AnswerLost,
    Later {
        ms: u64,
    },
}

/// What the simulation has to do because of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upshot {
    Killed(ProcessId),
    PowerCut,
    Frozen(ProcessId, u64),
    Twin,
}

/// Shared by all processes of a simulation. A clone is the same.
#[derive(Clone)]
pub struct Gate {
    pub executor: Executor,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    faults: Vec<Fault>,
    fired: usize,
    /// Requests so far: of each class, and of all.
    counts: [usize; Class::ALL.len()],
    all: usize,
    away_until_ms: [u64; 3],
    full_until_ms: u64,
    upshots: Vec<Upshot>,
    trace: Vec<String>,
}

impl Gate {
    pub fn new(executor: Executor, faults: Vec<Fault>) -> Self {
        let inner = Inner {
            faults,
            fired: 0,
            counts: [0; Class::ALL.len()],
            all: 0,
            away_until_ms: [0; 3],
            full_until_ms: 0,
            upshots: vec![],
            trace: vec![],
        };
        Self { executor, inner: Arc::new(Mutex::new(inner)) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn say(&self, what: impl fmt::Display) {
        let now_ms = self.executor.now_ms();
        self.lock().trace.push(format!("{now_ms:>6} {what}"));
    }

    /// A process asks for something. Whoever is killed doesn't come back from here.
    pub async fn request(&self, process: ProcessId, class: Class, what: String) -> Fate {
        match self.executor.chance(|chance| chance.u8(..)) {
            0..160 => pass().await,
            160..240 => self.executor.sleep(Duration::from_millis(1)).await,
            draw => self.executor.sleep(Duration::from_millis(u64::from(draw - 238))).await,
        }
        let now_ms = self.executor.now_ms();
        let (fate, upshot) = self.lock().judge(process, class, now_ms);
        self.say(format_args!("p{process} {what}{}", shown(fate)));
        self.lock().upshots.extend(upshot);
        match upshot {
            Some(Upshot::Killed(_) | Upshot::PowerCut) => std::future::pending().await,
            Some(Upshot::Frozen(..)) => {
                self.executor.freeze(process);
                pass().await;
            }
            Some(Upshot::Twin) | None => {}
        }
        fate
    }

    /// Something that is on its way arrives after a while, whoever sent it.
    pub fn later<T>(&self, ms: u64, what: String, arrive: impl FnOnce() -> T + Send + 'static)
    where
        T: fmt::Debug,
    {
        let (gate, sleep) = (self.clone(), self.executor.sleep(Duration::from_millis(ms)));
        let task = async move {
            sleep.await;
            let came = arrive();
            gate.say(format_args!("{what} -> {came:?}"));
        };
        self.executor.spawn(OUTSIDE, Box::pin(task));
    }

    /// For who can't wait: is this place away?
    pub fn is_away(&self, place: Place) -> bool {
        self.lock().away_until_ms[place as usize] > self.executor.now_ms()
    }

    pub fn upshots(&self) -> Vec<Upshot> {
        std::mem::take(&mut self.lock().upshots)
    }

    /// Nothing goes wrong any more.
    pub fn calm(&self) {
        let mut inner = self.lock();
        inner.faults.clear();
        inner.away_until_ms = [0; 3];
        inner.full_until_ms = 0;
    }

    /// One of the faults that are still to come strikes at the next request, whatever that is. False: there is none.
    pub fn hurry(&self) -> bool {
        let mut inner = self.lock();
        let Some(fault) = inner.faults.first_mut() else { return false };
        (fault.class, fault.nth) = (None, 0);
        true
    }

    pub fn fired(&self) -> usize {
        self.lock().fired
    }

    pub fn trace(&self) -> Vec<String> {
        self.lock().trace.clone()
    }

    pub fn requests(&self) -> usize {
        self.lock().all
    }
}

impl Inner {
    /// What becomes of the next request, and of more than that.
    fn judge(&mut self, process: ProcessId, class: Class, now_ms: u64) -> (Fate, Option<Upshot>) {
        let (of_class, of_all) = (self.counts[class as usize], self.all);
        self.counts[class as usize] += 1;
        self.all += 1;
        let due = self.faults.iter().position(|fault| match fault.class {
            Some(wanted) => wanted == class && fault.nth <= of_class,
            None => fault.nth <= of_all,
        });
        let fault = due.map(|at| self.faults.remove(at));
        self.fired += usize::from(fault.is_some());
        let until = |ms: u64| now_ms + ms;
        let (mut fate, mut upshot) = (Fate::Go, None);
        match fault.map(|fault| fault.trouble) {
            None => {}
            Some(Trouble::Kill) => return (Fate::Refused("killed"), Some(Upshot::Killed(process))),
            Some(Trouble::PowerCut) => return (Fate::Refused("power cut"), Some(Upshot::PowerCut)),
            Some(Trouble::Freeze { ms }) => upshot = Some(Upshot::Frozen(process, until(ms))),
            Some(Trouble::Twin) => upshot = Some(Upshot::Twin),
            Some(Trouble::Refuse) => fate = Fate::Refused("refused"),
            Some(Trouble::LoseAnswer) => fate = Fate::AnswerLost,
            Some(Trouble::Delay { ms }) => fate = Fate::Later { ms },
            Some(Trouble::Away { ms }) => self.away_until_ms[class.place() as usize] = until(ms),
            Some(Trouble::Full { ms }) => self.full_until_ms = until(ms),
        }
        if self.away_until_ms[class.place() as usize] > now_ms {
            fate = Fate::Refused("not reachable");
        } else if class.writes_object() && self.full_until_ms > now_ms {
            fate = Fate::Refused("no space left on device");
        }
        (fate, upshot)
    }
}

fn shown(fate: Fate) -> String {
    match fate {
        Fate::Go => String::new(),
        Fate::Refused(why) => format!(" -> {why}"),
        Fate::AnswerLost => " -> answer lost".into(),
        Fate::Later { ms } => format!(" -> held for {ms} ms"),
    }
}
