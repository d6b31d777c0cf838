use pco::wrapped::{FileCompressor, FileDecompressor};
use pco::{ChunkConfig, DeltaSpec, ModeSpec, PagingSpec};
use proptest::prelude::*;

use super::*;

/// A chunk of one page, as the library writes it, and what the library parses of it.
fn written<T: Integer>(values: &[T], config: &ChunkConfig) -> (ChunkDecompressor<T>, Vec<u8>) {
    let file = FileCompressor::default();
    let config = config
        .clone()
        .with_paging_spec(PagingSpec::Exact(vec![values.len()]));
    let mut chunk = file.chunk_compressor(values, &config).unwrap();
    let (mut head, mut page) = (Vec::new(), Vec::new());
    file.write_header(&mut head).unwrap();
    chunk.write_meta(&mut head).unwrap();
    chunk.write_page(0, &mut page).unwrap();
    let (file, rest) = FileDecompressor::new(&head[..]).unwrap();
    let (chunk, rest) = file.chunk_decompressor::<T, _>(rest).unwrap();
    assert!(rest.is_empty());
    (chunk, page)
}

/// What the library reads, or nothing.
fn theirs<T: Integer>(
    chunk: &ChunkDecompressor<T>,
    page: &[u8],
    total: usize,
    first: usize,
) -> Option<Vec<T>> {
    let mut out = vec![T::default(); first];
    let mut scratch = pco::DecompressorScratch::default();
    let mut pages = chunk
        .page_decompressor_with_scratch(page, total, &mut scratch)
        .ok()?;
    pages.read(&mut out).ok()?;
    let is_whole = first < total || pages.into_src().is_empty();
    is_whole.then_some(out)
}

fn ours<T: Integer, W: Whole>(
    chunk: &Chunk,
    page: &[u8],
    total: usize,
    first: usize,
) -> Option<Vec<W>> {
    let mut out = vec![W::default(); first];
    let mut scratch = Scratch::default();
    chunk
        .read::<T, W>(page, total, &mut out, &mut scratch)
        .ok()?;
    Some(out)
}

/// Whether the values of a page are read by hand, as they were written and, where the page is damaged, as the library does.
fn compare<T: Integer, W: Whole + PartialEq + std::fmt::Debug>(
    values: &[T],
    wide: fn(T) -> W,
    config: &ChunkConfig,
    flips: &[usize],
) -> Result<bool, TestCaseError> {
    let (chunk, page) = written(values, config);
    let Some(tables) = Chunk::of(&chunk) else {
        return Ok(false);
    };
    let widened = |values: &[T]| values.iter().map(|it| wide(*it)).collect::<Vec<W>>();
    let total = values.len();
    let whole = ours::<T, W>(&tables, &page, total, total);
    prop_assert_eq!(whole, Some(widened(values)));
    for first in (BATCH..total).step_by(BATCH) {
        let found = ours::<T, W>(&tables, &page, total, first);
        prop_assert_eq!(found, Some(widened(&values[..first])));
    }
    // What is damaged is refused, or read as the library reads it.
    for flip in flips {
        let mut damaged = page.clone();
        if damaged.is_empty() {
            break;
        }
        let at = flip % (8 * damaged.len());
        damaged[at / 8] ^= 1 << (at % 8);
        for what in ["a flip", "a cut"] {
            let own = ours::<T, W>(&tables, &damaged, total, total);
            let library = theirs(&chunk, &damaged, total, total);
            prop_assert_eq!(
                own,
                library.map(|it| widened(&it)),
                "{} at bit {}",
                what,
                at
            );
            damaged.truncate(at / 8);
        }
    }
    Ok(true)
}

fn values() -> impl Strategy<Value = Vec<i64>> {
    let length = prop_oneof![1..20_usize, 1..=1024_usize, Just(256), Just(257), Just(512)];
    let shapes = (
        0..7_u8,
        any::<i64>(),
        0..62_u32,
        prop::collection::vec(any::<i64>(), 1024),
    );
    (length, shapes).prop_map(|(length, (shape, base, bits, noise))| {
        let small = |at: usize| noise[at] >> (63 - bits);
        let mut walk = base;
        (0..length)
            .map(|at| match shape {
                0 => base,
                1 => small(at),
                2 => {
                    walk = walk.wrapping_add(small(at));
                    walk
                }
                3 => small(at).wrapping_mul(1000),
                4 => base
                    .wrapping_add(at as i64 * 10_000)
                    .wrapping_add(small(at) % 3),
                // Few values, some far away: many bins.
                5 => noise[at].rem_euclid(7) * (1 << (noise[at].rem_euclid(5) * 9)),
                _ => noise[at],
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Expected are the values that were written; of damaged pages what the library says.
    #[test]
    fn pages_are_read_as_they_were_written(
        values in values(),
        order in 0..=ORDER_MAX,
        base in prop_oneof![Just(0), Just(1000), 2..100_u64],
        level in 0..=12_usize,
        flips in prop::collection::vec(any::<usize>(), 12),
    ) {
        let delta = match order {
            0 => DeltaSpec::NoOp,
            order => DeltaSpec::TryConsecutive(order),
        };
        let mode = match base {
            0 => ModeSpec::Classic,
            base => ModeSpec::TryIntMult(base),
        };
        let config = ChunkConfig::default()
            .with_delta_spec(delta)
            .with_mode_spec(mode)
            .with_compression_level(level);
        compare(&values, |it| it, &config, &flips)?;
        let unsigned: Vec<u64> = values.iter().map(|it| it.cast_unsigned()).collect();
        compare(&unsigned, |it| it, &config, &flips)?;
        // Narrower numbers are read as wide ones.
        let narrow: Vec<i32> = values.iter().map(|it| *it as i32).collect();
        compare(&narrow, i64::from, &config, &flips)?;
        let narrow: Vec<i16> = values.iter().map(|it| *it as i16).collect();
        compare(&narrow, i64::from, &config, &flips)?;
    }
}

/// That what is compared above is read by hand, and not left to the library as a rule.
#[test]
fn what_columns_usually_are_is_read_by_hand() {
    let walk: Vec<i64> = (0..1000).map(|n| n * 10 + n * n % 7).collect();
    let multiples: Vec<i64> = (0..1000).map(|n| n * n % 101 * 1000).collect();
    let constant = vec![7_i64; 1000];
    for values in [walk, multiples, constant] {
        for spec in [
            DeltaSpec::NoOp,
            DeltaSpec::TryConsecutive(1),
            DeltaSpec::TryConsecutive(2),
        ] {
            let config = ChunkConfig::default().with_delta_spec(spec);
            assert!(compare(&values, |it| it, &config, &[0, 100, 1000]).unwrap());
        }
    }
    // Noise fills one bin: its offsets have 64 bits, which is left to the library.
    let noise = |n: u64| {
        let mixed = (n ^ n << 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    };
    let wide: Vec<u64> = (1..1001).map(noise).collect();
    let config = ChunkConfig::default()
        .with_delta_spec(DeltaSpec::NoOp)
        .with_mode_spec(ModeSpec::Classic);
    assert!(!compare(&wide, |it| it, &config, &[]).unwrap());
}
