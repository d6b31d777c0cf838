//! Promise: no bytes whatever make the decoder panic, hang or take memory that they have not paid for.

#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::big_endian_bytes,
    reason = "the inputs are small, and a failed unwrap is the report"
)]

use nilometer_codec::{
    BLOCK_ROWS_MAX, ColumnBuf, ColumnRef, Encoding, Error, PageSet, TEXT_BYTES_MAX,
    VALUE_BYTES_MAX, ValuesRef, decode_i64s, decode_page, encode_page, encode_page_of, page_header,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// One page of every encoding, most of them with nulls too.
fn sample_pages() -> Vec<(&'static str, Vec<u8>)> {
    let bitmap: Vec<u8> = (0..13).map(|index| 0xb6_u8.rotate_left(index)).collect();
    let validity = Some(bitmap.as_slice());
    let i64s = |of: &dyn Fn(i64) -> i64| (0..100).map(of).collect::<Vec<i64>>();
    let f64s = |of: &dyn Fn(i64) -> f64| (0..100).map(of).collect::<Vec<f64>>();
    let noise = |index: i64| index.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64);
    let squares = i64s(&|index| index * index % 17);
    let walk = i64s(&|index| 1000 * index + index * index % 7);
    let patched = i64s(&|index| {
        if index % 40 == 3 {
            index << 40
        } else {
            index % 5
        }
    });
    let decimals = f64s(&|index| {
        if index == 50 {
            f64::NAN
        } else {
            (index * index % 99) as f64 / 10.0
        }
    });
    let singles = f64s(&|index| f64::from((index as f32).sqrt()));
    let raw = f64s(&|index| f64::from_bits(noise(index) as u64));
    let runs = i64s(&|index| (index / 25 * 7919) % 1000);
    let ticks = i64s(&|index| 1_000_000_007 * (index % 12));
    let seconds = i64s(&|index| 1_000_000_000 * (index * 7 + index * index % 5));
    let bools: Vec<bool> = (0..100).map(|index| index % 3 == 0).collect();
    let states: Vec<bool> = (0..100).map(|index| index / 40 % 2 == 0).collect();
    let repeated: Vec<String> = (0..100)
        .map(|index| format!("value {}", index * index % 5))
        .collect();
    let distinct: Vec<String> = (0..100)
        .map(|index| format!("{:x}", noise(index)))
        .collect();
    let similar: Vec<String> = (0..100)
        .map(|index| format!("a rather long line about {index}"))
        .collect();
    let mut pages = vec![
        ("constant", page(ValuesRef::I64(&[7; 100]), None)),
        (
            "stride",
            page(ValuesRef::I64(&i64s(&|index| 5 + 3 * index)), None),
        ),
        ("frame", page(ValuesRef::I64(&squares), None)),
        ("delta", page(ValuesRef::I64(&walk), None)),
        ("patched", page(ValuesRef::I64(&patched), None)),
        (
            "unsigned with nulls",
            page(ValuesRef::U64(&[u64::MAX; 100]), validity),
        ),
        ("raw", page(ValuesRef::I64(&i64s(&noise)), None)),
        ("runs", page(ValuesRef::I64(&runs), None)),
        ("distinct", page(ValuesRef::I64(&ticks), None)),
        ("grid", page(ValuesRef::I64(&seconds), None)),
        ("runs of booleans", page(ValuesRef::Bool(&states), None)),
        ("frame with nulls", page(ValuesRef::I64(&squares), validity)),
        ("decimal", page(ValuesRef::F64(&decimals), None)),
        (
            "decimal with nulls",
            page(ValuesRef::F64(&decimals), validity),
        ),
        ("image", page(ValuesRef::F64(&singles), None)),
        ("raw floats", page(ValuesRef::F64(&raw), None)),
        ("bitmap", page(ValuesRef::Bool(&bools), validity)),
        ("no values", page(ValuesRef::Bool(&bools), Some(&[0; 13]))),
    ];
    pages.extend(second_set_pages(validity));
    pages.extend(fourth_set_pages(validity));
    for (name, values) in [
        ("dictionary", &repeated),
        ("plain", &distinct),
        ("similar", &similar),
    ] {
        let bytes = values.concat();
        let mut offsets = vec![0];
        for value in values {
            offsets.push(offsets.last().unwrap() + value.len() as u32);
        }
        pages.push((
            name,
            page(
                ValuesRef::Text {
                    offsets: &offsets,
                    bytes: bytes.as_bytes(),
                },
                None,
            ),
        ));
        pages.push((
            name,
            page(
                ValuesRef::Bytes {
                    offsets: &offsets,
                    bytes: bytes.as_bytes(),
                },
                validity,
            ),
        ));
    }
    pages
}

fn page(values: ValuesRef<'_>, validity: Option<&[u8]>) -> Vec<u8> {
    let mut page = Vec::new();
    encode_page(ColumnRef { values, validity }, &mut page).unwrap();
    page
}

/// Of each encoding that came with the second set.
fn second_set_pages(validity: Option<&[u8]>) -> Vec<(&'static str, Vec<u8>)> {
    let noise = |index: i64| index.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64);
    let sixteenth = |index| ((noise(index) >> 20) % 1000) as f64 / 16.0;
    let mut dyadics: Vec<f64> = (0..100).map(sixteenth).collect();
    dyadics[50] = f64::NAN;
    let burst = |index| {
        let shift = [60, 20, 40, 60][index as usize / 32];
        noise(index).unsigned_abs() as i64 >> shift
    };
    let bursts: Vec<i64> = (0..100).map(burst).collect();
    // From zero, so that the blocks of differences are those of the bursts.
    let mut sum = 0;
    let next = |step: &i64| {
        let before = sum;
        sum += step;
        before
    };
    let sums: Vec<i64> = bursts.iter().map(next).collect();
    let dyadics = ValuesRef::F64(&dyadics);
    vec![
        ("dyadic", page_of_second_set(dyadics, None)),
        ("dyadic with nulls", page_of_second_set(dyadics, validity)),
        ("blocked", page_of_second_set(ValuesRef::I64(&bursts), None)),
        (
            "blocked differences",
            page_of_second_set(ValuesRef::I64(&sums), None),
        ),
    ]
}

/// Bytes and text in lanes of every encoding, with characters of several bytes across them.
fn fourth_set_pages(validity: Option<&[u8]>) -> Vec<(&'static str, Vec<u8>)> {
    let rows = 100_u32;
    let noise = |row: u32| row.wrapping_mul(2_654_435_761) >> 24;
    let value = |row: u32| {
        let mut value = (noise(row) as i32 / 8 - 16).to_be_bytes().to_vec();
        value.extend((1000 + 3 * row + noise(row) / 128).to_le_bytes());
        value.extend([row as u8 / 30 * 71, b'#', b'#']);
        value
    };
    let bytes: Vec<u8> = (0..rows).flat_map(value).collect();
    let labels = (0..rows).map(|row| format!("\u{6c34}\u{e4} {:02}", row * 37 % 100));
    let text = labels.collect::<Vec<String>>().concat();
    let offsets = |bytes: usize| -> Vec<u32> {
        let length = bytes as u32 / rows;
        (0..=rows).map(|row| row * length).collect()
    };
    let (of_bytes, of_text) = (offsets(bytes.len()), offsets(text.len()));
    let values = ValuesRef::Bytes {
        offsets: &of_bytes,
        bytes: &bytes,
    };
    let text = ValuesRef::Text {
        offsets: &of_text,
        bytes: text.as_bytes(),
    };
    let page = |values, validity| {
        let mut page = Vec::new();
        encode_page_of(ColumnRef { values, validity }, PageSet::Fourth, &mut page).unwrap();
        let encoding = page_header(&page).unwrap().encoding;
        assert_eq!(encoding, Encoding::Transposed);
        page
    };
    vec![
        ("lanes", page(values, None)),
        ("lanes with nulls", page(values, validity)),
        ("lanes of text", page(text, None)),
        ("lanes of text with nulls", page(text, validity)),
    ]
}

fn page_of_second_set(values: ValuesRef<'_>, validity: Option<&[u8]>) -> Vec<u8> {
    let mut page = Vec::new();
    encode_page_of(ColumnRef { values, validity }, PageSet::Second, &mut page).unwrap();
    let encoding = page_header(&page).unwrap().encoding;
    assert!(
        matches!(encoding, Encoding::Dyadic | Encoding::Blocked),
        "{encoding:?}"
    );
    page
}

/// Decodes; whatever comes out must be a well-formed column.
fn decode(bytes: &[u8], out: &mut ColumnBuf) -> Result<(), Error> {
    let answer = decode_page(bytes, out);
    let rows = out.rows();
    if answer.is_err() {
        assert_eq!(rows, 0);
        assert_eq!(out.validity(), None);
    }
    let slots = [
        out.i64s().len(),
        out.u64s().len(),
        out.f64s().len(),
        out.bools().len(),
        out.text().0.len().max(1) - 1,
    ];
    assert_eq!(
        slots.iter().sum::<usize>(),
        rows,
        "one slot a row, of one type"
    );
    let present = (0..rows)
        .filter(|row| out.as_column().is_present(*row))
        .count();
    let text_max = if present == 1 {
        VALUE_BYTES_MAX
    } else {
        TEXT_BYTES_MAX
    };
    assert!(rows <= BLOCK_ROWS_MAX && out.text().1.len() <= text_max);
    // Encoding checks all that holds of a column: offsets, UTF-8, lengths.
    if rows > 0 {
        let mut again = Vec::new();
        encode_page(out.as_column(), &mut again).unwrap();
    }
    answer
}

#[test]
fn every_truncation_is_an_error() {
    let mut out = ColumnBuf::default();
    for (name, page) in sample_pages() {
        decode(&page, &mut out).unwrap();
        for end in 0..page.len() {
            assert!(
                decode(&page[..end], &mut out).is_err(),
                "{name}: accepted {end} of {} bytes",
                page.len()
            );
        }
    }
}

#[test]
fn bytes_after_the_page_are_an_error() {
    let mut out = ColumnBuf::default();
    for (name, mut page) in sample_pages() {
        page.push(0);
        assert!(
            matches!(decode(&page, &mut out), Err(Error::Corrupt { .. })),
            "{name}"
        );
    }
}

#[test]
fn every_bit_flip_is_an_error_or_a_column() {
    let mut out = ColumnBuf::default();
    let mut refused = 0;
    for (_, mut page) in sample_pages() {
        for bit in 0..8 * page.len() {
            page[bit / 8] ^= 1 << (bit % 8);
            refused += usize::from(decode(&page, &mut out).is_err());
            page[bit / 8] ^= 1 << (bit % 8);
        }
    }
    assert!(refused > 0, "flips in headers must be noticed");
}

#[test]
fn lanes_that_make_no_value_are_refused() {
    // A page of two rows of bytes: the number of lanes, their widths, and a constant for each.
    let page = |lanes: u8, widths: &[u8]| {
        let mut page = vec![20, 5, 2, 0, lanes];
        page.extend_from_slice(widths);
        for _ in 0..lanes {
            page.extend([0, 2]);
        }
        decode_page(&page, &mut ColumnBuf::default())
    };
    // Constant widths, in zigzag.
    assert_eq!(page(2, &[0, 8]), Ok(()));
    assert_eq!(page(127, &[0, 16]), Ok(()));
    for (lanes, widths) in [(0, &[0, 8][..]), (2, &[0, 6]), (2, &[0, 0]), (2, &[0, 32])] {
        let answer = page(lanes, widths);
        assert!(matches!(answer, Err(Error::Corrupt { .. })), "{answer:?}");
    }
    // 128 lanes of eight bytes are 1024; one more is too long.
    let mut longest = vec![20, 5, 2, 0, 128, 1, 0, 16];
    longest.extend([0, 2].repeat(128));
    assert_eq!(decode_page(&longest, &mut ColumnBuf::default()), Ok(()));
    let mut longer = vec![20, 5, 2, 0, 129, 1, 0, 16];
    longer.extend([0, 2].repeat(129));
    let answer = decode_page(&longer, &mut ColumnBuf::default());
    assert!(matches!(answer, Err(Error::Corrupt { .. })), "{answer:?}");
    // Text in lanes has to be UTF-8, all of it and each value.
    let text = |lane: [u8; 2], second: [u8; 2]| {
        let page = [&[20, 4, 2, 0, 2, 0, 2][..], &lane, &second].concat();
        decode_page(&page, &mut ColumnBuf::default())
    };
    assert_eq!(text([0, 66], [0, 2]), Ok(()));
    assert!(text([0, 1], [0, 66]).is_err());
}

#[test]
fn unknown_ids_are_named() {
    let mut page = page(ValuesRef::I64(&[1, 2, 4]), None);
    for id in [14, 15, 21, 255] {
        page[0] = id;
        assert_eq!(page_header(&page), Err(Error::UnknownEncoding(id)));
        assert_eq!(
            decode_page(&page, &mut ColumnBuf::default()),
            Err(Error::UnknownEncoding(id))
        );
    }
    page[0] = 0;
    for id in 6..128 {
        page[1] = id;
        assert_eq!(
            decode_page(&page, &mut ColumnBuf::default()),
            Err(Error::UnknownType(id))
        );
    }
}

#[test]
fn an_encoding_of_another_type_is_an_error() {
    for (physical_type, encodings) in [
        (0, [8, 9, 12, 16, 17, 18, 19].as_slice()),
        (2, &[0, 1, 2, 3, 5, 12, 16]),
        (3, &[8, 9, 17]),
        (4, &[0, 4, 5, 8, 12]),
    ] {
        for &encoding in encodings {
            let page = [encoding, physical_type, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            assert!(
                decode_page(&page, &mut ColumnBuf::default()).is_err(),
                "{encoding} for type {physical_type}"
            );
        }
    }
}

#[test]
fn row_counts_outside_the_limits_are_named() {
    for rows in [0, 1025, 65535_u16] {
        let [low, high] = rows.to_le_bytes();
        let page = [0, 0, low, high, 0];
        let error = Err(Error::LimitRows {
            rows: usize::from(rows),
        });
        assert_eq!(decode_page(&page, &mut ColumnBuf::default()), error);
    }
}

#[test]
fn runs_that_do_not_fill_the_page_are_an_error() {
    // RUNS of I64, four rows: the number of runs, constant values 7, constant lengths.
    let page = |runs: u8, length: u8| [5, 0, 4, 0, runs, 0, 14, 0, 2 * length];
    let mut out = ColumnBuf::default();
    for (runs, length) in [(1, 4), (2, 2), (4, 1)] {
        assert_eq!(decode_page(&page(runs, length), &mut out), Ok(()));
        assert_eq!(out.i64s(), [7; 4]);
    }
    for (runs, length) in [
        (0, 4),
        (1, 3),
        (1, 5),
        (2, 1),
        (3, 1),
        (3, 2),
        (4, 0),
        (5, 1),
    ] {
        let answer = decode_page(&page(runs, length), &mut out);
        assert!(
            matches!(answer, Err(Error::Corrupt { .. })),
            "{runs} runs of {length}"
        );
    }
}

#[test]
fn blocks_wider_than_a_number_are_an_error() {
    // BLOCKED of I64, four rows: the order, for order 1 a first value, constant widths, constant bases.
    let mut out = ColumnBuf::default();
    let plain = |width: u8| vec![13, 0, 4, 0, 0, 0, 2 * width, 0, 14];
    assert_eq!(decode_page(&plain(0), &mut out), Ok(()));
    assert_eq!(out.i64s(), [7; 4]);
    let full = [plain(2), vec![0b11_10_01_00]].concat();
    assert_eq!(decode_page(&full, &mut out), Ok(()));
    assert_eq!(out.i64s(), [7, 8, 9, 10]);
    for page in [
        vec![13, 0, 4, 0, 0, 0, 130, 1, 0, 14],
        [plain(0), vec![0]].concat(),
        vec![13, 0, 4, 0, 0, 0, 1, 0, 14],
        vec![13, 0, 4, 0, 2, 0, 0, 0, 14],
        vec![13, 0, 1, 0, 1, 14, 0, 0, 0, 14],
    ] {
        let answer = decode_page(&page, &mut out);
        assert!(matches!(answer, Err(Error::Corrupt { .. })), "{page:?}");
    }
    assert_eq!(decode_page(&plain(3), &mut out), Err(Error::Truncated));
}

#[test]
fn dyadics_beyond_what_floats_hold_are_an_error() {
    // DYADIC of F64, one row: scale 0, no exceptions, a constant.
    for (value, is_valid) in [
        ((1_i64 << 53) - 1, true),
        (-(1 << 53), true),
        (1 << 53, false),
        (-(1 << 53) - 1, false),
        (i64::MAX, false),
        (i64::MIN, false),
    ] {
        let mut page = vec![10, 2, 1, 0, 0, 0, 0];
        nilometer_codec::varint::put_i64(value, &mut page);
        let mut out = ColumnBuf::default();
        assert_eq!(decode_page(&page, &mut out).is_ok(), is_valid, "{value}");
        if is_valid {
            assert_eq!(out.f64s(), [value as f64]);
        }
    }
}

#[test]
fn codes_beyond_the_entries_are_an_error() {
    // DISTINCT of I64, four rows: the number of entries, entries 7, 8 and so on, constant codes.
    let page = |entries: u8, code: i8| {
        let code = (code << 1 ^ code >> 7) as u8;
        [6, 0, 4, 0, entries, 1, 14, 2, 0, code]
    };
    let mut out = ColumnBuf::default();
    for (entries, code) in [(1, 0), (2, 1), (4, 3), (4, 0)] {
        assert_eq!(decode_page(&page(entries, code), &mut out), Ok(()));
        assert_eq!(out.i64s(), [7 + i64::from(code); 4]);
    }
    for (entries, code) in [(0, 0), (1, 1), (4, 4), (4, -1), (5, 0)] {
        let answer = decode_page(&page(entries, code), &mut out);
        assert!(
            matches!(answer, Err(Error::Corrupt { .. })),
            "code {code} of {entries} entries"
        );
    }
}

#[test]
fn parts_inside_parts_are_an_error() {
    // However deep the input nests, decoding does not.
    for (outer, inner) in [
        (5, 5),
        (5, 6),
        (6, 5),
        (6, 6),
        (5, 7),
        (6, 7),
        (5, 13),
        (13, 13),
        (13, 5),
    ] {
        let mut page = vec![outer, 0, 4, 0];
        page.extend([1, inner].repeat(10_000));
        let answer = decode_page(&page, &mut ColumnBuf::default());
        assert!(matches!(answer, Err(Error::Corrupt { .. })));
    }
    for inner in [5, 6, 7, 13] {
        // A base and a width of one byte each, and then the next one's.
        let mut page = vec![7, 0, 4, 0];
        page.extend([2, 2, inner].repeat(10_000));
        let answer = decode_page(&page, &mut ColumnBuf::default());
        assert!(matches!(answer, Err(Error::Corrupt { .. })));
    }
}

#[test]
fn a_dictionary_cannot_inflate_beyond_the_limit() {
    // One entry of 65,536 bytes, named 1024 times: 64 MiB from 64 KiB.
    let mut page = vec![17, 5, 0, 4, 1];
    page.extend([0, 0x80, 0x80, 8]);
    page.extend(vec![b'x'; 65_536]);
    page.extend([0, 0]);
    let error = decode_page(&page, &mut ColumnBuf::default()).unwrap_err();
    assert!(matches!(error, Error::LimitTextBytes { .. }), "{error:?}");
}

#[test]
fn lengths_beyond_the_limit_are_refused_before_they_are_believed() {
    // PLAIN, two rows: constant lengths of 2^62, or negative ones.
    let huge = [
        16, 5, 2, 0, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1,
    ];
    assert!(matches!(
        decode_page(&huge, &mut ColumnBuf::default()),
        Err(Error::LimitTextBytes { .. })
    ));
    let negative = [16, 5, 2, 0, 0, 1];
    assert!(matches!(
        decode_page(&negative, &mut ColumnBuf::default()),
        Err(Error::Corrupt { .. })
    ));
}

/// A value alone may have 32 MiB, values together 16.
#[test]
fn one_value_may_be_longer_than_several_and_has_a_limit_too() {
    let decoded = |page: &[u8]| decode_page(page, &mut ColumnBuf::default());
    // PLAIN, one row of 32 MiB + 1, and of 32 MiB that are not there.
    let long = [16, 5, 1, 0, 0, 0x82, 0x80, 0x80, 0x20];
    let bytes = VALUE_BYTES_MAX + 1;
    assert_eq!(decoded(&long), Err(Error::LimitTextBytes { bytes }));
    let absent = [16, 5, 1, 0, 0, 0x80, 0x80, 0x80, 0x20, b'x'];
    assert_eq!(decoded(&absent), Err(Error::Truncated));
    // Two rows of 8 MiB + 1, and two of three rows, the third one null.
    let bytes = TEXT_BYTES_MAX + 2;
    let body = [0, 0x82, 0x80, 0x80, 0x08];
    for header in [&[16, 5, 2, 0][..], &[16, 0x85, 3, 0, 0b011]] {
        let page = [header, &body].concat();
        assert_eq!(decoded(&page), Err(Error::LimitTextBytes { bytes }));
    }
    // DICTIONARY, one entry of 16 MiB + 1, once and twice.
    let entry = |rows: u8| {
        let mut page = vec![17, 5, rows, 0, 1, 0, 0x82, 0x80, 0x80, 0x10];
        page.extend(vec![b'x'; TEXT_BYTES_MAX + 1]);
        page.extend([0, 0]);
        page
    };
    assert_eq!(decoded(&entry(1)), Ok(()));
    let bytes = TEXT_BYTES_MAX + 1;
    assert_eq!(decoded(&entry(2)), Err(Error::LimitTextBytes { bytes }));
}

#[test]
fn compressed_pages_declare_no_more_than_the_limit() {
    let page = [18, 5, 2, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 3, 1, 2, 3];
    let error = decode_page(&page, &mut ColumnBuf::default()).unwrap_err();
    if cfg!(feature = "zstd") {
        assert!(matches!(error, Error::LimitTextBytes { .. }), "{error:?}");
    } else {
        assert_eq!(error, Error::UnsupportedZstd);
    }
}

#[test]
fn a_stream_claimed_to_be_huge_ends_with_its_input() {
    // One constant chunk pays for 1024 values; the claim of more runs out of input.
    let mut out = vec![1, 2];
    let error = decode_i64s(&mut [0, 4].as_slice(), usize::MAX - 10, &mut out);
    assert_eq!(error, Err(Error::Truncated));
    assert_eq!(out, [1, 2]);
    assert!(
        out.capacity() <= 4 * BLOCK_ROWS_MAX,
        "{} values",
        out.capacity()
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_bytes_never_panic(
        encoding in prop_oneof![0_u8..5, 8_u8..14, Just(12), 16_u8..20, any::<u8>()],
        type_and_flags in prop_oneof![0_u8..6, 0x80_u8..0x86],
        rows in prop_oneof![1_u16..20, 1_u16..1025],
        body in vec(prop_oneof![Just(0), 0_u8..8, any::<u8>()], 0..300),
    ) {
        let [low, high] = rows.to_le_bytes();
        let page = [vec![encoding, type_and_flags, low, high], body].concat();
        let mut out = ColumnBuf::default();
        let _ = decode(&page, &mut out);
    }

    #[test]
    fn damaged_pages_never_panic(which: prop::sample::Index, damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..5)) {
        let pages = sample_pages();
        let mut page = which.get(&pages).1.clone();
        for (at, byte) in damage {
            let at = at.index(page.len());
            page[at] = byte;
        }
        let _ = decode(&page, &mut ColumnBuf::default());
    }
}
