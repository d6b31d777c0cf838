//! The TStorage surface, asked by a client that was written from the protocol's description.

#![expect(
    clippy::unwrap_used,
    reason = "what fails to unwrap fails the test, with the line"
)]
#![expect(
    clippy::similar_names,
    reason = "cid, mid and moid are the protocol's words for the parts of a key"
)]

mod acquisition;
mod boxes;
mod client;
mod damage;
mod large;
mod protocol;
mod server;
mod streams;
mod tables;
