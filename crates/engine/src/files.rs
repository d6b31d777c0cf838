//! Files of a data directory: their bytes, and what is kept of them in memory.
//!
//! Does: write, read and check each kind of file. Does not: decide when (`engine` does), or know what a row means to anybody.

pub(crate) mod checked_file;
pub(crate) mod definitions_file;
pub(crate) mod file_header;
pub(crate) mod index;
pub(crate) mod layout;
pub(crate) mod log;
pub(crate) mod manifest;
pub(crate) mod segment;
