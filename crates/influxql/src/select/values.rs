//! Values, rows and points, and expressions over them.

pub(crate) mod eval;
pub(crate) mod points;
pub(crate) mod rows;
pub(crate) mod value;
