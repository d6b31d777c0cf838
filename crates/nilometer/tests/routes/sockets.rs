//! Connections as clients that are no browsers and no libraries make them: half closed, idle in crowds, under any name, and
//! at any time.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use nilometer_engine::disk::MemoryDisk;
use nilometer_engine::{Clock, Engine, Options};

use nilometer_service::{Error, Token};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::support::{ServerConfig, engine_on, serve};

/// A server on a port of its own.
struct Running {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), Error>>,
}

impl Running {
    async fn start(config: ServerConfig) -> Self {
        Self::over(engine_on(Arc::new(MemoryDisk::default())), config).await
    }

    async fn over(engine: Arc<Engine>, config: ServerConfig) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(serve(listener, engine, config, stopped));
        Self {
            address,
            stop,
            task,
        }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// A request, and everything until the server closes.
    async fn ask(&self, request: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        rest(&mut stream).await
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap().unwrap();
    }
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    String::from_utf8(bytes).unwrap()
}

fn get(path: &str, host: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
}

fn post(path: &str, body: &str) -> String {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}")
}

/// An attacker's requests without `Host`, and with `Host: localhost:abc`, were answered as any other.
#[tokio::test]
async fn a_request_that_does_not_name_its_server_is_malformed() {
    let token = Token::new("planted-secret-7f3a9c", "the test").unwrap();
    for token in [None, Some(token)] {
        let server = Running::start(ServerConfig {
            token,
            ..ServerConfig::default()
        })
        .await;
        for (head, status) in [
            ("HTTP/1.1\r\n", "400"),
            ("HTTP/1.1\r\nHost: localhost:abc\r\n", "400"),
            ("HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n", "400"),
            ("HTTP/1.1\r\nHost: localhost:8086\r\n", "204"),
            ("HTTP/1.0\r\n", "204"),
            ("HTTP/1.0\r\nHost: localhost:abc\r\n", "400"),
        ] {
            let request = format!("GET /ping {head}Connection: close\r\n\r\n");
            let answer = server.ask(&request).await;
            let got = answer.split(' ').nth(1);
            assert_eq!(got, Some(status), "{head:?}: {answer}");
            assert_eq!(answer.contains("{\"error\":"), status == "400", "{answer}");
        }
        server.stop().await;
    }
}

/// The name of a page's server can be made to point to 127.0.0.1 once the page is loaded. Then its browser takes this
/// server for the page's, and lets it do everything.
#[tokio::test]
async fn a_server_without_a_token_is_asked_under_its_own_names_only() {
    let server = Running::start(ServerConfig {
        hosts: "db.example.org".parse().unwrap(),
        ..ServerConfig::default()
    })
    .await;
    let port = server.address.port();
    let status = async |path: &str, host: &str| {
        let answer = server.ask(&get(path, host)).await;
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    for host in [
        "localhost".to_owned(),
        format!("127.0.0.1:{port}"),
        format!("[::1]:{port}"),
        format!("db.example.org:{port}"),
    ] {
        assert_eq!(status("/metrics", &host).await, "200", "{host}");
    }
    let stranger = format!("evil.example.org:{port}");
    let said = server.ask(&get("/metrics", &stranger)).await;
    assert!(
        said.contains("evil.example.org") && said.contains("http-hosts"),
        "{said}"
    );
    for path in [
        "/metrics",
        "/api/v3/query_sql?db=d&q=select+1",
        "/write?db=d",
        "/nowhere",
    ] {
        assert_eq!(status(path, &stranger).await, "403", "{path}");
    }
    for path in ["/health", "/ping"] {
        assert_ne!(status(path, &stranger).await, "403", "{path}");
    }
    // Programs of the year of HTTP/1.0 send no name, and are no browsers.
    let answer = server.ask("GET /metrics HTTP/1.0\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    server.stop().await;

    // Who has the token is known, under whatever name he came.
    let server = Running::start(ServerConfig {
        token: Some(Token::new("0123456789abcdef", "the test").unwrap()),
        ..ServerConfig::default()
    })
    .await;
    let request = get("/metrics?p=0123456789abcdef", &stranger);
    let answer = server.ask(&request).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    server.stop().await;
}

/// A client that closed its own direction after the request, as `nc -N` does, got no answer: it was taken for one that had
/// gone.
#[tokio::test]
async fn who_has_said_all_and_listens_gets_the_answer() {
    let server = Running::start(ServerConfig::default()).await;
    let rows: Vec<String> = (1..=1000).map(|n| format!("m v={n} {n}\n")).collect();
    let rows = rows.concat();
    let slow = "/api/v3/query_sql?db=d&format=csv&q=SELECT+sum(a.v*b.v)+AS+s+FROM+m+a,+m+b";
    // A sum of products is the product of the sums: (1000 * 1001 / 2) squared.
    let sum = "s\n250500250000.0\n";
    for (request, ends) in [
        (get("/ping", "localhost"), "\r\n\r\n"),
        (
            post("/api/v3/write_lp?db=d&precision=ns", &rows),
            "\r\n\r\n",
        ),
        (get(slow, "localhost"), sum),
        (
            get(slow, "localhost").replace("Connection: close\r\n", ""),
            sum,
        ),
    ] {
        let mut stream = server.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let answer = rest(&mut stream).await;
        let last = answer.trim_start_matches("HTTP/1.1 100 Continue\r\n\r\n");
        assert!(last.starts_with("HTTP/1.1 20"), "{answer}");
        assert!(last.ends_with(ends), "{answer}");
    }
    // A body that is not whole is none.
    let mut stream = server.connect().await;
    let half = post("/api/v3/write_lp?db=d", &rows).replace("m v=1000 1000\n", "");
    stream.write_all(half.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let answer = rest(&mut stream).await;
    assert!(!answer.starts_with("HTTP/1.1 2"), "{answer}");
    server.stop().await;
}

/// A health check waited 11 to 20 seconds behind 1,152 idle connections, until the first of them had been silent for too
/// long.
#[tokio::test]
async fn health_is_answered_however_many_connections_do_nothing() {
    let server = Running::start(ServerConfig {
        connections_max: 8,
        // Nobody leaves by himself within the test.
        header_read_ms_max: 3_600_000,
        ..ServerConfig::default()
    })
    .await;
    let mut crowd = Vec::new();
    for _ in 0..40 {
        crowd.push(server.connect().await);
    }
    for _ in 0..3 {
        let answer = server.ask(&get("/health", "localhost")).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    // Others have their turn as well.
    let written = post("/api/v3/write_lp?db=d&precision=ns", "m v=1 1");
    let written = written.replace("Content-Length", "Connection: close\r\nContent-Length");
    while !server.ask(&written).await.starts_with("HTTP/1.1 204") {}
    server.stop().await;
}

#[tokio::test]
async fn when_all_are_busy_health_is_answered_and_others_are_told_when_to_come_again() {
    let server = Running::start(ServerConfig {
        connections_max: 4,
        ..ServerConfig::default()
    })
    .await;
    let mut busy = Vec::new();
    for _ in 0..4 {
        let mut stream = server.connect().await;
        let request = post("/api/v3/write_lp?db=d&precision=ns", "m v=1 1");
        stream
            .write_all(&request.as_bytes()[..request.len() - 1])
            .await
            .unwrap();
        busy.push(stream);
    }
    // They are busy once their heads have been read.
    while !server
        .ask(&get("/metrics", "localhost"))
        .await
        .starts_with("HTTP/1.1 503")
    {}
    let refused = server.ask(&get("/metrics", "localhost")).await;
    for word in ["connections-max", "retry-after: 1", "connection: close"] {
        assert!(refused.contains(word), "no {word} in {refused}");
    }
    for path in ["/health", "/ping"] {
        let answer = server.ask(&get(path, "localhost")).await;
        assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
    }
    for mut stream in busy {
        stream.write_all(b"1").await.unwrap();
        let mut first = [0; 12];
        stream.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 204");
    }
    server.stop().await;
}

/// A second before 1970, for ever.
#[derive(Debug)]
struct Broken;

impl Clock for Broken {
    fn now_ns(&self) -> i64 {
        -1_000_000_000
    }

    fn monotonic_ms(&self) -> u64 {
        0
    }
}

/// A clock before 1970 ended every connection without a word: the library that writes the date of an answer fails then.
#[tokio::test]
async fn a_clock_before_1970_is_what_every_answer_says() {
    let disk = Arc::new(MemoryDisk::default());
    let engine = Engine::open(
        disk,
        Arc::new(Broken),
        Path::new("/data"),
        Options::default(),
    );
    let server = Running::over(Arc::new(engine.unwrap()), ServerConfig::default()).await;
    for request in [
        get("/health", "localhost"),
        get("/metrics", "localhost"),
        // What is sent and not read does not take the answer away.
        post("/api/v3/write_lp?db=d", &"m v=1\n".repeat(10_000)),
    ] {
        let answer = server.ask(&request).await;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())));
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        let said = body["error"].as_str().unwrap();
        assert!(said.contains("clock") && said.contains("1970"), "{said}");
    }
    server.stop().await;
}
