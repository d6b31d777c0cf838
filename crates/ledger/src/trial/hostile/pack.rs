//! Compressed bodies that no compressor would write: bombs, lies, and what is broken in one place.
//!
//! Does: write gzip and Zstandard by hand, as RFC 1952, RFC 1951 and RFC 8878 say. Does not: compress anything.

/// Bits of DEFLATE, lowest first.
#[derive(Debug, Default)]
struct Bits {
    bytes: Vec<u8>,
    held: u64,
    count: u32,
}

impl Bits {
    fn put(&mut self, value: u64, count: u32) {
        self.held |= value << self.count;
        self.count += count;
        while self.count >= 8 {
            self.bytes.push(self.held.to_le_bytes()[0]);
            self.held >>= 8;
            self.count -= 8;
        }
    }

    /// A Huffman code, whose highest bit comes first.
    fn put_code(&mut self, code: u64, count: u32) {
        self.put(code.reverse_bits() >> (64 - count), count);
    }

    fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.put(0, 8 - self.count);
        }
        self.bytes
    }
}

const GZIP_HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

/// A gzip member of zeros, `bytes` of them or a few more. With `literals`, it inflates 98 times instead of 158 times.
pub(super) fn gzip_zeros(bytes: u64, literals: bool) -> Vec<u8> {
    let mut bits = Bits::default();
    // One last block with the codes that the format fixes.
    bits.put(0b011, 3);
    bits.put_code(0x30, 8);
    let mut made = 1;
    while made < bytes {
        // Code 285: a match of 258 bytes; then distance 1.
        bits.put_code(0xc5, 8);
        bits.put_code(0, 5);
        made += 258;
        if literals {
            bits.put_code(0x30, 8);
            made += 1;
        }
    }
    bits.put_code(0, 7);
    let mut out = GZIP_HEAD.to_vec();
    out.extend(bits.finish());
    // What inflates so far that its sum is looked at has a wrong one, which is an error too.
    out.extend([0; 4]);
    out.extend(u32::try_from(made & 0xffff_ffff).unwrap_or(0).to_le_bytes());
    out
}

/// A gzip member that holds these bytes as they are.
pub(super) fn gzip(content: &[u8]) -> Vec<u8> {
    let mut out = GZIP_HEAD.to_vec();
    let pieces = content.len().div_ceil(0xffff).max(1);
    for n in 0..pieces {
        let from = n * 0xffff;
        let piece = content
            .get(from..(from + 0xffff).min(content.len()))
            .unwrap_or_default();
        let length = u16::try_from(piece.len()).unwrap_or(0);
        out.push(u8::from(n + 1 == pieces));
        out.extend(length.to_le_bytes());
        out.extend((!length).to_le_bytes());
        out.extend_from_slice(piece);
    }
    out.extend(crc32(content).to_le_bytes());
    out.extend(u32::try_from(content.len()).unwrap_or(0).to_le_bytes());
    out
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut sum = u32::MAX;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg());
        }
    }
    !sum
}

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// A block inflates to at most this.
const ZSTD_BLOCK_BYTES: u32 = 128 << 10;

#[derive(Debug, Clone, Copy)]
enum Block {
    Raw = 0,
    /// One byte, and how often.
    Run = 1,
}

fn block(out: &mut Vec<u8>, is_last: bool, kind: Block, size: u32) {
    let head = u32::from(is_last) | (kind as u32) << 1 | size << 3;
    out.extend(head.to_le_bytes().into_iter().take(3));
}

/// A Zstandard frame of zeros with a window of 1 KiB shifted left by `window_log - 10`.
pub(super) fn zstd_zeros(bytes: u64, window_log: u8) -> Vec<u8> {
    let mut out = ZSTD_MAGIC.to_vec();
    out.extend([0, window_log.saturating_sub(10) << 3]);
    let blocks = bytes.div_ceil(u64::from(ZSTD_BLOCK_BYTES)).max(1);
    for n in 0..blocks {
        block(&mut out, n + 1 == blocks, Block::Run, ZSTD_BLOCK_BYTES);
        out.push(0);
    }
    out
}

/// A frame that holds these few bytes as they are, and says that it holds `said` bytes.
pub(super) fn zstd_saying(content: &[u8], said: u64) -> Vec<u8> {
    let mut out = ZSTD_MAGIC.to_vec();
    // A single segment whose length is a number of eight bytes.
    out.push(0b1110_0000);
    out.extend(said.to_le_bytes());
    block(
        &mut out,
        true,
        Block::Raw,
        u32::try_from(content.len()).unwrap_or(0),
    );
    out.extend_from_slice(content);
    out
}

/// A frame that holds these few bytes as they are.
pub(super) fn zstd(content: &[u8]) -> Vec<u8> {
    zstd_saying(content, content.len() as u64)
}

/// A frame that needs a dictionary that nobody has.
pub(super) fn zstd_with_dictionary(content: &[u8]) -> Vec<u8> {
    let mut out = ZSTD_MAGIC.to_vec();
    out.extend([0b0010_0001, 77]);
    out.push(u8::try_from(content.len()).unwrap_or(u8::MAX));
    block(
        &mut out,
        true,
        Block::Raw,
        u32::try_from(content.len()).unwrap_or(0),
    );
    out.extend_from_slice(content);
    out
}

/// A frame that is to be skipped.
pub(super) fn zstd_skipped(said: u32, content: &[u8]) -> Vec<u8> {
    let mut out = vec![0x50, 0x2a, 0x4d, 0x18];
    out.extend(said.to_le_bytes());
    out.extend_from_slice(content);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_frames_are_those_of_the_formats() {
        // The check value of CRC-32.
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        // As `printf hi | zstd --no-check -c` writes it, but for the width of its length.
        assert!(zstd(b"hi").ends_with(&[0x11, 0, 0, b'h', b'i']));
        // A block of each 128 KiB: header of three bytes, and the byte.
        assert_eq!(zstd_zeros(1 << 30, 20).len(), 6 + 8192 * 4);
        let bomb = gzip_zeros(1 << 20, false).len() as u64;
        assert!((150..160).contains(&((1 << 20) / bomb)), "{bomb}");
        let bomb = gzip_zeros(1 << 20, true).len() as u64;
        assert!((90..100).contains(&((1 << 20) / bomb)), "{bomb}");
    }
}
