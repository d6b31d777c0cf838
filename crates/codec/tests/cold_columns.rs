//! Promise: what goes cold comes back bit for bit, and no bytes whatever make the decoder of cold pages panic.

#![cfg(feature = "pco")]
#![expect(
    clippy::unwrap_used,
    reason = "the inputs are small, and a failed unwrap is the report"
)]

use nilometer_codec::{
    BLOCK_ROWS_MAX, ColdColumn, ColumnBuf, ColumnRef, Encoding, Error, Page, PageSet, PhysicalType,
    SHARED_HEADER_BYTES_MAX, SharedHeader, ValuesRef, decode_page, decode_page_rows_with,
    decode_page_with, encode_cold_column, encode_page_of, needs_header, page_header, shorten_page,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Values of several blocks, with a bitmap for each; all of one kind.
type Blocks<T> = Vec<(Vec<T>, Option<Vec<u8>>)>;

fn blocks<T: Clone + std::fmt::Debug>(
    value: impl Strategy<Value = T> + Clone,
) -> impl Strategy<Value = Blocks<T>> {
    let bitmap = prop_oneof![
        3 => Just(None),
        1 => vec(any::<u8>(), BLOCK_ROWS_MAX / 8).prop_map(Some),
        1 => vec(Just(0), BLOCK_ROWS_MAX / 8).prop_map(Some),
    ];
    let rows = prop_oneof![1_usize..50, 200_usize..=BLOCK_ROWS_MAX];
    let block = rows.prop_flat_map(move |rows| vec(value.clone(), rows));
    vec((block, bitmap), 1..6)
}

fn integers() -> impl Strategy<Value = Blocks<i64>> {
    prop_oneof![
        blocks(0_i64..100),
        blocks(prop_oneof![20 => 0_i64..9, 1 => any::<i64>()]),
        blocks(any::<i64>()),
        blocks(prop_oneof![
            Just(i64::MIN),
            Just(i64::MAX),
            Just(0),
            Just(7_000_000)
        ]),
        // A counter: sums across blocks.
        blocks(0_i64..50).prop_map(|mut blocks| {
            let mut sum = i64::MAX - 1000;
            for value in blocks.iter_mut().flat_map(|(values, _)| values) {
                sum = sum.wrapping_add(*value);
                *value = sum;
            }
            blocks
        }),
    ]
}

fn floats() -> impl Strategy<Value = Blocks<f64>> {
    let odd = prop_oneof![
        Just(-0.0),
        Just(0.0),
        Just(f64::NAN),
        Just(f64::from_bits(0xfff8_0000_dead_beef)),
        Just(f64::from_bits(0x7ff0_0000_0000_0001)),
        Just(f64::INFINITY),
        Just(f64::from_bits(1)),
        Just(f64::MAX),
        any::<u64>().prop_map(f64::from_bits),
    ];
    let hundredths = (-2000_i32..9000).prop_map(|value| f64::from(value) / 100.0);
    let sixteenths = (-300_i32..9000).prop_map(|value| f64::from(value) / 16.0);
    prop_oneof![
        blocks(hundredths.clone()),
        blocks(prop_oneof![60 => hundredths.clone(), 1 => odd.clone()]),
        blocks(prop_oneof![5 => hundredths, 1 => odd.clone()]),
        blocks(prop_oneof![60 => sixteenths, 1 => odd.clone()]),
        blocks(0.0..1.0),
        blocks(any::<f32>().prop_map(f64::from)),
        blocks(odd),
    ]
}

fn columns<'a, T>(
    blocks: &'a Blocks<T>,
    values: impl Fn(&'a [T]) -> ValuesRef<'a>,
) -> Vec<ColumnRef<'a>> {
    let column = |(block, validity): &'a (Vec<T>, Option<Vec<u8>>)| ColumnRef {
        values: values(block),
        validity: validity.as_deref(),
    };
    blocks.iter().map(column).collect()
}

/// The bits of a column, null ones as what takes their place.
fn bits(column: &ColumnBuf) -> Vec<u64> {
    match column.physical_type() {
        PhysicalType::I64 => column.i64s().iter().map(|value| *value as u64).collect(),
        PhysicalType::U64 => column.u64s().to_vec(),
        _ => column.f64s().iter().map(|value| value.to_bits()).collect(),
    }
}

/// Each block comes back as `encode_page_of` keeps it, which `page_keeps_values` proves to be exact.
fn assert_round_trip(columns: &[ColumnRef<'_>]) -> ColdColumn {
    assert_round_trip_of(PageSet::Second, columns);
    assert_round_trip_of(PageSet::Third, columns)
}

fn assert_round_trip_of(set: PageSet, columns: &[ColumnRef<'_>]) -> ColdColumn {
    let mut cold = ColdColumn::default();
    encode_cold_column(columns, set, &mut cold).unwrap();
    assert_eq!(cold.ends.len(), columns.len());
    let physical_type = columns[0].physical_type();
    let shared = (!cold.header.is_empty())
        .then(|| SharedHeader::parse(physical_type, &cold.header).unwrap());
    let (mut plain_bytes, mut plain) = (0, Vec::new());
    let (mut expected, mut out) = (ColumnBuf::default(), ColumnBuf::default());
    for (index, column) in columns.iter().enumerate() {
        plain.clear();
        encode_page_of(*column, PageSet::Second, &mut plain).unwrap();
        plain_bytes += plain.len();
        decode_page(&plain, &mut expected).unwrap();
        let page = cold.page(index);
        assert!(page.len() <= plain.len());
        assert_short_form(page, shared.as_ref());
        decode_page_with(page, shared.as_ref(), &mut out).unwrap();
        assert_eq!(
            (bits(&out), out.validity()),
            (bits(&expected), expected.validity())
        );
        let all = expected.rows();
        for rows in [1, all / 3, 256, 257, all - all / 5, all, all + 1] {
            decode_page_rows_with(page, rows, shared.as_ref(), &mut out).unwrap();
            let there = out.rows();
            assert!(
                (rows.min(all)..=all).contains(&there),
                "{rows} of {all}: {there}"
            );
            assert_eq!(
                bits(&out)[..there],
                bits(&expected)[..there],
                "{rows} of {all}"
            );
            assert!(there == all || out.validity().is_none());
        }
        let is_pco = page_header(page).unwrap().encoding == Encoding::Pco;
        assert_eq!(needs_header(page), is_pco);
        if is_pco {
            assert_eq!(decode_page(page, &mut out), Err(Error::NoSharedHeader));
            assert_eq!(out.rows(), 0);
        }
    }
    assert!(cold.header.len() + cold.pages.len() <= plain_bytes);
    cold
}

/// A page in short is three bytes less, or more where few rows are null, is the same page, and comes back as it was.
fn assert_short_form(page: &[u8], shared: Option<&SharedHeader>) {
    let header = page_header(page).unwrap();
    let mut short = vec![7, 7];
    short.extend_from_slice(page);
    shorten_page(&mut short, 2).unwrap();
    assert!(short.len() + 3 <= page.len() + 2);
    let mut again = vec![7, 7];
    Page::new(page).unwrap().put_short(&mut again);
    assert_eq!(again, short);
    let read = Page::of_short(&short[2..], header.physical_type, header.rows).unwrap();
    assert_eq!(read.header(), header);
    let mut whole = Vec::new();
    read.put(&mut whole).unwrap();
    assert_eq!(whole, page);
    let (mut expected, mut out) = (ColumnBuf::default(), ColumnBuf::default());
    decode_page_with(page, shared, &mut expected).unwrap();
    read.decode(shared, &mut out).unwrap();
    assert_eq!(
        (bits(&out), out.validity()),
        (bits(&expected), expected.validity())
    );
    let nulls = (0..out.rows()).filter(|row| !out.as_column().is_present(*row));
    assert_eq!(read.nulls(), nulls.count());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn integers_come_back(blocks in integers()) {
        assert_round_trip(&columns(&blocks, ValuesRef::I64));
    }

    #[test]
    fn unsigned_integers_come_back(blocks in integers()) {
        let unsigned = |values: &Vec<i64>| values.iter().map(|value| *value as u64).collect();
        let blocks: Blocks<u64> = blocks.iter().map(|(values, bitmap)| (unsigned(values), bitmap.clone())).collect();
        assert_round_trip(&columns(&blocks, ValuesRef::U64));
    }

    #[test]
    fn floats_come_back_bit_for_bit(blocks in floats()) {
        assert_round_trip(&columns(&blocks, ValuesRef::F64));
    }

    #[test]
    fn random_headers_and_pages_never_panic(
        kind in prop_oneof![Just(PhysicalType::I64), Just(PhysicalType::U64), Just(PhysicalType::F64)],
        start in prop_oneof![
            Just(vec![0, 4, 1]), Just(vec![1, 2, 4, 1]), Just(vec![2, 4, 4, 1]),
            Just(vec![4, 4, 1]), Just(vec![8, 4, 1]), Just(vec![9, 1, 4, 1]), Just(vec![])
        ],
        header in vec(any::<u8>(), 0..200),
        body in vec(any::<u8>(), 0..400),
        rows in 1_u16..=1024,
    ) {
        let header = [start, header].concat();
        if let Ok(shared) = SharedHeader::parse(kind, &header) {
            let [low, high] = rows.to_le_bytes();
            let page = [vec![11, kind as u8, low, high], body].concat();
            let _ = decode_page_with(&page, Some(&shared), &mut ColumnBuf::default());
        }
    }

    #[test]
    fn damaged_headers_and_pages_never_panic(
        which in 0..5_usize,
        in_header: bool,
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
    ) {
        let (kind, mut cold) = samples().swap_remove(which);
        let bytes = if in_header { &mut cold.header } else { &mut cold.pages };
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(shared) = SharedHeader::parse(kind, &cold.header) {
            let _ = decode_page_with(cold.page(0), Some(&shared), &mut ColumnBuf::default());
        }
    }
}

/// A column of each form whose first page is in pco.
fn samples() -> Vec<(PhysicalType, ColdColumn)> {
    let steps: Vec<i64> = (0..2000_i64)
        .map(|index| index.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64) >> 60)
        .collect();
    let tenths: Vec<f64> = steps.iter().map(|it| (it * it) as f64 / 10.0).collect();
    let normal: Vec<f64> = steps.iter().map(|it| (*it as f64 / 3.0).exp()).collect();
    let halves: Vec<i64> = steps.iter().map(|it| it * 70_000).collect();
    let wide: Vec<i64> = steps.iter().map(|it| it << 40).collect();
    let columns = [
        [
            ValuesRef::I64(&steps[..1024]),
            ValuesRef::I64(&steps[1024..]),
        ],
        [
            ValuesRef::I64(&halves[..1024]),
            ValuesRef::I64(&halves[1024..]),
        ],
        [ValuesRef::I64(&wide[..1024]), ValuesRef::I64(&wide[1024..])],
        [
            ValuesRef::F64(&tenths[..1024]),
            ValuesRef::F64(&tenths[1024..]),
        ],
        [
            ValuesRef::F64(&normal[..1024]),
            ValuesRef::F64(&normal[1024..]),
        ],
    ];
    columns
        .into_iter()
        .map(|values| {
            let column = values.map(|values| ColumnRef {
                values,
                validity: None,
            });
            let cold = assert_round_trip(&column);
            assert!(
                needs_header(cold.page(0)),
                "{:?}",
                page_header(cold.page(0))
            );
            (values[0].physical_type(), cold)
        })
        .collect()
}

#[test]
fn cold_pages_are_smaller_where_values_crowd() {
    // A step of 0 in half of the rows and rarely a large one: 2 bits of entropy, which bits of a fixed width do not reach.
    let mut state = 7_u64;
    let steps: Vec<i64> = (0..8 * 1024)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            i64::from((state >> 32).leading_zeros() - 32)
        })
        .collect();
    let blocks: Blocks<i64> = steps.chunks(1024).map(|it| (it.to_vec(), None)).collect();
    let columns = columns(&blocks, ValuesRef::I64);
    let cold = assert_round_trip(&columns);
    let mut plain = Vec::new();
    for column in &columns {
        encode_page_of(*column, PageSet::Second, &mut plain).unwrap();
    }
    let bytes = cold.header.len() + cold.pages.len();
    // Geometric steps have two bits each; 16 bytes a page and 100 of the column say how they are written.
    assert!(bytes <= 8 * 1024 * 2 / 8 + 8 * 16 + 100, "{bytes} bytes");
    assert!(bytes < plain.len() * 4 / 5, "{bytes} of {}", plain.len());
}

#[test]
fn a_header_is_read_whole_and_for_its_type() {
    for (kind, cold) in samples() {
        let header = &cold.header;
        for end in 0..header.len() {
            assert!(
                SharedHeader::parse(kind, &header[..end]).is_err(),
                "{end} of {}",
                header.len()
            );
        }
        let longer = [header.as_slice(), &[0]].concat();
        assert!(SharedHeader::parse(kind, &longer).is_err());
        let huge = vec![0; SHARED_HEADER_BYTES_MAX + 1];
        assert!(SharedHeader::parse(kind, &huge).is_err());
        for other in [PhysicalType::Bool, PhysicalType::Text, PhysicalType::Bytes] {
            assert!(SharedHeader::parse(other, header).is_err());
        }
        let shared = SharedHeader::parse(kind, header).unwrap();
        assert!(shared.memory_bytes() < 1 << 20);
        // A page of another type with this header.
        let mut page = cold.page(0).to_vec();
        page[1] = u8::from(kind != PhysicalType::U64);
        let answer = decode_page_with(&page, Some(&shared), &mut ColumnBuf::default());
        assert!(matches!(answer, Err(Error::Corrupt { .. })), "{answer:?}");
    }
}

/// Integers that all fit 16 or 32 bits are so in pco: a page begins with a value of that width, and not of 64 bits.
#[test]
fn integers_are_as_narrow_as_all_of_a_column() {
    let walk = |scale: i64| -> Blocks<i64> {
        let steps = (0..3 * 1024_i64).map(|at| (at * at % 7 + at % 3) * scale);
        let walk: Vec<i64> = steps
            .scan(-4000 * scale, |sum, step| {
                *sum += step - 4 * scale;
                Some(*sum)
            })
            .collect();
        walk.chunks(1024).map(|it| (it.to_vec(), None)).collect()
    };
    for (scale, form) in [(1, 8), (1_000, 4), (10_000_000_000, 0)] {
        let blocks = walk(scale);
        let columns = columns(&blocks, ValuesRef::I64);
        let narrow = assert_round_trip_of(PageSet::Third, &columns);
        let wide = assert_round_trip_of(PageSet::Second, &columns);
        assert_eq!((narrow.header[0], wide.header[0]), (form, 0), "{scale}");
        assert!(narrow.pages.len() <= wide.pages.len(), "{scale}");
    }
    // One value that does not fit makes all of them wider.
    for (outlier, form) in [(32_767, 8), (32_768, 4), (-32_769, 4), (1 << 31, 0)] {
        let mut blocks = walk(1);
        blocks[1].0[77] = outlier;
        let cold = assert_round_trip_of(PageSet::Third, &columns(&blocks, ValuesRef::I64));
        assert_eq!(cold.header[0], form, "{outlier}");
    }
}

/// A form that no version has written, and narrow numbers of floats, are not read.
#[test]
fn unknown_forms_are_refused() {
    for (kind, cold) in samples() {
        for form in (0..=u8::MAX).filter(|form| *form != cold.header[0]) {
            let mut header = cold.header.clone();
            header[0] = form;
            let (width, values) = (form / 4, form % 4);
            let known = width < 3 && values < 3 && (kind == PhysicalType::F64 || values == 0);
            let read = SharedHeader::parse(kind, &header);
            assert!(known || read.is_err(), "form {form} of {kind:?}");
        }
    }
    let numbers = samples().swap_remove(0).1.header;
    for form in [4, 8] {
        let header = [&[form], &numbers[1..]].concat();
        assert!(SharedHeader::parse(PhysicalType::F64, &header).is_err());
    }
}

#[test]
fn a_dictionary_that_nobody_paid_for_is_refused() {
    // Mode 4 of pco, with 2^25 - 1 entries, in nine bytes.
    let header = [0, 4, 1, 0xf4, 0xff, 0xff, 0x1f, 0, 0];
    let answer = SharedHeader::parse(PhysicalType::I64, &header);
    assert!(matches!(answer, Err(Error::Corrupt { .. })));
}

#[test]
fn every_truncation_of_a_page_is_an_error() {
    for (kind, cold) in samples() {
        let shared = SharedHeader::parse(kind, &cold.header).unwrap();
        let page = cold.page(0);
        let mut out = ColumnBuf::default();
        for end in 0..page.len() {
            let answer = decode_page_with(&page[..end], Some(&shared), &mut out);
            assert!(answer.is_err(), "{end} of {} bytes", page.len());
        }
        let longer = [page, &[0]].concat();
        assert!(decode_page_with(&longer, Some(&shared), &mut out).is_err());
    }
}

#[test]
fn blocks_of_several_types_are_refused() {
    let blocks = [ValuesRef::I64(&[1]), ValuesRef::U64(&[1])].map(|values| ColumnRef {
        values,
        validity: None,
    });
    let mut out = ColdColumn::default();
    let answer = encode_cold_column(&blocks, PageSet::Second, &mut out);
    assert!(matches!(answer, Err(Error::InvalidColumn { .. })));
    assert!(out.ends.is_empty() && out.pages.is_empty());
}
