//! A packing: offsets from a base in `width` bits each; the few that are wider keep their high bits in patches.
//!
//! Layout: width (1 byte), number of patches (varint), base (zigzag varint), the low `width` bits of every offset,
//! packed; then, if there are patches: width of the high bits (1 byte), positions, packed in as many bits as the last
//! position needs, and the high bits, packed. Offsets are modulo 2^64, so a value below the base is a patch like any.

use super::narrow;
use crate::pack::{GROUP, mask, pack, packed_bytes, unpack, width_of};
use crate::read::{take, take_u8};
use crate::{Error, varint};

/// Most outliers below all others that the choice of a base passes over.
const REBASES_MAX: usize = 4;

/// Fewest values that are counted in turns.
const TURNS_ROWS_MIN: usize = 128;

/// Offsets of one bit are as good as from any other base.
const CROWD_WIDTH_MIN: u32 = 2;

/// Base and widths of a packing, and how many patches it takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packing {
    pub(crate) base: i64,
    width: u32,
    high_width: u32,
    patches: usize,
}

impl Packing {
    /// The same as [`Self::choose`] for values above `min` by `offsets`, or `None` if a better base has to be looked for.
    pub(super) fn choose_narrow(offsets: &[u16], min: i64, width_max: u32) -> Option<Self> {
        let n = offsets.len();
        // Most counts are never asked for: the widest offsets are many already, or the patches would be.
        let mut counts = [None; 17];
        let mut wider = |width: u32| {
            *counts[width as usize].get_or_insert_with(|| narrow::wider(offsets, width))
        };
        for width in (CROWD_WIDTH_MIN..=width_max).rev() {
            let crowd = wider(width - 1) - wider(width);
            if is_crowd(crowd, n) {
                return None;
            }
            if is_crowd(n - wider(width - 1), n) {
                continue;
            }
            break;
        }
        Some(cheapest(min, n, width_max, wider))
    }

    /// Chooses base and widths for values whose smallest is `min` and whose range takes `width_max` bits.
    pub(crate) fn choose<I: ExactSizeIterator<Item = i64> + Clone>(
        values: &I,
        min: i64,
        width_max: u32,
    ) -> Self {
        let n = values.len();
        let mut base = min;
        let mut counts = WidthCounts::of(values.clone(), base);
        let mut best = counts.cheapest(base, n, width_max);
        // One low outlier, such as a counter that restarts, lifts all other offsets into one wide bucket. Their own
        // minimum is then the better base, and the outlier wraps into a patch. Each round passes over one outlier.
        for _ in 0..REBASES_MAX {
            let Some(width) = counts.crowd(n) else { break };
            let in_crowd = |value: &i64| width_of(value.wrapping_sub(base) as u64) == width;
            let crowd = values
                .clone()
                .filter(in_crowd)
                .map(|value| value.wrapping_sub(base))
                .min();
            base = base.wrapping_add(crowd.unwrap_or(0));
            counts = WidthCounts::of(values.clone(), base);
            let rebased = counts.cheapest(base, n, 64);
            if rebased.bytes(n) < best.bytes(n) {
                best = rebased;
            }
        }
        best
    }

    pub(crate) fn bytes(&self, n: usize) -> usize {
        let patches = match self.patches {
            0 => 0,
            patches => {
                1 + packed_bytes(patches, position_width(n))
                    + packed_bytes(patches, self.high_width)
            }
        };
        1 + varint::bytes_u64(self.patches as u64)
            + varint::bytes_i64(self.base)
            + packed_bytes(n, self.width)
            + patches
    }

    /// Appends the packing of the values that it was chosen for.
    pub(crate) fn encode(
        &self,
        values: impl ExactSizeIterator<Item = i64> + Clone,
        out: &mut Vec<u8>,
    ) {
        let n = values.len();
        let offsets = values.map(|value| value.wrapping_sub(self.base) as u64);
        out.push(self.width as u8);
        varint::put_u64(self.patches as u64, out);
        varint::put_i64(self.base, out);
        pack(offsets.clone(), self.width, out);
        if self.patches > 0 {
            out.push(self.high_width as u8);
            let wide = offsets
                .enumerate()
                .filter(|(_, offset)| *offset > mask(self.width));
            pack(
                Counted(
                    wide.clone().map(|(position, _)| position as u64),
                    self.patches,
                ),
                position_width(n),
                out,
            );
            pack(
                Counted(wide.map(|(_, offset)| offset >> self.width), self.patches),
                self.high_width,
                out,
            );
        }
    }
}

/// How many offsets need exactly each width.
struct WidthCounts([u16; 65]);

impl WidthCounts {
    fn of(values: impl ExactSizeIterator<Item = i64>, base: i64) -> Self {
        let width = |value: i64| width_of(value.wrapping_sub(base) as u64) as usize;
        // Neighbours tend to fall into one bucket; counting in turns keeps an increment from waiting for the last one.
        // Short lists are over before that pays for clearing and adding the buckets.
        if values.len() < TURNS_ROWS_MIN {
            let mut counts = [0_u16; 65];
            for value in values {
                let count = &mut counts[width(value)];
                *count = count.wrapping_add(1);
            }
            return Self(counts);
        }
        let mut turns = [[0_u16; 65]; 4];
        for (index, value) in values.enumerate() {
            let count = &mut turns[index % 4][width(value)];
            *count = count.wrapping_add(1);
        }
        let [a, b, c, d] = turns;
        Self(std::array::from_fn(|width| {
            a[width] + b[width] + c[width] + d[width]
        }))
    }

    fn cheapest(&self, base: i64, n: usize, width_max: u32) -> Packing {
        let counts = &self.0;
        let width_max = (0..=width_max)
            .rev()
            .find(|&width| counts[width as usize] > 0)
            .unwrap_or(0);
        let mut patches = 0;
        cheapest(base, n, width_max, |width| {
            patches += usize::from(counts[width as usize + 1]);
            patches
        })
    }

    /// The width above 1 that three quarters of the offsets need exactly: a sign that the base is far below them.
    fn crowd(&self, n: usize) -> Option<u32> {
        (CROWD_WIDTH_MIN..=64).find(|width| is_crowd(usize::from(self.0[*width as usize]), n))
    }
}

/// Whether so many offsets are three quarters of all.
fn is_crowd(count: usize, n: usize) -> bool {
    4 * count >= 3 * n
}

/// The cheapest width for a base: each bit less saves one for every value and makes patches of the `wider` ones, which
/// is asked about each width from `width_max - 1` down.
fn cheapest(base: i64, n: usize, width_max: u32, mut wider: impl FnMut(u32) -> usize) -> Packing {
    let mut best = Packing {
        base,
        width: width_max,
        high_width: 0,
        patches: 0,
    };
    let mut best_bits = n * width_max as usize;
    let position_width = position_width(n) as usize;
    for width in (0..width_max).rev() {
        let patches = wider(width);
        let high_width = width_max - width;
        let patch_bits = patches * (position_width + high_width as usize) + 8;
        if patch_bits > best_bits {
            break;
        }
        let bits = n * width as usize + patch_bits;
        if bits < best_bits {
            best_bits = bits;
            best = Packing {
                base,
                width,
                high_width,
                patches,
            };
        }
    }
    best
}

/// An iterator of which the caller knows the length.
struct Counted<I>(I, usize);

impl<I: Iterator<Item = u64>> Iterator for Counted<I> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let value = self.0.next()?;
        self.1 -= 1;
        Some(value)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.1, Some(self.1))
    }
}

impl<I: Iterator<Item = u64>> ExactSizeIterator for Counted<I> {}

/// The parts of a packing, before any value is unpacked.
pub(super) struct Parts<'a> {
    pub(super) width: u32,
    pub(super) base: i64,
    /// The low bits of every value.
    pub(super) packed: &'a [u8],
    patches: Option<Patches<'a>>,
}

struct Patches<'a> {
    count: usize,
    positions: &'a [u8],
    high_width: u32,
    highs: &'a [u8],
}

impl<'a> Parts<'a> {
    /// Takes a packing of `n` values off the front of `input`.
    pub(super) fn take(input: &mut &'a [u8], n: usize) -> Result<Self, Error> {
        let width = u32::from(take_u8(input)?);
        if width > 64 {
            return Err(Error::corrupt("a packed value is wider than 64 bits"));
        }
        let patches = varint::get_u64(input)?;
        let base = varint::get_i64(input)?;
        let packed = take(input, packed_bytes(n, width))?;
        let patches = match usize::try_from(patches) {
            Ok(0) => None,
            Ok(patches) if patches <= n => Some(Patches::take(input, n, width, patches)?),
            _ => return Err(Error::corrupt("more patches than values")),
        };
        Ok(Self {
            width,
            base,
            packed,
            patches,
        })
    }

    /// Number of patches.
    pub(super) fn patches(&self) -> usize {
        self.patches.as_ref().map_or(0, |patches| patches.count)
    }

    /// Fills `out` with the first of the `n` values.
    pub(super) fn unpack(&self, n: usize, out: &mut [i64]) -> Result<(), Error> {
        unpack(self.packed, self.width, self.base, out);
        self.for_patches(n, |position, high| {
            if let Some(value) = out.get_mut(position) {
                *value = value.wrapping_add(high);
            }
        })
    }

    /// Calls `at` with each position of a patch, in order, and what to add to the value there.
    #[inline]
    pub(super) fn for_patches(
        &self,
        n: usize,
        mut at: impl FnMut(usize, i64),
    ) -> Result<(), Error> {
        let Some(patches) = &self.patches else {
            return Ok(());
        };
        let mut highs = Groups {
            packed: patches.highs,
            width: patches.high_width,
            left: patches.count,
        };
        let mut values = [0; GROUP];
        for_positions(patches.positions, n, patches.count, |index, position| {
            if index % GROUP == 0 {
                highs.next(&mut values);
            }
            at(position, values[index % GROUP] << self.width);
        })
    }
}

impl<'a> Patches<'a> {
    #[cold]
    fn take(input: &mut &'a [u8], n: usize, width: u32, count: usize) -> Result<Self, Error> {
        let high_width = u32::from(take_u8(input)?);
        if high_width == 0 || high_width > 64 - width {
            return Err(Error::corrupt(
                "the high bits of patches do not fit above the packed bits",
            ));
        }
        Ok(Self {
            count,
            positions: take(input, packed_bytes(count, position_width(n)))?,
            high_width,
            highs: take(input, packed_bytes(count, high_width))?,
        })
    }
}

/// Bits that hold any position in a list of `n` values.
pub(crate) fn position_width(n: usize) -> u32 {
    width_of(n.saturating_sub(1) as u64)
}

/// Calls `at` with the index and the value of each of `count` packed positions, which must increase and be below `n`.
pub(crate) fn for_positions(
    packed: &[u8],
    n: usize,
    count: usize,
    mut at: impl FnMut(usize, usize),
) -> Result<(), Error> {
    let mut groups = Groups {
        packed,
        width: position_width(n),
        left: count,
    };
    let mut positions = [0; GROUP];
    let mut lowest = 0;
    for index in 0..count {
        if index % GROUP == 0 {
            groups.next(&mut positions);
        }
        let position = positions[index % GROUP] as usize;
        if position < lowest || position >= n {
            return Err(Error::corrupt(
                "positions of patches do not increase within the page",
            ));
        }
        lowest = position + 1;
        at(index, position);
    }
    Ok(())
}

/// Packed values, a group at a time: patches are few, and a page of room for them costs more than they do.
struct Groups<'a> {
    packed: &'a [u8],
    width: u32,
    left: usize,
}

impl Groups<'_> {
    /// Fills `out` with the next values, as many as are left.
    fn next(&mut self, out: &mut [i64; GROUP]) {
        let n = self.left.min(GROUP);
        let (group, rest) = self.packed.split_at(packed_bytes(n, self.width));
        unpack(group, self.width, 0, &mut out[..n]);
        (self.packed, self.left) = (rest, self.left - n);
    }
}
