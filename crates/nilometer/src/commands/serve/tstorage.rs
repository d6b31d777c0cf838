//! Settings of the TStorage surface, and its socket.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use clap::Args;
use nilometer_engine::Options;
use nilometer_listener::Tls;
use nilometer_service::{ServiceOptions, Surface};
use nilometer_tstorage::{TableName, Tstorage, TstorageConfig};
use tokio::net::TcpListener;

use super::{ServeArgs, parse_address, read};
use crate::print;

const CLIENT_CA: &str = "--tstorage-client-ca";

/// What clients of TStorage connect to.
#[derive(Debug, Args)]
#[command(next_help_heading = "TStorage")]
#[expect(clippy::struct_field_names, reason = "they are the names of the flags")]
pub(crate) struct TstorageArgs {
    /// Address to listen on for clients of TStorage, which ask at port 2025; port 0 picks a free port. Without it there is no
    /// such listener.
    #[arg(long, value_name = "ADDRESS", env = "NILOMETER_TSTORAGE_BIND", value_parser = parse_address)]
    tstorage_bind: Option<SocketAddr>,
    /// Table of the records of TStorage's clients: database.table or database.schema.table; the first PUT makes it.
    #[arg(long, value_name = "NAME", env = "NILOMETER_TSTORAGE_TABLE", default_value_t = TstorageConfig::default().table)]
    tstorage_table: TableName,
    /// User whose privileges all clients of TStorage have: their protocol has no login. Needed where clients are asked who
    /// they are.
    #[arg(long, value_name = "USER", env = "NILOMETER_TSTORAGE_ROLE")]
    tstorage_role: Option<String>,
    /// Speak TLS with clients of TStorage, with the certificate of --tls-cert.
    #[arg(long, env = "NILOMETER_TSTORAGE_TLS")]
    tstorage_tls: bool,
    /// PEM file with the certificates that must vouch for the certificate of every client of TStorage; they speak TLS then.
    #[arg(long, value_name = "FILE", env = "NILOMETER_TSTORAGE_CLIENT_CA")]
    tstorage_client_ca: Option<PathBuf>,
    /// Open connections of clients of TStorage at the same time.
    #[arg(long, value_name = "N", env = "NILOMETER_TSTORAGE_CONNECTIONS_MAX", default_value_t = TstorageConfig::default().connections_max)]
    tstorage_connections_max: usize,
    /// Largest payload of a record of TStorage, in bytes; with --tstorage-bind, values of fields may be that large too.
    #[arg(long, value_name = "BYTES", env = "NILOMETER_TSTORAGE_PAYLOAD_BYTES_MAX", default_value_t = TstorageConfig::default().payload_bytes_max)]
    tstorage_payload_bytes_max: usize,
    /// Time limit for a client of TStorage to go on with a request that has begun, or to take the next bytes of its answer, in
    /// milliseconds.
    #[arg(long, value_name = "MS", env = "NILOMETER_TSTORAGE_STALL_MS_MAX", default_value_t = TstorageConfig::default().stall_ms_max)]
    tstorage_stall_ms_max: u64,
}

impl TstorageArgs {
    /// Where clients come, and what the surface does; `None` = there is none.
    pub(super) fn surface(
        &self,
        serve: &ServeArgs,
        service: &ServiceOptions,
    ) -> anyhow::Result<Option<(SocketAddr, TstorageConfig)>> {
        let Some(address) = self.tstorage_bind else {
            return Ok(None);
        };
        ensure!(
            self.tstorage_role.is_some() || !(service.auth || service.token.is_some()),
            "--tstorage-bind is set and clients are asked who they are, which clients of TStorage cannot say; name the user that they all are with --tstorage-role"
        );
        ensure!(
            address.ip().is_loopback() || self.tstorage_client_ca.is_some() || serve.insecure,
            "cannot listen on {address} for clients of TStorage: other machines reach it, and the protocol asks nobody who they are; ask for certificates of clients with --tstorage-client-ca, listen on 127.0.0.1, or allow it with --insecure"
        );
        Ok(Some((
            address,
            TstorageConfig {
                table: self.tstorage_table.clone(),
                role: self.tstorage_role.clone(),
                tls: self.tls(serve)?,
                connections_max: self.tstorage_connections_max,
                payload_bytes_max: self.tstorage_payload_bytes_max,
                stall_ms_max: self.tstorage_stall_ms_max,
            },
        )))
    }

    fn tls(&self, serve: &ServeArgs) -> anyhow::Result<Option<Tls>> {
        if !self.tstorage_tls && self.tstorage_client_ca.is_none() {
            return Ok(None);
        }
        let (Some(cert), Some(key)) = (&serve.access.tls_cert, &serve.access.tls_key) else {
            bail!("TLS for clients of TStorage needs a certificate; set --tls-cert and --tls-key");
        };
        let (cert, key) = (read("--tls-cert", cert)?, read("--tls-key", key)?);
        let clients = self.tstorage_client_ca.as_deref();
        let clients = clients.map(|path| read(CLIENT_CA, path)).transpose()?;
        let clients = clients.as_ref().map(|file| (CLIENT_CA, file));
        Ok(Some(Tls::for_clients(&cert, &key, clients)?))
    }

    /// The options of a store that takes the payloads.
    pub(super) fn making_room(&self, mut options: Options) -> Options {
        if self.tstorage_bind.is_some() {
            let payload = self.tstorage_payload_bytes_max as u64;
            options.value_bytes_max = options.value_bytes_max.max(payload);
        }
        options
    }
}

/// The surface on its socket.
pub(super) async fn listen(
    address: SocketAddr,
    config: TstorageConfig,
) -> anyhow::Result<Box<dyn Surface>> {
    let listener = TcpListener::bind(address).await.with_context(|| {
        format!(
            "cannot listen on {address} for clients of TStorage; if another server is there, stop it or choose another --tstorage-bind, such as 127.0.0.1:0 for any free port"
        )
    })?;
    let address = listener
        .local_addr()
        .context("cannot tell the port of TStorage")?;
    let scheme = config.tls.as_ref().map_or("tstorage", |_| "tstorage+tls");
    print::line(format!("listening on {scheme}://{address}"));
    Ok(Box::new(Tstorage { listener, config }))
}
