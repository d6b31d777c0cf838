//! Pages and statistics: any bytes as either, and any values as a page.

use nilometer_codec::device::DevicePage;
use nilometer_codec::stats::{decode_statistics, encode_statistics, statistics};
use nilometer_codec::{
    BLOCK_ROWS_MAX, ColdColumn, ColumnBuf, ColumnRef, Page, PageSet, PhysicalType, SharedHeader,
    TEXT_BYTES_MAX, VALUE_BYTES_MAX, ValuesRef, decode_i64s, decode_page, decode_page_with,
    encode_cold_column, encode_i64s, encode_page_of, shorten_page,
};

/// An error, or a column that encodes again and decodes to the same.
pub(crate) fn page_decode(data: &[u8]) {
    let mut column = ColumnBuf::default();
    // Whatever the bytes are, as a page in short they are an error or decode.
    let kind = PhysicalType::try_from(data.len().to_le_bytes()[0] % 6).expect("there are six");
    if let Ok(page) = Page::of_short(data, kind, 1 + data.len() % BLOCK_ROWS_MAX) {
        let _ = page.decode(None, &mut column);
        column = ColumnBuf::default();
    }
    if decode_page(data, &mut column).is_err() {
        assert_eq!(column.rows(), 0);
        return;
    }
    let rows = column.rows();
    // In short it is the same page.
    let mut short = data.to_vec();
    shorten_page(&mut short, 0).expect("a page that decodes has a header");
    let mut again = ColumnBuf::default();
    Page::of_short(&short, column.physical_type(), rows)
        .and_then(|page| page.decode(None, &mut again))
        .expect("a page that decodes does so in short");
    assert_same(&column, &again);
    let as_column = column.as_column();
    let present = (0..rows).filter(|row| as_column.is_present(*row)).count();
    let text_max = if present == 1 {
        VALUE_BYTES_MAX
    } else {
        TEXT_BYTES_MAX
    };
    assert!((1..=BLOCK_ROWS_MAX).contains(&rows) && column.text().1.len() <= text_max);
    let statistics_before = statistics(column.as_column());

    for set in [PageSet::First, PageSet::Second, PageSet::Fourth] {
        let mut page = Vec::new();
        encode_page_of(column.as_column(), set, &mut page).expect("a decoded column is valid");
        let mut again = ColumnBuf::default();
        decode_page(&page, &mut again).expect("what was encoded decodes");
        assert_same(&column, &again);
        assert_eq!(
            format!("{statistics_before:?}"),
            format!("{:?}", statistics(again.as_column()))
        );
    }
}

/// A header that pages share, and a page: an error, or a column that goes cold again and comes back the same.
pub(crate) fn page_cold(data: &[u8]) {
    let [kind, low, high, data @ ..] = data else {
        return;
    };
    let kinds = [PhysicalType::I64, PhysicalType::U64, PhysicalType::F64];
    let kind = kinds[usize::from(*kind) % kinds.len()];
    let header_bytes = usize::from(u16::from_le_bytes([*low, *high]));
    let (header, page) = data.split_at(header_bytes.min(data.len()));
    let mut column = ColumnBuf::default();
    let Ok(shared) = SharedHeader::parse(kind, header) else {
        return;
    };
    assert!(shared.memory_bytes() < 1 << 20);
    if decode_page_with(page, Some(&shared), &mut column).is_err() {
        assert_eq!(column.rows(), 0);
        return;
    }
    let mut cold = ColdColumn::default();
    let blocks = [column.as_column(); 2];
    encode_cold_column(&blocks, PageSet::Fourth, &mut cold).expect("a decoded column is valid");
    let shared = (!cold.header.is_empty())
        .then(|| SharedHeader::parse(column.physical_type(), &cold.header))
        .transpose()
        .expect("a header that was written is read");
    for index in 0..blocks.len() {
        let mut again = ColumnBuf::default();
        decode_page_with(cold.page(index), shared.as_ref(), &mut again)
            .expect("what was encoded decodes");
        assert_same(&column, &again);
    }
}

/// A device page behind a checksum that holds: an error, or blocks whose columns have the rows that it says.
pub(crate) fn device_page(data: &[u8]) {
    let mut bytes = data.to_vec();
    if let (Ok(length), true) = (u32::try_from(bytes.len()), bytes.len() >= 64) {
        bytes[8..12].copy_from_slice(&length.to_le_bytes());
        let body = bytes.len() - 4;
        let crc = nilometer_codec::crc32c(0, &bytes[..body]);
        bytes[body..].copy_from_slice(&crc.to_le_bytes());
    }
    let mut column = ColumnBuf::default();
    let Ok(page) = DevicePage::open(&bytes) else {
        return;
    };
    if page.verify(&bytes, &mut column).is_err() {
        return;
    }
    for block in &page.blocks {
        assert!(page.times.0 <= block.times.0 && block.times.1 <= page.times.1);
        for field in &block.fields {
            let page = bytes
                .get(field.page.clone())
                .expect("a page is in its bytes");
            decode_page(page, &mut column).expect("what was verified decodes");
            assert_eq!(column.rows(), block.rows);
        }
    }
}

fn assert_same(column: &ColumnBuf, again: &ColumnBuf) {
    // Bits, not values: NaN differs from itself.
    let bits = |column: &ColumnBuf| {
        let values = column.f64s().iter();
        values.map(|value| value.to_bits()).collect::<Vec<_>>()
    };
    assert_eq!(
        (column.i64s(), column.u64s(), column.bools()),
        (again.i64s(), again.u64s(), again.bools())
    );
    assert_eq!((bits(column), column.text()), (bits(again), again.text()));
    assert_eq!(
        (column.rows(), column.physical_type(), column.validity()),
        (again.rows(), again.physical_type(), again.validity())
    );
}

/// Any values as a column: the page gives them back bit for bit, and so does the integer stream.
pub(crate) fn page_encode(data: &[u8]) {
    let [shape, shift, data @ ..] = data else {
        return;
    };
    let values = values_of(*shape, *shift, data);
    if values.is_empty() {
        return;
    }
    let bitmap: Vec<u8> = (0..values.len().div_ceil(8))
        .filter_map(|index| data.get(index % data.len()))
        .map(|byte| byte.rotate_left(3))
        .collect();
    let validity = (shape & 2 != 0).then_some(bitmap.as_slice());

    let mut bytes = Vec::new();
    encode_i64s(&values, &mut bytes);
    let mut out = Vec::new();
    let mut input = bytes.as_slice();
    assert_eq!(decode_i64s(&mut input, values.len(), &mut out), Ok(()));
    assert!(input.is_empty() && out == values);

    let scale = 10_f64.powi(i32::from(*shape >> 3) - 8);
    let decimals: Vec<f64> = values.iter().map(|value| *value as f64 / scale).collect();
    let images: Vec<f64> = values
        .iter()
        .map(|value| f64::from_bits(value.cast_unsigned()))
        .collect();
    let bools: Vec<bool> = values.iter().map(|value| value & 1 == 1).collect();
    let mut column = ColumnBuf::default();
    for values in [
        ValuesRef::I64(&values),
        ValuesRef::F64(&decimals),
        ValuesRef::F64(&images),
        ValuesRef::Bool(&bools),
    ] {
        let set = if shape & 16 == 0 {
            PageSet::First
        } else {
            PageSet::Second
        };
        let mut page = Vec::new();
        encode_page_of(ColumnRef { values, validity }, set, &mut page)
            .expect("the column is valid");
        decode_page(&page, &mut column).expect("what was encoded decodes");
        let is_there = |row: &usize| {
            validity.is_none_or(|bitmap| {
                bitmap
                    .get(row / 8)
                    .is_some_and(|byte| byte >> (row % 8) & 1 == 1)
            })
        };
        for row in (0..values.rows()).filter(is_there) {
            match values {
                ValuesRef::F64(values) => {
                    let bits = |values: &[f64]| values.get(row).map(|value| value.to_bits());
                    assert_eq!(bits(column.f64s()), bits(values));
                }
                ValuesRef::Bool(values) => assert_eq!(column.bools().get(row), values.get(row)),
                _ => assert_eq!(column.i64s().get(row), out.get(row)),
            }
        }
    }
}

/// Narrow values, sums of them and decimals reach encodings that random words never do.
fn values_of(shape: u8, shift: u8, data: &[u8]) -> Vec<i64> {
    let shift = u32::from(shift) % 64;
    let (words, _) = data.as_chunks::<8>();
    let narrow: Vec<i64> = if shape & 4 == 0 {
        let words = words.iter().take(BLOCK_ROWS_MAX);
        words
            .map(|word| i64::from_le_bytes(*word) >> shift)
            .collect()
    } else {
        let bytes = data.iter().take(BLOCK_ROWS_MAX);
        bytes
            .map(|byte| i64::from(byte.cast_signed()) << (shift / 2))
            .collect()
    };
    let values: Vec<i64> = if shape & 1 == 0 {
        narrow
    } else {
        let sums = narrow.iter().scan(0_i64, |sum, value| {
            *sum = sum.wrapping_add(*value);
            Some(*sum)
        });
        sums.collect()
    };
    if shape & 8 == 0 {
        return values;
    }
    let hold = |value: &i64| {
        let times = usize::try_from(value.unsigned_abs() % 64).unwrap_or(0);
        std::iter::repeat_n(*value, 1 + times)
    };
    values.iter().flat_map(hold).take(BLOCK_ROWS_MAX).collect()
}

/// An error, or statistics that pack again and come back the same.
pub(crate) fn statistics_decode(data: &[u8]) {
    let [kind, pages, data @ ..] = data else {
        return;
    };
    let Ok(kind) = PhysicalType::try_from(*kind % 6) else {
        return;
    };
    let pages = usize::from(*pages);
    let mut data = data;
    let Ok(found) = decode_statistics(&mut data, pages, kind) else {
        return;
    };
    assert_eq!(found.len(), pages);

    let mut bytes = Vec::new();
    encode_statistics(&found, kind, &mut bytes);
    let mut input = bytes.as_slice();
    let again = decode_statistics(&mut input, pages, kind).expect("what was packed comes back");
    assert!(input.is_empty());
    // The debug form of a float names every finite value; NaN is one word whatever its payload.
    assert_eq!(format!("{found:?}"), format!("{again:?}"));
}
