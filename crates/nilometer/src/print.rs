//! The one place that writes to the terminal.

#[cfg(feature = "sql")]
pub(crate) mod files;

use std::fmt;
use std::io::Write;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A line of the answer.
pub(crate) fn line(text: impl std::fmt::Display) {
    // Someone who closed the pipe, as `head` does, has seen enough.
    drop(writeln!(std::io::stdout(), "{text}"));
}

/// Something beside the answer: it goes to standard error, where it does not get between rows.
pub(crate) fn note(text: impl std::fmt::Display) {
    // Someone who closed the pipe, as `head` does, has seen enough.
    drop(write!(std::io::stderr(), "{text}"));
}

/// Part of the answer, as it is.
pub(crate) fn raw(bytes: &[u8]) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Why the program ends without success, with what led to it.
pub(crate) fn error(error: &anyhow::Error) {
    drop(writeln!(std::io::stderr(), "error: {}", told(error)));
}

/// An error with what led to it. What an error has said in its own words, as those of the system are, is not said again.
pub(crate) fn told(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let said = cause.to_string();
        if text.is_empty() {
            text = said;
        } else if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
    }
    text
}

/// A bar for `total` rows, on standard error, or nothing where that is no terminal.
pub(crate) fn row_bar(what: &'static str, total: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    let template = "{prefix:>9} [{bar:40}] {human_pos}/{human_len} rows, {per_sec}, {eta} left";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_prefix(what);
    bar
}

/// Words and numbers in columns: the first to the left, numbers to the right.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(head: &[&str]) -> Self {
        let head = head.iter().map(|&name| name.to_owned()).collect();
        Self { rows: vec![head] }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// A column is one of numbers if every cell below its head is.
    fn is_number(&self, column: usize) -> bool {
        let cells = self.rows.iter().skip(1).filter_map(|row| row.get(column));
        cells
            .map(|cell| cell.chars().next())
            .all(|first| first.is_none_or(|first| first.is_ascii_digit() || first == '-'))
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width_of = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<(usize, bool)> = (0..columns)
            .map(|column| (width_of(column), self.is_number(column)))
            .collect();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, &(width, is_number)) in row.iter().zip(&widths) {
                let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
                line.push_str(if is_number { &padding } else { "" });
                line.push_str(cell);
                line.push_str(if is_number { "" } else { &padding });
                line.push_str("  ");
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// `1234567` as `1,234,567`.
pub(crate) fn thousands(number: u64) -> String {
    grouped(&number.to_string())
}

pub(crate) fn grouped(digits: &str) -> String {
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Table, thousands};

    #[test]
    fn numbers_are_grouped_from_the_right() {
        let cases = [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ];
        for (number, text) in cases {
            assert_eq!(thousands(number), text);
        }
    }

    #[test]
    fn a_table_has_words_to_the_left_and_numbers_to_the_right() {
        let mut table = Table::new(&["name", "n", "kind"]);
        table.row(["a", "1", "x"].map(str::to_owned));
        table.row(["long name", "1,000", "y"].map(str::to_owned));
        let want = "name           n  kind\na              1  x\nlong name  1,000  y\n";
        assert_eq!(table.to_string(), want);
    }
}

#[cfg(test)]
mod error_tests {
    use super::told;

    /// "No such file or directory (os error 2)" stood twice in a line.
    #[test]
    fn a_reason_is_told_once() {
        let system = std::io::Error::from_raw_os_error(2);
        let reason = system.to_string();
        let own = nilometer::Error::from(nilometer_service::Error::Threads {
            what: "queries",
            source: system,
        });
        let error = anyhow::Error::from(own).context("the store does not open");
        let text = told(&error);
        assert_eq!(text.matches(&reason).count(), 1, "{text}");
        assert!(
            text.starts_with("the store does not open: cannot start"),
            "{text}"
        );
    }
}
