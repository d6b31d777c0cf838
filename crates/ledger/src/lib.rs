//! The survival ledger: proof that what a server acknowledged stays, whatever becomes of it.
//!
//! Does: drive the real program as a client, from outside, through kills, power cuts, full and failing disks and damaged
//! files; journal every batch before it is sent; read everything back and count what is missing, doubled or altered.
//! Does not: depend on any crate of the workspace, so that it shares no mistake with what it judges.
//! Next: `trial.rs` has the kinds of faults, `ledger.rs` what is judged, docs/guide/reliability.md the promises.

pub mod bad_input;
pub mod batch;
pub mod disk;
pub mod http;
pub mod influx;
pub mod journal;
pub mod ledger;
pub mod life;
pub mod load;
pub mod mutate;
pub mod peer;
pub mod random;
pub mod read_back;
pub mod server;
pub mod tally;
pub mod trial;
