//! The stack of the parity drill as ordinary processes of one Linux machine: up, down, status, logs.
//!
//! Each part has a holder: this program again, in a session of its own, which starts the part as a test would, writes down where it answers, and waits to
//! be ended by its process id. Its guards then take the part's processes and data with it, also when it is killed.
//! Doesn't know: what the parts are for; those that need others are told by the facts which these wrote down.
//! Keeps: everything lies in one folder; what is down has left neither process nor file.
//! Tested: compose/stack/tests/native.rs.

use std::env;
use std::error::Error;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::until;

mod parts;

use parts::{ALL, Part};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const USAGE: &str =
    "compose/native up [NAME[=PORT]]...   start parts and what they need: kafka postgres s3 rest flink if none is named
                                     KAFKA_NODES=3 for three brokers (PORT, PORT+100, PORT+200)
compose/native down [NAME]...        stop parts, all if none is named; their data goes with them
compose/native status                what runs, where it answers, and whether it does
compose/native logs NAME             where its logs are, and the end of each
The folder is $FLOODMARK_STACK, else floodmark-stack in the temporary folder.";

/// For a part to start on a machine that is busy with something else.
const START_LIMIT: Duration = Duration::from_secs(600);
const STOP_LIMIT: Duration = Duration::from_secs(60);

pub fn command(arguments: &[String]) -> Outcome {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let folder = stack_folder();
    match words.as_slice() {
        ["up", names @ ..] => up(&folder, names),
        ["down", names @ ..] => down(&folder, names),
        ["status"] => status(&folder),
        ["logs", name] => logs(&folder, Part::named(name)?),
        ["hold", name, port] => hold(&folder, Part::named(name)?, port.parse().ok()),
        _ => Err(USAGE.into()),
    }
}

fn stack_folder() -> PathBuf {
    env::var_os("FLOODMARK_STACK").map_or_else(|| env::temp_dir().join("floodmark-stack"), PathBuf::from)
}

/// A part's folder: the holder's process id, its output, the facts, and in `tmp` what the part itself has.
struct Place {
    part: Part,
    folder: PathBuf,
}

impl Place {
    fn new(stack: &Path, part: Part) -> Place {
        Place { part, folder: stack.join(part.name()) }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The holder, if it runs: its number may be another's by now.
    fn holder(&self) -> Option<Pid> {
        let id: i32 = fs::read_to_string(self.file("pid")).ok()?.trim().parse().ok()?;
        let command = fs::read(format!("/proc/{id}/cmdline")).ok()?;
        let words: Vec<&[u8]> = command.split(|byte| *byte == 0).collect();
        let is_ours = words.windows(2).any(|pair| pair == [b"hold".as_slice(), self.part.name().as_bytes()]);
        is_ours.then(|| Pid::from_raw(id)).flatten()
    }

    /// Written when the part answers.
    fn facts(&self) -> Option<Vec<(String, String)>> {
        let text = fs::read_to_string(self.file("facts")).ok()?;
        Some(
            text.lines().filter_map(|line| line.split_once('=')).map(|(k, v)| (k.to_string(), v.to_string())).collect(),
        )
    }

    fn fact(&self, name: &str) -> Outcome<String> {
        let facts = self.facts().unwrap_or_default();
        let found = facts.into_iter().find(|(key, _)| key == name).map(|(_, value)| value);
        found.ok_or_else(|| format!("{} isn't up", self.part.name()).into())
    }

    /// Whether somebody takes a connection where the part said that it answers.
    fn answers(&self) -> bool {
        let address = self.fact("address").unwrap_or_default();
        !address.is_empty()
            && address.split(',').all(|one| {
                let one: Result<SocketAddr, _> = one.parse();
                one.is_ok_and(|one| TcpStream::connect_timeout(&one, Duration::from_secs(5)).is_ok())
            })
    }
}

fn up(stack: &Path, names: &[&str]) -> Outcome {
    let names = if names.is_empty() { &["kafka", "postgres", "s3", "rest", "flink"] } else { names };
    let mut wanted = Vec::new();
    for name in names {
        let (name, port) = name.split_once('=').map_or((*name, None), |(name, port)| (name, Some(port)));
        let port: Option<u16> = port.map(|port| port.parse().map_err(|_| format!("{port} is no port"))).transpose()?;
        wanted.push((Part::named(name)?, port));
    }
    for part in ALL {
        let port = wanted.iter().find(|(asked, _)| *asked == part).map(|(_, port)| *port);
        let needed = || wanted.iter().any(|(asked, _)| asked.needs().contains(&part));
        if port.is_some() || needed() {
            start(&Place::new(stack, part), port.flatten())?;
        }
    }
    Ok(())
}

fn start(place: &Place, port: Option<u16>) -> Outcome {
    let name = place.part.name();
    if place.holder().is_some() {
        println!("{name}: is up already");
        return Ok(());
    }
    clear(place)?;
    fs::create_dir_all(place.file("tmp"))?;
    let output = File::create(place.file("holder.log"))?;
    let mut holder = Command::new("setsid")
        .arg(env::current_exe()?)
        .args(["hold", name, &port.map_or_else(|| "any".to_string(), |port| port.to_string())])
        .env("TMPDIR", place.file("tmp"))
        .env("FLOODMARK_STACK", place.folder.parent().unwrap_or(&place.folder))
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .spawn()?;
    // setsid becomes the holder: it has its number.
    fs::write(place.file("pid"), holder.id().to_string())?;
    let mut ended = false;
    let answered = until(START_LIMIT, || {
        ended = !matches!(holder.try_wait(), Ok(None));
        ended || place.facts().is_some()
    });
    if answered && !ended {
        println!("{name}: up, {}", place.fact("address")?);
        return Ok(());
    }
    let said = fs::read_to_string(place.file("holder.log")).unwrap_or_default();
    stop(place)?;
    let why = if ended { "it ended".to_string() } else { format!("it doesn't answer after {START_LIMIT:?}") };
    Err(format!("{name} didn't start: {why}\n{}", said.trim()).into())
}

/// The holder itself: never returns unless the part can't be started.
fn hold(stack: &Path, part: Part, port: Option<u16>) -> Outcome {
    let place = Place::new(stack, part);
    let (_running, facts) = part.start(port, |of, fact| Place::new(stack, of).fact(fact))?;
    let lines: String = facts.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
    // Seen whole or not at all.
    fs::write(place.file("facts.new"), lines)?;
    fs::rename(place.file("facts.new"), place.file("facts"))?;
    loop {
        thread::park();
    }
}

fn down(stack: &Path, names: &[&str]) -> Outcome {
    let asked: Vec<Part> = names.iter().map(|name| Part::named(name)).collect::<Result<_, _>>()?;
    // Those that need others go first.
    for part in ALL.into_iter().rev() {
        let place = Place::new(stack, part);
        if (asked.is_empty() || asked.contains(&part)) && place.folder.exists() {
            stop(&place)?;
            println!("{}: down", part.name());
        }
    }
    // Only if nothing is left in it.
    let _ = fs::remove_dir(stack);
    Ok(())
}

fn stop(place: &Place) -> Outcome {
    if let Some(holder) = place.holder() {
        let _ = kill_process(holder, Signal::TERM);
        if !until(STOP_LIMIT, || has_ended(holder)) {
            let _ = kill_process(holder, Signal::KILL);
        }
    }
    clear(place)
}

/// Nothing of a part that has no holder any more: its guards see to that; who still runs after the limit is killed by its id.
fn clear(place: &Place) -> Outcome {
    if !place.folder.exists() {
        return Ok(());
    }
    if !until(STOP_LIMIT, || processes_in(&place.folder).is_empty()) {
        for process in processes_in(&place.folder) {
            let _ = kill_process(process, Signal::KILL);
        }
    }
    // The guards may be removing the same files.
    let mut removed = Ok(());
    until(STOP_LIMIT, || {
        removed = fs::remove_dir_all(&place.folder);
        !place.folder.exists()
    });
    if place.folder.exists() { Ok(removed?) } else { Ok(()) }
}

/// Gone, or waits only for its parent to ask how it ended.
fn has_ended(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).unwrap_or_default();
    test_kill_process(process).is_err() || stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
}

/// Those that work in the folder, or did before it was removed.
fn processes_in(folder: &Path) -> Vec<Pid> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let inside = all
        .filter(|process| fs::read_link(process.path().join("cwd")).is_ok_and(|working| working.starts_with(folder)));
    inside.filter_map(|process| process.file_name().to_str()?.parse().ok().and_then(Pid::from_raw)).collect()
}

fn status(stack: &Path) -> Outcome {
    println!("{:<11} {:<9} {:<8} where", "part", "state", "process");
    for part in ALL {
        let place = Place::new(stack, part);
        let holder = place.holder();
        let state = match (holder, place.facts()) {
            (None, _) if place.folder.exists() => "died",
            (None, _) => "down",
            (Some(_), None) => "starting",
            (Some(_), Some(_)) if place.answers() => "up",
            (Some(_), Some(_)) => "silent",
        };
        let process = holder.map_or_else(String::new, |holder| holder.as_raw_nonzero().to_string());
        let facts = place.facts().unwrap_or_default();
        let facts: Vec<String> = facts.iter().map(|(key, value)| format!("{key}={value}")).collect();
        println!("{:<11} {state:<9} {process:<8} {}", part.name(), facts.join(" "));
    }
    Ok(())
}

fn logs(stack: &Path, part: Part) -> Outcome {
    const LINES: usize = 40;
    let place = Place::new(stack, part);
    let services = fs::read_dir(place.file("tmp")).map_err(|_| format!("{} is down", part.name()))?;
    let logs = services.flatten().map(|service| service.path().join("log"));
    for log in logs.chain([place.file("holder.log")]).filter(|log| log.exists()) {
        let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        println!("--- {}", log.display());
        lines[lines.len().saturating_sub(LINES)..].iter().for_each(|line| println!("{line}"));
    }
    Ok(())
}
