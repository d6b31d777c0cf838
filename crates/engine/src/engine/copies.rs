//! Copies of a store: backups, and back again.

pub(in crate::engine) mod backup;
pub(in crate::engine) mod restore;
