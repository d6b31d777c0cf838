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
    after_help = "Example:\n  nilometer edge key --edge-secret-file edge.secret --device attic > attic.key"
)]
pub(crate) struct KeyArgs {
    /// File with the server's secret that keys of devices are derived from.
    #[arg(long, value_name = "FILE", env = "NILOMETER_EDGE_SECRET_FILE")]
    edge_secret_file: PathBuf,
    /// Name of the device.
    #[arg(long, value_name = "NAME")]
    device: String,
}

pub(crate) fn run(command: EdgeCommand) -> anyhow::Result<()> {
    match command {
        EdgeCommand::Inspect(args) => inspect::run(&args),
        EdgeCommand::Push(args) => push::run(&args),
        EdgeCommand::Key(args) => {
            let secret = read_device_secret(&args.edge_secret_file)?;
            print::line(secret.key(&args.device).to_hex());
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
