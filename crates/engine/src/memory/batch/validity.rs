//! Validity of a column: one bit a row says whether it has a value, and there are none while every row has one.
//!
//! Does: append rows one by one, by eights, or as another column has them; shorten. Does not: hold values.

/// Which rows of a column have a value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Validity {
    /// One bit a row, LSB first, 1 = present. Empty while every row is present.
    bits: Vec<u8>,
    rows: usize,
    nulls: usize,
}

impl Validity {
    /// Every one of `rows` rows present.
    #[cfg(test)]
    pub(crate) fn all(rows: usize) -> Self {
        Self {
            bits: Vec::new(),
            rows,
            nulls: 0,
        }
    }

    /// Takes the bitmap of `rows` rows; `None` = all present.
    pub(crate) fn from_bitmap(bitmap: Option<&[u8]>, rows: usize) -> Self {
        let mut validity = Self::default();
        validity.extend_from_bitmap(bitmap, rows);
        validity
    }

    /// Adds `rows` rows as a bitmap has them; `None` = all present.
    pub(crate) fn extend_from_bitmap(&mut self, bitmap: Option<&[u8]>, rows: usize) {
        match bitmap {
            None => self.extend(true, rows),
            Some(bits) => {
                let mut rest = rows;
                for &byte in bits.iter().chain(std::iter::repeat(&0)) {
                    if rest == 0 {
                        return;
                    }
                    let count = rest.min(8);
                    self.push_bits(byte, count);
                    rest -= count;
                }
            }
        }
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Number of null rows.
    pub(crate) fn nulls(&self) -> usize {
        self.nulls
    }

    /// Whether a row has a value.
    #[inline]
    pub(crate) fn is_valid(&self, row: usize) -> bool {
        self.nulls == 0
            || self
                .bits
                .get(row / 8)
                .is_some_and(|byte| byte >> (row % 8) & 1 == 1)
    }

    /// Adds a row.
    #[inline]
    pub(crate) fn push(&mut self, valid: bool) {
        if valid && self.nulls == 0 {
            self.rows += 1;
            return;
        }
        self.push_slow(valid);
    }

    #[cold]
    fn push_slow(&mut self, valid: bool) {
        self.make_real();
        if self.rows.is_multiple_of(8) {
            self.bits.push(0);
        }
        if valid {
            if let Some(last) = self.bits.last_mut() {
                *last |= 1 << (self.rows % 8);
            }
        } else {
            self.nulls += 1;
        }
        self.rows += 1;
    }

    /// The first null makes the bitmap real.
    fn make_real(&mut self) {
        if self.nulls == 0 {
            self.bits = vec![0xFF; self.rows.div_ceil(8)];
            if let (Some(last), rest @ 1..) = (self.bits.last_mut(), self.rows % 8) {
                *last = (1 << rest) - 1;
            }
        }
    }

    /// Adds up to eight rows, the lowest bit first: where some have no value, one by one is the slowest part of a scan.
    #[inline]
    fn push_bits(&mut self, bits: u8, count: usize) {
        let mask = u8::MAX >> (8 - count.clamp(1, 8));
        let bits = bits & mask;
        if bits == mask && self.nulls == 0 {
            self.rows += count;
            return;
        }
        self.make_real();
        let used = self.rows % 8;
        match self.bits.last_mut().filter(|_| used > 0) {
            Some(last) => {
                *last |= bits << used;
                if used + count > 8 {
                    self.bits.push(bits >> (8 - used));
                }
            }
            None => self.bits.push(bits),
        }
        self.nulls += count - bits.count_ones() as usize;
        self.rows += count;
    }

    /// Adds `rows` rows of one kind.
    pub(crate) fn extend(&mut self, valid: bool, rows: usize) {
        if valid && self.nulls == 0 {
            self.rows += rows;
            return;
        }
        let bits = if valid { u8::MAX } else { 0 };
        for first in (0..rows).step_by(8) {
            self.push_bits(bits, (rows - first).min(8));
        }
    }

    /// Adds rows of another one that follow each other.
    pub(crate) fn extend_range(&mut self, other: &Self, rows: std::ops::Range<usize>) {
        if other.nulls == 0 {
            self.extend(true, rows.len());
            return;
        }
        let byte = |at: usize| u16::from(other.bits.get(at).copied().unwrap_or(0));
        for row in rows.clone().step_by(8) {
            let two = byte(row / 8) | byte(row / 8 + 1) << 8;
            let [bits, _] = (two >> (row % 8)).to_le_bytes();
            self.push_bits(bits, (rows.end - row).min(8));
        }
    }

    /// Adds rows of another one, in this order.
    pub(crate) fn extend_picked(&mut self, other: &Self, rows: &[u32]) {
        if other.nulls == 0 {
            self.extend(true, rows.len());
            return;
        }
        for eight in rows.chunks(8) {
            let bits = eight.iter().enumerate().fold(0, |bits, (at, &row)| {
                bits | u8::from(other.is_valid(row as usize)) << at
            });
            self.push_bits(bits, eight.len());
        }
    }

    /// Shortens to `rows`.
    pub(crate) fn truncate(&mut self, rows: usize) {
        if rows >= self.rows {
            return;
        }
        let mut shorter = Self::default();
        for row in 0..rows {
            shorter.push(self.is_valid(row));
        }
        *self = shorter;
    }

    /// The bitmap, or `None` when every row is present.
    pub(crate) fn bitmap(&self) -> Option<&[u8]> {
        (self.nulls > 0).then_some(&self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::Validity;

    /// Eight rows at a time, the bits have to be those of one row after the other, wherever a byte begins.
    #[test]
    fn rows_by_eights_are_rows_one_by_one() {
        let present = |seed: usize, row: usize| match seed % 4 {
            0 => true,
            1 => false,
            2 => row.is_multiple_of(3),
            _ => (row * 2_654_435_761 + seed) >> 7 & 3 != 0,
        };
        let one_by_one = |seed, rows| {
            let mut validity = Validity::default();
            (0..rows).for_each(|row| validity.push(present(seed, row)));
            validity
        };
        for before in 0..11 {
            for rows in [0, 1, 7, 8, 9, 16, 61] {
                for seed in 0..24 {
                    let other = one_by_one(seed / 4, rows + 3);
                    let start = one_by_one(seed, before);
                    let mut expected = start.clone();
                    (0..rows).for_each(|row| expected.push(other.is_valid(row)));
                    let mut found = start.clone();
                    found.extend_from_bitmap(other.bitmap(), rows);
                    assert_eq!(found, expected, "{before} {rows} {seed}");
                    let mut found = start.clone();
                    let picked: Vec<u32> = (0..u32::try_from(rows).expect("few")).collect();
                    found.extend_picked(&other, &picked);
                    assert_eq!(found, expected, "{before} {rows} {seed}");
                    for first in 0..=3 {
                        let (mut found, mut expected) = (start.clone(), start.clone());
                        found.extend_range(&other, first..first + rows);
                        (first..first + rows).for_each(|row| expected.push(other.is_valid(row)));
                        assert_eq!(found, expected, "{before} {rows} {seed} {first}");
                    }
                    for valid in [true, false] {
                        let (mut found, mut expected) = (start.clone(), start.clone());
                        found.extend(valid, rows);
                        (0..rows).for_each(|_| expected.push(valid));
                        assert_eq!(found, expected, "{before} {rows} {seed} {valid}");
                    }
                }
            }
        }
    }
}
