//! Rewriting of CSV that is no table of values, as spreadsheets and other programs make it: lines before the names, columns without
//! a name, dates and times of day apart, commas for the decimal point.
//!
//! Does: make names and rows of it that `columns.rs` can decide about. Does not: decide about types.

use std::io::BufRead;

use anyhow::bail;
use chrono::NaiveTime;
use csv::StringRecord;

use super::columns::{Absent, ColumnWishes, present};
use super::times::TimeFormat;
use crate::lines::FieldType;

/// Names of a column of dates that has a column of times of day beside it, and of that.
const DATE_NAMES: &[&str] = &["date", "day", "datum", "fecha"];
const TIME_NAMES: &[&str] = &["time", "time of day", "hour", "zeit", "uhrzeit", "hora"];

/// What stands between a date and a time of day in the name of both.
const AND: char = '+';

/// What stands before the line with the names.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Preamble {
    pub(super) lines: u64,
    /// A spreadsheet may say so in a line of its own.
    pub(super) separator: Option<u8>,
}

/// Reads over lines before the names, as far as the first bytes show them.
pub(super) fn skip_preamble(text: &mut dyn BufRead) -> std::io::Result<Preamble> {
    let mut found = Preamble::default();
    loop {
        let peeked = text.fill_buf()?;
        let Some(end) = memchr::memchr(b'\n', peeked) else {
            return Ok(found);
        };
        let (line, rest) = peeked.split_at(end + 1);
        let line = line.trim_ascii();
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        if let [b's', b'e', b'p', b'=', separator] = line {
            found.separator = Some(*separator);
        } else if !is_comment(line, rest) {
            return Ok(found);
        }
        found.lines += 1;
        text.consume(end + 1);
    }
}

/// A line that begins with # is a comment unless it has as many columns as the line after it: then it has their names.
fn is_comment(line: &[u8], rest: &[u8]) -> bool {
    let next = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let next_is_comment = next.starts_with(b"#");
    let separators = [b',', b';', b'\t', b'|'];
    let count = |text: &[u8], byte: u8| memchr::memchr_iter(byte, text).count();
    let is_like_next = separators
        .iter()
        .any(|byte| count(line, *byte) > 0 && count(line, *byte) == count(next, *byte));
    line.starts_with(b"#") && (next_is_comment || !is_like_next)
}

/// Columns without a name get one.
pub(super) fn name_all(names: &mut [String]) {
    for at in 0..names.len() {
        let name = format!("column_{}", at + 1);
        let is_taken = names.contains(&name);
        if let Some(unnamed) = names.get_mut(at).filter(|it| it.is_empty() && !is_taken) {
            *unnamed = name;
        }
    }
}

/// What is done to each row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Rewrite {
    /// The column of dates, and the one of times of day.
    join: Option<(usize, usize)>,
    /// Columns of numbers with a comma for the decimal point.
    commas: Vec<usize>,
}

impl Rewrite {
    /// Decides by the names and the first rows. `names` become those of the rewritten rows.
    pub(super) fn of(
        names: &mut Vec<String>,
        sample: &[StringRecord],
        separator: u8,
        wishes: &ColumnWishes,
    ) -> anyhow::Result<Self> {
        let is_float = |at: usize| {
            let mut types = wishes.types.iter();
            types.any(|(name, kind)| *kind == FieldType::Float && names.get(at) == Some(name))
        };
        let commas = match separator {
            b',' => Vec::new(),
            _ => (0..names.len())
                .filter(|at| is_float(*at) || has_commas(sample, *at, &wishes.absent))
                .collect(),
        };
        let join = join(names, sample, wishes)?;
        if let Some((date, time)) = join {
            let joined = names.get(date).zip(names.get(time));
            let joined = joined.map(|(date, time)| format!("{date}{AND}{time}"));
            if let (Some(name), Some(joined)) = (names.get_mut(date), joined) {
                *name = joined;
            }
            names.remove(time);
        }
        Ok(Self { join, commas })
    }

    pub(super) fn apply(&self, record: StringRecord) -> StringRecord {
        if *self == Self::default() {
            return record;
        }
        let mut out = StringRecord::with_capacity(record.as_slice().len() + 1, record.len());
        for (at, cell) in record.iter().enumerate() {
            match self.join {
                Some((_, time)) if time == at => {}
                Some((date, time)) if date == at => {
                    let time = record.get(time).unwrap_or_default();
                    out.push_field(format!("{} {}", cell.trim(), time.trim()).trim());
                }
                _ if self.commas.contains(&at) => out.push_field(&cell.replace(',', ".")),
                _ => out.push_field(cell),
            }
        }
        out.set_position(record.position().cloned());
        out
    }
}

/// Whether all values are numbers once commas are points, and some have one.
fn has_commas(sample: &[StringRecord], at: usize, absent: &Absent) -> bool {
    let mut some = false;
    let all = present(sample, at, absent).all(|cell| {
        some |= cell.contains(',');
        cell.matches(',').count() <= 1
            && !cell.contains('.')
            && cell.replace(',', ".").parse::<f64>().is_ok()
    });
    all && some
}

/// The columns of dates and of times of day, by what the user says or by their names and values.
fn join(
    names: &[String],
    sample: &[StringRecord],
    wishes: &ColumnWishes,
) -> anyhow::Result<Option<(usize, usize)>> {
    let present = |at: usize| present(sample, at, &wishes.absent);
    let find = |name: &str| names.iter().position(|known| known == name.trim());
    if let Some(time) = wishes.time.as_deref() {
        let is_column = find(time).is_some();
        let Some((first, second)) = time.split_once(AND).filter(|_| !is_column) else {
            return Ok(None);
        };
        let (Some(date), Some(time)) = (find(first), find(second)) else {
            bail!(
                "there are no two columns \"{first}\" and \"{second}\" to make a time of; there are {}",
                names.join(", ")
            );
        };
        return Ok(Some((date, time)));
    }
    let called = |known: &[&str]| {
        let is_called = |name: &String| known.iter().any(|it| name.eq_ignore_ascii_case(it));
        names.iter().position(is_called)
    };
    let (Some(date), Some(time)) = (called(DATE_NAMES), called(TIME_NAMES)) else {
        return Ok(None);
    };
    let is_of_day = |cell: &str| {
        let formats = ["%H:%M:%S%.f", "%H:%M"];
        formats
            .iter()
            .any(|format| NaiveTime::parse_from_str(cell, format).is_ok())
    };
    let is_date = |cell: &str| !cell.contains(':');
    let fits = present(time).next().is_some()
        && present(time).all(is_of_day)
        && present(date).all(is_date)
        && TimeFormat::of(&present(date)).is_some();
    Ok(fits.then_some((date, time)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wishes(time: Option<&str>) -> ColumnWishes {
        ColumnWishes {
            time: time.map(str::to_owned),
            ..ColumnWishes::default()
        }
    }

    fn rewritten(text: &str, separator: u8, time: Option<&str>) -> (Vec<String>, Vec<Vec<String>>) {
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(separator)
            .from_reader(text.as_bytes());
        let mut names: Vec<String> = reader
            .headers()
            .unwrap()
            .iter()
            .map(str::to_owned)
            .collect();
        let sample: Vec<StringRecord> = reader.records().map(Result::unwrap).collect();
        let wishes = wishes(time);
        let rewrite = Rewrite::of(&mut names, &sample, separator, &wishes).unwrap();
        let rows = sample.into_iter().map(|row| {
            let row = rewrite.apply(row);
            row.iter().map(str::to_owned).collect()
        });
        (names, rows.collect())
    }

    #[test]
    fn a_date_and_a_time_of_day_become_one() {
        let text = "Date,v,Time\n2024-05-01,1,12:00\n2024-05-01,2,13:30\n";
        let (names, rows) = rewritten(text, b',', None);
        assert_eq!(names, ["Date+Time", "v"]);
        assert_eq!(rows, [["2024-05-01 12:00", "1"], ["2024-05-01 13:30", "2"]]);
        let (names, rows) = rewritten("a,b,v\n1/2/2024,7 AM,1\n", b',', Some("a+b"));
        assert_eq!(names, ["a+b", "v"]);
        assert_eq!(rows, [["1/2/2024 7 AM", "1"]]);
        // Whole times beside a date, and a column that has a plus in its name, are left alone.
        for (text, time) in [
            ("date,time\n2024-05-01,2024-05-01T12:00:00Z\n", None),
            ("date,time\n2024-05-01 11:00,12:00\n", None),
            ("a+b,a,b\n2024-05-01,1,2\n", Some("a+b")),
        ] {
            let (names, rows) = rewritten(text, b',', time);
            assert_eq!(names.join(","), text.lines().next().unwrap());
            assert_eq!(rows[0].join(","), text.lines().nth(1).unwrap());
        }
        let sample = [];
        let wishes = wishes(Some("a+c"));
        let error = Rewrite::of(&mut vec!["a".to_owned()], &sample, b',', &wishes);
        assert!(error.unwrap_err().to_string().contains("there are a"));
    }

    #[test]
    fn a_comma_is_a_decimal_point_where_it_separates_nothing() {
        let text = "t;v;w;x\n1;21,5;1,2,3;1.000,5\n2;-3;2;3\n";
        let (_, rows) = rewritten(text, b';', None);
        assert_eq!(rows[0], ["1", "21.5", "1,2,3", "1.000,5"]);
        let rows = "t;v\n1;21,5\n2;warm\n";
        assert_eq!(rewritten(rows, b';', None).1[0], ["1", "21,5"]);
        let (_, rows) = rewritten("t,v\n1,\"21,5\"\n", b',', None);
        assert_eq!(rows[0], ["1", "21,5"]);
    }

    #[test]
    fn lines_before_the_names_are_read_over_and_counted() {
        for (text, lines, separator, rest) in [
            ("sep=;\r\na;b\n1;2\n", 1, Some(b';'), "a;b\n1;2\n"),
            ("\u{feff}sep=,\na,b\n", 1, Some(b','), "a,b\n"),
            (
                "# by x, v2\n# on y\na,b,c\n1,2,3\n",
                2,
                None,
                "a,b,c\n1,2,3\n",
            ),
            ("#a,b\n1,2\n", 0, None, "#a,b\n1,2\n"),
            ("a,b\n#1,2\n", 0, None, "a,b\n#1,2\n"),
            ("", 0, None, ""),
        ] {
            let mut left = text.as_bytes();
            let found = skip_preamble(&mut left).unwrap();
            assert_eq!(found, Preamble { lines, separator }, "{text:?}");
            assert_eq!(std::str::from_utf8(left).unwrap(), rest, "{text:?}");
        }
    }

    #[test]
    fn columns_without_a_name_get_one() {
        let mut names = ["", "v", "", "column_4", ""].map(str::to_owned);
        name_all(&mut names);
        assert_eq!(names, ["column_1", "v", "column_3", "column_4", "column_5"]);
    }
}
