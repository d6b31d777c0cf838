//! Names and tables of a snapshot, as the planner sees them.

pub(crate) mod catalogue;
pub(crate) mod describe;
pub(crate) mod names;
pub(crate) mod relation;
pub(crate) mod system;
pub(crate) mod table;
pub(crate) mod view;
