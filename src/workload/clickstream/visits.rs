//! Who acts when: users come for a visit of about a minute, and come back after a while.
//!
//! Users start their visits one after the other, evenly over a cycle, so those who are here at a moment are a range of user numbers and
//! an event picks one of them: no state, any moment at once. A visitor acts every 4 s or so.
//! Doesn't know: what users do, partitions, order.
//! Keeps: with 10 users or more, a user's visits are more than 30 s apart, so that a 30 s session gap finds them.
//! Tested: clickstream/tests.rs.
use super::fates::{Purpose, redraw};
use crate::workload::dials::Dials;

const VISIT_MS: u64 = 60_000;
const SECONDS_BETWEEN_ACTIONS: f64 = 4.0;
const SHORTEST_CYCLE_MS: u64 = 3 * VISIT_MS;

pub struct Visits {
    users: u64,
    cycle_ms: u64,
}

impl Visits {
    pub fn new(dials: &Dials) -> Self {
        let visitors = SECONDS_BETWEEN_ACTIONS * dials.event_rate;
        let cycle_ms = VISIT_MS as f64 * dials.users as f64 / visitors;
        Visits { users: dials.users, cycle_ms: (cycle_ms as u64).max(SHORTEST_CYCLE_MS) }
    }

    /// A user who is here at that time. More have just come than have been here for long.
    pub fn user_at(&self, time_ms: i64, draw: u64) -> u64 {
        let draw = redraw(draw, Purpose::VisitStart) >> 48;
        let since_start_ms = (draw * draw * VISIT_MS) >> 32;
        let now_ms = time_ms.rem_euclid(self.cycle_ms as i64) as u64;
        let start_ms = (now_ms + self.cycle_ms - since_start_ms) % self.cycle_ms;
        (u128::from(start_ms) * u128::from(self.users) / u128::from(self.cycle_ms)) as u64
    }
}
