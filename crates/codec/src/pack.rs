//! Bit packing: `n` values of `width` bits each, one after the other, LSB first, in `ceil(n * width / 8)` bytes.
//!
//! There are no lanes and no padding between values, so a loop over single bits decodes it. This file does the same in
//! groups of 64 values, whose packed form is `width` whole words; each width has its own kernel with constant shifts.

/// Values a kernel handles at a time.
pub(crate) const GROUP: usize = 64;

/// Values of a block, which has a width of its own. Whole words of 32 bits, so that each ends on a byte.
pub(crate) const BLOCK: usize = 32;

/// Bytes that `n` values of `width` bits take.
pub(crate) const fn packed_bytes(n: usize, width: u32) -> usize {
    (n * width as usize).div_ceil(8)
}

/// Bytes of a whole group.
pub(crate) const fn group_bytes(width: u32) -> usize {
    packed_bytes(GROUP, width)
}

/// Bits that hold `value`.
pub(crate) const fn width_of(value: u64) -> u32 {
    64 - value.leading_zeros()
}

/// The lowest `width` bits set.
pub(crate) const fn mask(width: u32) -> u64 {
    if width == 0 {
        0
    } else {
        u64::MAX >> (64 - width)
    }
}

/// Runs `$body` for the constants 0 to 63. The optimiser does not unroll that far by itself.
macro_rules! unroll_64 {
    ($i:ident, $body:block) => { unroll_64!(@ $i, $body,
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
        32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63)
    };
    (@ $i:ident, $body:block, $($n:literal)*) => { $( { const $i: usize = $n; $body } )* };
}

/// The same for 0 to 31.
macro_rules! unroll_32 {
    ($i:ident, $body:block) => { unroll_64!(@ $i, $body,
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31)
    };
}

/// Calls the kernel of a width that is known only at run time.
macro_rules! for_width {
    ($width:expr, $kernel:ident($($argument:expr),*)) => { for_width!(@ $width, $kernel, ($($argument),*),
        1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
        32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63)
    };
    (@ $width:expr, $kernel:ident, $arguments:tt, $($n:literal)*) => {
        match $width {
            $( $n => for_width!(@call $kernel, $n, $arguments), )*
            _ => for_width!(@call $kernel, 64, $arguments),
        }
    };
    (@call $kernel:ident, $n:literal, ($($argument:expr),*)) => { $kernel::<$n>($($argument),*) };
}

/// Appends the low `width` bits of each value. Bits above are dropped: patches carry them.
pub(crate) fn pack(mut values: impl ExactSizeIterator<Item = u64>, width: u32, out: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    let end = out.len() + packed_bytes(values.len(), width);
    out.reserve(packed_bytes(values.len().next_multiple_of(GROUP), width));
    while values.len() > 0 {
        let mut group = [0; GROUP];
        for (slot, value) in group.iter_mut().zip(&mut values) {
            *slot = value;
        }
        for_width!(width, pack_group(&group, out));
    }
    // The last group was padded with zeros.
    out.truncate(end);
}

/// Fills `out` with `base` plus each packed value, wrapping. `packed` holds [`packed_bytes`] bytes.
pub(crate) fn unpack(packed: &[u8], width: u32, base: i64, out: &mut [i64]) {
    if width == 0 {
        out.fill(base);
    } else {
        for_width!(width, unpack_groups(packed, base, out));
    }
}

/// Like [`unpack`], but fills `out` with running sums after `sum`; answers with the sum after the last whole group.
pub(crate) fn unpack_sums(packed: &[u8], width: u32, base: i64, sum: i64, out: &mut [i64]) -> i64 {
    if width == 0 {
        out.iter_mut().fold(sum, |sum, value| {
            *value = sum.wrapping_add(base);
            *value
        })
    } else {
        for_width!(width, unpack_sums_groups(packed, base, sum, out))
    }
}

/// Like [`unpack`], for one block: at most [`BLOCK`] values.
pub(crate) fn unpack_block(packed: &[u8], width: u32, base: i64, out: &mut [i64]) {
    if width == 0 {
        out.fill(base);
    } else if let Some(out) = out.as_mut_array() {
        for_width!(width, unpack_words(packed, base, out));
    } else {
        // A shorter block is filled up with zeros.
        let mut whole = [0; packed_bytes(BLOCK, 64)];
        whole[..packed.len()].copy_from_slice(packed);
        let mut block = [0; BLOCK];
        for_width!(width, unpack_words(&whole, base, &mut block));
        out.copy_from_slice(&block[..out.len()]);
    }
}

fn unpack_words<const W: usize>(packed: &[u8], base: i64, out: &mut [i64; BLOCK]) {
    let (words, _) = packed.as_chunks::<4>();
    let Some(words) = words.first_chunk::<W>() else {
        return;
    };
    let word = |index: usize| u64::from(u32::from_le_bytes(words[index]));
    unroll_32!(I, {
        let (first, shift) = (I * W / 32, I * W % 32);
        let mut value = word(first) >> shift;
        if shift + W > 32 {
            value |= word(first + 1) << (32 - shift);
        }
        if shift + W > 64 {
            value |= word(first + 2) << (64 - shift);
        }
        out[I] = base.wrapping_add((value & mask(W as u32)) as i64);
    });
}

fn pack_group<const W: usize>(group: &[u64; GROUP], out: &mut Vec<u8>) {
    let mut words = [0; W];
    unroll_64!(I, {
        let (word, shift) = (I * W / 64, I * W % 64);
        let value = group[I] & mask(W as u32);
        words[word] |= value << shift;
        if shift + W > 64 {
            words[word + 1] = value >> (64 - shift);
        }
    });
    for word in words {
        out.extend_from_slice(&word.to_le_bytes());
    }
}

fn unpack_groups<const W: usize>(packed: &[u8], base: i64, out: &mut [i64]) {
    fold_groups(packed, base, out, |base, words, group| {
        each_of_group::<W>(words, |index, value| {
            group[index] = base.wrapping_add(value as i64);
        });
        base
    });
}

fn unpack_sums_groups<const W: usize>(packed: &[u8], base: i64, sum: i64, out: &mut [i64]) -> i64 {
    // The sum is handed on by value: behind a reference it would be stored and loaded again for every value.
    fold_groups(packed, sum, out, |mut sum, words, group| {
        each_of_group::<W>(words, |index, value| {
            sum = sum.wrapping_add(base.wrapping_add(value as i64));
            group[index] = sum;
        });
        sum
    })
}

/// Calls `kernel` with a state, the packed words and the values of each group. A last group that is shorter is filled up.
#[inline]
fn fold_groups<const W: usize>(
    packed: &[u8],
    mut state: i64,
    out: &mut [i64],
    kernel: impl Fn(i64, &[[u8; 8]; W], &mut [i64; GROUP]) -> i64,
) -> i64 {
    let (groups, tail) = out.as_chunks_mut::<GROUP>();
    let (packed_words, _) = packed.as_chunks::<8>();
    for (group, words) in groups.iter_mut().zip(packed_words.as_chunks().0) {
        state = kernel(state, words, group);
    }
    if !tail.is_empty() {
        let mut words = [[0; 8]; W];
        let (start, bytes) = (groups.len() * 8 * W, packed_bytes(tail.len(), W as u32));
        words.as_flattened_mut()[..bytes].copy_from_slice(&packed[start..start + bytes]);
        let mut group = [0; GROUP];
        state = kernel(state, &words, &mut group);
        tail.copy_from_slice(&group[..tail.len()]);
    }
    state
}

/// Calls `at` with the index and the packed bits of each value of a group.
#[inline]
fn each_of_group<const W: usize>(words: &[[u8; 8]; W], mut at: impl FnMut(usize, u64)) {
    unroll_64!(I, {
        let (word, shift) = (I * W / 64, I * W % 64);
        let mut value = u64::from_le_bytes(words[word]) >> shift;
        if shift + W > 64 {
            value |= u64::from_le_bytes(words[word + 1]) << (64 - shift);
        }
        at(I, value & mask(W as u32));
    });
}
