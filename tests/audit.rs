//! `floodmark audit`: the state of every checkpoint is what its log gives, after kills too; and one that isn't is found.
use crate::harness::Job;
use crate::harness::log::Log;
use crate::harness::pipelines::Dials;

fn job(state: &str) -> Job {
    let checkpoint = r#"{ interval = "20ms", dir = "file:data/checkpoints", retain = 4 }"#;
    let pipeline = format!("workers = 2\nstate = \"{state}\"\nbatch_rows = 50");
    let dials = Dials { pipeline, checkpoint: checkpoint.into(), ..Dials::default() };
    let job = Job::new(&dials.clicks());
    Log::clickstream(&["--events", "20k", "--partitions", "3", "--event-rate", "200", "--users", "300"])
        .grow(&job, 0, 1000);
    job
}

/// No checkpoint differs; how many are told to be right.
fn right(job: &Job) -> usize {
    let (code, said) = job.ask(&["audit", "pipeline.toml"]);
    assert_eq!(code, Some(0), "{said}");
    let told = |what: &str| said.lines().filter(|line| line.contains(what)).count();
    assert_eq!(
        told(": right: ") + told("has ended, or been idle: when is not in the log"),
        said.lines().count(),
        "{said}"
    );
    told(": right: ")
}

#[test]
fn every_checkpoint_of_a_run_that_was_killed_is_what_its_log_gives() {
    for state in ["memory", "rocksdb"] {
        let job = job(state);
        for _ in 0..2 {
            let mut run = job.start();
            job.wait_for_checkpoints(&mut run, 3);
            run.kill();
            assert!(right(&job) >= 2);
        }
        job.finish();
        right(&job);
    }
}

#[test]
fn a_log_that_is_not_the_one_that_was_read_is_found() {
    let job = job("memory");
    let mut run = job.start();
    job.wait_for_checkpoints(&mut run, 3);
    run.kill();
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
