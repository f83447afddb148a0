//! Python's `random.Random(seed)`, as far as the orders workload draws from it.
//!
//! Doesn't know: what is drawn.
//! Keeps: `range_below(n)` gives what CPython's `randrange(n)` gives, draw for draw.
//! Tested: here (values of CPython), orders (digests of 100,000 rows).
use rand_mt::Mt;

pub struct PythonRandom(Mt);

impl PythonRandom {
    /// CPython hands an integer seed to `init_by_array` in 32-bit words, lowest first, without leading zero words.
    pub fn seeded(seed: u64) -> Self {
        let (low, high) = (seed as u32, (seed >> 32) as u32);
        let words = if high == 0 { vec![low] } else { vec![low, high] };
        PythonRandom(Mt::new_with_key(words))
    }

    /// `randrange(n)`: draws of `bit_length(n)` bits until one is below `n`, which must not be 0.
    pub fn range_below(&mut self, n: u32) -> u32 {
        let unused_bits = n.leading_zeros();
        loop {
            let draw = self.0.next_u32() >> unused_bits;
            if draw < n {
                return draw;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_those_of_cpython() {
        for (seed, expected) in [
            (0, [3, 776, 233372, 3, 0, 1112038970]),
            (17, [4, 424, 211469, 2, 0, 1243931546]),
            (301, [3, 641, 209566, 3, 0, 1013772026]),
            (8589934597, [2, 736, 44651, 4, 0, 1227626020]),
        ] {
            let mut random = PythonRandom::seeded(seed);
            let draws = [5, 1_000, 250_000, 5, 1, 1 << 31].map(|n| random.range_below(n));
            assert_eq!(draws, expected, "seed {seed}");
        }
    }
}
