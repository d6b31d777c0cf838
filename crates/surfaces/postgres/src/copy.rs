//! COPY: rows in and out as a stream of text, CSV or binary.
//!
//! Does: read the statement, read and write the three formats. Does not: talk to a client (`connection/copying.rs` does), or store
//! rows; the service does, all of a COPY as one batch.

mod binary;
mod csv;
mod delimited;
pub(crate) mod format;
pub(crate) mod rows_in;
pub(crate) mod statement;
mod target;
