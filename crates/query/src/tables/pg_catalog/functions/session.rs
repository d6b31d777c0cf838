//! The session and the server.

#![expect(clippy::unnecessary_wraps, reason = "calls have one signature")]

use super::call::{Answer, Asked, Call, number, text};
use crate::error::Error;
use crate::tables::pg_catalog::cells::Cell;
use crate::tables::pg_catalog::objects::Of;
use crate::tables::pg_catalog::values::Returns::{Bool, Int, Text, Texts};

/// What clients read the version of PostgreSQL from whose SQL this is.
const VERSION: &str = concat!(
    "PostgreSQL 15.0 (Nilometer ",
    env!("CARGO_PKG_VERSION"),
    ") on ",
    "64-bit, compiled by rustc"
);

pub(super) const CALLS: &[Call] = &[
    Call::new("version", (0, 0), Text, |_, _| Ok(VERSION.into())),
    Call::new("current_database", (0, 0), Text, database),
    Call::new("current_catalog", (0, 0), Text, database),
    Call::new("current_schema", (0, 0), Text, schema),
    Call::new("current_schemas", (1, 1), Texts, schemas),
    Call::new("current_user", (0, 0), Text, user),
    Call::new("session_user", (0, 0), Text, user),
    Call::new("current_role", (0, 0), Text, user),
    Call::new("user", (0, 0), Text, user),
    Call::new("current_setting", (1, 2), Text, setting),
    Call::new("set_config", (3, 3), Text, set_config).lenient(),
    Call::new("pg_backend_pid", (0, 0), Int, |asked, _| {
        let client = asked.reading.reader().client;
        Ok(client.map_or(0, |client| i64::from(client.process)).into())
    }),
    Call::new("pg_is_in_recovery", (0, 0), Bool, |_, _| Ok(false.into())),
    Call::new("pg_is_wal_replay_paused", (0, 0), Bool, |_, _| {
        Ok(false.into())
    }),
    // The number of what is visible stands for that of a transaction.
    Call::new("txid_current", (0, 0), Int, lsn),
    Call::new("pg_current_xact_id", (0, 0), Int, lsn),
    Call::new("inet_client_addr", (0, 0), Text, |_, _| Ok(Cell::Null)),
    Call::new("inet_client_port", (0, 0), Int, |_, _| Ok(Cell::Null)),
    Call::new("inet_server_addr", (0, 0), Text, |_, _| Ok(Cell::Null)),
    Call::new("inet_server_port", (0, 0), Int, |_, _| Ok(Cell::Null)),
    Call::new(
        "getdatabaseencoding",
        (0, 0),
        Text,
        |_, _| Ok("UTF8".into()),
    ),
    Call::new("pg_client_encoding", (0, 0), Text, |_, _| Ok("UTF8".into())),
    Call::new("pg_encoding_to_char", (1, 1), Text, |_, cells| {
        Ok(if number(cells, 0) == Some(6) {
            "UTF8"
        } else {
            ""
        }
        .into())
    }),
    Call::new("pg_char_to_encoding", (1, 1), Int, |_, cells| {
        let is_utf8 = text(cells, 0).is_some_and(|it| it.eq_ignore_ascii_case("utf8"));
        Ok(if is_utf8 { 6i64 } else { -1 }.into())
    }),
    Call::new("pg_my_temp_schema", (0, 0), Int, |_, _| Ok(0i64.into())),
    Call::new("pg_is_other_temp_schema", (1, 1), Bool, |_, _| {
        Ok(false.into())
    }),
    // What TimescaleDB's restore is put between; nothing has to be kept from running meanwhile.
    Call::new("timescaledb_pre_restore", (0, 0), Bool, |_, _| {
        Ok(true.into())
    }),
    Call::new("timescaledb_post_restore", (0, 0), Bool, |_, _| {
        Ok(true.into())
    }),
    Call::new("pg_size_pretty", (1, 1), Text, |_, cells| {
        Ok(number(cells, 0).map(pretty).into())
    }),
    Call::new("pg_relation_size", (1, 2), Int, relation_bytes),
    Call::new("pg_table_size", (1, 1), Int, relation_bytes),
    Call::new("pg_total_relation_size", (1, 1), Int, relation_bytes),
    Call::new("pg_indexes_size", (1, 1), Int, |_, _| Ok(0i64.into())),
    Call::new("pg_database_size", (1, 1), Int, database_bytes),
    Call::new("pg_tablespace_location", (1, 1), Text, |_, _| Ok("".into())),
    Call::new("pg_tablespace_size", (1, 1), Int, |asked, _| {
        let segments = asked.reading.snapshot().segments();
        let bytes: u64 = segments.iter().map(|segment| segment.bytes).sum();
        Ok(i64::try_from(bytes).unwrap_or(i64::MAX).into())
    }),
];

fn database(asked: &Asked, _: &[Cell]) -> Answer {
    Ok(asked.database.as_str().into())
}

fn schema(asked: &Asked, _: &[Cell]) -> Answer {
    Ok(asked.reading.reader().schema.into())
}

fn schemas(asked: &Asked, cells: &[Cell]) -> Answer {
    let own = asked.reading.reader().schema;
    Ok(Cell::Texts(match cells {
        [Cell::Bool(true)] => vec!["pg_catalog".to_owned(), own],
        _ => vec![own],
    }))
}

fn user(asked: &Asked, _: &[Cell]) -> Answer {
    Ok(asked.reading.reader().name().into())
}

fn lsn(asked: &Asked, _: &[Cell]) -> Answer {
    let lsn = asked.reading.snapshot().lsn();
    Ok(i64::try_from(lsn).unwrap_or(i64::MAX).into())
}

fn setting(asked: &Asked, cells: &[Cell]) -> Answer {
    let name = text(cells, 0).unwrap_or_default();
    let found = asked.reading.reader().setting(name);
    let may_miss = matches!(cells.get(1), Some(Cell::Bool(true)));
    match found {
        Some(value) => Ok(value.into()),
        None if may_miss => Ok(Cell::Null),
        None => Err(Error::UnknownName {
            what: "setting",
            name: name.to_owned(),
            nearest: None,
            position: None,
        }),
    }
}

/// Settings on which nothing depends here: what they are set to is as good as kept.
const INERT: [&str; 4] = [
    "jit",
    "work_mem",
    "enable_seqscan",
    "max_parallel_workers_per_gather",
];

/// Inside of a query, where a setting of the session cannot be reached; alone in its SELECT, the session sees it first.
fn set_config(_: &Asked, cells: &[Cell]) -> Answer {
    let name = text(cells, 0).unwrap_or_default().to_lowercase();
    if INERT.contains(&name.as_str()) {
        return Ok(text(cells, 1).into());
    }
    Err(Error::Unsupported {
        statement: "set_config in a query".to_owned(),
        instead: "send SELECT set_config(...) by itself, with literals, or SET",
    })
}

/// Bytes of the files that hold rows of one table only; those of several tables together are nobody's.
fn relation_bytes(asked: &Asked, cells: &[Cell]) -> Answer {
    let catalogue = asked.catalogue();
    let object = super::names::relation(&catalogue, cells.first());
    let Some(object) = object else {
        return Ok(Cell::Null);
    };
    let Of::Series(table) = &object.of else {
        return Ok(0i64.into());
    };
    let segments = asked.reading.snapshot().segments();
    let own = segments.iter().filter(|segment| {
        segment
            .partition
            .is_some_and(|(owner, ..)| owner == table.id)
    });
    let bytes: u64 = own.map(|segment| segment.bytes).sum();
    Ok(i64::try_from(bytes).unwrap_or(i64::MAX).into())
}

fn database_bytes(asked: &Asked, cells: &[Cell]) -> Answer {
    let catalogue = asked.catalogue();
    let mut databases = catalogue.databases.iter();
    let found = match cells.first() {
        Some(Cell::Int(oid)) => databases.find(|(_, known)| known == oid),
        Some(Cell::Text(name)) => databases.find(|(known, _)| known == name),
        _ => None,
    };
    let Some((name, _)) = found else {
        return Ok(Cell::Null);
    };
    let snapshot = asked.reading.snapshot();
    let mut tables = std::collections::HashSet::new();
    for schema in snapshot.schemas(name).unwrap_or_default() {
        for table in snapshot.tables(name, &schema).unwrap_or_default() {
            tables.extend(snapshot.table(name, &schema, &table).map(|it| it.id));
        }
    }
    let segments = snapshot.segments();
    let own = segments.iter().filter(|segment| {
        segment
            .partition
            .is_some_and(|(of, ..)| tables.contains(&of))
    });
    let bytes: u64 = own.map(|segment| segment.bytes).sum();
    Ok(i64::try_from(bytes).unwrap_or(i64::MAX).into())
}

/// As PostgreSQL shows a size: in a unit of which there are less than ten thousand.
fn pretty(bytes: i64) -> String {
    let mut size = bytes;
    // The least number has no absolute value of its type.
    if size.unsigned_abs() < 10 * 1024 {
        return format!("{size} bytes");
    }
    // One binary digit behind the point is kept to round by.
    size >>= 9;
    for unit in ["kB", "MB", "GB", "TB"] {
        if size.abs() < 20 * 1024 - 1 {
            return format!("{} {unit}", halved(size));
        }
        size >>= 10;
    }
    format!("{} PB", halved(size))
}

fn halved(size: i64) -> i64 {
    if size > 0 {
        (size + 1) / 2
    } else {
        (size - 1) / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What PostgreSQL 15 answers.
    #[test]
    fn sizes_are_shown_as_postgresql_shows_them() {
        for (bytes, shown) in [
            (0, "0 bytes"),
            (10_239, "10239 bytes"),
            (10_240, "10 kB"),
            (10_485_247, "10239 kB"),
            (10_485_248, "10 MB"),
            (1_048_576_000, "1000 MB"),
            (123_456_789_012, "115 GB"),
            (-20_000, "-20 kB"),
        ] {
            assert_eq!(pretty(bytes), shown, "{bytes}");
        }
    }
}
