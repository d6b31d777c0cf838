//! A server in memory with the surface of devices, and the pages of golden images.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use nilometer_edge::{Edge, EdgeConfig};
use nilometer_engine::disk::MemoryDisk;
use nilometer_engine::{Engine, Options, SystemClock};
use nilometer_http::{Http, HttpConfig, Routes, router};
use nilometer_influx::Influx;
use nilometer_native::Native;
use nilometer_service::{Service, ServiceOptions, Threads};
use serde_json::Value;
use tower::ServiceExt;

pub(crate) struct Server {
    pub(crate) engine: Arc<Engine>,
    router: Router,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) json: Value,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn number(&self, member: &str) -> u64 {
        let number = self.json.get(member).and_then(Value::as_u64);
        number.unwrap_or_else(|| panic!("no {member} in {}", self.text))
    }

    /// The status, and how far the flash has come.
    pub(crate) fn progress(&self) -> (u16, u64) {
        (self.status, self.number("acknowledged"))
    }
}

impl Server {
    /// With the database `edge`.
    pub(crate) fn new() -> Self {
        Self::with(EdgeConfig::default())
    }

    pub(crate) fn with(config: EdgeConfig) -> Self {
        Self::at(&Arc::default(), config, ServiceOptions::default())
    }

    pub(crate) fn at(disk: &Arc<MemoryDisk>, config: EdgeConfig, options: ServiceOptions) -> Self {
        let (disk, clock) = (Arc::clone(disk), Arc::new(SystemClock));
        let engine = Engine::open(disk, clock, Path::new("/data"), Options::default()).unwrap();
        let engine = Arc::new(engine);
        engine.create_database("edge").unwrap();
        let executor = Threads::start(1).unwrap();
        let service = Service::new(Arc::clone(&engine), executor, options, nilometer::languages);
        let http = Http::new(service.unwrap(), HttpConfig::default());
        let surfaces: [Box<dyn Routes>; 3] = [
            Box::new(Edge { config }),
            Box::new(Influx),
            Box::new(Native::default()),
        ];
        Self {
            engine,
            router: router(&http, &surfaces),
        }
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
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        let text = String::from_utf8_lossy(&body).into_owned();
        Answer {
            status: head.status.as_u16(),
            json: serde_json::from_str(&text).unwrap_or(Value::Null),
            text,
        }
    }

    /// Pages of a device.
    pub(crate) async fn push(&self, flash: &Flash, after: u64, pages: &[&[u8]]) -> Answer {
        let path = format!("{}&after={after}", flash.path());
        self.send("POST", &path, &[], pages.concat()).await
    }

    /// Rows of a statement to the database `edge`: the values of each, without those of series.
    pub(crate) async fn rows(&self, statement: &str) -> Vec<Vec<Value>> {
        let statement: String = form_urlencoded::byte_serialize(statement.as_bytes()).collect();
        let path = format!("/query?db=edge&epoch=ns&q={statement}");
        let answer = self.send("GET", &path, &[], "").await;
        rows_of(&answer.json)
    }

    pub(crate) async fn metric(&self, name: &str) -> u64 {
        let answer = self.send("GET", "/metrics", &[], "").await;
        let line = answer.text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim().parse().unwrap()
    }
}

/// The values of an answer of `/query` to one statement.
pub(crate) fn rows_of(answer: &Value) -> Vec<Vec<Value>> {
    let result = &answer["results"][0];
    assert!(
        result.get("error").is_none() && result.is_object(),
        "{answer}"
    );
    let series = result["series"].as_array().cloned().unwrap_or_default();
    let values = series
        .iter()
        .flat_map(|one| one["values"].as_array().unwrap().clone());
    values.map(|row| row.as_array().unwrap().clone()).collect()
}

/// The flash of a device in one of its lives.
#[derive(Debug, Clone)]
pub(crate) struct Flash {
    pub(crate) device: &'static str,
    pub(crate) store: u32,
    pub(crate) clock: &'static str,
}

impl Flash {
    pub(crate) fn new(device: &'static str, store: u32) -> Self {
        Self {
            device,
            store,
            clock: "",
        }
    }

    /// That of the golden images, whose pages count the ticks of boot 7.
    pub(crate) fn of_image(device: &'static str, store: u32) -> Self {
        Self {
            clock: "7:1700000000000",
            ..Self::new(device, store)
        }
    }

    pub(crate) fn path(&self) -> String {
        let Self {
            device,
            store,
            clock,
        } = self;
        format!("/api/edge/v1/pages?db=edge&device={device}&store={store}&clock={clock}")
    }
}

pub(crate) fn golden(name: &str) -> Vec<u8> {
    std::fs::read(golden_path(name)).unwrap()
}

pub(crate) fn golden_path(name: &str) -> PathBuf {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/device-1");
    golden.join(name)
}

/// Places and bytes of the pages of `image_unit_1.img`, as `ne_next_page` printed them; their sequences are 1, 2, 3.
const SMALL: [(usize, usize); 3] = [(4128, 173), (4301, 173), (4474, 163)];

/// The same of `image_unit_32.img`; 1 to 6.
const LARGE: [(usize, usize); 6] = [
    (7232, 160),
    (7392, 160),
    (7552, 160),
    (7712, 160),
    (7872, 160),
    (8032, 144),
];

fn cut(image: &str, places: &[(usize, usize)]) -> Vec<Vec<u8>> {
    let image = golden(image);
    let pages = places
        .iter()
        .map(|(at, bytes)| image[*at..at + bytes].to_vec());
    pages.collect()
}

/// The pages of one flash.
pub(crate) fn small() -> Vec<Vec<u8>> {
    cut("image_unit_1.img", &SMALL)
}

/// The pages of another flash with the same rows.
pub(crate) fn large() -> Vec<Vec<u8>> {
    cut("image_unit_32.img", &LARGE)
}

pub(crate) fn all(pages: &[Vec<u8>]) -> Vec<&[u8]> {
    pages.iter().map(Vec::as_slice).collect()
}

/// Row `at` of the images as `golden/device-1/image.c` put it in: time in nanoseconds, temperature, open.
pub(crate) fn image_row(at: i64) -> Vec<Value> {
    let time = (1_700_000_000_000 + 1000 + 10 * at) * 1_000_000;
    let temperature = (2150 + at % 7) as f64 / 100.0;
    vec![time.into(), temperature.into(), (at % 10 == 0).into()]
}

/// The rows of the images that are sealed.
pub(crate) fn image_rows() -> Vec<Vec<Value>> {
    (0..140).map(image_row).collect()
}

/// The rows that a device's series of the images has.
pub(crate) async fn stored(server: &Server, device: &str) -> Vec<Vec<Value>> {
    let statement =
        format!("SELECT temperature, open FROM climate WHERE device='{device}' AND room='attic'");
    server.rows(&statement).await
}
