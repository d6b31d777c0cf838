//! `nilometer serve`.

use std::io::IsTerminal;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use nilometer_engine::Engine;
use nilometer_server::ServerConfig;
use tokio::signal::unix::{SignalKind, signal};

use crate::print;
use crate::store::StoreArgs;

/// Settings of a server; each has an environment variable too.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  nilometer serve --data ./data --http-bind 127.0.0.1:8086\n  curl --data-binary 'm,host=a v=1.5' 'localhost:8086/api/v3/write_lp?db=d'"
)]
pub(crate) struct ServeArgs {
    /// Data directory; made if absent.
    #[arg(long, value_name = "DIR", env = "NILOMETER_DATA")]
    data: PathBuf,
    /// Address to listen on for HTTP; port 0 = any free one.
    #[arg(long, value_name = "ADDRESS", env = "NILOMETER_HTTP_BIND", default_value = "127.0.0.1:8086", value_parser = parse_address)]
    http_bind: SocketAddr,
    /// Allow an address that other machines reach, although nobody is asked who they are.
    #[arg(long, env = "NILOMETER_INSECURE")]
    insecure: bool,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    limits: LimitArgs,
}

macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident: $kind:ty, $value_name:literal, $env:literal, $($path:ident).+;)*) => {
        /// Limits of requests.
        #[derive(Debug, Args)]
        #[command(next_help_heading = "Limits")]
        pub(crate) struct LimitArgs {
            $($(#[$doc])*
            #[arg(long, value_name = $value_name, env = $env, default_value_t = ServerConfig::default().$($path).+)]
            $name: $kind,)*
        }

        impl LimitArgs {
            fn config(&self) -> ServerConfig {
                let mut config = ServerConfig::default();
                $(config.$($path).+ = self.$name;)*
                config
            }
        }
    };
}

limits! {
    /// Bytes of a request body after inflation.
    body_bytes_max: usize, "BYTES", "NILOMETER_BODY_BYTES_MAX", body_bytes_max;
    /// Bytes of a compressed request body as it is sent.
    body_compressed_bytes_max: usize, "BYTES", "NILOMETER_BODY_COMPRESSED_BYTES_MAX", body_compressed_bytes_max;
    /// How many times larger a body may become by inflation.
    body_ratio_max: usize, "N", "NILOMETER_BODY_RATIO_MAX", body_ratio_max;
    /// Bytes of all request bodies in memory at one time.
    bodies_bytes_max: usize, "BYTES", "NILOMETER_BODIES_BYTES_MAX", bodies_bytes_max;
    /// Milliseconds a client may take to send a body.
    body_read_ms_max: u64, "MS", "NILOMETER_BODY_READ_MS_MAX", body_read_ms_max;
    /// Milliseconds a client may take to send the head of a request.
    header_read_ms_max: u64, "MS", "NILOMETER_HEADER_READ_MS_MAX", header_read_ms_max;
    /// Milliseconds a write may take.
    write_ms_max: u64, "MS", "NILOMETER_WRITE_MS_MAX", write_ms_max;
    /// Writes that run at one time.
    writes_max: usize, "N", "NILOMETER_WRITES_MAX", writes_max;
    /// Connections at one time.
    connections_max: usize, "N", "NILOMETER_CONNECTIONS_MAX", connections_max;
    /// Queries that run at one time.
    queries_max: usize, "N", "NILOMETER_QUERIES_MAX", queries_max;
    /// Queries that wait for their turn.
    queries_waiting_max: usize, "N", "NILOMETER_QUERIES_WAITING_MAX", queries_waiting_max;
    /// Rows of an answer.
    answer_rows_max: usize, "N", "NILOMETER_ANSWER_ROWS_MAX", answer_rows_max;
    /// Rows of an answer in the format pretty.
    answer_pretty_rows_max: usize, "N", "NILOMETER_ANSWER_PRETTY_ROWS_MAX", answer_pretty_rows_max;
    /// Milliseconds that running requests have after a stop was asked for, and a compaction after them.
    shutdown_ms_max: u64, "MS", "NILOMETER_SHUTDOWN_MS_MAX", shutdown_ms_max;
    /// Memory of one query in bytes.
    query_memory_bytes_max: usize, "BYTES", "NILOMETER_QUERY_MEMORY_BYTES_MAX", sql.query_memory_bytes_max;
    /// Memory of all queries in bytes.
    queries_memory_bytes_max: usize, "BYTES", "NILOMETER_QUERIES_MEMORY_BYTES_MAX", sql.queries_memory_bytes_max;
    /// Milliseconds a query may run.
    query_ms_max: u64, "MS", "NILOMETER_QUERY_MS_MAX", sql.query_ms_max;
    /// Bytes of a statement.
    sql_bytes_max: usize, "BYTES", "NILOMETER_SQL_BYTES_MAX", sql.sql_bytes_max;
    /// Operators in a statement, a measure of its depth.
    sql_operators_max: usize, "N", "NILOMETER_SQL_OPERATORS_MAX", sql.sql_operators_max;
    /// Buckets that gap filling makes of a range.
    gapfill_buckets_max: usize, "N", "NILOMETER_GAPFILL_BUCKETS_MAX", sql.gapfill_buckets_max;
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

pub(crate) fn run(args: &ServeArgs) -> anyhow::Result<()> {
    let mut config = args.limits.config();
    config.insecure = args.insecure;
    nilometer_server::check_bind(args.http_bind, args.insecure)?;
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_env_filter(log_filter())
        .init();
    raise_file_limit();
    let engine = Engine::open_dir(&args.data, args.store.options())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start threads for sockets")?;
    runtime.block_on(listen(args.http_bind, Arc::new(engine), config))
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
    engine: Arc<Engine>,
    config: ServerConfig,
) -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::bind(address)
        .await
        .with_context(|| {
            format!(
                "cannot listen on {address}; is another server there? choose another --http-bind"
            )
        })?;
    let address = listener.local_addr().context("cannot tell the port")?;
    // Before anybody can know that the server is there: a stop asked for at once is a graceful stop too.
    let stop = stop_signal().context("cannot listen for signals")?;
    print::line(format!("listening on http://{address}"));
    nilometer_server::serve(listener, engine, config, stop).await?;
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

fn log_filter() -> tracing_subscriber::EnvFilter {
    tracing_subscriber::EnvFilter::try_from_env("NILOMETER_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"))
}
