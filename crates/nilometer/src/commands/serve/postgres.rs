//! Settings of the socket for clients of PostgreSQL, which speak SQL and nothing else.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::Context;
use clap::Args;
use nilometer_listener::Tls;
use nilometer_postgres::{Postgres, PostgresConfig};
use nilometer_service::Surface;
use tokio::net::TcpListener;

use super::{Settings, parse_address};
use crate::print;

/// What clients of PostgreSQL connect to.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "PostgreSQL")]
#[expect(clippy::struct_field_names, reason = "they are the names of the flags")]
pub(super) struct PostgresArgs {
    /// Address to listen on for clients of PostgreSQL; port 0 picks a free port, off = none. If this is not set and the
    /// port is taken, the server starts without it.
    #[arg(long, value_name = "ADDRESS", env = "NILOMETER_PG_BIND", default_value_t = PgBind::default(), value_parser = parse_pg_bind)]
    pg_bind: PgBind,
    /// Open connections of clients of PostgreSQL at the same time.
    #[arg(long, value_name = "N", env = "NILOMETER_PG_CONNECTIONS_MAX", default_value_t = PostgresConfig::default().connections_max)]
    pg_connections_max: usize,
    /// Time limit for a client of PostgreSQL to connect and log in, in milliseconds.
    #[arg(long, value_name = "MS", env = "NILOMETER_PG_STARTUP_MS_MAX", default_value_t = PostgresConfig::default().startup_ms_max)]
    pg_startup_ms_max: u64,
    /// Largest message of a client of PostgreSQL, in bytes.
    #[arg(long, value_name = "BYTES", env = "NILOMETER_PG_MESSAGE_BYTES_MAX", default_value_t = PostgresConfig::default().message_bytes_max)]
    pg_message_bytes_max: usize,
}

/// Where clients of PostgreSQL come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum PgBind {
    /// This machine alone, at a port beside PostgreSQL's own, unless somebody is there.
    #[default]
    Default,
    /// Where it was said, or the server does not start.
    At(SocketAddr),
    Off,
}

/// A default that takes no port from anybody.
const PG_DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 5433);

impl fmt::Display for PgBind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("127.0.0.1:5433 if free"),
            Self::At(address) => address.fmt(f),
            Self::Off => f.write_str("off"),
        }
    }
}

fn parse_pg_bind(text: &str) -> Result<PgBind, String> {
    match text {
        "off" => Ok(PgBind::Off),
        // As it is shown, so that what `nilometer config` writes can be read again.
        "127.0.0.1:5433 if free" => Ok(PgBind::Default),
        text => parse_address(text).map(PgBind::At),
    }
}

impl PostgresArgs {
    /// What other machines reach needs there what HTTP needs there.
    pub(super) fn check(&self, settings: &Settings) -> anyhow::Result<()> {
        match self.pg_bind {
            PgBind::At(address) => settings.check_bind(address),
            PgBind::Default | PgBind::Off => Ok(()),
        }
    }

    /// The surface on its socket; `None` = none is wanted, or the default one is taken.
    pub(super) async fn listen(
        &self,
        tls: Option<Tls>,
    ) -> anyhow::Result<Option<Box<dyn Surface>>> {
        let Some(listener) = self.bind().await? else {
            return Ok(None);
        };
        let address = listener
            .local_addr()
            .context("cannot tell the port of PostgreSQL")?;
        print::line(format!("listening on postgresql://{address}"));
        let config = PostgresConfig {
            tls,
            connections_max: self.pg_connections_max,
            startup_ms_max: self.pg_startup_ms_max,
            message_bytes_max: self.pg_message_bytes_max,
        };
        Ok(Some(Box::new(Postgres { listener, config })))
    }

    async fn bind(&self) -> anyhow::Result<Option<TcpListener>> {
        let (address, is_named) = match self.pg_bind {
            PgBind::Off => return Ok(None),
            PgBind::Default => (PG_DEFAULT, false),
            PgBind::At(address) => (address, true),
        };
        match TcpListener::bind(address).await {
            Ok(listener) => Ok(Some(listener)),
            Err(error) if is_named => Err(error).with_context(|| {
                format!(
                    "cannot listen on {address} for clients of PostgreSQL; if another server is there, stop it or choose another --pg-bind, such as 127.0.0.1:0 for any free port or off"
                )
            }),
            Err(error) => {
                tracing::warn!(
                    %error,
                    "clients of PostgreSQL are not served: {address} is taken; choose another --pg-bind, such as 127.0.0.1:0 for any free port, or off"
                );
                Ok(None)
            }
        }
    }
}
