//! Dictionary codes of one tag by series ordinal, packed as narrowly as the codes allow. A tag of few series costs what
//! those few cost, however many series the table has.

/// A column of codes. Ordinals past its end, and those that nothing was pushed for, have no code.
#[derive(Debug, Default)]
pub(crate) struct CodeColumn {
    codes: Codes,
    /// Ordinals that have a code.
    present: usize,
    /// The greatest code.
    greatest: u32,
}

#[derive(Debug)]
enum Codes {
    /// (ordinal, code), by ordinal.
    Few(Vec<(u32, u32)>),
    Narrow(Vec<u8>),
    Middle(Vec<u16>),
    Wide(Vec<u32>),
}

impl Default for Codes {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

/// Bytes of a code that stands beside its ordinal.
const PAIR_BYTES: usize = size_of::<(u32, u32)>();
/// A column with a place for every ordinal becomes pairs again when it is so many times as large as they are: far from
/// where pairs give way to it, so that no column goes to and fro.
const WASTE_MAX: usize = 4;

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

/// Bytes of a place for codes up to this one.
fn width(greatest: u32) -> usize {
    match greatest {
        0..0xFF => 1,
        0xFF..0xFFFF => 2,
        _ => 4,
    }
}

fn widened<From: Code, To: Code>(codes: &[From]) -> Vec<To> {
    let widen = |code: &From| code.shown().and_then(To::stored).unwrap_or(To::ABSENT);
    codes.iter().map(widen).collect()
}

fn spread<C: Code>(pairs: &[(u32, u32)]) -> Vec<C> {
    let places = pairs.last().map_or(0, |(last, _)| *last as usize + 1);
    let mut codes = vec![C::ABSENT; places];
    for &(ordinal, code) in pairs {
        if let (Some(slot), Some(code)) = (codes.get_mut(ordinal as usize), C::stored(code)) {
            *slot = code;
        }
    }
    codes
}

fn paired<C: Code>(codes: &[C]) -> Vec<(u32, u32)> {
    let codes = (0..).zip(codes);
    codes
        .filter_map(|(ordinal, code)| Some((ordinal, code.shown()?)))
        .collect()
}

fn push<C: Code>(codes: &mut Vec<C>, ordinal: u32, code: u32) -> bool {
    let Some(code) = C::stored(code) else {
        return false;
    };
    codes.resize(ordinal as usize, C::ABSENT);
    codes.push(code);
    true
}

fn each_of<C: Code>(codes: &[C], first: u32, mut call: impl FnMut(u32, u32)) {
    let codes = (0..).zip(codes).skip(first as usize);
    for (ordinal, code) in codes {
        if let Some(code) = code.shown() {
            call(ordinal, code);
        }
    }
}

impl CodeColumn {
    /// A column of codes that count from 1, where 0 is absent: each becomes one less.
    pub(crate) fn from_ranks(ranks: &[u32]) -> Self {
        let codes = (0..).zip(ranks);
        let pairs = codes.filter_map(|(ordinal, rank)| Some((ordinal, rank.checked_sub(1)?)));
        Self::from_pairs(pairs.collect())
    }

    /// A column of (ordinal, code), by ordinal.
    pub(crate) fn from_pairs(pairs: Vec<(u32, u32)>) -> Self {
        let mut column = Self {
            present: pairs.len(),
            greatest: pairs.iter().map(|(_, code)| *code).max().unwrap_or(0),
            codes: Codes::Few(pairs),
        };
        column.settle();
        if let Codes::Few(pairs) = &mut column.codes {
            pairs.shrink_to_fit();
        }
        column
    }

    /// The code of an ordinal.
    #[inline]
    pub(crate) fn get(&self, ordinal: usize) -> Option<u32> {
        match &self.codes {
            Codes::Few(pairs) => {
                let ordinal = u32::try_from(ordinal).ok()?;
                let at = pairs.binary_search_by_key(&ordinal, |(at, _)| *at).ok()?;
                pairs.get(at).map(|(_, code)| *code)
            }
            Codes::Narrow(codes) => codes.get(ordinal)?.shown(),
            Codes::Middle(codes) => codes.get(ordinal)?.shown(),
            Codes::Wide(codes) => codes.get(ordinal)?.shown(),
        }
    }

    /// Calls with every ordinal from `first` on that has a code, ascending, and the code.
    pub(crate) fn each_from(&self, first: u32, mut call: impl FnMut(u32, u32)) {
        match &self.codes {
            Codes::Few(pairs) => {
                let start = pairs.partition_point(|(ordinal, _)| *ordinal < first);
                for &(ordinal, code) in pairs.get(start..).unwrap_or_default() {
                    call(ordinal, code);
                }
            }
            Codes::Narrow(codes) => each_of(codes, first, call),
            Codes::Middle(codes) => each_of(codes, first, call),
            Codes::Wide(codes) => each_of(codes, first, call),
        }
    }

    /// Number of ordinals that have a code.
    pub(crate) fn present(&self) -> usize {
        self.present
    }

    /// Gives an ordinal past the end its code, which is less than `u32::MAX`.
    pub(crate) fn push(&mut self, ordinal: u32, code: u32) {
        self.present += 1;
        self.greatest = self.greatest.max(code);
        let bytes = (ordinal as usize + 1) * width(self.greatest);
        if bytes > WASTE_MAX * PAIR_BYTES * self.present {
            self.pair();
        }
        let fits = match &mut self.codes {
            Codes::Few(pairs) => {
                pairs.push((ordinal, code));
                self.settle();
                true
            }
            Codes::Narrow(codes) => push(codes, ordinal, code),
            Codes::Middle(codes) => push(codes, ordinal, code),
            Codes::Wide(codes) => push(codes, ordinal, code),
        };
        if !fits {
            self.codes = match &self.codes {
                Codes::Narrow(codes) if width(self.greatest) == 2 => Codes::Middle(widened(codes)),
                Codes::Narrow(codes) => Codes::Wide(widened(codes)),
                Codes::Middle(codes) => Codes::Wide(widened(codes)),
                Codes::Wide(_) | Codes::Few(_) => return,
            };
            match &mut self.codes {
                Codes::Middle(codes) => push(codes, ordinal, code),
                Codes::Wide(codes) => push(codes, ordinal, code),
                Codes::Few(_) | Codes::Narrow(_) => false,
            };
        }
    }

    /// Gives every ordinal a place if pairs take as much memory.
    fn settle(&mut self) {
        let Codes::Few(pairs) = &self.codes else {
            return;
        };
        let places = pairs.last().map_or(0, |(last, _)| *last as usize + 1);
        let width = width(self.greatest);
        if places * width > PAIR_BYTES * pairs.len() || pairs.is_empty() {
            return;
        }
        self.codes = match width {
            1 => Codes::Narrow(spread(pairs)),
            2 => Codes::Middle(spread(pairs)),
            _ => Codes::Wide(spread(pairs)),
        };
    }

    /// Leaves the places of ordinals without a code out.
    #[cold]
    fn pair(&mut self) {
        let pairs = match &self.codes {
            Codes::Few(_) => return,
            Codes::Narrow(codes) => paired(codes),
            Codes::Middle(codes) => paired(codes),
            Codes::Wide(codes) => paired(codes),
        };
        self.codes = Codes::Few(pairs);
    }

    /// Memory in use.
    pub(crate) fn bytes(&self) -> usize {
        match &self.codes {
            Codes::Few(pairs) => pairs.capacity() * PAIR_BYTES,
            Codes::Narrow(codes) => codes.capacity(),
            Codes::Middle(codes) => codes.capacity() * 2,
            Codes::Wide(codes) => codes.capacity() * 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
            for (at, &code) in (0..).zip(&codes).skip(first) {
                column.push(at * 3, code);
            }
            for at in 0..=codes.len() * 3 {
                let code = codes.get(at / 3).filter(|_| at % 3 == 0 && at / 3 >= first);
                assert_eq!(column.get(at), code.copied(), "ordinal {at}");
            }
        }
    }

    #[test]
    fn a_column_takes_memory_for_the_codes_that_there_are_and_not_for_all_series() {
        let mut first_and_last = CodeColumn::default();
        first_and_last.push(0, 7);
        first_and_last.push(4_000_000_000, 7);
        assert!(first_and_last.bytes() <= 64);
        // Dense at first, and then nothing for long.
        let mut column = CodeColumn::default();
        for ordinal in 0..1000 {
            column.push(ordinal, 0);
        }
        assert!(column.bytes() <= 2048, "{}", column.bytes());
        column.push(1_000_000, 0);
        assert!(column.bytes() <= 20_000, "{}", column.bytes());
        assert_eq!((column.get(999), column.get(1000)), (Some(0), None));
    }

    proptest! {
        #[test]
        fn a_column_is_the_map_that_was_pushed(
            steps in proptest::collection::vec((prop_oneof![9 => 0..3u32, 1 => 0..5000u32], prop_oneof![8 => 0..300u32, 1 => 0..u32::MAX]), 0..300),
            first in 0..2000u32,
        ) {
            let mut column = CodeColumn::default();
            let (mut model, mut next) = (std::collections::BTreeMap::new(), 0);
            for (gap, code) in steps {
                next += gap;
                column.push(next, code);
                model.insert(next, code);
                next += 1;
            }
            let built = CodeColumn::from_pairs(model.iter().map(|(at, code)| (*at, *code)).collect());
            for column in [&column, &built] {
                prop_assert_eq!(column.present(), model.len());
                let mut found = Vec::new();
                column.each_from(first, |ordinal, code| found.push((ordinal, code)));
                let expected: Vec<(u32, u32)> = model.range(first..).map(|(at, code)| (*at, *code)).collect();
                prop_assert_eq!(found, expected);
                for ordinal in 0..next.min(3000) {
                    prop_assert_eq!(column.get(ordinal as usize), model.get(&ordinal).copied());
                }
                prop_assert!(column.bytes() <= 2 * (WASTE_MAX * PAIR_BYTES * model.len()).max(64));
            }
        }
    }
}
