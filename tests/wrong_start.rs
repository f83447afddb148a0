//! Places of a pipeline file that can't be used: refused with the place and what to do, by the exit code that says not to try again; nothing is made.
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::harness::log::Log;
use crate::harness::pipelines::Dials;
use crate::harness::{FAILED, Job, REFUSED};

/// Ids from a file or folder, as files.
fn job(source: &str, checkpoints: &str, out: &str) -> Job {
    let job = Job::new(&format!(
        r#"
[pipeline]
id = "ids"
workers = 1
{checkpoints}
[source.ids]
type = "file"
path = "{source}"
discard = ["errors"]
schema = {{ id = "int64" }}
[sink.out]
from = "ids"
type = "file"
dir = "file:{out}"
"#
    ));
    fs::write(job.path("data/ids.json"), "{\"id\":1}\n{\"id\":2}\n").unwrap();
    job
}

/// All paths below the job's folder but what the test's harness writes.
fn tree(job: &Job) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![job.path("")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            let name = entry.path().strip_prefix(job.path("")).unwrap().to_string_lossy().into_owned();
            if !name.starts_with("output-") {
                found.insert(name);
            }
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            }
        }
    }
    found
}

/// It is refused for this reason, and has made nothing.
fn is_refused(job: &Job, reason: &str) {
    let before = tree(job);
    let said = job.ends_with(REFUSED, &[]);
    assert!(said.lines().any(|line| line.starts_with("error: ") && line.contains(reason)), "{said}");
    assert_eq!(tree(job), before);
}

fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_path_with_nothing_there_is_refused() {
    is_refused(&job("data/nowhere", "", "out"), "source ids: data/nowhere: No such file or directory");
}

#[test]
fn a_pipe_is_no_file_to_read() {
    let job = job("data/pipe", "", "out");
    make_pipe(&job.path("data/pipe"));
    is_refused(&job, "source ids: data/pipe: neither a file nor a folder");
}

#[test]
fn a_file_where_a_folder_should_be_is_refused() {
    let checkpoints = job("data/ids.json", r#"checkpoint = { dir = "file:data/taken" }"#, "out");
    let out = job("data/ids.json", "", "data/taken/out");
    [&checkpoints, &out].iter().for_each(|job| fs::write(job.path("data/taken"), "a file").unwrap());
    is_refused(&checkpoints, "file:data/taken: ");
    is_refused(&out, "data/taken is no folder: name another place");
}

#[test]
fn a_table_that_is_not_what_the_file_says_leaves_no_folder_behind() {
    let job = Job::new(&Dials::default().clicks());
    Log::clickstream(&["--events", "2k"]).give(&job);
    job.finish();
    fs::rename(job.path("data/checkpoints"), job.path("data/moved")).unwrap();
    is_refused(&job, "refused to start: ");
}

#[test]
fn a_file_that_can_not_be_unpacked_is_not_tried_again() {
    for name in ["ids.json.gz", "ids.json.zst"] {
        let job = job(&format!("data/{name}"), "", "out");
        fs::write(job.path(&format!("data/{name}")), "not what the name says").unwrap();
        let said = job.ends_with(REFUSED, &[]);
        assert!(said.contains(&format!("error: source ids: data/{name}: ")), "{said}");
        assert!(said.contains("\n  choose: put a file in its place that can be read\n"), "{said}");
    }
}

#[test]
fn a_file_that_is_cut_short_may_still_be_written() {
    let job = job("data/ids.json.gz", "", "out");
    let mut packed = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
    packed.write_all(&fs::read(job.path("data/ids.json")).unwrap()).unwrap();
    let packed = packed.finish().unwrap();
    fs::write(job.path("data/ids.json.gz"), &packed[..packed.len() - 9]).unwrap();
    let said = job.ends_with(FAILED, &[]);
    assert!(said.contains("it ends in the middle: if it is still being written, the next start reads on"), "{said}");
    fs::write(job.path("data/ids.json.gz"), packed).unwrap();
    job.finish();
    assert_eq!(job.rows_in("out").len(), 2);
}

#[test]
fn a_broken_file_may_be_mended_or_taken_away() {
    let job = job("data/in", "", "out");
    fs::create_dir(job.path("data/in")).unwrap();
    fs::rename(job.path("data/ids.json"), job.path("data/in/ids.json")).unwrap();
    fs::write(job.path("data/in/broken.json.gz"), "not what the name says").unwrap();
    job.ends_with(REFUSED, &[]);
    fs::remove_file(job.path("data/in/broken.json.gz")).unwrap();
    job.finish();
    assert_eq!(job.rows_in("out").len(), 2);
}

#[test]
fn places_may_climb_out_of_their_folder() {
    let dials = Dials {
        catalog: r#"{ type = "sql", uri = "sqlite:data/catalog.db", warehouse = "file:data/events/../lake" }"#.into(),
        checkpoint: r#"{ interval = "50ms", dir = "file:data/events/../checkpoints" }"#.into(),
        ..Dials::default()
    };
    let job = Job::new(&dials.clicks());
    let log = Log::clickstream(&["--events", "2k", "--event-rate", "100"]);
    log.grow(&job, 0, 1000);
    job.finish();
    assert_eq!(job.rows("events"), log.ledger.total("events"));
    let by_folder = |path: &str| job.ask(&["digest", path]);
    let (code, said) = by_folder("data/events/../lake/shop/events");
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(by_folder("data/lake/shop/events").1, said);
}

#[test]
fn pipelines_of_one_folder_keep_their_checkpoints_apart() {
    let job = job("data/ids.json", "", "out");
    job.finish();
    job.change("id = \"ids\"", "id = \"others\"");
    job.change("file:out", "file:others");
    job.finish();
    assert!(job.path("data/ids/checkpoints").is_dir() && job.path("data/others/checkpoints").is_dir());
    assert_eq!((job.rows_in("out").len(), job.rows_in("others").len()), (2, 2));
}
