//! Any values as a column: the page gives them back bit for bit, and so does the integer stream.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nilometer_codec::{BLOCK_ROWS_MAX, ColumnBuf, ColumnRef, ValuesRef, decode_i64s, decode_page, encode_i64s, encode_page};

fuzz_target!(|data: &[u8]| {
    let [shape, shift, data @ ..] = data else { return };
    // Narrow values, sums of them and decimals reach encodings that random words never do.
    let shift = u32::from(*shift) % 64;
    let words = data.chunks_exact(8).take(BLOCK_ROWS_MAX).map(|word| {
        u64::from_le_bytes(word.try_into().expect("chunks of eight"))
    });
    let narrow: Vec<i64> = if shape & 4 == 0 {
        words.map(|word| (word as i64) >> shift).collect()
    } else {
        data.iter().take(BLOCK_ROWS_MAX).map(|byte| i64::from(byte.cast_signed()) << (shift / 2)).collect()
    };
    let walk = |values: &[i64]| values.iter().scan(0_i64, |sum, value| { *sum = sum.wrapping_add(*value); Some(*sum) }).collect();
    let values: Vec<i64> = if shape & 1 == 0 { narrow } else { walk(&narrow) };
    let hold = |value: &i64| std::iter::repeat_n(*value, 1 + value.unsigned_abs() as usize % 64);
    let values: Vec<i64> = if shape & 8 == 0 { values } else { values.iter().flat_map(hold).take(BLOCK_ROWS_MAX).collect() };
    if values.is_empty() {
        return;
    }
    let bitmap: Vec<u8> = (0..values.len().div_ceil(8)).map(|index| data[index % data.len()].rotate_left(3)).collect();
    let validity = (shape & 2 != 0).then_some(bitmap.as_slice());

    let mut bytes = Vec::new();
    encode_i64s(&values, &mut bytes);
    let mut out = Vec::new();
    let mut input = bytes.as_slice();
    assert_eq!(decode_i64s(&mut input, values.len(), &mut out), Ok(()));
    assert!(input.is_empty() && out == values);

    let scale = 10_f64.powi(i32::from(*shape >> 3) - 8);
    let decimals: Vec<f64> = values.iter().map(|value| *value as f64 / scale).collect();
    let images: Vec<f64> = values.iter().map(|value| f64::from_bits(*value as u64)).collect();
    let bools: Vec<bool> = values.iter().map(|value| value & 1 == 1).collect();
    let mut column = ColumnBuf::default();
    for values in [ValuesRef::I64(&values), ValuesRef::F64(&decimals), ValuesRef::F64(&images), ValuesRef::Bool(&bools)] {
        let mut page = Vec::new();
        encode_page(ColumnRef { values, validity }, &mut page).expect("the column is valid");
        decode_page(&page, &mut column).expect("what was encoded decodes");
        for row in (0..values.rows()).filter(|row| validity.is_none_or(|bitmap| bitmap[row / 8] >> (row % 8) & 1 == 1)) {
            match values {
                ValuesRef::F64(values) => assert_eq!(column.f64s()[row].to_bits(), values[row].to_bits()),
                ValuesRef::Bool(values) => assert_eq!(column.bools()[row], values[row]),
                _ => assert_eq!(column.i64s()[row], out[row]),
            }
        }
    }
});
