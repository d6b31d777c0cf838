//! `nilometer serve`.

mod log;
#[cfg(feature = "sql")]
mod postgres;
mod tstorage;

use std::env::VarError;
use std::fs::File;
use std::io::Read;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::{ArgAction, Args, ValueEnum};
use nilometer_edge::{Edge, EdgeConfig};
use nilometer_http::{AccessLog, Hosts, HttpConfig, HttpSurface, Origins, Routes};
use nilometer_influx::{Influx, Udp, UdpConfig};
use nilometer_listener::{PemFile, Tls};
use nilometer_native::{Native, NativeConfig};
use nilometer_service::{
    DeviceSecret, JwtSecret, RevokedKeys, Service, ServiceOptions, ShownSetting, Surface, Threads,
    Token,
};
use nilometer_tstorage::TstorageConfig;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::print;
use crate::store::StoreArgs;
#[cfg(feature = "sql")]
use postgres::PostgresArgs;
use tstorage::TstorageArgs;

/// Holds the token itself, where a file is more trouble than it is worth: in containers.
pub(crate) const TOKEN_VARIABLE: &str = "NILOMETER_TOKEN";

/// Certificates and tokens are small; what is larger is some other file.
const SECRET_BYTES_MAX: u64 = 1 << 20;

/// Settings of a server. Each can also be set by an environment variable or in a file.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  nilometer serve --data ./data --http-bind 127.0.0.1:8086\n  curl --data-binary 'm,host=a v=1.5' 'localhost:8086/api/v3/write_lp?db=d'\n\nA flag overrides its environment variable, which overrides the file, which overrides the default;\n`nilometer config` shows the settings in force. NILOMETER_TOKEN can hold the access token itself."
)]
pub(crate) struct ServeArgs {
    /// TOML file with settings, named like the flags.
    #[arg(long, value_name = "FILE", env = "NILOMETER_CONFIG")]
    config: Option<PathBuf>,
    /// Data directory; created if it does not exist.
    #[arg(long, value_name = "DIR", env = "NILOMETER_DATA")]
    data: Option<PathBuf>,
    /// Address to listen on for HTTP; port 0 picks a free port.
    #[arg(long, value_name = "ADDRESS", env = "NILOMETER_HTTP_BIND", default_value = "127.0.0.1:8086", value_parser = parse_address)]
    http_bind: SocketAddr,
    /// Allow listening on a network address without TLS or without a token.
    #[arg(long, env = "NILOMETER_INSECURE")]
    insecure: bool,
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    influx: InfluxArgs,
    #[command(flatten)]
    edge: EdgeArgs,
    #[cfg(feature = "sql")]
    #[command(flatten)]
    postgres: PostgresArgs,
    #[command(flatten)]
    tstorage: TstorageArgs,
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    limits: LimitArgs,
}

/// Who may connect.
#[derive(Debug, Args)]
#[command(next_help_heading = "Access")]
struct AccessArgs {
    /// PEM file with the server's certificate, followed by its intermediate certificates.
    #[arg(long, value_name = "FILE", env = "NILOMETER_TLS_CERT")]
    tls_cert: Option<PathBuf>,
    /// PEM file with the private key of the certificate.
    #[arg(long, value_name = "FILE", env = "NILOMETER_TLS_KEY")]
    tls_key: Option<PathBuf>,
    /// File with the access token that every request except /health and /ping must present.
    #[arg(long, value_name = "FILE", env = "NILOMETER_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// Ask every client for the name and password of a user; with a token they are asked anyway.
    #[arg(long, env = "NILOMETER_AUTH")]
    auth: bool,
    /// Comma-separated origins (scheme, host and port) of web pages that may send requests from a browser; * = any.
    #[arg(long, value_name = "ORIGINS", env = "NILOMETER_HTTP_CORS_ORIGINS")]
    http_cors_origins: Option<Origins>,
    /// Host names of this server beside localhost, with commas between them; * = any. Without a token, a request on a
    /// loopback address under another name is refused.
    #[arg(long, value_name = "NAMES", env = "NILOMETER_HTTP_HOSTS")]
    http_hosts: Option<Hosts>,
}

/// What clients of InfluxDB have beside HTTP.
#[derive(Debug, Args)]
#[command(next_help_heading = "InfluxDB")]
#[expect(clippy::struct_field_names, reason = "they are the names of the flags")]
struct InfluxArgs {
    /// File with the secret of signed bearer tokens (JWT) that name a user; needs --auth.
    #[arg(long, value_name = "FILE", env = "NILOMETER_INFLUX_JWT_SECRET_FILE")]
    influx_jwt_secret_file: Option<PathBuf>,
    /// Address to receive line protocol on by UDP, which asks nobody who they are.
    #[arg(long, value_name = "ADDRESS", env = "NILOMETER_INFLUX_UDP_BIND", value_parser = parse_address)]
    influx_udp_bind: Option<SocketAddr>,
    /// Database of what comes by UDP; created if it does not exist.
    #[arg(long, value_name = "NAME", env = "NILOMETER_INFLUX_UDP_DATABASE", default_value_t = UdpConfig::default().database)]
    influx_udp_database: String,
    /// Lines that are written together of what comes by UDP.
    #[arg(long, value_name = "N", env = "NILOMETER_INFLUX_UDP_BATCH_LINES_MAX", default_value_t = UdpConfig::default().batch_lines_max)]
    influx_udp_batch_lines_max: usize,
    /// Longest wait of a line for others, in milliseconds.
    #[arg(long, value_name = "MS", env = "NILOMETER_INFLUX_UDP_BATCH_MS_MAX", default_value_t = UdpConfig::default().batch_ms_max)]
    influx_udp_batch_ms_max: u64,
}

/// What microcontrollers send to.
#[derive(Debug, Args)]
#[command(next_help_heading = "Devices")]
#[expect(clippy::struct_field_names, reason = "they are the names of the flags")]
struct EdgeArgs {
    /// File with the secret that keys of devices are derived from. With it devices sign what they send, and need no token.
    #[arg(long, value_name = "FILE", env = "NILOMETER_EDGE_SECRET_FILE")]
    edge_secret_file: Option<PathBuf>,
    /// File with the keys of devices that do not count any more: a line is the name of a device, or a number, a tab and the name of a device
    /// whose keys up to this number are revoked.
    #[arg(long, value_name = "FILE", env = "NILOMETER_EDGE_REVOKED_FILE")]
    edge_revoked_file: Option<PathBuf>,
    /// Databases that devices with a key may write to, separated by commas.
    #[arg(long, value_name = "NAMES", env = "NILOMETER_EDGE_DATABASES", default_value_t = EdgeConfig::default().databases.join(","))]
    edge_databases: String,
    /// Tag that says which device a series is of.
    #[arg(long, value_name = "NAME", env = "NILOMETER_EDGE_DEVICE_TAG", default_value_t = EdgeConfig::default().device_tag, value_parser = parse_tag)]
    edge_device_tag: String,
    /// Whether pages of devices are kept as they are until they are compacted; `false` keeps their rows only.
    #[arg(long, value_name = "BOOL", env = "NILOMETER_EDGE_KEEP_PAGES", default_value_t = EdgeConfig::default().keep_pages, action = ArgAction::Set)]
    edge_keep_pages: bool,
}

/// What is logged, to standard error.
#[derive(Debug, Args)]
#[command(next_help_heading = "Log")]
struct LogArgs {
    /// Format of log lines.
    #[arg(long, value_enum, env = "NILOMETER_LOG_FORMAT", default_value_t = log::Format::Text)]
    log_format: log::Format,
    /// Log level: error, warn, info, debug, trace, or a comma-separated list of `target=level`.
    #[arg(long, value_name = "LEVEL", env = "NILOMETER_LOG", default_value = "info", value_parser = log::parse_filter)]
    log_level: log::Filter,
    /// Log level of successful requests.
    #[arg(long, value_enum, env = "NILOMETER_ACCESS_LOG", default_value_t = AccessLevel::Debug)]
    access_log: AccessLevel,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum AccessLevel {
    Info,
    Debug,
}

/// Settings of a server, by the crate that they are for.
#[derive(Debug, Default)]
struct Settings {
    service: ServiceOptions,
    http: HttpConfig,
    native: NativeConfig,
    edge: EdgeConfig,
}

macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident: $kind:ty, $value_name:literal, $env:literal, $($path:ident).+;)*) => {
        /// Limits of requests.
        #[derive(Debug, Args)]
        #[command(next_help_heading = "Limits")]
        pub(crate) struct LimitArgs {
            $($(#[$doc])*
            #[arg(long, value_name = $value_name, env = $env, default_value_t = Settings::default().$($path).+)]
            $name: $kind,)*
        }

        impl LimitArgs {
            fn settings(&self) -> Settings {
                let mut settings = Settings::default();
                $(settings.$($path).+ = self.$name;)*
                settings
            }
        }
    };
}

limits! {
    /// Largest request body after decompression, in bytes.
    body_bytes_max: usize, "BYTES", "NILOMETER_BODY_BYTES_MAX", http.body_bytes_max;
    /// Largest compressed request body as sent, in bytes.
    body_compressed_bytes_max: usize, "BYTES", "NILOMETER_BODY_COMPRESSED_BYTES_MAX", http.body_compressed_bytes_max;
    /// How many times larger a body may become by decompression.
    body_ratio_max: usize, "N", "NILOMETER_BODY_RATIO_MAX", http.body_ratio_max;
    /// Memory for all request bodies at one time, in bytes.
    bodies_bytes_max: usize, "BYTES", "NILOMETER_BODIES_BYTES_MAX", service.bodies_bytes_max;
    /// Longest path and query string of a request, in bytes; send longer statements in the body.
    url_bytes_max: usize, "BYTES", "NILOMETER_URL_BYTES_MAX", http.url_bytes_max;
    /// Largest headers of a request, in bytes.
    header_bytes_max: usize, "BYTES", "NILOMETER_HEADER_BYTES_MAX", http.header_bytes_max;
    /// Time limit for receiving a request body, in milliseconds.
    body_read_ms_max: u64, "MS", "NILOMETER_BODY_READ_MS_MAX", http.body_read_ms_max;
    /// Time limit for receiving the headers of a request, in milliseconds.
    header_read_ms_max: u64, "MS", "NILOMETER_HEADER_READ_MS_MAX", http.header_read_ms_max;
    /// Time limit of a write, in milliseconds.
    write_ms_max: u64, "MS", "NILOMETER_WRITE_MS_MAX", service.write_ms_max;
    /// Writes that run at the same time.
    writes_max: usize, "N", "NILOMETER_WRITES_MAX", service.writes_max;
    /// Open connections at the same time.
    connections_max: usize, "N", "NILOMETER_CONNECTIONS_MAX", http.connections_max;
    /// Queries that run at the same time.
    queries_max: usize, "N", "NILOMETER_QUERIES_MAX", service.queries_max;
    /// Queries that may wait to run.
    queries_waiting_max: usize, "N", "NILOMETER_QUERIES_WAITING_MAX", service.queries_waiting_max;
    /// Largest body with pages of a device, in bytes.
    edge_body_bytes_max: usize, "BYTES", "NILOMETER_EDGE_BODY_BYTES_MAX", edge.body_bytes_max;
    /// Largest memory that the rows in one body of a device may take, in bytes.
    edge_rows_bytes_max: usize, "BYTES", "NILOMETER_EDGE_ROWS_BYTES_MAX", edge.rows_bytes_max;
    /// Tables that one body of a device may write to.
    edge_tables_max: usize, "N", "NILOMETER_EDGE_TABLES_MAX", edge.tables_max;
    /// Largest number of rows in a query result.
    answer_rows_max: usize, "N", "NILOMETER_ANSWER_ROWS_MAX", native.answer_rows_max;
    /// Largest number of rows in a query result in the format pretty.
    answer_pretty_rows_max: usize, "N", "NILOMETER_ANSWER_PRETTY_ROWS_MAX", native.answer_pretty_rows_max;
    /// Time limit for running requests, and then for a compaction, to finish on shutdown, in milliseconds.
    shutdown_ms_max: u64, "MS", "NILOMETER_SHUTDOWN_MS_MAX", service.shutdown_ms_max;
    /// Memory limit of one query, in bytes.
    query_memory_bytes_max: usize, "BYTES", "NILOMETER_QUERY_MEMORY_BYTES_MAX", service.query.query_memory_bytes_max;
    /// Memory limit of all queries together, in bytes.
    queries_memory_bytes_max: usize, "BYTES", "NILOMETER_QUERIES_MEMORY_BYTES_MAX", service.query.queries_memory_bytes_max;
    /// Time limit of a query, in milliseconds.
    query_ms_max: u64, "MS", "NILOMETER_QUERY_MS_MAX", service.query.query_ms_max;
    /// Longest SQL statement, in bytes.
    sql_bytes_max: usize, "BYTES", "NILOMETER_SQL_BYTES_MAX", service.query.sql_bytes_max;
    /// Largest number of operators in a statement.
    sql_operators_max: usize, "N", "NILOMETER_SQL_OPERATORS_MAX", service.query.sql_operators_max;
    /// Largest number of buckets that gap filling may produce.
    gapfill_buckets_max: usize, "N", "NILOMETER_GAPFILL_BUCKETS_MAX", service.query.gapfill_buckets_max;
}

/// Names such as `localhost` are fine too.
fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let mut found = text
        .to_socket_addrs()
        .map_err(|error| format!("{error}; give an address and a port, as in 127.0.0.1:8086"))?;
    found
        .next()
        .ok_or_else(|| format!("{text} names no address"))
}

/// A tag of another name than the time has.
fn parse_tag(text: &str) -> Result<String, String> {
    if text.is_empty() || text == "time" {
        return Err("a tag has a name, and not that of the time".to_owned());
    }
    Ok(text.to_owned())
}

/// Serves until it is told to stop; `settings` is what SQL shows of the settings in force.
pub(crate) fn run(args: &ServeArgs, settings: Vec<ShownSetting>) -> anyhow::Result<()> {
    let data = args.data.as_deref().context(
        "no data directory; give --data DIR, set NILOMETER_DATA, or put data = \"DIR\" into the file of --config",
    )?;
    let mut all = args.settings()?;
    all.service.query.settings = settings;
    all.check_bind(args.http_bind)?;
    #[cfg(feature = "sql")]
    args.postgres.check(&all)?;
    let tstorage = args.tstorage.surface(args, &all.service)?;
    nilometer_service::set_up_heap();
    log::start(args.log.log_format, &args.log.log_level);
    raise_file_limit();
    let engine = match nilometer_service::open_store(
        data,
        args.tstorage.making_room(args.store.options()),
    ) {
        Err(error @ nilometer_engine::Error::Io { .. }) => {
            return Err(error).with_context(|| {
                format!(
                    "cannot open the data directory {}; it must be a folder that the server's user may write, or a path where one can be created: check --data",
                    data.display()
                )
            });
        }
        opened => opened?,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the network threads")?;
    let engine = Arc::new(engine);
    let executor = Threads::start(all.service.query.threads)?;
    let service = Service::new(engine, executor, all.service, nilometer::languages)?;
    let routes = surfaces(all.native, all.edge);
    let udp = args.influx.udp();
    let others = Others {
        udp,
        #[cfg(feature = "sql")]
        postgres: args.postgres.clone(),
        tstorage,
    };
    runtime.block_on(listen(args.http_bind, others, service, (all.http, routes)))
}

/// What is spoken over HTTP. A surface on a socket of its own has its place in [`listen`].
pub(crate) fn surfaces(config: NativeConfig, edge: EdgeConfig) -> Vec<Box<dyn Routes>> {
    vec![
        Box::new(Native { config }),
        Box::new(Influx),
        Box::new(Edge { config: edge }),
    ]
}

impl ServeArgs {
    fn settings(&self) -> anyhow::Result<Settings> {
        let mut settings = self.limits.settings();
        settings.service.token = self.access.token()?;
        settings.service.auth = self.access.auth;
        settings.service.jwt = self.influx.jwt_secret(&settings.service)?;
        settings.edge.secret = self.edge.secret()?;
        settings.edge.revoked = self.edge.revoked()?;
        let databases = self.edge.edge_databases.split(',').map(str::trim);
        let databases = databases.filter(|name| !name.is_empty());
        settings.edge.databases = databases.map(str::to_owned).collect();
        settings
            .edge
            .device_tag
            .clone_from(&self.edge.edge_device_tag);
        settings.edge.keep_pages = self.edge.edge_keep_pages;
        let config = &mut settings.http;
        config.insecure = self.insecure;
        config.tls = self.access.tls()?;
        config.cors_origins = self.access.http_cors_origins.clone().unwrap_or_default();
        config.hosts = self.access.http_hosts.clone().unwrap_or_default();
        config.access_log = match self.log.access_log {
            AccessLevel::Info => AccessLog::Info,
            AccessLevel::Debug => AccessLog::Debug,
        };
        Ok(settings)
    }

    /// Whether a server would start with this, as far as settings go.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let settings = self.settings()?;
        settings.check_bind(self.http_bind)?;
        #[cfg(feature = "sql")]
        self.postgres.check(&settings)?;
        self.tstorage.surface(self, &settings.service).map(drop)
    }
}

impl Settings {
    fn check_bind(&self, address: SocketAddr) -> anyhow::Result<()> {
        let has_token = self.service.token.is_some() || self.service.auth;
        Ok(nilometer_http::check_bind(address, has_token, &self.http)?)
    }
}

/// Surfaces on sockets of their own.
struct Others {
    udp: Option<(SocketAddr, UdpConfig)>,
    #[cfg(feature = "sql")]
    postgres: PostgresArgs,
    tstorage: Option<(SocketAddr, TstorageConfig)>,
}

impl InfluxArgs {
    /// The secret of the file.
    fn jwt_secret(&self, service: &ServiceOptions) -> anyhow::Result<Option<JwtSecret>> {
        let Some(path) = &self.influx_jwt_secret_file else {
            return Ok(None);
        };
        if !service.auth && service.token.is_none() {
            bail!(
                "--influx-jwt-secret-file is set and nobody is asked who they are; set --auth, and make users"
            );
        }
        let file = read("--influx-jwt-secret-file", path)?;
        let text = String::from_utf8_lossy(&file.bytes);
        Ok(Some(JwtSecret::new(&text, &path.display().to_string())?))
    }

    /// Where datagrams come in, and what becomes of them.
    fn udp(&self) -> Option<(SocketAddr, UdpConfig)> {
        let config = UdpConfig {
            database: self.influx_udp_database.clone(),
            batch_lines_max: self.influx_udp_batch_lines_max,
            batch_ms_max: self.influx_udp_batch_ms_max,
        };
        Some((self.influx_udp_bind?, config))
    }
}

impl EdgeArgs {
    /// The secret of the file.
    fn secret(&self) -> anyhow::Result<Option<DeviceSecret>> {
        let path = self.edge_secret_file.as_deref();
        path.map(read_device_secret).transpose()
    }

    /// The keys that the file revokes.
    fn revoked(&self) -> anyhow::Result<RevokedKeys> {
        let Some(path) = &self.edge_revoked_file else {
            return Ok(RevokedKeys::default());
        };
        if self.edge_secret_file.is_none() {
            bail!(
                "--edge-revoked-file is set and --edge-secret-file is not; without a secret devices have no keys"
            );
        }
        let file = read("--edge-revoked-file", path)?;
        let text = String::from_utf8_lossy(&file.bytes);
        Ok(RevokedKeys::parse(&text, &path.display().to_string())?)
    }
}

/// The secret of device keys that a file has.
pub(crate) fn read_device_secret(path: &Path) -> anyhow::Result<DeviceSecret> {
    let file = read("--edge-secret-file", path)?;
    let text = String::from_utf8_lossy(&file.bytes);
    Ok(DeviceSecret::new(&text, &path.display().to_string())?)
}

impl AccessArgs {
    fn tls(&self) -> anyhow::Result<Option<Tls>> {
        match (&self.tls_cert, &self.tls_key) {
            (None, None) => Ok(None),
            (Some(_), None) => bail!("--tls-cert is set and --tls-key is not; TLS needs both"),
            (None, Some(_)) => bail!("--tls-key is set and --tls-cert is not; TLS needs both"),
            (Some(cert), Some(key)) => {
                let cert = read("--tls-cert", cert)?;
                let key = read("--tls-key", key)?;
                Ok(Some(Tls::new(&cert, &key)?))
            }
        }
    }

    /// The token of the file, or of the variable that holds it where no file is named.
    fn token(&self) -> anyhow::Result<Option<Token>> {
        if let Some(path) = &self.token_file {
            let file = read("--token-file", path)?;
            let text = String::from_utf8_lossy(&file.bytes);
            return Ok(Some(Token::new(&text, &path.display().to_string())?));
        }
        match std::env::var(TOKEN_VARIABLE) {
            Ok(text) => Ok(Some(Token::new(&text, TOKEN_VARIABLE)?)),
            Err(VarError::NotPresent) => Ok(None),
            Err(VarError::NotUnicode(_)) => bail!("{TOKEN_VARIABLE} is not text"),
        }
    }
}

/// A small file that a flag names.
fn read(flag: &str, path: &Path) -> anyhow::Result<PemFile> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(SECRET_BYTES_MAX).read_to_end(&mut bytes))
        .with_context(|| {
            format!(
                "cannot read {} of {flag}; check the path, and that the server's user may read the file",
                path.display()
            )
        })?;
    Ok(PemFile {
        path: path.to_owned(),
        bytes,
    })
}

/// Segments and connections need files; the usual soft limit of 1024 is for programs that use select(2).
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
}

async fn listen(
    address: SocketAddr,
    others: Others,
    service: Arc<Service>,
    (config, routes): (HttpConfig, Vec<Box<dyn Routes>>),
) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| {
            format!(
                "cannot listen on {address}; if another server is there, stop it or choose another --http-bind, such as 127.0.0.1:0 for any free port"
            )
        })?;
    let address = listener.local_addr().context("cannot tell the port")?;
    // Before anybody can know that the server is there: a stop asked for at once is a graceful stop too.
    let stop = stop_signal().context("cannot listen for signals")?;
    let scheme = config.tls.as_ref().map_or("http", |_| "https");
    print::line(format!("listening on {scheme}://{address}"));
    #[cfg(feature = "sql")]
    let tls = config.tls.clone();
    let http = HttpSurface {
        listener,
        config,
        routes,
    };
    let mut surfaces: Vec<Box<dyn Surface>> = vec![Box::new(http)];
    #[cfg(feature = "sql")]
    if let Some(surface) = others.postgres.listen(tls).await? {
        surfaces.push(surface);
    }
    if let Some((address, config)) = others.tstorage {
        surfaces.push(tstorage::listen(address, config).await?);
    }
    if let Some((address, config)) = others.udp {
        let socket = tokio::net::UdpSocket::bind(address).await.with_context(|| {
            format!(
                "cannot receive on {address} by UDP; if another server is there, stop it or choose another --influx-udp-bind"
            )
        })?;
        let address = socket.local_addr().context("cannot tell the UDP port")?;
        print::line(format!("receiving line protocol on udp://{address}"));
        surfaces.push(Box::new(Udp { socket, config }));
    }
    service.serve(surfaces, stop).await?;
    Ok(())
}

/// Ends at the first Ctrl-C or SIGTERM after this call, polled or not.
fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}
