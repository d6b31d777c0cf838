//! Codes of one tag by ordinal of the series, as narrow as the codes allow: most tags have few values.

/// A column of codes. Ordinals past its end, and those that nothing was pushed for, have no code.
#[derive(Debug)]
pub(crate) enum CodeColumn {
    Narrow(Vec<u8>),
    Middle(Vec<u16>),
    Wide(Vec<u32>),
}

impl Default for CodeColumn {
    fn default() -> Self {
        Self::Narrow(Vec::new())
    }
}

/// The greatest value of each width says that there is no code.
trait Code: Copy + PartialEq + TryFrom<u32> + Into<u32> {
    const ABSENT: Self;

    fn shown(self) -> Option<u32> {
        (self != Self::ABSENT).then(|| self.into())
    }

    /// The code in this width, if it fits.
    fn stored(code: u32) -> Option<Self> {
        Self::try_from(code)
            .ok()
            .filter(|&code| code != Self::ABSENT)
    }
}

impl Code for u8 {
    const ABSENT: Self = Self::MAX;
}

impl Code for u16 {
    const ABSENT: Self = Self::MAX;
}

impl Code for u32 {
    const ABSENT: Self = Self::MAX;
}

fn widened<From: Code, To: Code>(codes: &[From]) -> Vec<To> {
    let widen = |code: &From| code.shown().and_then(To::stored).unwrap_or(To::ABSENT);
    codes.iter().map(widen).collect()
}

fn push<C: Code>(codes: &mut Vec<C>, ordinal: usize, code: u32) -> bool {
    let Some(code) = C::stored(code) else {
        return false;
    };
    codes.resize(ordinal, C::ABSENT);
    codes.push(code);
    true
}

impl CodeColumn {
    /// A column of codes that count from 1, where 0 is absent: each becomes one less.
    pub(crate) fn from_ranks(ranks: &[u32]) -> Self {
        fn stored<C: Code>(ranks: &[u32]) -> Vec<C> {
            let code = |rank: &u32| rank.checked_sub(1).and_then(C::stored);
            ranks
                .iter()
                .map(|rank| code(rank).unwrap_or(C::ABSENT))
                .collect()
        }
        match ranks.iter().max().copied().unwrap_or(0) {
            0..=0xFF => Self::Narrow(stored(ranks)),
            0x100..=0xFFFF => Self::Middle(stored(ranks)),
            _ => Self::Wide(stored(ranks)),
        }
    }

    /// The code of an ordinal.
    #[inline]
    pub(crate) fn get(&self, ordinal: usize) -> Option<u32> {
        match self {
            Self::Narrow(codes) => codes.get(ordinal)?.shown(),
            Self::Middle(codes) => codes.get(ordinal)?.shown(),
            Self::Wide(codes) => codes.get(ordinal)?.shown(),
        }
    }

    /// Gives an ordinal past the end its code, which is less than `u32::MAX`.
    pub(crate) fn push(&mut self, ordinal: usize, code: u32) {
        let fits = match self {
            Self::Narrow(codes) => push(codes, ordinal, code),
            Self::Middle(codes) => push(codes, ordinal, code),
            Self::Wide(codes) => push(codes, ordinal, code),
        };
        if !fits {
            *self = match self {
                Self::Narrow(codes) if u16::stored(code).is_some() => Self::Middle(widened(codes)),
                Self::Narrow(codes) => Self::Wide(widened(codes)),
                Self::Middle(codes) => Self::Wide(widened(codes)),
                Self::Wide(_) => return,
            };
            self.push(ordinal, code);
        }
    }

    /// Memory in use.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Narrow(codes) => codes.capacity(),
            Self::Middle(codes) => codes.capacity() * 2,
            Self::Wide(codes) => codes.capacity() * 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_every_width_become_codes() {
        for greatest in [0, 1, 255, 256, 65_535, 65_536, u32::MAX] {
            let ranks = [greatest, 0, 1, greatest.saturating_sub(1)];
            let column = CodeColumn::from_ranks(&ranks);
            for (at, rank) in ranks.into_iter().enumerate() {
                assert_eq!(column.get(at), rank.checked_sub(1), "{greatest} {at}");
            }
        }
    }

    #[test]
    fn codes_of_every_width_read_back_with_gaps_between() {
        let codes = [
            0,
            3,
            254,
            255,
            256,
            1,
            65_534,
            65_535,
            65_536,
            2,
            u32::MAX - 1,
        ];
        for first in 0..codes.len() {
            let mut column = CodeColumn::default();
            for (at, &code) in codes.iter().enumerate().skip(first) {
                column.push(at * 3, code);
            }
            for at in 0..=codes.len() * 3 {
                let code = codes.get(at / 3).filter(|_| at % 3 == 0 && at / 3 >= first);
                assert_eq!(column.get(at), code.copied(), "ordinal {at}");
            }
        }
    }
}
