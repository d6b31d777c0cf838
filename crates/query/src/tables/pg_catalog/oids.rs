//! Numbers of objects (OIDs): the same after every start, since they come from the ids that the store keeps.
//!
//! A number of the store's own objects is at least 16384, as with PostgreSQL, and below 2^31, which every client reads. Kinds of
//! objects have ranges of their own. What the store has no id for (views, users, checks, defaults) gets its number from its name. Two objects of
//! one number are possible where ids are larger than a range (2^26 tables) or two names have one hash (one chance in 2^28 for
//! two views); both stay readable by name.

use nilometer_engine::{RelationId, SchemaId, TableId};

/// The owner of everything: the first user of PostgreSQL has this number.
pub(super) const OWNER: i64 = 10;
pub(super) const PG_CATALOG_OID: i64 = 11;
/// `information_schema`, and our own `system`: numbers that PostgreSQL gives while a cluster is made.
pub(super) const INFORMATION_SCHEMA_OID: i64 = 13_000;
pub(super) const SYSTEM_SCHEMA_OID: i64 = 13_001;
pub(super) const TIMESCALEDB_INFORMATION_OID: i64 = 13_002;
/// What there is of `timescaledb` as an extension.
pub(super) const TIMESCALEDB: i64 = 13_003;
pub(super) const PUBLIC_OID: i64 = 2200;

const DATABASES: i64 = 16_384;
const TABLES: i64 = 0x0010_0000;
const RELATIONS: i64 = 0x0800_0000;
const INDEXES: i64 = 0x1000_0000;
const CONSTRAINTS: i64 = 0x2000_0000;
const SCHEMAS: i64 = 0x3000_0000;
const VIEWS: i64 = 0x4000_0000;
const USERS: i64 = 0x5000_0000;
const TABLE_INDEXES: i64 = 0x6000_0000;
const PARTS: i64 = 0x7000_0000;

/// Keys of one relation that have numbers beside each other.
const KEYS: u64 = 16;

pub(super) fn database(id: u32) -> i64 {
    DATABASES + i64::from(id % 0x000f_0000)
}

pub(super) fn schema(id: SchemaId, name: &str) -> i64 {
    if name == "public" {
        return PUBLIC_OID;
    }
    SCHEMAS + i64::from(id.0 & 0x0fff_ffff)
}

pub(super) fn table(id: TableId) -> i64 {
    TABLES + i64::from(id.0 & 0x03ff_ffff)
}

/// The index of a table whose rows have a key.
pub(super) fn table_index(id: TableId) -> i64 {
    TABLE_INDEXES + i64::from(id.0 & 0x0fff_ffff)
}

pub(super) fn relation(id: RelationId) -> i64 {
    RELATIONS + low(id.0, 0x07ff_ffff)
}

/// The index of the n-th key of a relation, from 0 for the primary one.
pub(super) fn index(id: RelationId, key: usize) -> i64 {
    INDEXES + low(id.0 * KEYS + key as u64 % KEYS, 0x0fff_ffff)
}

/// The constraint of the same key.
pub(super) fn constraint(id: RelationId, key: usize) -> i64 {
    CONSTRAINTS + low(id.0 * KEYS + key as u64 % KEYS, 0x0fff_ffff)
}

pub(super) fn view(schema: i64, name: &str) -> i64 {
    VIEWS + hashed(&[&schema.to_string(), name])
}

/// A CHECK of a table, by its name.
pub(super) fn check(table: i64, name: &str) -> i64 {
    PARTS + hashed(&[&table.to_string(), name])
}

/// The default of the n-th column of a table, from 1.
pub(super) fn default(table: i64, column: usize) -> i64 {
    PARTS + hashed(&[&table.to_string(), &column.to_string()])
}

/// An index that is kept as it was written, by its schema and name.
pub(super) fn kept_index(schema: i64, name: &str) -> i64 {
    PARTS + hashed(&["index", &schema.to_string(), name])
}

/// A sequence, by its schema and name.
pub(super) fn sequence(schema: i64, name: &str) -> i64 {
    PARTS + hashed(&["sequence", &schema.to_string(), name])
}

/// An enumeration, by its schema and name.
pub(super) fn enumeration(schema: i64, name: &str) -> i64 {
    PARTS + hashed(&["type", &schema.to_string(), name])
}

pub(super) fn user(name: &str) -> i64 {
    USERS + hashed(&[name])
}

fn low(id: u64, mask: u64) -> i64 {
    i64::try_from(id & mask).unwrap_or_default()
}

/// FNV-1a, which is the same in every version of the program.
fn hashed(parts: &[&str]) -> i64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in parts.join("\0").bytes() {
        hash ^= u64::from(byte);
        hash = hash.wrapping_mul(0x0100_0000_01b3);
    }
    low(hash ^ (hash >> 32), 0x0fff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients keep numbers across restarts of the server; another version of it gives the same.
    #[test]
    fn numbers_stay_what_they_are() {
        assert_eq!(table(TableId(7)), 1_048_583);
        assert_eq!(relation(RelationId(7)), 134_217_735);
        assert_eq!(index(RelationId(7), 1), 268_435_569);
        assert_eq!(schema(SchemaId(3), "public"), 2200);
        // FNV-1a of "ada" is 0xe70bc0190530e13b, by the definition of the function.
        assert_eq!(hashed(&["ada"]), 0x023b_2122);
        let largest = [
            table(TableId(u32::MAX)),
            relation(RelationId(u64::MAX / 16)),
            index(RelationId(u64::MAX / 16), 99),
            user("somebody"),
            table_index(TableId(u32::MAX)),
            check(table(TableId(u32::MAX)), "cheap"),
            default(table(TableId(u32::MAX)), 1),
        ];
        assert!(largest.iter().all(|oid| (16_384..1 << 31).contains(oid)));
    }
}
