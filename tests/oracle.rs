//! `floodmark oracle` reads a job's own log and says what its outputs must hold: what the real program has made of it, through a kill.
use crate::harness::Job;
use crate::harness::log::Log;
use crate::harness::pipelines::Dials;

const OUTPUTS: [&str; 6] = ["clean", "clean.duplicates", "per_type", "per_type.late", "sessions", "sessions.late"];

/// Every output in files.
fn job() -> Job {
    let file = Dials::pipeline("workers = 2").clicks();
    let mut file = file.split("[sink.").next().unwrap().to_owned();
    file = file.replacen("[source.events]\n", "[source.events]\ndiscard = [\"errors\"]\n", 1);
    file = file.replacen("[dedup.clean]\n", "[dedup.clean]\ndiscard = [\"late\"]\n", 1);
    for output in OUTPUTS {
        let name = output.replace('.', "_");
        file += &format!("\n[sink.out_{name}]\nfrom = \"{output}\"\ntype = \"file\"\ndir = \"file:out/{name}\"\n");
    }
    Job::new(&file)
}

#[test]
fn it_says_what_the_program_has_made_of_its_log() {
    let (job, log) =
        (job(), Log::clickstream(&["--events", "5k", "--partitions", "2", "--event-rate", "50", "--late", "0.03"]));
    log.give(&job);
    let mut run = job.start();
    job.wait_for_checkpoints(&mut run, 1);
    run.kill();
    job.finish();
    for output in OUTPUTS {
        let (code, said) = job.ask(&["oracle", "pipeline.toml", output]);
        assert_eq!(code, Some(0), "{said}");
        let right: Vec<_> = said.lines().map(str::to_owned).collect();
        let made = job.rows_in(&format!("out/{}", output.replace('.', "_")));
        assert!(!right.is_empty() && made == right, "{output}: {} rows, and {} are right", made.len(), right.len());
    }
    let (_, said) = job.ask(&["oracle", "pipeline.toml"]);
    assert!(said.lines().any(|line| line.starts_with("clean ") && line.ends_with(" rows")), "{said}");
    let (code, said) = job.ask(&["oracle", "pipeline.toml", "cleen"]);
    assert!(code == Some(2) && said.contains("no output cleen; there are clean, clean.duplicates"), "{said}");
}
