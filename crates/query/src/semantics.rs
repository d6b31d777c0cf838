//! Rules of `PostgreSQL` that the library does not follow: each file adds one to the planner.

pub(crate) mod cast_rounding;
pub(crate) mod checked;
pub(crate) mod clocks;
pub(crate) mod distinct_on;
pub(crate) mod float_key;
pub(crate) mod intervals;
pub(crate) mod lateral;
pub(crate) mod logic;
pub(crate) mod merged;
pub(crate) mod numbers;
pub(crate) mod outer;
pub(crate) mod set_all;
pub(crate) mod times;
pub(crate) mod zone;
