//! Damage: found, put aside, mended, and told of.

pub(in crate::engine) mod damaged;
pub(in crate::engine) mod quarantine;
pub(in crate::engine) mod salvage_index;
pub(in crate::engine) mod salvage_segment;
pub(in crate::engine) mod scrub;
pub(in crate::engine) mod verify;
