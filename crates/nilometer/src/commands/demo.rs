//! `nilometer demo`: the whole path on one screen.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;
use nilometer_bench::queries::QueryOptions;
use nilometer_bench::workload::{Spec, Workload};
use nilometer_bench::{FileFormat, LoadOptions, LoadReport, generate, load, queries};
use nilometer_edge::EdgeConfig;
use nilometer_engine::{Engine, Options};
use nilometer_http::{HttpConfig, HttpSurface};
use nilometer_native::NativeConfig;
use nilometer_service::{Service, ServiceOptions, Threads};
use tokio::sync::oneshot;

use crate::commands::serve::surfaces;
use crate::print::{self, grouped, thousands};

const DATABASE: &str = "demo";
const START_NS: i64 = 1_451_606_400_000_000_000;
const HOUR_NS: i64 = 3_600_000_000_000;
const SEED: u64 = 123;

/// How much to show.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nilometer demo\n  nilometer demo --hosts 100 --keep ./demo-data"
)]
pub(crate) struct DemoArgs {
    /// Number of hosts, each reporting every 10 seconds.
    #[arg(long, default_value_t = 1000)]
    hosts: u32,
    /// Hours of data.
    #[arg(long, default_value_t = 1)]
    hours: u32,
    /// Keep the data in this folder; by default it is deleted.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Log the server's requests.
    #[arg(long)]
    log: bool,
}

/// A server in this process, on loopback, until it is told to stop.
struct LocalServer {
    address: SocketAddr,
    engine: Arc<Engine>,
    stop: oneshot::Sender<()>,
    thread: std::thread::JoinHandle<anyhow::Result<()>>,
}

impl LocalServer {
    fn start(dir: &Path) -> anyhow::Result<Self> {
        let engine = Arc::new(Engine::open_dir(dir, Options::default())?);
        let (stop, stopped) = oneshot::channel::<()>();
        let (ready, address) = std::sync::mpsc::sync_channel(1);
        let served = Arc::clone(&engine);
        let thread = std::thread::spawn(move || -> anyhow::Result<()> {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()?;
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
                ready.send(listener.local_addr()?).ok();
                let stop = async {
                    drop(stopped.await);
                };
                let options = ServiceOptions::default();
                let executor = Threads::start(options.query.threads)?;
                let http = HttpSurface {
                    listener,
                    config: HttpConfig::default(),
                    routes: surfaces(NativeConfig::default(), EdgeConfig::default()),
                };
                let service = Service::new(served, executor, options, nilometer::languages)?;
                service.serve(vec![Box::new(http)], stop).await?;
                Ok(())
            })
        });
        let address = address
            .recv_timeout(Duration::from_secs(30))
            .context("the demo's server did not start")?;
        Ok(Self {
            address,
            engine,
            stop,
            thread,
        })
    }

    fn stop(self) -> anyhow::Result<()> {
        self.stop.send(()).ok();
        let ended = self.thread.join();
        ended.map_err(|_| anyhow::anyhow!("the demo's server panicked"))?
    }
}

pub(crate) fn run(args: &DemoArgs) -> anyhow::Result<()> {
    ensure!(
        cfg!(feature = "sql"),
        "the demo asks in SQL, and this program was built without the feature 'sql'; use a build that has it"
    );
    if args.log {
        tracing_subscriber::fmt()
            .with_writer(std::io::stderr)
            .init();
    }
    let scratch = tempfile::tempdir().context("cannot make a scratch folder")?;
    let data_dir = args
        .keep
        .clone()
        .unwrap_or_else(|| scratch.path().join("data"));
    let spec = Spec {
        workload: Workload::CpuOnly,
        hosts: args.hosts,
        start_ns: START_NS,
        end_ns: START_NS + i64::from(args.hours) * HOUR_NS,
        interval_ns: 10_000_000_000,
        seed: SEED,
    };
    let file = scratch.path().join("cpu.lpb");
    let text_bytes = make_data(&spec, &file)?;
    let server = LocalServer::start(&data_dir)?;
    let url = format!("http://{}", server.address);
    print::line(format!("server    {url}, data in {}", data_dir.display()));

    let report = load_data(&spec, &url, &file)?;
    ensure!(
        report.rows == spec.rows()?,
        "{} of {} rows were acknowledged",
        report.rows,
        spec.rows()?
    );
    let rate = format!("{:.0}", report.rows_per_second);
    print::line(format!(
        "load      {} rows/s ({:.2} s, {} workers, synced = {}, p99 {:.1} ms a batch of {})",
        grouped(&rate),
        report.seconds,
        report.workers,
        report.sync_mode,
        report.latency_ms.p99,
        report.batch_rows,
    ));
    server.engine.flush()?;
    show_size(&server.engine, &report, text_bytes);

    let statements = queries::statements(&spec, SEED, 1)?;
    let timings = queries::run_queries(&url, DATABASE, &statements, &QueryOptions::new(5))?;
    print::line("\nquery times over HTTP, five runs each, data just written (page cache warm):");
    print::line(queries::table(&timings));
    server.stop()?;
    show_next(args);
    Ok(())
}

fn make_data(spec: &Spec, file: &Path) -> anyhow::Result<u64> {
    let bar = print::row_bar("generate", spec.rows()?);
    let made = generate(spec, file, FileFormat::BatchFile, 10_000, |rows| {
        bar.set_position(rows);
    })?;
    bar.finish_and_clear();
    print::line(format!(
        "data      TSBS cpu-only, {} hosts, {} rows, {} values, {:.1} MB of line protocol",
        thousands(spec.hosts.into()),
        thousands(made.rows),
        thousands(made.values),
        made.text_bytes as f64 / 1e6
    ));
    Ok(made.text_bytes)
}

fn load_data(spec: &Spec, url: &str, file: &Path) -> anyhow::Result<LoadReport> {
    let bar = print::row_bar("load", spec.rows()?);
    let options = LoadOptions::new(url, DATABASE, file);
    let report = load(&options, |rows| bar.set_position(rows))?;
    bar.finish_and_clear();
    Ok(report)
}

fn show_size(engine: &Engine, report: &LoadReport, text_bytes: u64) {
    let metrics = engine.metrics();
    let bytes = metrics.segment_bytes + metrics.definition_bytes;
    print::line(format!(
        "size      {:.2} MB in {} segments with series and directory: {:.3} bytes per value, 1/{:.0} of the text",
        bytes as f64 / 1e6,
        metrics.segments,
        bytes as f64 / report.values.unwrap_or(1).max(1) as f64,
        text_bytes as f64 / bytes.max(1) as f64,
    ));
    print::line(format!(
        "log       {} files kept for reuse, {} syncs for {} batches",
        metrics.log_files, metrics.log_syncs, metrics.batches_written
    ));
}

fn show_next(args: &DemoArgs) {
    let dir = args.keep.as_deref().unwrap_or_else(|| Path::new("./data"));
    let dir = dir.display();
    print::line("next steps:");
    print::line(format!(
        "  nilometer serve --data {dir} --http-bind 127.0.0.1:8086"
    ));
    print::line("  curl --data-binary 'm,host=a v=1.5' 'localhost:8086/api/v3/write_lp?db=d'");
    print::line(
        "  nilometer sql -d d \"select time_bucket('1 hour', time) t, host, avg(v) from m group by t, host order by t\"",
    );
    if args.keep.is_none() {
        print::line("the demo data was deleted; `nilometer demo --keep DIR` keeps it");
    }
}
