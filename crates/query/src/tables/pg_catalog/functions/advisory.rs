//! Advisory locks of a session: `pg_advisory_lock` and its kin.

use nilometer_service::{AdvisoryKey, AdvisoryMode, AdvisoryNumber};
use std::sync::Arc;

use super::call::{Answer, Asked, Call, number};
use crate::error::Error;
use crate::tables::pg_catalog::cells::Cell;
use crate::tables::pg_catalog::values::Returns::{Bool, Text};

const fn mode(is_shared: bool, of_transaction: bool) -> AdvisoryMode {
    AdvisoryMode {
        is_shared,
        of_transaction,
    }
}

const SESSION: AdvisoryMode = mode(false, false);
const SESSION_SHARED: AdvisoryMode = mode(true, false);
const TRANSACTION: AdvisoryMode = mode(false, true);
const TRANSACTION_SHARED: AdvisoryMode = mode(true, true);

pub(super) const CALLS: &[Call] = &[
    Call::new("pg_advisory_lock", (1, 2), Text, |asked, cells| {
        take(asked, cells, SESSION)
    })
    .volatile(),
    Call::new("pg_advisory_lock_shared", (1, 2), Text, |asked, cells| {
        take(asked, cells, SESSION_SHARED)
    })
    .volatile(),
    Call::new("pg_advisory_xact_lock", (1, 2), Text, |asked, cells| {
        take(asked, cells, TRANSACTION)
    })
    .volatile(),
    Call::new(
        "pg_advisory_xact_lock_shared",
        (1, 2),
        Text,
        |asked, cells| take(asked, cells, TRANSACTION_SHARED),
    )
    .volatile(),
    Call::new("pg_try_advisory_lock", (1, 2), Bool, |asked, cells| {
        try_take(asked, cells, SESSION)
    })
    .volatile(),
    Call::new(
        "pg_try_advisory_lock_shared",
        (1, 2),
        Bool,
        |asked, cells| try_take(asked, cells, SESSION_SHARED),
    )
    .volatile(),
    Call::new("pg_try_advisory_xact_lock", (1, 2), Bool, |asked, cells| {
        try_take(asked, cells, TRANSACTION)
    })
    .volatile(),
    Call::new(
        "pg_try_advisory_xact_lock_shared",
        (1, 2),
        Bool,
        |asked, cells| try_take(asked, cells, TRANSACTION_SHARED),
    )
    .volatile(),
    Call::new("pg_advisory_unlock", (1, 2), Bool, |asked, cells| {
        free(asked, cells, false)
    })
    .volatile(),
    Call::new("pg_advisory_unlock_shared", (1, 2), Bool, |asked, cells| {
        free(asked, cells, true)
    })
    .volatile(),
    Call::new("pg_advisory_unlock_all", (0, 0), Text, |asked, _| {
        if let Some(client) = asked.reading.reader().client {
            client.locks.free_all(false);
        }
        Ok("".into())
    })
    .volatile(),
];

/// The lock that a call is about: a number, or two of 32 bits.
fn key(asked: &Asked, cells: &[Cell]) -> Result<AdvisoryKey, Error> {
    let beyond = || Error::Execution {
        message: "integer out of range".to_owned(),
    };
    let first = number(cells, 0).ok_or_else(beyond)?;
    let number = if cells.len() == 2 {
        let second = number(cells, 1).ok_or_else(beyond)?;
        let narrow = |number: i64| i32::try_from(number).map_err(|_| beyond());
        AdvisoryNumber::Pair(narrow(first)?, narrow(second)?)
    } else {
        AdvisoryNumber::One(first)
    };
    Ok(AdvisoryKey {
        database: asked.database.clone(),
        number,
    })
}

fn alone() -> Error {
    Error::Unsupported {
        statement: "an advisory lock without a session".to_owned(),
        instead: "take it over the protocol of PostgreSQL, where a connection has one",
    }
}

fn take(asked: &Asked, cells: &[Cell], mode: AdvisoryMode) -> Answer {
    let key = key(asked, cells)?;
    let client = asked.reading.reader().client.ok_or_else(alone)?;
    let statement = std::ptr::from_ref(asked).addr();
    let locks = Arc::clone(asked.reading.advisory_locks());
    client.locks.take(&locks, statement, &key, mode)?;
    Ok("".into())
}

fn try_take(asked: &Asked, cells: &[Cell], mode: AdvisoryMode) -> Answer {
    let key = key(asked, cells)?;
    let client = asked.reading.reader().client.ok_or_else(alone)?;
    let locks = asked.reading.advisory_locks();
    Ok(client.locks.try_take(locks, &key, mode).into())
}

fn free(asked: &Asked, cells: &[Cell], is_shared: bool) -> Answer {
    let key = key(asked, cells)?;
    let client = asked.reading.reader().client.ok_or_else(alone)?;
    Ok(client.locks.free(&key, is_shared).into())
}
