//! Parse rate of line protocol: `cargo run --release --example parse_rate -- FILE [PASSES] [reference]`.
//!
//! Reads FILE into memory, parses it PASSES times (20 if not given), and prints rows and bytes a second for the best and
//! the median pass. The third argument times the reference parser instead.

use std::hint::black_box;
use std::time::Instant;

use nilometer_lineproto::{Lines, Precision, Reader, parse_line};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args
        .next()
        .ok_or("usage: parse_rate FILE [PASSES] [reference]")?;
    let passes: usize = args.next().map_or(Ok(20), |text| text.parse())?;
    let reference = args.next().is_some_and(|text| text == "reference");
    let input = std::fs::read(path)?;

    let mut seconds: Vec<f64> = Vec::new();
    let mut counts = (0, 0, 0);
    for _ in 0..passes.max(1) {
        let start = Instant::now();
        counts = if reference {
            by_reference(&input)
        } else {
            by_reader(&input)
        };
        seconds.push(start.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    let (rows, fields, errors) = counts;
    print(&format!(
        "{rows} rows, {fields} fields, {errors} bad lines, {} bytes, {passes} passes",
        input.len()
    ));
    for (name, time) in [("best", seconds[0]), ("median", seconds[seconds.len() / 2])] {
        let rows_per_second = rows as f64 / time;
        let bytes_per_second = input.len() as f64 / time;
        print(&format!(
            "{name}: {:.3} M rows/s, {:.3} GB/s, {:.1} ns/row",
            rows_per_second / 1e6,
            bytes_per_second / 1e9,
            1e9 / rows_per_second
        ));
    }
    Ok(())
}

fn by_reader(input: &[u8]) -> (usize, usize, usize) {
    let mut reader = Reader::new(input, Precision::Nanosecond);
    let (mut rows, mut fields, mut errors) = (0, 0, 0);
    while let Some(result) = reader.next() {
        match black_box(&result) {
            Ok(point) => {
                rows += 1;
                fields += point.fields.len();
            }
            Err(_) => errors += 1,
        }
    }
    (rows, fields, errors)
}

fn by_reference(input: &[u8]) -> (usize, usize, usize) {
    let (mut rows, mut fields, mut errors) = (0, 0, 0);
    for (line_number, line) in Lines::new(input) {
        match black_box(parse_line(line, line_number, Precision::Nanosecond)) {
            Ok(Some(point)) => {
                rows += 1;
                fields += point.fields.len();
            }
            Ok(None) => {}
            Err(_) => errors += 1,
        }
    }
    (rows, fields, errors)
}

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn print(line: &str) {
    println!("{line}");
}
