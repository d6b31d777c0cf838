//! Damage: found, put aside, mended, and told of.

pub(in crate::engine) mod damaged;
pub(in crate::engine) mod mend;
pub(in crate::engine) mod quarantine;
pub(in crate::engine) mod rescue;
pub(in crate::engine) mod scrub;
pub(in crate::engine) mod verify;
