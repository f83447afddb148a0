//! What happens to a job, and when: drawn from the drill's seed and the round's number.
//!
//! Doesn't know: processes. Keeps: same seed, same blows; steps are aimed at only where the program has them (builds with `checks`). Tested: here.
use fastrand::Rng;

use crate::steps::Point;

/// Most blows of a round.
const MOST: u64 = 6;
/// Steps of a checkpoint come up often; a kill is aimed at one of the first so many.
const MOST_VISITS: u64 = 12;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Blow {
    /// At a moment: this share of what the rest of the run may take.
    Kill { share: f64 },
    /// At a step.
    KillAt { point: Point, visits: u64 },
    /// Frozen at a moment, and awake again after another share.
    Freeze { share: f64, awake: f64 },
}

pub struct Aim {
    rng: Rng,
}

impl Aim {
    pub fn new(seed: u64, round: u64) -> Self {
        Self { rng: Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ round) }
    }

    pub fn blows(&mut self) -> Vec<Blow> {
        let count = self.rng.u64(2..=MOST);
        (0..count).map(|_| self.blow()).collect()
    }

    fn blow(&mut self) -> Blow {
        match self.rng.u8(0..20) {
            0..3 => Blow::Freeze { share: self.rng.f64(), awake: self.rng.f64() },
            3..11 if cfg!(feature = "checks") => self.kill_at(),
            _ => Blow::Kill { share: self.rng.f64() },
        }
    }

    fn kill_at(&mut self) -> Blow {
        let point = Point::ALL[self.rng.usize(0..Point::ALL.len())];
        let once = matches!(
            point,
            Point::Looked | Point::Claimed | Point::Planned | Point::Restored | Point::Owned | Point::Swept
        );
        Blow::KillAt { point, visits: if once { 1 } else { self.rng.u64(1..=MOST_VISITS) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_blows_and_another_round_has_others() {
        let blows = |seed, round| Aim::new(seed, round).blows();
        assert_eq!(blows(1, 3), blows(1, 3));
        assert_ne!(blows(1, 3), blows(1, 4));
        assert_ne!(blows(1, 3), blows(2, 3));
    }

    #[test]
    fn every_kind_of_blow_and_every_step_comes_up() {
        let all: Vec<Blow> = (0..300).flat_map(|round| Aim::new(1, round).blows()).collect();
        let count = |is: fn(&Blow) -> bool| all.iter().filter(|blow| is(blow)).count();
        assert!(count(|blow| matches!(blow, Blow::Kill { .. })) > 300);
        assert!(count(|blow| matches!(blow, Blow::Freeze { .. })) > 100);
        for point in Point::ALL {
            assert!(all.iter().any(|blow| matches!(blow, Blow::KillAt { point: at, .. } if at == point)), "{point}");
        }
    }
}
