//! A server over a store in memory, which can be stopped, killed and started again.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::JoinHandle;

use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::{Clock, Engine, Options, SystemClock};
use nilometer_service::{Service, ServiceOptions, Surface, Threads};
use nilometer_tstorage::{Tstorage, TstorageConfig};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::client::Client;

/// The machine's clock, moved by hand.
#[derive(Debug, Default)]
pub(crate) struct MovedClock(AtomicI64);

impl MovedClock {
    pub(crate) fn move_by(&self, ns: i64) {
        self.0.fetch_add(ns, Ordering::Relaxed);
    }
}

impl Clock for MovedClock {
    fn now_ns(&self) -> i64 {
        SystemClock.now_ns() + self.0.load(Ordering::Relaxed)
    }

    fn monotonic_ms(&self) -> u64 {
        SystemClock.monotonic_ms()
    }
}

/// What is left of a server.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) clock: Arc<MovedClock>,
    pub(crate) options: Options,
    pub(crate) service: ServiceOptions,
    pub(crate) config: TstorageConfig,
}

impl Default for World {
    fn default() -> Self {
        let options = Options {
            value_bytes_max: 32 << 20,
            ..Options::default()
        };
        Self {
            disk: Arc::new(MemoryDisk::default()),
            clock: Arc::default(),
            options,
            service: ServiceOptions::default(),
            config: TstorageConfig::default(),
        }
    }
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) engine: Arc<Engine>,
    pub(crate) service: Arc<Service>,
    /// Closing the store is to succeed.
    pub(crate) closes: bool,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), nilometer_service::Error>>>,
}

impl World {
    pub(crate) fn start(&self) -> Server {
        let disk = Arc::clone(&self.disk);
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let options = self.options.clone();
        let engine = Arc::new(Engine::open(disk, clock, Path::new("/data"), options).unwrap());
        let executor = Threads::start(2).unwrap();
        let options = self.service.clone();
        let service = Service::new(Arc::clone(&engine), executor, options, |_| Ok(Vec::new()));
        let service = service.unwrap();
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let config = self.config.clone();
        let surface: Box<dyn Surface> = Box::new(Tstorage { listener, config });
        let (stop, stopped) = oneshot::channel();
        let serving = Arc::clone(&service).serve(vec![surface], stopped);
        let thread = std::thread::spawn(move || runtime.block_on(serving));
        Server {
            address,
            engine,
            service,
            closes: true,
            stop: Some(stop),
            thread: Some(thread),
        }
    }
}

impl Server {
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !std::thread::panicking() {
                assert_eq!(ended.unwrap().is_ok(), self.closes);
            }
        }
    }
}
