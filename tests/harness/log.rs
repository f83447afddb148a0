//! Logs of events in files, and their ledgers.
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use floodmark_stack::process::Process;
use serde_json::Value;

use super::{Job, PATIENCE};

/// What a log holds, as its generator wrote it down.
pub struct Ledger(Value);

impl Ledger {
    pub fn read(path: &Path) -> Ledger {
        Ledger(serde_json::from_slice(&fs::read(path).unwrap()).unwrap())
    }

    /// A sum over all partitions: `records`, `events`, `late`, `resent`, `poison`.
    pub fn total(&self, what: &str) -> u64 {
        self.0["total"][what].as_u64().unwrap_or_else(|| panic!("the ledger has no {what}"))
    }
}

/// A log as files in a folder of its own, shared by jobs that only read it.
pub struct Log {
    job: Job,
    pub ledger: Ledger,
}

impl Log {
    /// `floodmark generate clickstream` with these dials.
    pub fn clickstream(dials: &[&str]) -> Log {
        let job = Job::new("");
        generate(&job, &[&["clickstream", "--to", "file:data/events"], dials].concat());
        Log { ledger: Ledger::read(&job.path("ledger.json")), job }
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<_> =
            fs::read_dir(self.job.path("data/events")).unwrap().map(|f| f.unwrap().path()).collect();
        files.sort();
        files
    }

    /// Gives a job this log, as files that nobody changes.
    pub fn give(&self, job: &Job) {
        self.give_as(job, |name, _| name.to_owned());
    }

    /// The same under other names, made from a file's own and its place among all.
    pub fn give_as(&self, job: &Job, name: impl Fn(&str, usize) -> String) {
        fs::create_dir_all(job.path("data/events")).unwrap();
        for (place, file) in self.files().into_iter().enumerate() {
            let name = name(&file.file_name().unwrap().to_string_lossy(), place);
            fs::hard_link(&file, job.path("data/events").join(name)).unwrap();
        }
    }

    /// Appends the part of every file between two shares of its lines, in thousandths.
    pub fn grow(&self, job: &Job, from: usize, to: usize) {
        fs::create_dir_all(job.path("data/events")).unwrap();
        for file in self.files() {
            let bytes = fs::read(&file).unwrap();
            let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
            let part = lines[lines.len() * from / 1000..lines.len() * to / 1000].concat();
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            let mut grown =
                fs::File::options().create(true).append(true).open(job.path("data/events").join(name)).unwrap();
            grown.write_all(&part).unwrap();
        }
    }

    /// The same lines over another number of files; the copies of an event stay together.
    pub fn spread(&self, job: &Job, files: usize) {
        fs::create_dir_all(job.path("data/events")).unwrap();
        let mut parts: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
        for file in self.files() {
            let bytes = fs::read(file).unwrap();
            for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                let place = xxhash_rust::xxh3::xxh3_64(id_of(line)) as usize % files;
                parts.entry(place).or_default().extend_from_slice(line);
            }
        }
        for (place, bytes) in parts {
            fs::write(job.path(&format!("data/events/spread-{place}.ndjson")), bytes).unwrap();
        }
    }
}

/// The event's id, the first field of a line.
fn id_of(line: &[u8]) -> &[u8] {
    let end = line.iter().position(|byte| *byte == b',').unwrap_or(line.len());
    &line[..end]
}

/// Runs `floodmark generate` in the job's folder, with a ledger.
pub fn generate(job: &Job, arguments: &[&str]) {
    let mut command = job.command(&[&["generate", "--ledger", "ledger.json"], arguments].concat());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The same, going on while the test does other things.
pub struct Feed(Process);

impl Feed {
    pub fn start(job: &Job, arguments: &[&str]) -> Feed {
        let command = job.command(&[&["generate", "--ledger", "ledger.json"], arguments].concat());
        Feed(Process::start(command, &job.path("feed")).unwrap())
    }

    pub fn wait(mut self) {
        let status = self.0.wait(PATIENCE).unwrap();
        assert!(status.success(), "{}", self.0.output_tail());
    }
}
