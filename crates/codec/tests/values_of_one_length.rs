//! Promise: values of one length come back whatever they hold, and numbers in them take the bits that they have.

#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::big_endian_bytes,
    reason = "the inputs are small, and a failed unwrap is the report"
)]

use nilometer_codec::{
    ColumnBuf, ColumnRef, Encoding, PageSet, ValuesRef, decode_page, encode_page_of, page_header,
};
use proptest::collection::vec;
use proptest::prelude::*;

fn page_of_fourth_set(values: ValuesRef<'_>) -> Vec<u8> {
    let mut page = Vec::new();
    let column = ColumnRef {
        values,
        validity: None,
    };
    encode_page_of(column, PageSet::Fourth, &mut page).unwrap();
    page
}

/// The page of values of one length.
fn page_of_structures(length: usize, bytes: &[u8]) -> Vec<u8> {
    let rows = bytes.len() / length;
    let offsets: Vec<u32> = (0..=rows).map(|row| (row * length) as u32).collect();
    let values = ValuesRef::Bytes {
        offsets: &offsets,
        bytes,
    };
    let page = page_of_fourth_set(values);
    let mut out = ColumnBuf::default();
    decode_page(&page, &mut out).unwrap();
    assert_eq!(out.text(), (offsets.as_slice(), bytes));
    page
}

/// zstd made many short sequences of these, and inflating them took most of the time of reading them.
#[test]
fn ten_integers_below_101_take_seven_bits_each() {
    let number = |row: u32, field: u32| {
        let noise = (1000 * row + field).wrapping_mul(2_654_435_761);
        ((u64::from(noise) * 101) >> 32) as i32
    };
    for is_highest_first in [true, false] {
        let word = |number: i32| {
            if is_highest_first {
                number.to_be_bytes()
            } else {
                number.to_le_bytes()
            }
        };
        let bytes: Vec<u8> = (0..1000)
            .flat_map(|row| (0..10).flat_map(move |field| word(number(row, field))))
            .collect();
        let page = page_of_structures(40, &bytes);
        assert_eq!(page_header(&page).unwrap().encoding, Encoding::Transposed);
        assert!(page.len() <= 10 * 1000 * 7 / 8 + 120, "{}", page.len());
    }
}

/// Numbers of several widths, at places that no word of theirs is a multiple of, some of them below zero.
#[test]
fn numbers_of_a_structure_are_found_wherever_they_stand() {
    let noise = |row: u64| row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let mut bytes = Vec::new();
    for row in 0..1000_u64 {
        bytes.push(7);
        // Three bits around zero.
        bytes.extend_from_slice(&((noise(row) % 8) as i32 - 4).to_be_bytes());
        // Steps of two bits.
        bytes.extend_from_slice(&(1 << 40 | (10 * row + noise(row) % 4)).to_be_bytes());
        // A counter that is even.
        bytes.extend_from_slice(&((300 * row) as u32).to_le_bytes());
        // Three bits around the middle of what 16 bits hold.
        bytes.extend_from_slice(&((noise(row) % 8) as u16 + 32_764).to_le_bytes());
    }
    let page = page_of_structures(19, &bytes);
    assert_eq!(page_header(&page).unwrap().encoding, Encoding::Transposed);
    // Differences of two numbers below four take three bits.
    let bits = 3 + 3 + 3;
    assert!(page.len() <= 1000 * bits / 8 + 100, "{}", page.len());
}

/// The same bytes in other rows are what a compressor finds, and lanes do not.
#[test]
fn long_values_that_come_twice_are_compressed() {
    let mut bytes = Vec::new();
    for row in 0..600_u64 {
        // Every value comes twice; most are distinct all the same, to a dictionary.
        let row = if row < 300 { row } else { (row - 300) / 2 };
        for word in 0..25 {
            let noise = (row * 25 + word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            bytes.extend_from_slice(&(noise ^ (noise >> 29)).to_be_bytes());
        }
    }
    let page = page_of_structures(200, &bytes);
    let encoding = page_header(&page).unwrap().encoding;
    assert!(
        matches!(
            encoding,
            Encoding::PlainZstd | Encoding::DictionaryZstd | Encoding::Dictionary
        ),
        "{encoding:?}"
    );
}

/// Structures of up to six numbers, each of its own width, order of bytes and noise.
fn structures() -> impl Strategy<Value = (usize, Vec<u8>)> {
    let field = (
        prop_oneof![
            Just(1_usize),
            Just(2),
            Just(3),
            Just(4),
            Just(8),
            1_usize..40
        ],
        any::<bool>(),
        0_u32..66,
        any::<u64>(),
        any::<bool>(),
    );
    (vec(field, 1..6), 1..=300_usize, any::<u64>()).prop_map(|(fields, rows, seed)| {
        let mut state = seed | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut at: Vec<u64> = fields.iter().map(|field| field.3).collect();
        let mut bytes = Vec::new();
        for _ in 0..rows {
            for ((width, is_highest_first, shift, start, is_walk), at) in fields.iter().zip(&mut at)
            {
                let noise = next().checked_shr(*shift).unwrap_or(0);
                *at = if *is_walk { *at } else { *start }.wrapping_add(noise);
                let mut word = at.to_le_bytes().repeat(5);
                word.truncate(*width);
                if *is_highest_first {
                    word.reverse();
                }
                bytes.extend_from_slice(&word);
            }
        }
        (bytes.len() / rows, bytes)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn structures_round_trip((length, bytes) in structures()) {
        page_of_structures(length, &bytes);
    }

    /// Null rows may have bytes, which the page does not keep.
    #[test]
    fn structures_with_nulls_round_trip((length, bytes) in structures(), bitmap in vec(any::<u8>(), 38)) {
        let rows = bytes.len() / length;
        let is_present = |row: usize| bitmap[row / 8] >> (row % 8) & 1 == 1;
        let offsets: Vec<u32> = (0..=rows).map(|row| (row * length) as u32).collect();
        let values = ValuesRef::Bytes { offsets: &offsets, bytes: &bytes };
        let mut page = Vec::new();
        encode_page_of(ColumnRef { values, validity: Some(&bitmap) }, PageSet::Fourth, &mut page).unwrap();
        let mut out = ColumnBuf::default();
        decode_page(&page, &mut out).unwrap();
        let (ends, decoded) = out.text();
        prop_assert_eq!(out.rows(), rows);
        for row in 0..rows {
            let value = &decoded[ends[row] as usize..ends[row + 1] as usize];
            let expected = if is_present(row) { &bytes[row * length..(row + 1) * length] } else { &[] };
            prop_assert_eq!(value, expected);
        }
    }

    #[test]
    fn text_of_one_length_round_trips(values in (1..60_usize).prop_flat_map(|length| {
        vec(vec(prop_oneof![9 => "[0-9a-f]", 1 => "[\u{100}-\u{7ff}]"], length), 1..=300)
    })) {
        // Letters of two bytes are there too: only the lengths in bytes count.
        let mut offsets = vec![0];
        let mut bytes = String::new();
        for value in &values {
            bytes.push_str(&value.concat());
            offsets.push(bytes.len() as u32);
        }
        let values = ValuesRef::Text { offsets: &offsets, bytes: bytes.as_bytes() };
        let page = page_of_fourth_set(values);
        let mut out = ColumnBuf::default();
        decode_page(&page, &mut out).unwrap();
        prop_assert_eq!(out.text(), (offsets.as_slice(), bytes.as_bytes()));
    }
}
