//! Changes to known inputs, drawn from a seed: what the replay test adds to the corpus.
//!
//! Does: flip, overwrite, cut, repeat and mix bytes, with numbers at edges among them. Does not: follow coverage.

/// Numbers; the same seed gives the same ones (`SplitMix64`).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// All 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A place in something of this length; 0 if it is empty.
    pub fn index(&mut self, length: usize) -> usize {
        let at = self.draw().checked_rem(length as u64).unwrap_or(0);
        usize::try_from(at).unwrap_or(0)
    }
}

/// Bytes that stand for numbers at an edge, in the forms that files have them.
const EDGES: [&[u8]; 9] = [
    &[0],
    &[1],
    &[0x7f],
    &[0x80],
    &[0xff],
    &[0xff; 4],
    &[0xff; 8],
    // The largest numbers of 32 and of 64 bits with seven bits a byte.
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
];

/// One to four changes; pieces of `other` come in now and then.
pub fn mutate(input: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut out = input.to_vec();
    for _ in 0..=random.index(4) {
        let at = random.index(out.len());
        let end = (at + 1 + random.index(16)).min(out.len());
        match random.index(7) {
            0 => {
                if let Some(byte) = out.get_mut(at) {
                    *byte ^= 1 << random.index(8);
                }
            }
            1 => {
                if let Some(byte) = out.get_mut(at) {
                    *byte = random.draw().to_le_bytes()[0];
                }
            }
            2 => {
                let edge = EDGES
                    .get(random.index(EDGES.len()))
                    .copied()
                    .unwrap_or_default();
                let end = (at + edge.len()).min(out.len());
                out.splice(at..end, edge.iter().copied());
            }
            3 => drop(out.drain(at..end)),
            4 => {
                let piece = out.get(at..end).unwrap_or_default().to_vec();
                let to = random.index(out.len());
                out.splice(to..to, piece);
            }
            5 => {
                let from = random.index(other.len());
                let to = (from + 1 + random.index(64)).min(other.len());
                let piece = other.get(from..to).unwrap_or_default().to_vec();
                out.splice(at..end, piece);
            }
            _ => out.truncate(at),
        }
    }
    out
}
