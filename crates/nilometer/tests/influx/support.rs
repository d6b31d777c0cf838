//! A server in memory, and how it is asked.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request};
use http_body_util::BodyExt;
use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::{Clock, Engine, Error, Options, SystemClock};
use nilometer_http::{Http, HttpConfig, Routes, router};
use nilometer_influx::Influx;
use nilometer_service::{Service, ServiceOptions, Threads};
use tower::ServiceExt;

pub(crate) struct Server {
    pub(crate) engine: Arc<Engine>,
    pub(crate) service: Arc<Service>,
    router: Router,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap())
    }
}

/// A clock that stands until it is set.
#[derive(Debug, Default)]
pub(crate) struct HandClock(AtomicI64);

impl HandClock {
    pub(crate) fn set(&self, seconds: i64) {
        self.0.store(seconds * 1_000_000_000, Ordering::Relaxed);
    }
}

impl Clock for HandClock {
    fn now_ns(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    fn monotonic_ms(&self) -> u64 {
        u64::try_from(self.now_ns() / 1_000_000).unwrap()
    }
}

/// The store on a disk, once nobody has it open. A server before this one had it longer than its answers took: the thread
/// that has sent the last piece of an answer lets go of the store after that, which once failed a restart as `Locked`.
#[expect(
    clippy::needless_pass_by_value,
    reason = "who has them needs them no more"
)]
fn opened(disk: MemoryDisk, clock: Arc<dyn Clock>, store: &Options) -> Engine {
    let until = Instant::now() + Duration::from_secs(30);
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let open = || {
        let (disk, clock) = (Arc::clone(&disk), Arc::clone(&clock));
        Engine::open(disk, clock, Path::new("/data"), store.clone())
    };
    loop {
        match open() {
            Err(Error::Locked { .. }) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(1));
            }
            opened => return opened.unwrap(),
        }
    }
}

/// A text as a part of an address.
pub(crate) fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

impl Server {
    pub(crate) fn new() -> Self {
        Self::with(ServiceOptions::default())
    }

    pub(crate) fn with(options: ServiceOptions) -> Self {
        Self::at(MemoryDisk::default(), Arc::new(SystemClock), options)
    }

    /// Over what is on a disk, at the time that a clock says.
    pub(crate) fn at(disk: MemoryDisk, clock: Arc<dyn Clock>, options: ServiceOptions) -> Self {
        Self::over(disk, clock, &Options::default(), options)
    }

    /// The same with settings of the store.
    pub(crate) fn over(
        disk: MemoryDisk,
        clock: Arc<dyn Clock>,
        store: &Options,
        options: ServiceOptions,
    ) -> Self {
        let engine = Arc::new(opened(disk, clock, store));
        let executor = Threads::start(options.query.threads).unwrap();
        let service = Service::new(Arc::clone(&engine), executor, options, nilometer::languages);
        let service = service.unwrap();
        let http = Http::new(Arc::clone(&service), HttpConfig::default());
        let surfaces: [Box<dyn Routes>; 1] = [Box::new(Influx)];
        Self {
            engine,
            service,
            router: router(&http, &surfaces),
        }
    }

    /// With the database `d` and rows of four measurements.
    pub(crate) async fn filled() -> Self {
        let server = Self::new();
        server.engine.create_database("d").unwrap();
        let lines = "cpu,host=a,region=eu v=1,n=2i 1000000000\n\
            cpu,host=b,region=us v=2,s=\"x\" 2000000000\n\
            mem,host=a free=5i,ok=true 3000000000\n\
            disk total=9 4000000000\n\
            odd\\ name,t\\=2=x\\ y f=1 5000000000\n";
        let answer = server.send("POST", "/write?db=d", &[], lines).await;
        assert_eq!(answer.status, 204, "{}", answer.text());
        server
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.into()).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            body: body.collect().await.unwrap().to_bytes().to_vec(),
        }
    }

    /// Statements to the database `d`, by POST.
    pub(crate) async fn ask(&self, statements: &str) -> String {
        let path = format!("/query?db=d&q={}", encoded(statements));
        let answer = self.send("POST", &path, &[], "").await;
        answer.text().trim_end().to_owned()
    }

    /// What stands between the brackets of one result after its number.
    pub(crate) async fn result(&self, statement: &str) -> String {
        let answer = self.ask(statement).await;
        let inner = answer
            .strip_prefix("{\"results\":[{\"statement_id\":0")
            .and_then(|rest| rest.strip_suffix("}]}"));
        let inner = inner.unwrap_or_else(|| panic!("{statement}: {answer}"));
        inner.trim_start_matches(',').to_owned()
    }
}
