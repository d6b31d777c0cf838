//! The clients of a server that is about to be killed: writers, and a reader that trusts nothing.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::ledger::{self, BATCH_ROWS, DB, Ledger, WRITERS};
use crate::support::{Server, rows};

/// Whether the server was killed on purpose, so that a broken connection is no failure.
#[derive(Debug, Default)]
pub(super) struct Killed(AtomicBool);

impl Killed {
    /// To be called before the kill.
    pub(super) fn announce(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn assert_announced(&self, server: &Server, error: &ureq::Error) {
        let is_announced = self.0.load(Ordering::SeqCst);
        assert!(
            is_announced,
            "{error}, and nobody killed the server; it said: {}",
            server.stderr()
        );
    }
}

/// Makes the tables, so that every later question has an answer.
pub(super) fn write_first_batches(server: &Server, ledger: &mut Ledger) {
    for writer in 0..WRITERS {
        let batch = ledger.begin(writer);
        let response = server.write(DB, &ledger::lines(writer, batch));
        assert_eq!(response.status, 204, "{}", response.text());
        ledger.acknowledge(writer, batch);
    }
}

/// Writes one batch after the other until the connection breaks.
pub(super) fn write_until_killed(
    server: &Server,
    ledger: &Mutex<Ledger>,
    killed: &Killed,
    writer: usize,
) {
    loop {
        let batch = ledger::lock(ledger).begin(writer);
        match server.try_write(DB, ledger::lines(writer, batch).as_bytes(), None) {
            Ok(response) => {
                assert_eq!(response.status, 204, "{}", response.text());
                ledger::lock(ledger).acknowledge(writer, batch);
            }
            Err(error) => return killed.assert_announced(server, &error),
        }
    }
}

/// Reads this round's batches until the connection breaks: none is torn, none that was acknowledged before the
/// question is missing, and each that was shown must survive.
pub(super) fn query_until_killed(server: &Server, ledger: &Mutex<Ledger>, killed: &Killed) {
    let first = {
        let ledger = ledger::lock(ledger);
        (0..WRITERS)
            .map(|writer| ledger.next(writer))
            .min()
            .unwrap_or_default()
    };
    let sql = format!(
        "SELECT writer, batch, count(*) AS rows FROM ledger WHERE batch >= {first} GROUP BY writer, batch"
    );
    loop {
        let due = {
            let ledger = ledger::lock(ledger);
            std::array::from_fn::<_, WRITERS, _>(|writer| ledger.kept_from(writer, first))
        };
        let response = match server.try_query(DB, &sql, "json") {
            Ok(response) => response,
            Err(error) => return killed.assert_announced(server, &error),
        };
        let mut shown = Vec::new();
        for row in rows(&sql, &response) {
            assert_eq!(
                row["rows"], BATCH_ROWS,
                "a query shows a part of a batch: {row:?}"
            );
            shown.push(ledger::identity(&row));
        }
        for (writer, due) in due.iter().enumerate() {
            for &batch in due {
                assert!(
                    shown.contains(&(writer, batch)),
                    "acknowledged batch {batch} of writer {writer} is not shown"
                );
            }
        }
        let mut ledger = ledger::lock(ledger);
        for (writer, batch) in shown {
            ledger.show(writer, batch);
        }
    }
}
