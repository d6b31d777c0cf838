//! Output of import and export: a question, and progress.

use std::io::Write;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A question to whoever sits at the terminal.
pub(crate) fn ask(question: &str) {
    drop(write!(std::io::stderr(), "{question}"));
}

/// A count of rows whose number is not known, on standard error, or nothing where that is no terminal.
pub(crate) fn row_counter(what: &'static str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) =
        ProgressStyle::with_template("{prefix:>9} {human_pos} rows, {per_sec}, {elapsed}")
    {
        bar.set_style(style);
    }
    bar.set_prefix(what);
    bar
}

/// A bar for `total` bytes with a message beside it, on standard error, or nothing where that is no terminal. Without a
/// total it only counts.
pub(crate) fn byte_bar(what: &'static str, total: u64) -> ProgressBar {
    let length = (total > 0).then_some(total);
    let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
    let template = match length {
        Some(_) => {
            "{prefix:>9} [{bar:30}] {bytes}/{total_bytes}, {msg}, {bytes_per_sec}, {eta} left"
        }
        None => "{prefix:>9} {bytes}, {msg}, {bytes_per_sec}",
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_prefix(what);
    bar
}
