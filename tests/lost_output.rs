//! Nobody listens: stderr is a full disk or a pipe whose reader has gone. The work goes on, and ends with its own code.
use std::fs::File;
use std::process::{Command, Stdio};

use crate::harness::log::Log;
use crate::harness::pipelines::Dials;
use crate::harness::{Job, REFUSED};

/// What every write to it is answered with: the disk is full.
fn full() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

/// The write end of a pipe that nobody reads.
fn unread() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

fn code(mut command: Command, stderr: Stdio) -> Option<i32> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).status().unwrap().code()
}

#[test]
fn a_run_that_cannot_be_heard_does_its_work_and_is_refused_by_its_code() {
    let log = Log::clickstream(&["--events", "2k"]);
    let heard = Job::new(&Dials::default().clicks());
    log.give(&heard);
    heard.finish();
    for stderr in [full, unread] {
        for form in ["text", "json"] {
            let job = Job::new(&Dials::default().clicks());
            log.give(&job);
            let run = || job.command(&["run", "pipeline.toml", "--log", form]);
            assert_eq!(code(run(), stderr()), Some(0), "{form}");
            assert_eq!(job.digests(), heard.digests(), "{form}");
            std::fs::remove_dir_all(job.path("data/checkpoints")).unwrap();
            assert_eq!(code(run(), stderr()), Some(REFUSED), "{form}");
        }
    }
}

#[test]
fn every_command_ends_with_its_own_code_where_its_output_goes_nowhere() {
    let log = Log::clickstream(&["--events", "2k"]);
    let job = Job::new(&Dials::default().clicks());
    log.give(&job);
    job.finish();
    let table = job.metadata("events").trim_start_matches("file://").to_owned();
    let other = job.metadata("late").trim_start_matches("file://").to_owned();
    let cases: [(&[&str], i32); 6] = [
        (&["check", "nowhere.toml"], 2),
        (&["audit", "pipeline.toml"], 0),
        (&["preview", "pipeline.toml"], 0),
        (&["digest", &table], 0),
        (&["diff", &table, &table], 0),
        (&["diff", &table, &other, "--limit", "1"], 1),
    ];
    for (arguments, right) in cases {
        let mut command = job.command(arguments);
        let status = command.stdin(Stdio::null()).stdout(unread()).stderr(unread()).status().unwrap();
        assert_eq!(status.code(), Some(right), "{arguments:?}");
    }
}
