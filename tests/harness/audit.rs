//! `floodmark audit`, asked about all checkpoints of a job.
//!
//! Keeps: a checkpoint in which nothing had been read yet shows nothing, and isn't counted.
use super::Job;

/// Why an audit may not be able to say anything of a checkpoint that nothing is wrong with.
const UNSAID: [&str; 2] = ["has ended, or been idle: when is not in the log", "was drained at a stop"];

/// No checkpoint differs; how many records each of those had read that are told to be right.
pub fn none_differs(job: &Job) -> Vec<u64> {
    let (code, said) = job.ask(&["audit", "pipeline.toml"]);
    assert_eq!(code, Some(0), "{said}");
    let mut right = vec![];
    for line in said.lines() {
        match line.split_once(": right: ") {
            Some((_, rest)) => right.push(records(rest).unwrap_or_else(|| panic!("{line}"))),
            None => assert!(UNSAID.iter().any(|why| line.ends_with(why)), "{said}"),
        }
    }
    right
}

/// The same, and at least one had read something. Tells how many had.
pub fn audited(job: &Job) -> usize {
    let right = none_differs(job);
    let read = right.iter().filter(|records| **records > 0).count();
    assert!(read > 0, "{} checkpoints are right, and nothing had been read in any", right.len());
    read
}

/// `… (12,345 records, 67 entries)`.
fn records(text: &str) -> Option<u64> {
    text.split_once('(')?.1.split_once(" records")?.0.replace(',', "").parse().ok()
}
