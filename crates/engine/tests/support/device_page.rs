//! Flash pages of a device, packed from `docs/format/device-page.md`.

use nilometer_codec::{ColumnRef, ValuesRef, crc32c, encode_page, varint};

/// The values of a field, one of each row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Field {
    Floats(Vec<f64>),
    Integers(Vec<i64>),
}

/// Rows of one series; times are milliseconds since 1970.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub(crate) key: String,
    pub(crate) times: Vec<i64>,
    pub(crate) fields: Vec<(&'static str, Field)>,
}

fn text(bytes: &str, out: &mut Vec<u8>) {
    varint::put_u64(bytes.len() as u64, out);
    out.extend_from_slice(bytes.as_bytes());
}

fn column(values: ValuesRef<'_>, out: &mut Vec<u8>) {
    let mut page = Vec::new();
    let column = ColumnRef {
        values,
        validity: None,
    };
    encode_page(column, &mut page).expect("a page");
    let length = u16::try_from(page.len()).expect("a short page");
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&page);
}

/// The page of these blocks, whose tick is a millisecond since 1970.
pub(crate) fn device_page(sequence: u64, blocks: &[Block]) -> Vec<u8> {
    let mut body = Vec::new();
    for block in blocks {
        text(&block.key, &mut body);
        varint::put_u64(block.times.len() as u64, &mut body);
        varint::put_u64(block.fields.len() as u64, &mut body);
        let (first, last) = (block.times[0], block.times[block.times.len() - 1]);
        varint::put_i64(first, &mut body);
        varint::put_u64((last - first).cast_unsigned(), &mut body);
        column(ValuesRef::I64(&block.times), &mut body);
        for (name, field) in &block.fields {
            body.push(u8::try_from(name.len()).expect("a short name"));
            body.extend_from_slice(name.as_bytes());
            match field {
                Field::Floats(values) => column(ValuesRef::F64(values), &mut body),
                Field::Integers(values) => column(ValuesRef::I64(values), &mut body),
            }
            // No statistics.
            body.push(0);
        }
    }
    let times = || blocks.iter().flat_map(|it| it.times.iter().copied());
    let mut page = b"NMDP".to_vec();
    page.extend_from_slice(&[1, 1, 0, 0]);
    let bytes = u32::try_from(60 + body.len() + 4).expect("a short page");
    page.extend_from_slice(&bytes.to_le_bytes());
    let count = u16::try_from(blocks.len()).expect("few blocks");
    page.extend_from_slice(&count.to_le_bytes());
    page.extend_from_slice(&[0, 0]);
    page.extend_from_slice(&sequence.to_le_bytes());
    page.extend_from_slice(&0_i64.to_le_bytes());
    page.extend_from_slice(&times().min().unwrap_or(0).to_le_bytes());
    page.extend_from_slice(&times().max().unwrap_or(0).to_le_bytes());
    page.extend_from_slice(&1_000_000_u32.to_le_bytes());
    page.extend_from_slice(&[0; 8]);
    page.extend_from_slice(&body);
    let crc = crc32c(0, &page);
    page.extend_from_slice(&crc.to_le_bytes());
    page
}
