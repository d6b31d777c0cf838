//! `nilometer edge`: images of a microcontroller's flash, and keys of devices.
//!
//! Does: read images, print what is in them, send their pages to a server as the device would. Does not: change an image.

mod inspect;
mod push;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand};

use crate::commands::serve::read_device_secret;
use crate::print;

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum EdgeCommand {
    /// Show what the image of a flash holds: sectors, pages, series, time ranges, damage.
    Inspect(inspect::InspectArgs),
    /// Send the pages of an image to a server, from where the server has come to.
    Push(Box<push::PushArgs>),
    /// Print the key of a device.
    Key(KeyArgs),
}

/// An image of a flash.
#[derive(Debug, Args)]
struct ImageArgs {
    /// Image of the flash, from the first sector of the store to its last.
    #[arg(value_name = "FILE")]
    image: PathBuf,
    /// Size of a sector; found by itself unless sectors are no multiples of 1024 bytes.
    #[arg(long, value_name = "BYTES")]
    sector_bytes: Option<usize>,
}

/// Which key to print.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nilometer edge key --edge-secret-file edge.secret --device attic > attic.key\n  nilometer edge key --edge-secret-file edge.secret --device attic --number 2 --database plant > attic.key"
)]
pub(crate) struct KeyArgs {
    /// File with the server's secret that keys of devices are derived from.
    #[arg(long, value_name = "FILE", env = "NILOMETER_EDGE_SECRET_FILE")]
    edge_secret_file: PathBuf,
    /// Name of the device.
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    device: String,
    /// Number of the key: the next one once a key of the device was revoked.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    number: u32,
    /// The one database that the key opens; without it, those that the server lists in edge-databases.
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    database: Option<String>,
}

/// A name as requests have it: other keys would not be told apart by their texts.
fn parse_name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err("give a name without control characters".to_owned());
    }
    Ok(text.to_owned())
}

pub(crate) fn run(command: EdgeCommand) -> anyhow::Result<()> {
    match command {
        EdgeCommand::Inspect(args) => inspect::run(&args),
        EdgeCommand::Push(args) => push::run(&args),
        EdgeCommand::Key(args) => {
            let secret = read_device_secret(&args.edge_secret_file)?;
            let database = args.database.as_deref();
            let key = secret.key_of(&args.device, args.number, database);
            print::line(key.to_hex());
            Ok(())
        }
    }
}

impl ImageArgs {
    fn read(&self) -> anyhow::Result<Vec<u8>> {
        read(&self.image)
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
