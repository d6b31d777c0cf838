//! Numbers that one seed repeats.
//!
//! Does: `SplitMix64`, and what the trials draw from it. Does not: security, or anything where the quality of the
//! numbers matters beyond spreading faults.

/// A generator; the same seed gives the same numbers.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator of its own for each purpose: equal parts give equal numbers.
    pub fn of(parts: &[u64]) -> Self {
        let mut random = Self(0x6a09_e667_f3bc_c908);
        for part in parts {
            random.0 = random.draw() ^ part;
        }
        random
    }

    /// The next number, of all 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 if there is none.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw().checked_rem(bound).unwrap_or(0)
    }

    /// A place in a list of that length; 0 if it is empty.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("it is below a length")
    }

    /// Eight bits.
    pub fn byte(&mut self) -> u8 {
        self.draw().to_le_bytes()[0]
    }

    /// Whether one in `n` came up.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        of.get(self.index(of.len()))
            .expect("a choice is never made among nothing")
    }

    /// Brings a list into another order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.index(at + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn one_seed_gives_one_row_of_numbers() {
        let row = |parts: &[u64]| {
            let mut random = Random::of(parts);
            [random.draw(), random.draw(), random.below(7)]
        };
        assert_eq!(row(&[1, 2]), row(&[1, 2]));
        assert_ne!(row(&[1, 2]), row(&[2, 1]));
        assert_eq!(Random::of(&[3]).below(0), 0);
    }

    #[test]
    fn a_shuffle_keeps_everything() {
        let mut list: Vec<u64> = (0..50).collect();
        Random::of(&[9]).shuffle(&mut list);
        assert_ne!(list, (0..50).collect::<Vec<u64>>());
        list.sort_unstable();
        assert_eq!(list, (0..50).collect::<Vec<u64>>());
    }
}
