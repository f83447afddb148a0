//! SIGKILL at moments drawn by dice, until a job has come to its end in spite of them.
use std::time::{Duration, Instant};

use floodmark::steps::Point;

use super::dice::Dice;
use super::{Job, Order, Run};

/// Runs to the end of the input and tells how long that took.
pub fn timed(job: &Job) -> Duration {
    let start = Instant::now();
    job.finish();
    start.elapsed()
}

/// Kills `run` at a moment within `within`; `None` if it came to a good end before.
pub fn kill_within(run: &mut Run, dice: &mut Dice, within: Duration) -> Option<()> {
    match run.ended_within(dice.moment(within)) {
        Some(code) => {
            assert_eq!(code, Some(0), "{}", run.said());
            None
        }
        None => {
            run.kill();
            Some(())
        }
    }
}

/// Runs the job to its end through at most `most` kills, each within `within` of a start; tells how many there were.
pub fn finish_through_kills(job: &Job, dice: &mut Dice, most: usize, within: Duration) -> usize {
    for kills in 0..most {
        if kill_within(&mut job.start(), dice, within).is_none() {
            return kills;
        }
    }
    job.finish();
    most
}

/// Runs the job to its end through a kill at each of these points, as far as there is still something to do there; tells how many there were.
pub fn finish_through_points(job: &Job, points: &[(Point, u64)]) -> usize {
    let mut kills = 0;
    for (point, visits) in points {
        let mut run = job.start_ordered(Order::kill(*point, *visits));
        match run.wait() {
            None => kills += 1,
            code => assert_eq!(code, Some(0), "{}", run.said()),
        }
    }
    job.finish();
    kills
}
