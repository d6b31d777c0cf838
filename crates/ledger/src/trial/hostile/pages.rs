//! Pages of microcontrollers that want the server dead: with right checksums, because whoever has a device's key can make them.
//!
//! Does: pack pages by docs/format/device-page.md that say much in few bytes, pages with bytes changed, and requests about them that cannot
//! be. Does not: send what a device would.

use std::fmt::Write as _;

use super::case::{Case, DB, Stage};
use super::pack;
use crate::random::Random;

const FAMILY: &str = "pages of devices";
/// Pages with changed bytes, in one case.
const CHANGED: u64 = 200;
const PAGE_BYTES_MAX: usize = 64 << 10;
const ROWS_MAX: u16 = 1024;

/// Encodings of the format's page.
const CONST: u8 = 0;
const PLAIN: u8 = 16;
const DICTIONARY: u8 = 17;
const I64: u8 = 0;
const TEXT: u8 = 4;

pub(super) fn cases(seed: u64) -> Vec<Case> {
    let mut cases = much_in_little();
    cases.extend(requests());
    cases.extend((0..4).map(|nth| changed(seed, nth)));
    cases
}

/// The route with these parameters; `device` is `hostile` and `db` that of all cases unless they say otherwise.
fn target(more: &str) -> String {
    let device = if more.contains("device=") {
        ""
    } else {
        "&device=hostile"
    };
    let db = if more.contains("db=") {
        String::new()
    } else {
        format!("&db={DB}")
    };
    format!("/api/edge/v1/pages?{more}{device}{db}")
}

fn post(name: impl Into<String>, statuses: &[u16], store: u32, body: Vec<u8>) -> Case {
    let target = target(&format!("store={store}&after=0"));
    Case::new(FAMILY, name, statuses, move |stage: &Stage| {
        stage.post(&target, "", &body)
    })
}

/// Rows, text and names that take far more memory than the pages that say them.
fn much_in_little() -> Vec<Case> {
    let wide: Vec<Vec<u8>> = (0..16).map(|_| constant(ROWS_MAX)).collect();
    let rows = |table: &str| block(table, ROWS_MAX, &wide);
    // Blocks of some 250 bytes say 1024 rows of 16 numbers, which are 139 KB.
    let full = page(1, &[rows("p0"), rows("p1")].concat(), 2, ROWS_MAX);
    let blocks = (PAGE_BYTES_MAX - 100) / rows("p").len();
    let dense = page(
        1,
        &rows("p").repeat(blocks),
        u16::try_from(blocks).unwrap_or(1),
        ROWS_MAX,
    );
    let many: Vec<u8> = (1..=15)
        .flat_map(|sequence| renumbered(&dense, sequence))
        .collect();
    let text = vec![repeated_text(50_000)];
    let texts = page(1, &block("text", ROWS_MAX, &text), 1, ROWS_MAX);
    let tables = |count: u64, from: u64| -> Vec<u8> {
        let name = |at: u64| block(&format!("floods{at},tag{at}=v"), 1, &[constant(1)]);
        (from..from + count)
            .flat_map(|at| page(at + 1, &name(at), 1, 1))
            .collect()
    };
    let mut tags = String::new();
    for at in 0..2000 {
        // Writing to a string cannot fail.
        let _ = write!(tags, ",t{at:05}=v");
    }
    vec![
        post("two full blocks", &[200], 1, full).right("2048"),
        // 250 blocks and more of 139 KB are within what rows of a request may take, or not.
        post("64 KiB of full blocks", &[200, 413, 503], 2, dense),
        post("15 pages of full blocks", &[413, 503], 3, many),
        post(
            "a dictionary of one long text",
            &[200, 413, 422, 503],
            4,
            texts,
        ),
        post("1000 tables", &[413], 5, tables(1000, 0)).says("edge-tables-max"),
        post(
            "2000 tags",
            &[200, 400, 413, 422],
            6,
            page(1, &block(&format!("wide{tags}"), 1, &[constant(1)]), 1, 1),
        ),
        post("60,000 times nothing", &[422], 7, b"NMDP".repeat(60_000)),
        post("a mebibyte of 0xff", &[422, 413], 8, vec![0xff; 1 << 20]),
        post("more than a body may have", &[413], 9, vec![0xff; 2 << 20]),
    ]
}

/// Requests whose parameters or encodings are the trouble.
#[expect(clippy::too_many_lines, reason = "a flat list of cases")]
fn requests() -> Vec<Case> {
    let good = page(1, &block("pages", 1, &[constant(1)]), 1, 1);
    let case = |name: &str, statuses: &[u16], more: String, head: &'static str, body: Vec<u8>| {
        let target = target(&more);
        Case::new(FAMILY, name, statuses, move |stage: &Stage| {
            stage.post(&target, head, &body)
        })
    };
    let clocks = |count: u32| {
        (1..=count)
            .map(|boot| format!("{boot}:{boot}"))
            .collect::<Vec<_>>()
            .join(",")
    };
    let at_the_end = renumbered(&good, u64::MAX);
    vec![
        case(
            "a thousand clocks",
            &[200],
            format!("store=20&after=0&clock={}", clocks(1000)),
            "",
            good.clone(),
        ),
        case(
            "more clocks than may be",
            &[400],
            format!("store=21&after=0&clock={}", clocks(1100)),
            "",
            good.clone(),
        ),
        case(
            "the last sequence of all",
            &[200, 400, 422],
            "store=22&after=0".to_owned(),
            "",
            at_the_end,
        ),
        case(
            "a clock beyond times",
            &[200, 422],
            format!("store=23&after=0&clock=1:{}", i64::MAX),
            "",
            good.clone(),
        ),
        case(
            "after what never was",
            &[409],
            "store=24&after=5".to_owned(),
            "",
            good.clone(),
        ),
        case(
            "after the last sequence",
            &[409],
            format!("store=25&after={}", u64::MAX),
            "",
            good.clone(),
        ),
        case(
            "a store of 64 bits",
            &[400],
            format!("store={}&after=0", u64::MAX),
            "",
            good.clone(),
        ),
        case(
            "a device with a line's end",
            &[400],
            "store=26&after=0&device=a%0Ab".to_owned(),
            "",
            good.clone(),
        ),
        case(
            "a database of nobody",
            &[400, 404],
            "store=27&after=0&db=nobody_s".to_owned(),
            "",
            good.clone(),
        ),
        case(
            "no gzip",
            &[400],
            "store=28&after=0".to_owned(),
            "Content-Encoding: gzip\r\n",
            good.clone(),
        ),
        case(
            "a gzip of 1 GiB of zeros",
            &[400, 413, 422],
            "store=29&after=0".to_owned(),
            "Content-Encoding: gzip\r\n",
            pack::gzip_zeros(1 << 30, false),
        ),
        case(
            "a zstd of 1 GiB of zeros",
            &[400, 413, 422],
            "store=30&after=0".to_owned(),
            "Content-Encoding: zstd\r\n",
            pack::zstd_zeros(1 << 30, 20),
        ),
        case(
            "a good page in gzip",
            &[200],
            "store=31&after=0".to_owned(),
            "Content-Encoding: gzip\r\n",
            pack::gzip(&good),
        )
        .right("\"rows\":1"),
    ]
}

/// Good pages with bytes changed and their checksums made right, one after the other; each is taken or refused.
fn changed(seed: u64, nth: u64) -> Case {
    let name = format!("{CHANGED} pages with changed bytes, number {nth}");
    let case = Case::new(FAMILY, name, &[200, 400, 413, 422], move |stage: &Stage| {
        let mut random = Random::of(&[seed, 0x00de_71ce, nth]);
        let mut last = None;
        for round in 0..CHANGED {
            let fields = [constant(7), repeated_text(5)];
            let mut page = page(1, &block("changed,room=attic", 7, &fields), 1, 7);
            for _ in 0..=random.below(3) {
                // Not the checksum, and mostly behind the head.
                let from = if random.one_in(4) { 0 } else { 60 };
                let at = from + random.index(page.len() - 4 - from);
                if let Some(byte) = page.get_mut(at) {
                    *byte = if random.one_in(2) {
                        random.byte()
                    } else {
                        *byte ^ 1 << random.below(8)
                    };
                }
            }
            let target = target(&format!(
                "store={}&after=0&clock=1:0",
                1000 + 1000 * nth + round
            ));
            let told = stage.post(&target, "", &summed(page))?;
            // The first that is not answered as it may be is the one to judge.
            let is_fine = matches!(&told, super::case::Seen::Answer(answer) if [200, 400, 413, 422].contains(&answer.status));
            last = Some(told);
            if !is_fine {
                break;
            }
        }
        Ok(last.unwrap_or(super::case::Seen::Unheard))
    });
    case.requests(CHANGED)
}

// ---- the format, by hand ----

/// A page of these blocks, all of which begin at time 0 and have `rows` rows a millisecond apart.
fn page(sequence: u64, blocks: &[u8], count: u16, rows: u16) -> Vec<u8> {
    let bytes = 60 + blocks.len() + 4;
    let mut page = b"NMDP\x01\x01\0\0".to_vec();
    page.extend(u32::try_from(bytes).unwrap_or(0).to_le_bytes());
    page.extend(count.to_le_bytes());
    page.extend([0; 2]);
    page.extend(sequence.to_le_bytes());
    for time in [0, 0, i64::from(rows) - 1] {
        page.extend(time.to_le_bytes());
    }
    for number in [1_000_000_u32, 0, 1] {
        page.extend(number.to_le_bytes());
    }
    page.extend_from_slice(blocks);
    page.extend([0; 4]);
    summed(page)
}

fn renumbered(page: &[u8], sequence: u64) -> Vec<u8> {
    let mut page = page.to_vec();
    if let Some(place) = page.get_mut(16..24) {
        place.copy_from_slice(&sequence.to_le_bytes());
    }
    summed(page)
}

/// The page with the checksum that it should have.
fn summed(mut page: Vec<u8>) -> Vec<u8> {
    let body = page.len().saturating_sub(4);
    let sum = crc32c(page.get(..body).unwrap_or_default());
    page.truncate(body);
    page.extend(sum.to_le_bytes());
    page
}

fn block(key: &str, rows: u16, columns: &[Vec<u8>]) -> Vec<u8> {
    let mut block = Vec::new();
    put_varint(&mut block, key.len() as u64);
    block.extend(key.bytes());
    put_varint(&mut block, u64::from(rows));
    put_varint(&mut block, columns.len() as u64);
    put_varint(&mut block, 0);
    put_varint(&mut block, u64::from(rows) - 1);
    let [low, high] = rows.to_le_bytes();
    // Times in even steps: encoding, type, rows, from 0 in steps of 1 as zigzags.
    put_column(&mut block, &[1, I64, low, high, 0, 2]);
    for (at, column) in columns.iter().enumerate() {
        let name = format!("f{at}");
        put_varint(&mut block, name.len() as u64);
        block.extend(name.bytes());
        put_column(&mut block, column);
        // No statistics.
        block.push(0);
    }
    block
}

fn put_column(block: &mut Vec<u8>, column: &[u8]) {
    block.extend(
        u16::try_from(column.len())
            .unwrap_or(u16::MAX)
            .to_le_bytes(),
    );
    block.extend_from_slice(column);
}

/// One number, over and over.
fn constant(rows: u16) -> Vec<u8> {
    let [low, high] = rows.to_le_bytes();
    vec![CONST, I64, low, high, 14]
}

/// One text, over and over: of 1024 rows of a page, or its own few rows.
fn repeated_text(bytes: usize) -> Vec<u8> {
    let is_long = bytes > 1000;
    let rows = if is_long { ROWS_MAX } else { 7 };
    let [low, high] = rows.to_le_bytes();
    let mut column = vec![if is_long { DICTIONARY } else { PLAIN }, TEXT, low, high];
    if is_long {
        put_varint(&mut column, 1);
    }
    // All lengths are the same: a zigzag.
    column.push(CONST);
    put_varint(&mut column, 2 * bytes as u64);
    let values = if is_long { 1 } else { usize::from(rows) };
    column.extend(std::iter::repeat_n(b'x', bytes * values));
    if is_long {
        column.extend([CONST, 0]);
    }
    column
}

fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

fn crc32c(bytes: &[u8]) -> u32 {
    let mut sum = u32::MAX;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = (sum >> 1) ^ (0x82f6_3b78 & (sum & 1).wrapping_neg());
        }
    }
    !sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_format() {
        // The check value of CRC-32C.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }
}
