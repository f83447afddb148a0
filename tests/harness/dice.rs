//! Moments and choices that look random and are the same in every run of a test.
use std::time::Duration;

/// SplitMix64.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit.max(1)
    }

    pub fn moment(&mut self, within: Duration) -> Duration {
        Duration::from_micros(self.below(within.as_micros() as u64))
    }
}
