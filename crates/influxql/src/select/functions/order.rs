//! Sorting that leaves equal values where InfluxDB leaves them.
//!
//! `mode` and `percentile` show which of several equal points their sort has put first, and Go's sort, a pattern-defeating
//! quicksort (Orson Peters, 2021) with fixed thresholds, keeps no order among equals. Does: take the same steps. Does not:
//! sort what shows values only; the library's sort is faster.

/// Shorter parts are sorted by insertion, which keeps the order of equals.
const INSERTION_MAX: usize = 12;
/// Longer parts take the pivot of nine elements, and are worth a few moves if they look sorted.
const NINTHER_MIN: usize = 50;
const MOVES_MAX: usize = 5;
/// Exchanges of all medians of a part that descends.
const DESCENDING: usize = 12;

/// Sorts by a relation "is less".
pub(crate) fn sort<T>(data: &mut [T], is_less: &dyn Fn(&T, &T) -> bool) {
    let length = data.len();
    let mut sorter = Sorter { data, is_less };
    if length > 1 {
        let depth = usize::BITS - length.leading_zeros();
        sorter.quick(0, length, depth);
    }
}

struct Sorter<'a, T> {
    data: &'a mut [T],
    is_less: &'a dyn Fn(&T, &T) -> bool,
}

#[derive(PartialEq)]
enum Looks {
    Ascending,
    Descending,
    Mixed,
}

impl<T> Sorter<'_, T> {
    fn less(&self, one: usize, other: usize) -> bool {
        match (self.data.get(one), self.data.get(other)) {
            (Some(one), Some(other)) => (self.is_less)(one, other),
            _ => false,
        }
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.data.swap(one, other);
    }

    /// Sorts `from..to`; after so many bad pivots as a heap.
    fn quick(&mut self, mut from: usize, mut to: usize, mut bad_max: u32) {
        let (mut is_balanced, mut is_parted) = (true, true);
        loop {
            let length = to - from;
            if length <= INSERTION_MAX {
                return self.insertion(from, to);
            }
            if bad_max == 0 {
                return self.heap(from, to);
            }
            if !is_balanced {
                self.scatter(from, to);
                bad_max -= 1;
            }
            let (mut pivot, mut looks) = self.pivot(from, to);
            if looks == Looks::Descending {
                if let Some(part) = self.data.get_mut(from..to) {
                    part.reverse();
                }
                pivot = (to - 1) - (pivot - from);
                looks = Looks::Ascending;
            }
            if is_balanced && is_parted && looks == Looks::Ascending && self.few_moves(from, to) {
                return;
            }
            // The one before is the greatest of those before: what equals it comes first.
            if from > 0 && !self.less(from - 1, pivot) {
                from = self.part_equal(from, to, pivot);
                continue;
            }
            let (middle, was_parted) = self.part(from, to, pivot);
            is_parted = was_parted;
            let (left, right) = (middle - from, to - middle);
            if left < right {
                is_balanced = left >= length / 8;
                self.quick(from, middle, bad_max);
                from = middle + 1;
            } else {
                is_balanced = right >= length / 8;
                self.quick(middle + 1, to, bad_max);
                to = middle;
            }
        }
    }

    fn insertion(&mut self, from: usize, to: usize) {
        for next in from + 1..to {
            let mut at = next;
            while at > from && self.less(at, at - 1) {
                self.swap(at, at - 1);
                at -= 1;
            }
        }
    }

    fn heap(&mut self, from: usize, to: usize) {
        let length = to - from;
        for root in (0..length.div_ceil(2)).rev() {
            self.sift(root, length, from);
        }
        for last in (0..length).rev() {
            self.swap(from, from + last);
            self.sift(0, last, from);
        }
    }

    fn sift(&mut self, mut root: usize, length: usize, from: usize) {
        loop {
            let mut child = 2 * root + 1;
            if child >= length {
                return;
            }
            if child + 1 < length && self.less(from + child, from + child + 1) {
                child += 1;
            }
            if !self.less(from + root, from + child) {
                return;
            }
            self.swap(from + root, from + child);
            root = child;
        }
    }

    /// Puts what is less than the pivot before it; returns its place, and whether nothing had to move.
    fn part(&mut self, from: usize, to: usize, pivot: usize) -> (usize, bool) {
        self.swap(from, pivot);
        let (mut low, mut high) = (from + 1, to - 1);
        let mut is_first = true;
        loop {
            while low <= high && self.less(low, from) {
                low += 1;
            }
            while low <= high && !self.less(high, from) {
                high -= 1;
            }
            if low > high {
                self.swap(high, from);
                return (high, is_first);
            }
            is_first = false;
            self.swap(low, high);
            low += 1;
            high -= 1;
        }
    }

    /// Puts what equals the pivot first; returns where the rest begins.
    fn part_equal(&mut self, from: usize, to: usize, pivot: usize) -> usize {
        self.swap(from, pivot);
        let (mut low, mut high) = (from + 1, to - 1);
        loop {
            while low <= high && !self.less(from, low) {
                low += 1;
            }
            while low <= high && self.less(from, high) {
                high -= 1;
            }
            if low > high {
                return low;
            }
            self.swap(low, high);
            low += 1;
            high -= 1;
        }
    }

    /// Sorts what a few moves can sort; whether that was all.
    fn few_moves(&mut self, from: usize, to: usize) -> bool {
        let mut at = from + 1;
        for _ in 0..MOVES_MAX {
            while at < to && !self.less(at, at - 1) {
                at += 1;
            }
            if at == to {
                return true;
            }
            if to - from < NINTHER_MIN {
                return false;
            }
            self.swap(at, at - 1);
            if at - from >= 2 {
                for place in (1..at).rev() {
                    if !self.less(place, place - 1) {
                        break;
                    }
                    self.swap(place, place - 1);
                }
            }
            if to - at >= 2 {
                for place in at + 1..to {
                    if !self.less(place, place - 1) {
                        break;
                    }
                    self.swap(place, place - 1);
                }
            }
        }
        false
    }

    /// Moves three elements of the middle elsewhere, where pivots were bad.
    fn scatter(&mut self, from: usize, to: usize) {
        let length = to - from;
        // An xorshift begun with the length, with the shifts of Go 1.19, which the compared InfluxDB was built with.
        let mut random = length as u64;
        let mask = (1_u64 << (u64::BITS - random.leading_zeros())) - 1;
        let first = from + (length / 4) * 2 - 1;
        for step in 0..3 {
            random ^= random << 13;
            random ^= random >> 17;
            random ^= random << 5;
            let mut other = usize::try_from(random & mask).unwrap_or_default();
            if other >= length {
                other -= length;
            }
            self.swap(first + step, from + other);
        }
    }

    fn pivot(&self, from: usize, to: usize) -> (usize, Looks) {
        let length = to - from;
        let mut swaps = 0;
        let quarter = length / 4;
        let mut places = [from + quarter, from + quarter * 2, from + quarter * 3];
        if length >= NINTHER_MIN {
            places = places.map(|at| self.median([at - 1, at, at + 1], &mut swaps));
        }
        let pivot = self.median(places, &mut swaps);
        let looks = match swaps {
            0 => Looks::Ascending,
            DESCENDING => Looks::Descending,
            _ => Looks::Mixed,
        };
        (pivot, looks)
    }

    fn median(&self, [one, two, three]: [usize; 3], swaps: &mut usize) -> usize {
        let mut ordered = |one: usize, other: usize| {
            if self.less(other, one) {
                *swaps += 1;
                (other, one)
            } else {
                (one, other)
            }
        };
        let (one, two) = ordered(one, two);
        let (two, _) = ordered(two, three);
        ordered(one, two).1
    }
}

#[cfg(test)]
mod tests {
    use super::sort;

    /// Numbers that repeat, from a seed.
    fn numbers(seed: u64, length: usize, kinds: u64) -> Vec<u64> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        (0..length)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state % kinds
            })
            .collect()
    }

    #[test]
    fn everything_is_sorted_and_nothing_is_lost() {
        for length in [0, 1, 2, 12, 13, 49, 50, 51, 100, 1000, 5000] {
            for (seed, kinds) in [(1, 2), (2, 7), (3, 1_000_000)] {
                let random = numbers(seed, length, kinds);
                let mut up = random.clone();
                up.sort_unstable();
                let down: Vec<u64> = up.iter().rev().copied().collect();
                let mut saw: Vec<u64> = up.iter().step_by(2).copied().collect();
                saw.extend(up.iter().skip(1).step_by(2));
                for mut data in [random, up.clone(), down, saw] {
                    sort(&mut data, &|one, other| one < other);
                    assert_eq!(data, up, "{length} {seed} {kinds}");
                }
            }
        }
    }
}
