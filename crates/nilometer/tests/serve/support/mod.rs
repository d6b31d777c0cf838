//! What every test of the binary needs: a server process that always ends, and an HTTP client for it.
//! Does not know any table or answer; those are in the modules beside this one.

mod command;
mod http;
mod instant;
mod scratch;
mod server;
mod terminal;

use std::thread;
use std::time::{Duration, Instant};

pub(crate) use command::{Run, bash, nilometer, nilometer_with};
pub(crate) use http::{Response, Row, gzip};
pub(crate) use instant::nanoseconds;
pub(crate) use scratch::Scratch;
pub(crate) use server::{Outcome, Server, binary, finish, rows, run, serve};
pub(crate) use terminal::Terminal;

/// How long any single wait may take before the test fails. Generous, because no promise is about speed here.
pub(crate) const WAIT_MAX: Duration = Duration::from_mins(1);

/// Asks again and again until there is an answer, or fails with what was waited for.
pub(crate) fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + WAIT_MAX;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(
            Instant::now() < deadline,
            "waited {WAIT_MAX:?} in vain for {what}"
        );
        thread::sleep(Duration::from_millis(2));
    }
}
