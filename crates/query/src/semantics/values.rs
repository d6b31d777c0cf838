//! Values whose types are more than the library's: arrays, bytes, JSON.

pub(crate) mod arrays;
pub(crate) mod bytea;
pub(crate) mod json_order;
