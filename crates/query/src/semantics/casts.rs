//! Casts as `PostgreSQL` has them: of the type that they say, and rounded to integers.

pub(crate) mod rounding;
pub(crate) mod typed;
