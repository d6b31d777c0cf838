//! Any bytes as a page: an error, or a column that encodes again and decodes to the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nilometer_codec::stats::statistics;
use nilometer_codec::{BLOCK_ROWS_MAX, ColumnBuf, TEXT_BYTES_MAX, decode_page, encode_page};

fuzz_target!(|data: &[u8]| {
    let mut column = ColumnBuf::default();
    if decode_page(data, &mut column).is_err() {
        assert_eq!(column.rows(), 0);
        return;
    }
    assert!((1..=BLOCK_ROWS_MAX).contains(&column.rows()) && column.text().1.len() <= TEXT_BYTES_MAX);
    let statistics_before = statistics(column.as_column());

    let mut page = Vec::new();
    encode_page(column.as_column(), &mut page).expect("a decoded column is valid");
    let mut again = ColumnBuf::default();
    decode_page(&page, &mut again).expect("what was encoded decodes");
    // Bits, not values: NaN differs from itself.
    let bits = |column: &ColumnBuf| column.f64s().iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert_eq!((column.i64s(), column.u64s(), column.bools()), (again.i64s(), again.u64s(), again.bools()));
    assert_eq!((bits(&column), column.text()), (bits(&again), again.text()));
    assert_eq!((column.rows(), column.physical_type()), (again.rows(), again.physical_type()));
    assert_eq!(format!("{statistics_before:?}"), format!("{:?}", statistics(again.as_column())));
});
