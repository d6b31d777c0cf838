//! Rows of a request as a page of a microcontroller, over `/api/edge/v1/pages`.
//!
//! Does: pack a page by docs/format/device-page.md, say where it goes, choose which writes go this way. Each request is a flash of its own with
//! one page, so that it has its effect once however often it is sent. Does not: judge an answer.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::plan::{Route, Step, Write};
use crate::request::{BRIEF, KEEP, LAST, first_second, tag};

/// Seconds: each row has one of its own.
const TICK_NS: u32 = 1_000_000_000;
/// One of so many writes of line protocol.
const SHARE: f64 = 0.25;

/// Sends some writes as pages. Dice of its own, so that the rest of a plan stays what its seed made it.
pub(crate) fn translate(seed: u64, steps: &mut [Step]) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0xed6e_ed6e);
    for step in steps {
        let Step::Write(write) = step else { continue };
        let is_text = matches!(write.route, Route::V1 | Route::V2 | Route::V3);
        let is_plain = write.bad_lines == 0 && write.padding == 0 && !write.tables.aside;
        if is_text && is_plain && random.random_bool(SHARE) {
            (write.route, write.keyed) = (Route::Pages, true);
        }
    }
}

/// Where a request's page goes.
pub(crate) fn path(write: &Write) -> String {
    format!(
        "/api/edge/v1/pages?db=d&device=sensor&store={}&after=0",
        write.op
    )
}

/// Whether another request of the same flash was in the way.
pub(crate) fn is_overtaken(write: &Write, error: &str) -> bool {
    write.route == Route::Pages && error.contains("being stored by another request")
}

/// The page: a block for each table.
pub(crate) fn page(write: &Write) -> Vec<u8> {
    let first = first_second(write.op);
    let last = first + i64::from(write.rows) - 1;
    let tables = [
        (LAST, write.tables.last),
        (KEEP, write.tables.keep),
        (BRIEF, write.tables.brief),
    ];
    let mut blocks: u16 = 0;
    let mut body = Vec::new();
    for (table, _) in tables.into_iter().filter(|(_, has)| *has) {
        blocks += 1;
        put_text(&mut body, &format!("{table},op={}", tag(write.op)));
        put_varint(&mut body, u64::from(write.rows));
        put_varint(&mut body, 2);
        // Times begin with the base of the page.
        put_varint(&mut body, 0);
        put_varint(&mut body, u64::from(write.rows) - 1);
        put_column(&mut body, &stride(write.rows, 0, 1));
        for (name, step) in [("n", 1), ("w", 0)] {
            put_text(&mut body, name);
            put_column(&mut body, &stride(write.rows, 0, step));
            // No statistics.
            body.push(0);
        }
    }
    let bytes = 60 + body.len() + 4;
    let mut page = b"NMDP\x01\x01".to_vec();
    page.extend(0_u16.to_le_bytes());
    page.extend(
        u32::try_from(bytes)
            .expect("a request has few rows")
            .to_le_bytes(),
    );
    page.extend(blocks.to_le_bytes());
    page.extend(0_u16.to_le_bytes());
    page.extend(1_u64.to_le_bytes());
    for time in [first, first, last] {
        page.extend(time.to_le_bytes());
    }
    for number in [TICK_NS, 0, write.op] {
        page.extend(number.to_le_bytes());
    }
    page.extend(body);
    page.extend(crc32c::crc32c(&page).to_le_bytes());
    page
}

/// A column page of 64-bit integers in even steps.
fn stride(rows: u32, first: u8, step: u8) -> Vec<u8> {
    let rows = u16::try_from(rows).expect("a request has few rows");
    let [low, high] = rows.to_le_bytes();
    // Encoding, type, rows; both numbers as zigzags, which are twice the number.
    vec![1, 0, low, high, 2 * first, 2 * step]
}

fn put_column(body: &mut Vec<u8>, column: &[u8]) {
    let bytes = u16::try_from(column.len()).expect("a column of a few bytes");
    body.extend(bytes.to_le_bytes());
    body.extend(column);
}

fn put_text(body: &mut Vec<u8>, text: &str) {
    put_varint(body, text.len() as u64);
    body.extend(text.bytes());
}

fn put_varint(body: &mut Vec<u8>, number: u64) {
    let low = u8::try_from(number & 0x7f).expect("seven bits");
    if number < 0x80 {
        body.push(low);
    } else {
        body.push(low | 0x80);
        put_varint(body, number >> 7);
    }
}
