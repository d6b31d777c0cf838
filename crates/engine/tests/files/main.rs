//! Files of a data directory: their layout, damage, repair, copies, and those of earlier versions.

mod backup;
#[path = "../support/copy.rs"]
mod copy;
mod damage;
mod definition_files;
#[path = "../support/files.rs"]
mod files;
mod golden_store;
mod index_damage;
mod index_files;
mod quarantine;
mod repair;
#[path = "../support/rich.rs"]
mod rich;
mod scrub;
#[path = "../support/mod.rs"]
mod support;
mod upgrade;
mod verify;
