//! The tables of the suite: a line for each test, with what is published, what we have, and what is asked.
//!
//! Does: say which figure answers which line. Does not: count.

use serde::Serialize;

use super::figures::{Figure, Figures};
use crate::Result;

/// One line of a table.
#[derive(Debug, Clone, Serialize)]
pub struct Line {
    /// The test.
    pub test: &'static str,
    /// What others say.
    pub published: &'static str,
    /// What we have: modelled times, or what was counted.
    pub ours: String,
    /// What the modelled time is made of.
    pub counted: String,
    /// What is asked of the library.
    pub asked: &'static str,
    /// Whether it has that.
    pub is_met: bool,
}

impl Line {
    /// The line's cells.
    pub fn cells(&self) -> [String; 6] {
        [
            self.test.to_owned(),
            self.published.to_owned(),
            self.ours.clone(),
            self.counted.clone(),
            self.asked.to_owned(),
            if self.is_met { "met" } else { "missed" }.to_owned(),
        ]
    }
}

fn line(
    (test, published): (&'static str, &'static str),
    ours: String,
    counted: String,
    (asked, is_met): (&'static str, bool),
) -> Line {
    Line {
        test,
        published,
        ours,
        counted,
        asked,
        is_met,
    }
}

/// What an operation is made of.
fn parts(of: &Figure) -> String {
    let each = |number: u64| number as f64 / of.operations.max(1) as f64;
    let mut text = format!(
        "{} programs, {} bytes",
        number(each(of.programs)),
        number(each(of.bytes))
    );
    if of.erases > 0 {
        text = format!("{text}, {} erases", number(each(of.erases)));
    }
    if of.read_bytes > 0 {
        text = format!("{text}, {} bytes read", number(each(of.read_bytes)));
    }
    format!("{text}, {} instructions", number(each(of.instructions)))
}

/// With digits that mean something.
fn number(value: f64) -> String {
    match value {
        value if value >= 100.0 => whole(value),
        value if value >= 10.0 || value.fract() == 0.0 => format!("{value:.0}"),
        value => format!("{value:.1}"),
    }
}

/// Without a fraction, its digits in groups.
#[expect(
    clippy::cast_possible_truncation,
    reason = "figures are far below 2^53 and not negative"
)]
fn whole(value: f64) -> String {
    grouped(value.round().max(0.0) as u64)
}

fn grouped(number: u64) -> String {
    crate::load::grouped(number)
}

fn points_per_second(of: &Figure) -> String {
    format!("{:.2} ms: {} points/s", of.ms(), whole(of.per_second()))
}

/// Seals with the erases that follow them, which no caller waits for.
fn sealed(seal: &Figure, erases: &Figure) -> String {
    format!(
        "{:.1} ms in {} steps, the longest {:.1} ms; later {} erases of 45 ms each",
        seal.ms(),
        seal.operations,
        seal.worst_ms(),
        erases.erases
    )
}

/// The reference's table.
pub(super) fn published(all: &Figures) -> Result<Vec<Line>> {
    let mut lines = inserts(all)?;
    lines.extend(reads_and_seals(all)?);
    lines.extend(codecs(all)?);
    lines.extend(names(all)?);
    Ok(lines)
}

fn inserts(all: &Figures) -> Result<Vec<Line>> {
    let (first, single) = (all.get("insert_first")?, all.get("insert_single")?);
    let per_insert = single.ms() / single.operations as f64;
    let longest = first.ms().max(single.worst_ms());
    let mut lines = vec![
        line(
            (
                "single durable insert, 100 of one series",
                "31.7 ms (26.5 to 155.4)",
            ),
            format!(
                "{per_insert:.2} ms, the longest {longest:.1} ms (the first, which makes the series)"
            ),
            parts(single),
            (
                "0.5 ms, the longest 10 ms, no erase",
                per_insert <= 0.5 && longest <= 10.0 && single.erases + first.erases == 0,
            ),
        ),
        line(
            (".. instructions and bytes of an insert", "61 bytes"),
            format!(
                "{} instructions, {:.1} bytes",
                number(single.per_point(single.instructions)),
                single.per_point(single.bytes)
            ),
            parts(single),
            (
                "600 instructions, 16 bytes",
                single.per_point(single.instructions) <= 600.0
                    && single.per_point(single.bytes) <= 16.0,
            ),
        ),
    ];
    lines.extend(bulk_inserts(all)?);
    Ok(lines)
}

fn bulk_inserts(all: &Figures) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    let bulk = [
        (
            "insert_bulk_100",
            "bulk insert, 100 points",
            "2.32 ms a point: 430 points/s",
            "25,000 points/s",
            25_000.0,
        ),
        (
            "insert_bulk_1000",
            "bulk insert, 1000 points",
            "0.40 ms a point: 2,498 points/s",
            "25,000 points/s",
            25_000.0,
        ),
        (
            "insert_fields_6x288",
            "6 fields x 288 points",
            "405 values/s",
            "25,000 values/s",
            25_000.0,
        ),
        (
            "insert_integers_500",
            "500 integers",
            "2,345 points/s",
            "25,000 points/s",
            25_000.0,
        ),
        (
            "insert_tags_5x100",
            "5 tags, 100 points",
            "5.9 ms a point: 169 points/s",
            "faster",
            169.0,
        ),
        (
            "insert_20x50",
            "20 series x 50 points",
            "38.9 points/s",
            "faster",
            38.9,
        ),
    ];
    for (name, test, published, asked, least) in bulk {
        let figure = all.get(name)?;
        lines.push(line(
            (test, published),
            points_per_second(figure),
            parts(figure),
            (asked, figure.per_second() >= least),
        ));
    }
    let (cold, warm) = (all.get("insert_cold_100")?, all.get("insert_warm_100")?);
    let warm_ms = warm.ms() / warm.operations as f64;
    lines.push(line(
        ("insert of 100 points, cold and warm", "242.7 ms, 177.0 ms"),
        format!("{:.2} ms, {warm_ms:.2} ms", cold.ms()),
        parts(cold),
        ("faster", cold.ms() < 242.7 && warm_ms < 177.0),
    ));
    Ok(lines)
}

fn reads_and_seals(all: &Figures) -> Result<Vec<Line>> {
    let query = all.get("query_100_sealed")?;
    let mut lines = vec![line(
        ("query of 100 points, one field", "151.8 ms: 659 points/s"),
        points_per_second(query),
        parts(query),
        ("100,000 points/s", query.per_second() >= 100_000.0),
    )];
    let seals = [
        (
            "seal_500",
            "compaction of 500 points; ours: seal",
            "0.78 ms (too few pages: it did nothing)",
            "10 ms",
            10.0,
        ),
        (
            "seal_2000",
            "compaction of 2000 points; ours: seal",
            "4,584 ms",
            "40 ms",
            40.0,
        ),
        (
            "seal_20x50",
            "compaction of 20 series x 50; ours: seal",
            "0.63 ms (it did nothing)",
            "40 ms",
            40.0,
        ),
    ];
    for (name, test, published, asked, most) in seals {
        let (seal, erases) = (all.get(name)?, all.get(&format!("{name}_erases"))?);
        lines.push(line(
            (test, published),
            sealed(seal, erases),
            parts(seal),
            (asked, seal.ms() <= most),
        ));
    }
    let (insert, seal) = (all.get("insert_5x100")?, all.get("seal_5x100")?);
    let each = |of: &Figure| of.ms() / 5.0;
    lines.push(line(
        (
            "5 batches of 100: insert and compaction of each",
            "193.2 ms + 0.74 ms (it did nothing)",
        ),
        format!("{:.1} ms + {:.1} ms", each(insert), each(seal)),
        parts(seal),
        ("faster together", each(insert) + each(seal) < 193.9),
    ));
    Ok(lines)
}

fn codecs(all: &Figures) -> Result<Vec<Line>> {
    let us = |of: &Figure| of.ms() * 1e3;
    let ratio = |of: &Figure| 8000.0 / of.value as f64;
    let told = |of: &Figure| {
        format!(
            "{} bytes, {} instructions a value",
            of.value,
            number(of.per_point(of.instructions))
        )
    };
    let (encode, decode) = (all.get("encode_floats")?, all.get("decode_floats")?);
    let (integers, steps, walk) = (
        all.get("encode_integers")?,
        all.get("encode_steps")?,
        all.get("encode_walk")?,
    );
    Ok(vec![
        line(
            (
                "float codec, 1000 values of the reference's kind: encode, decode",
                "708 us, 4,224 us; counted here 1,802 us, 1,616 us, 1.91x",
            ),
            format!("{:.0} us, {:.0} us", us(encode), us(decode)),
            told(encode),
            (
                "no slower than its code here",
                us(encode) <= 1802.0 && us(decode) <= 1616.0,
            ),
        ),
        line(
            (".. ratio", "1.94x"),
            format!("{:.2}x", ratio(encode)),
            told(encode),
            ("2.00x", ratio(encode) >= 2.0),
        ),
        line(
            ("integer codec, 1000 times", "759 us, 50x"),
            format!("{:.0} us, {:.0}x", us(integers), ratio(integers)),
            told(integers),
            (
                "no slower, 200x",
                us(integers) <= 759.0 && ratio(integers) >= 200.0,
            ),
        ),
        line(
            (
                ".. floats in steps of 0.01; a walk of one step",
                "not published",
            ),
            format!("{:.1}x; {:.1}x", ratio(steps), ratio(walk)),
            told(steps),
            ("16x; 32x", ratio(steps) >= 16.0 && ratio(walk) >= 32.0),
        ),
    ])
}

fn names(all: &Figures) -> Result<Vec<Line>> {
    let (first, last) = (all.get("series_1_to_5")?, all.get("series_16_to_20")?);
    let each = |of: &Figure| of.ms() / of.points as f64;
    let mean = f64::midpoint(each(first), each(last));
    Ok(vec![line(
        (
            "creating 20 series; the first five, the last five",
            "1,261 ms each; 450, 2,079",
        ),
        format!("{mean:.2} ms each; {:.2}, {:.2}", each(first), each(last)),
        parts(last),
        ("0.6 ms each", mean <= 0.6),
    )])
}

/// Lives of 20 sensors: figure, test, and what is asked: bytes of a row, programs and erases of 1000 rows.
const SENSORS: [(&str, &str, &str, f64, f64, f64); 4] = [
    (
        "sensors_single",
        "20 sensors, rows one by one: bytes, programs and erases of 1000 rows",
        "14 bytes; 1,100; 4",
        14.0,
        1100.0,
        4.0,
    ),
    (
        "sensors_bulk",
        ".. 16 rows a call",
        "6 bytes; 40; 2",
        6.0,
        40.0,
        2.0,
    ),
    (
        "sensors_bulk_32",
        ".. 32 rows a call",
        "6 bytes; 40; 2",
        6.0,
        40.0,
        2.0,
    ),
    (
        "sensors_single_16k",
        ".. one by one, sectors of 16 KiB",
        "14 bytes; 1,100; 4",
        14.0,
        1100.0,
        4.0,
    ),
];

/// What nobody publishes.
pub(super) fn life(all: &Figures) -> Result<Vec<Line>> {
    let mut lines = life_of_names(all)?;
    let none = "not published";
    for (name, test, asked, bytes, programs, erases) in SENSORS {
        let (hot, all_of_it) = (all.get(name)?, all.get(&format!("{name}_sealed"))?);
        let thousand = |number| 1000.0 * all_of_it.per_point(number);
        lines.push(line(
            (test, none),
            format!(
                "{:.1} bytes; {:.0}; {:.1}",
                hot.per_point(hot.value),
                thousand(all_of_it.programs),
                thousand(all_of_it.erases)
            ),
            format!("seals included; {} rows", grouped(hot.points)),
            (
                asked,
                hot.per_point(hot.value) <= bytes
                    && thousand(all_of_it.programs) <= programs
                    && thousand(all_of_it.erases) <= erases,
            ),
        ));
        let seal_instructions = all_of_it.per_point(all_of_it.instructions);
        lines.push(line(
            (".. sealed: bytes and instructions a row", none),
            format!(
                "{:.2} bytes; {}",
                all_of_it.per_point(all_of_it.value),
                number(seal_instructions)
            ),
            format!("{} bytes in pages", grouped(all_of_it.value)),
            (
                "2.5 bytes; 400 instructions",
                all_of_it.per_point(all_of_it.value) <= 2.5 && seal_instructions <= 400.0,
            ),
        ));
    }
    lines.extend(life_of_reads(all)?);
    lines.extend(life_of_flash(all)?);
    Ok(lines)
}

fn life_of_names(all: &Figures) -> Result<Vec<Line>> {
    let (first, last) = (all.get("series_1_to_100")?, all.get("series_401_to_500")?);
    let each = |of: &Figure| of.ms() / of.points as f64;
    let apart = (each(last) / each(first) - 1.0).abs() * 100.0;
    Ok(vec![line(
        (
            "series 1 to 100 against 401 to 500, new ones",
            "not published",
        ),
        format!(
            "{:.2} ms and {:.2} ms each, {apart:.1} % apart",
            each(first),
            each(last)
        ),
        parts(last),
        ("10 % apart", apart <= 10.0),
    )])
}

fn life_of_reads(all: &Figures) -> Result<Vec<Line>> {
    let none = "not published";
    let (query, rollup) = (all.get("query_month")?, all.get("rollup_month_by_hour")?);
    let hot = all.get("query_100_hot")?;
    Ok(vec![
        line(
            ("query of 86,400 sealed rows: instructions a row", none),
            format!(
                "{}; {} rows/s",
                number(query.per_point(query.instructions)),
                whole(query.per_second())
            ),
            format!("{:.2} bytes read a row", query.per_point(query.read_bytes)),
            (
                "200 instructions",
                query.per_point(query.instructions) <= 200.0,
            ),
        ),
        line(
            ("means of 720 hours of them: bytes read", none),
            format!(
                "{} bytes, {:.1} ms",
                grouped(rollup.read_bytes),
                rollup.ms()
            ),
            format!(
                "the rows themselves: {} bytes, {:.0} ms",
                grouped(query.read_bytes),
                query.ms()
            ),
            ("heads only", rollup.read_bytes * 4 <= query.read_bytes),
        ),
        line(
            ("query of 100 rows that are not sealed", none),
            points_per_second(hot),
            parts(hot),
            ("100,000 points/s", hot.per_second() >= 100_000.0),
        ),
    ])
}

fn life_of_flash(all: &Figures) -> Result<Vec<Line>> {
    let none = "not published";
    let (mount, wear) = (all.get("mount_64_sectors")?, all.get("wear_100_turns")?);
    let sectors = |number: u64| number as f64 / mount.points as f64;
    let bound = (32 * mount.points + 4096) as f64 / mount.points as f64;
    let small = all.get("arena_64_sectors")?.value;
    let middle = all.get("arena_256_sectors")?.value;
    let large = all.get("arena_1024_sectors")?.value;
    Ok(vec![
        line(
            ("opening a store, of each of 64 sectors", none),
            format!(
                "{} instructions, {:.0} bytes read; {:.2} ms in all",
                number(sectors(mount.instructions)),
                sectors(mount.read_bytes),
                mount.ms()
            ),
            format!("{} sectors are sealed", mount.value),
            (
                "150 instructions, 32 bytes and one sector",
                sectors(mount.instructions) <= 150.0 && sectors(mount.read_bytes) <= bound,
            ),
        ),
        line(
            ("wear after 100 turns of a ring of 16 sectors", none),
            format!("the least and most worn differ by {} erases", wear.value),
            format!("{} rows", grouped(wear.points)),
            ("2", wear.value <= 2),
        ),
        line(
            ("memory: the arena for 256 KiB, 1 MiB, 4 MiB of flash", none),
            format!(
                "{} bytes; {}; {}",
                grouped(small),
                grouped(middle),
                grouped(large)
            ),
            "pointers of this machine".to_owned(),
            (
                "8 KB for 1 MiB, 32 KB for 14 MB",
                middle <= 8192 && large <= 32_768,
            ),
        ),
    ])
}
