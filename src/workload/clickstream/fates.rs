//! What becomes of each record, and its time.
//!
//! Doesn't know: what a record says.
//! Keeps: the rules in the header of `clickstream`; each answer costs a walk of a few hashes, at most `ANCHOR_EVERY`.
//! Tested: clickstream/tests.rs.
//!
//!   offset          31       32        33           34       35
//!   fate            late     on time   out of order poison   on time
//!   newest before   b(30)    b(30)     b(32)        b(32)    b(32)      b(o): the steady clock of the partition
//!   event time               b(32)     b(32) − 2 s           b(35)
use super::{ANCHOR_EVERY, WATERMARK_BOUND_MS};
use crate::workload::dials::Dials;
use crate::workload::{Fate, Poison};

const NANOS_PER_MS: u64 = 1_000_000;

pub struct Fates {
    odds: Odds,
    partition_seeds: Vec<u64>,
    base_time_ms: i64,
    /// Event time between two records of a partition.
    step_ns: u64,
    late_by_ms: u64,
    disorder_within_ms: u64,
}

/// Upper ends of the ranges of a draw, one after the other.
struct Odds {
    late: u64,
    disorder: u64,
    resent: u64,
    poison: [u64; Poison::ALL.len()],
}

/// A fate before it is worked out which record a copy repeats.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    OnTime,
    OutOfOrder,
    Late,
    Resent,
    Poison(Poison),
}

impl Fates {
    pub fn new(dials: &Dials) -> Self {
        let step_ns = f64::from(dials.partitions) / dials.event_rate * 1e9;
        Fates {
            odds: Odds::new(dials),
            partition_seeds: (0..u64::from(dials.partitions))
                .map(|partition| mix(mix(dials.seed) ^ partition))
                .collect(),
            base_time_ms: dials.base_time_ms,
            step_ns: (step_ns as u64).max(1),
            late_by_ms: dials.late_by_ms,
            disorder_within_ms: dials.disorder_within_ms,
        }
    }

    /// 64 random bits of a record, no two records of a partition alike.
    pub fn draw(&self, partition: u32, offset: u64) -> u64 {
        mix(self.partition_seeds[partition as usize].wrapping_add(offset))
    }

    pub fn fate(&self, partition: u32, offset: u64) -> Fate {
        match self.kind(partition, offset) {
            Kind::OnTime => Fate::OnTime,
            Kind::OutOfOrder => Fate::OutOfOrder,
            Kind::Late => Fate::Late,
            Kind::Poison(poison) => Fate::Poison(poison),
            Kind::Resent => Fate::Resent { original: self.original_of(partition, offset) },
        }
    }

    /// Event time of a record with this fate; the steady clock's time where it has none.
    pub fn time_ms(&self, partition: u32, offset: u64, fate: Fate) -> i64 {
        let within = |most: u64| (redraw(self.draw(partition, offset), Purpose::Delay) % most) as i64;
        let newest = || self.newest_before(partition, offset).unwrap_or(self.base_time_ms);
        match fate {
            Fate::OnTime | Fate::Poison(_) => self.steady_ms(partition, offset),
            Fate::OutOfOrder => newest() - 1 - within(self.disorder_within_ms),
            Fate::Late => newest() - self.late_by_ms as i64 - within(self.late_by_ms),
            Fate::Resent { original } => self.time_ms(partition, original, self.fate(partition, original)),
        }
    }

    /// Largest event time before `offset`: that of the nearest on-time record, since no other one exceeds it.
    pub fn newest_before(&self, partition: u32, offset: u64) -> Option<i64> {
        let on_time = |&offset: &u64| self.kind(partition, offset) == Kind::OnTime;
        let nearest = (0..offset).rev().find(on_time)?;
        Some(self.steady_ms(partition, nearest))
    }

    /// A clock that never goes back: even steps, each record somewhere within its own, partitions a fraction of a step apart.
    fn steady_ms(&self, partition: u32, offset: u64) -> i64 {
        let shift_ns = self.step_ns / self.partition_seeds.len() as u64 * u64::from(partition);
        let jitter_ns = redraw(self.draw(partition, offset), Purpose::Jitter) % self.step_ns;
        let elapsed_ns = offset * self.step_ns + shift_ns + jitter_ns;
        self.base_time_ms + (elapsed_ns / NANOS_PER_MS) as i64
    }

    fn kind(&self, partition: u32, offset: u64) -> Kind {
        if offset.is_multiple_of(ANCHOR_EVERY) {
            return Kind::OnTime;
        }
        self.odds.kind(redraw(self.draw(partition, offset), Purpose::Fate))
    }

    /// The record that a copy repeats: one of the last few, unless time has moved on so far that the copy would be late.
    fn original_of(&self, partition: u32, offset: u64) -> u64 {
        let since_anchor = offset % ANCHOR_EVERY;
        let back = 1 + redraw(self.draw(partition, offset), Purpose::Original) % since_anchor;
        let anchor = offset - since_anchor;
        let repeated = |&offset: &u64| matches!(self.kind(partition, offset), Kind::OnTime | Kind::OutOfOrder);
        let candidate = (anchor..=offset - back).rev().find(repeated).unwrap_or(anchor);
        let time = self.time_ms(partition, candidate, self.fate(partition, candidate));
        let newest = self.newest_before(partition, offset).unwrap_or(self.base_time_ms);
        if time > newest - WATERMARK_BOUND_MS as i64 {
            return candidate;
        }
        let on_time = |&offset: &u64| self.kind(partition, offset) == Kind::OnTime;
        (anchor..offset).rev().find(on_time).unwrap_or(anchor)
    }
}

impl Odds {
    /// Anchors take no fault, so the other records take a little more than their share.
    fn new(dials: &Dials) -> Self {
        let scale = ANCHOR_EVERY as f64 / (ANCHOR_EVERY - 1) as f64 * 2f64.powi(64);
        let mut end = 0.0;
        let mut next = |share: f64| {
            end += share * scale;
            end as u64
        };
        Odds {
            late: next(dials.late),
            disorder: next(dials.disorder),
            resent: next(dials.resent),
            poison: Poison::ALL.map(|_| next(dials.poison)),
        }
    }

    fn kind(&self, draw: u64) -> Kind {
        if self.poison.last().is_none_or(|end| draw >= *end) {
            return Kind::OnTime;
        }
        if draw < self.late {
            return Kind::Late;
        }
        if draw < self.disorder {
            return Kind::OutOfOrder;
        }
        if draw < self.resent {
            return Kind::Resent;
        }
        let ends = self.poison.iter().zip(Poison::ALL);
        ends.filter(|(end, _)| draw < **end).map(|(_, poison)| Kind::Poison(poison)).next().unwrap_or(Kind::OnTime)
    }
}

/// What a further draw of one record is for.
#[derive(Clone, Copy)]
#[repr(u64)]
pub enum Purpose {
    Fate = 1,
    Delay,
    Jitter,
    Original,
    IdTail,
    VisitStart,
    Action,
    Product,
}

/// Another 64 bits of the same record, unrelated to its first ones.
pub fn redraw(draw: u64, purpose: Purpose) -> u64 {
    mix(draw.wrapping_add((purpose as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// The finalizer of splitmix64: one to one over 64 bits.
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
