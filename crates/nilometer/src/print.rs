//! The one place that writes to the terminal.
#![expect(clippy::print_stderr, reason = "printing is what this module is for")]

use std::io::Write;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A line of the answer.
pub(crate) fn line(text: impl std::fmt::Display) {
    // Someone who closed the pipe, as `head` does, has seen enough.
    drop(writeln!(std::io::stdout(), "{text}"));
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
    eprintln!("error: {error:#}");
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
