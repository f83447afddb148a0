//! `floodmark audit`: the state of every checkpoint is what its log gives, after kills too; and one that isn't is found.
use crate::harness::Job;
use crate::harness::audit::{audited, none_differs};
use crate::harness::log::Log;
use crate::harness::pipelines::Dials;
use crate::harness::status::{Listening, read};

const RECORDS: u64 = 20_000;

/// One that waits for more, so that none of its partitions has ended, and tells how it is.
struct Audits {
    job: Job,
    listening: Listening,
}

impl Audits {
    fn new(state: &str) -> Audits {
        let listening = Listening::somewhere();
        let dials = Dials {
            pipeline: format!("workers = 2\nstate = \"{state}\"\nbatch_rows = 50\n{}", listening.line()),
            checkpoint: r#"{ interval = "20ms", dir = "file:data/checkpoints", retain = 4 }"#.into(),
            source: "type = \"file\"\npath = \"data/events\"\nend = \"never\"".into(),
            ..Dials::default()
        };
        let job = Job::new(&dials.clicks());
        Log::clickstream(&["--events", "20k", "--partitions", "3", "--event-rate", "200", "--users", "300"])
            .grow(&job, 0, 1000);
        Audits { job, listening }
    }

    /// Killed three checkpoints after it has read something, or something more than before.
    fn run_and_kill(&self, before: u64) -> u64 {
        let mut run = self.job.start();
        let status = self.listening.wait_for(&self.job, &mut run, |status| {
            let read = read(status);
            read > before || read == RECORDS
        });
        self.job.wait_for_checkpoints(&mut run, 3);
        run.kill();
        read(&status)
    }
}

#[test]
fn every_checkpoint_of_a_run_that_was_killed_is_what_its_log_gives() {
    for state in ["memory", "rocksdb"] {
        let audits = Audits::new(state);
        let mut before = 0;
        for _ in 0..2 {
            before = audits.run_and_kill(before);
            assert!(audited(&audits.job) >= 2);
        }
        audits.job.change("end = \"never\"", "end = \"latest\"");
        audits.job.finish();
        none_differs(&audits.job);
    }
}

#[test]
fn a_log_that_is_not_the_one_that_was_read_is_found() {
    let audits = Audits::new("memory");
    audits.run_and_kill(0);
    let job = &audits.job;
    // As long as it was, with another id in its first line.
    for entry in std::fs::read_dir(job.path("data/events")).unwrap() {
        let path = entry.unwrap().path();
        // Not all of it is text.
        let mut bytes = std::fs::read(&path).unwrap();
        let id = br#""event_id":""#;
        let at = bytes.windows(id.len()).position(|part| part == id).unwrap() + id.len();
        bytes[at] = if bytes[at] == b'0' { b'1' } else { b'0' };
        std::fs::write(&path, bytes).unwrap();
    }
    let (code, said) = job.ask(&["audit", "pipeline.toml", "--newest", "1"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("DIFFERS") && said.contains("clean: the log gives"), "{said}");
}
