//! The power fails: what was not fsynced is gone, and the tables are still those of a run that nothing happened to.
//!
//! The program runs under strace. At a moment drawn by dice it is killed, and everything that the trace doesn't show to be on the disk is taken away:
//! names whose folder wasn't fsynced since, bytes of files that weren't, the whole working database. SQLite's own files are left to SQLite.
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use floodmark_stack::process::Process;
use floodmark_stack::until;

use crate::harness::Job;
use crate::harness::dice::Dice;
use crate::harness::kills::timed;
use crate::harness::log::Log;
use crate::harness::pipelines::Dials;

const JOBS: u64 = 3;
const CUTS: usize = 4;
const CALLS: &str = "openat,write,writev,pwrite64,ftruncate,copy_file_range,fsync,fdatasync,rename,renameat,renameat2,link,linkat,mkdir,mkdirat,unlink,unlinkat";

/// Which files and names would survive, by what the trace of one run says.
#[derive(Default)]
struct Disk {
    /// A file may have several names.
    files: HashMap<PathBuf, usize>,
    /// By file: all its bytes are on the disk.
    synced: Vec<bool>,
    /// By folder: names that it has only in memory.
    unsynced_names: HashMap<PathBuf, HashSet<PathBuf>>,
}

impl Disk {
    /// All that lies below a folder, as if it had been there for long.
    fn of(folder: &Path) -> Disk {
        let mut disk = Disk::default();
        for path in everything_below(folder) {
            disk.create(&path);
        }
        disk.synced.fill(true);
        disk.unsynced_names.clear();
        disk
    }

    fn create(&mut self, path: &Path) {
        self.synced.push(true);
        self.name(path, self.synced.len() - 1);
    }

    fn name(&mut self, path: &Path, file: usize) {
        self.files.insert(path.to_owned(), file);
        self.has_name_in_memory(path);
    }

    fn has_name_in_memory(&mut self, path: &Path) {
        let folder = path.parent().unwrap_or(path).to_owned();
        self.unsynced_names.entry(folder).or_default().insert(path.to_owned());
    }

    fn forget_name(&mut self, path: &Path) -> Option<usize> {
        let folder = path.parent().unwrap_or(path);
        if let Some(names) = self.unsynced_names.get_mut(folder) {
            names.remove(path);
        }
        self.files.remove(path)
    }

    /// Takes one line of the trace. `folder` is where the program runs.
    fn trace(&mut self, line: &str, folder: &Path) {
        let Some(call) = Call::parse(line, folder) else { return };
        let set_synced = |disk: &mut Disk, path: &Path, synced| {
            if let Some(file) = disk.files.get(path) {
                disk.synced[*file] = synced;
            }
        };
        match (call.name, call.paths.as_slice(), &call.result) {
            ("openat", _, Some(path)) if line.contains("O_CREAT") && !self.files.contains_key(path) => {
                self.create(path)
            }
            ("openat", _, Some(path)) if line.contains("O_TRUNC") => set_synced(self, path, false),
            ("write" | "writev" | "pwrite64" | "ftruncate", ..) => {
                call.handle.iter().for_each(|p| set_synced(self, p, false))
            }
            ("copy_file_range", ..) => call.last_handle.iter().for_each(|p| set_synced(self, p, false)),
            ("fsync" | "fdatasync", ..) => {
                if let Some(path) = &call.handle {
                    set_synced(self, path, true);
                    self.unsynced_names.remove(path);
                }
            }
            ("rename" | "renameat" | "renameat2", [from, to], _) => {
                if let Some(file) = self.forget_name(from) {
                    self.name(to, file);
                }
            }
            ("link" | "linkat", [from, to], _) => {
                if let Some(file) = self.files.get(from).copied() {
                    self.name(to, file);
                }
            }
            ("mkdir" | "mkdirat", [path], _) => self.has_name_in_memory(path),
            ("unlink" | "unlinkat", [path], _) => drop(self.forget_name(path)),
            _ => {}
        }
    }

    /// Takes away what is only in memory. Returns how many names and files that were.
    fn cut(self) -> usize {
        let sqlite =
            |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("catalog.db"));
        let mut lost = 0;
        for name in self.unsynced_names.values().flatten().filter(|name| !sqlite(name)) {
            lost += usize::from(if name.is_dir() { fs::remove_dir_all(name) } else { fs::remove_file(name) }.is_ok());
        }
        for (path, file) in &self.files {
            if !self.synced[*file] && !sqlite(path) && path.exists() {
                fs::write(path, "").unwrap();
                lost += 1;
            }
        }
        lost
    }
}

/// A system call that did what it was asked.
struct Call<'a> {
    name: &'a str,
    /// The file of the first handle among its arguments, and of the last.
    handle: Option<PathBuf>,
    last_handle: Option<PathBuf>,
    /// Arguments in quotes.
    paths: Vec<PathBuf>,
    /// The file of the handle that it returned.
    result: Option<PathBuf>,
}

impl<'a> Call<'a> {
    fn parse(line: &'a str, folder: &Path) -> Option<Call<'a>> {
        let (_, call) = line.split_once(' ')?;
        let (name, rest) = call.trim_start().split_once('(')?;
        let (arguments, result) = rest.rsplit_once(" = ")?;
        if result.starts_with('-') {
            return None;
        }
        let handles = arguments.split('<').skip(1).filter_map(|part| part.split('>').next()).map(PathBuf::from);
        let handles: Vec<_> = handles.collect();
        let paths = arguments.split('"').skip(1).step_by(2).map(|path| folder.join(path)).collect();
        let result = result.split_once('<').and_then(|(_, path)| path.split('>').next()).map(PathBuf::from);
        let last_handle = handles.last().cloned();
        Some(Call { name, handle: handles.into_iter().next(), last_handle, paths, result })
    }
}

fn everything_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() { found.extend(everything_below(&path)) } else { found.push(path) }
    }
    found
}

/// Starts the job under strace; what it asks of the system goes into the file `trace`.
fn start_traced(job: &Job, trace: &Path) -> Process {
    let run = job.command(&["run", "pipeline.toml"]);
    let mut command = Command::new("strace");
    command.args(["-f", "-y", "-z", "-qqq", "--seccomp-bpf", "-s", "0", "-e", &format!("trace={CALLS}"), "-o"]);
    command.arg(trace).arg(run.get_program()).args(run.get_args()).current_dir(job.path(""));
    Process::start(command, &job.path("traced")).unwrap()
}

/// Runs the job until the power fails. Returns what was lost; `None` if it came to its end before.
fn run_until_the_power_fails(job: &Job, dice: &mut Dice, within: std::time::Duration) -> Option<usize> {
    let (trace, folder) = (job.path("trace"), job.path("data"));
    let mut disk = Disk::of(&folder);
    let mut process = start_traced(job, &trace);
    let mut ended = None;
    until(dice.moment(within), || {
        ended = process.exit_status().unwrap();
        ended.is_some()
    });
    if let Some(status) = ended {
        assert!(status.success(), "{}", process.output_tail());
        return None;
    }
    process.kill().unwrap();
    let traced = String::from_utf8_lossy(&fs::read(&trace).unwrap_or_default()).into_owned();
    traced.lines().for_each(|line| disk.trace(line, &job.path("")));
    let lost = disk.cut();
    let _ = fs::remove_dir_all(folder.join("checkpoints/work"));
    Some(lost)
}

#[test]
fn what_was_not_fsynced_is_not_missed() {
    let log = Log::clickstream(&["--events", "40k"]);
    let new_job = || {
        let job = Job::new(&Dials::pipeline("workers = 2").clicks());
        log.give(&job);
        job
    };
    let undisturbed = new_job();
    let whole_run = timed(&undisturbed);
    let expected = undisturbed.digests();

    let (mut cuts, mut lost) = (0, 0);
    for seed in 1..=JOBS {
        let (job, mut dice) = (new_job(), Dice::new(seed));
        for _ in 0..CUTS {
            let Some(more) = run_until_the_power_fails(&job, &mut dice, whole_run) else { break };
            cuts += 1;
            lost += more;
        }
        job.finish();
        assert_eq!(job.digests(), expected, "seed {seed}, after {cuts} cuts");
    }
    assert!(cuts > 0 && lost > 0, "{cuts} cuts took {lost} names and files: nothing was shown");
}

#[test]
fn a_name_is_safe_when_its_folder_is_and_a_file_when_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut disk = Disk::of(folder.path());
    for name in ["kept", "unnamed", "empty"] {
        fs::write(at(name), "x").unwrap();
    }
    let root = folder.path().display();
    for line in [
        format!("7 openat(AT_FDCWD<{root}>, \"{root}/kept#1\", O_WRONLY|O_CREAT|O_EXCL, 0666) = 4<{root}/kept#1>"),
        format!("7 write(4<{root}/kept#1>, \"\"..., 1) = 1"),
        format!("7 fsync(4<{root}/kept#1>) = 0"),
        format!("7 linkat(AT_FDCWD<{root}>, \"{root}/kept#1\", AT_FDCWD<{root}>, \"{root}/kept\", 0) = 0"),
        format!("7 openat(AT_FDCWD<{root}>, \"empty\", O_WRONLY|O_CREAT, 0666) = 5<{root}/empty>"),
        format!("7 pwrite64(5<{root}/empty>, \"\"..., 1, 0) = 1"),
        format!("7 fsync(6<{root}>) = 0"),
        format!("7 openat(AT_FDCWD<{root}>, \"{root}/unnamed\", O_WRONLY|O_CREAT, 0666) = 7<{root}/unnamed>"),
        format!("7 fsync(7<{root}/unnamed>) = 0"),
    ] {
        disk.trace(&line, folder.path());
    }
    assert_eq!(disk.cut(), 2);
    assert_eq!(fs::read_to_string(at("kept")).unwrap(), "x");
    assert_eq!(fs::read_to_string(at("empty")).unwrap(), "");
    assert!(!at("unnamed").exists());
}
