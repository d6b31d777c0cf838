//! The conversation with a client, over a language that is not SQL: what is tested here is the surface alone.

#![expect(clippy::big_endian_bytes, reason = "the protocol is in network order")]
#![expect(
    clippy::unwrap_used,
    reason = "a failed unwrap in a helper is the report of the test that called it"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use futures::future::BoxFuture;
use futures::{FutureExt, Stream};
use nilometer_engine::disk::MemoryDisk;
use nilometer_engine::{Engine, Options, SystemClock};
use nilometer_postgres::{Postgres, PostgresConfig};
use nilometer_service::{
    Charged, Class, Description, Error, Fault, Language, Outcome, Param, Params, Position,
    Prepared, RowStream, Rows, Service, ServiceOptions, Session, Surface, Threads, Token,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// Answers `SELECT rows N` with N rows, `slow` when it is cancelled, `wrong` with an error, and changes nothing.
#[derive(Debug)]
struct Fake;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("n", DataType::Int64, false),
        Field::new("name", DataType::Utf8, true),
    ]))
}

impl Language for Fake {
    fn name(&self) -> &'static str {
        "sql"
    }

    fn time_zone(&self, name: &str) -> Result<String, Error> {
        Ok(name.to_owned())
    }

    fn prepare(&self, text: &str, session: &Session) -> Result<Box<dyn Prepared>, Error> {
        Ok(Box::new(Said(text.trim().to_owned(), session.clone())))
    }

    fn describe<'a>(
        &'a self,
        text: &'a str,
        _: &'a [Option<DataType>],
        _: &'a Session,
    ) -> BoxFuture<'a, Result<Description, Error>> {
        let parameters = text.contains("$1").then_some(DataType::Int64);
        let parameters = parameters.into_iter().collect();
        let columns = text.starts_with("SELECT").then(schema);
        async move {
            Ok(Description {
                parameters,
                columns,
            })
        }
        .boxed()
    }
}

#[derive(Debug)]
struct Said(String, Session);

impl Prepared for Said {
    fn run<'a>(&'a self, values: &'a Params) -> BoxFuture<'a, Result<Outcome, Error>> {
        async move {
            let Self(text, session) = self;
            if text.contains("slow") {
                session.cancelled.cancelled().await;
                return Err(Error::Cancelled);
            }
            if text.contains("wrong") {
                return Err(Error::Statement {
                    class: Class::BadRequest,
                    fault: Some(Fault::UnknownColumn),
                    setting: None,
                    position: Some(Position { line: 1, column: 8 }),
                    source: "column not found: \"wrong\"".into(),
                });
            }
            let Some(rest) = text.strip_prefix("SELECT rows ") else {
                return Ok(Outcome::Done { rows: 2 });
            };
            let rows = match (rest.parse::<i64>(), values.numbered(1)) {
                (Ok(rows), _) => rows,
                (_, Some(Param::I64(rows))) => *rows,
                other => panic!("{other:?}"),
            };
            Ok(Outcome::Rows(RowStream::new(Numbers(0, rows))))
        }
        .boxed()
    }
}

/// Rows from one number to another, three at a time.
struct Numbers(i64, i64);

impl Stream for Numbers {
    type Item = Result<RecordBatch, Error>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        let Self(from, to) = *self;
        if from >= to {
            return std::task::Poll::Ready(None);
        }
        let until = to.min(from + 3);
        self.0 = until;
        let numbers = Int64Array::from_iter_values(from..until);
        let names = (from..until).map(|n| (n % 2 == 0).then(|| format!("row {n}")));
        let names: StringArray = names.collect();
        let batch = RecordBatch::try_new(schema(), vec![Arc::new(numbers), Arc::new(names)]);
        std::task::Poll::Ready(Some(Ok(batch.unwrap())))
    }
}

impl Rows for Numbers {
    fn schema(&self) -> SchemaRef {
        schema()
    }

    fn hold(&mut self, _: usize) -> Result<(), Error> {
        Ok(())
    }

    fn hand_over(&mut self, _: usize) -> Charged {
        Charged::by(())
    }
}

struct Server {
    address: std::net::SocketAddr,
    service: Arc<Service>,
    stop: oneshot::Sender<()>,
    served: tokio::task::JoinHandle<Result<(), Error>>,
}

async fn server(options: ServiceOptions) -> Server {
    let config = PostgresConfig {
        connections_max: 3,
        message_bytes_max: 100_000,
        ..PostgresConfig::default()
    };
    let (disk, clock) = (Arc::new(MemoryDisk::default()), Arc::new(SystemClock));
    let engine = Engine::open(disk, clock, Path::new("/data"), Options::default()).unwrap();
    engine.create_database("d").unwrap();
    let executor = Threads::start(2).unwrap();
    let languages = |_: &_| Ok(vec![Arc::new(Fake) as Arc<dyn Language>]);
    let service = Service::new(Arc::new(engine), executor, options, languages).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let surfaces: Vec<Box<dyn Surface>> = vec![Box::new(Postgres { listener, config })];
    let served = tokio::spawn(Arc::clone(&service).serve(surfaces, stopped));
    Server {
        address,
        service,
        stop,
        served,
    }
}

impl Server {
    async fn end(self) {
        self.stop.send(()).unwrap();
        self.served.await.unwrap().unwrap();
    }

    /// How often clients have reached the limit of a setting.
    fn limit_hit(&self, setting: &str) -> u64 {
        let all = self.service.counters().limits_hit.get();
        all.get(setting).copied().unwrap_or_default()
    }
}

/// A client that speaks in bytes.
struct Client {
    socket: TcpStream,
    key: (i32, i32),
}

type Messages = Vec<(u8, Vec<u8>)>;

impl Client {
    async fn connect(server: &Server) -> Self {
        let mut client = Self::hello(server, "user ada database d").await;
        for (kind, body) in client.until(b'Z').await {
            assert_ne!(kind, b'E', "{body:?}");
            if kind == b'K' {
                let number = |at: usize| i32::from_be_bytes(body[at..at + 4].try_into().unwrap());
                client.key = (number(0), number(4));
            }
        }
        client
    }

    async fn hello(server: &Server, parameters: &str) -> Self {
        Self::try_hello(server, parameters).await.unwrap()
    }

    /// An error where the server has closed meanwhile.
    async fn try_hello(server: &Server, parameters: &str) -> std::io::Result<Self> {
        let mut socket = TcpStream::connect(server.address).await?;
        let mut body = vec![0, 3, 0, 0];
        body.extend(parameters.replace(' ', "\0").bytes());
        body.extend(b"\0\0");
        let length = u32::try_from(body.len() + 4).unwrap();
        socket.write_all(&length.to_be_bytes()).await?;
        socket.write_all(&body).await?;
        Ok(Self {
            socket,
            key: (0, 0),
        })
    }

    async fn send(&mut self, kind: u8, body: &[u8]) {
        let length = u32::try_from(body.len() + 4).unwrap();
        let mut message = vec![kind];
        message.extend(length.to_be_bytes());
        message.extend(body);
        self.socket.write_all(&message).await.unwrap();
    }

    /// The next message; `None` = the server has closed.
    async fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        let kind = self.socket.read_u8().await.ok()?;
        let length = self.socket.read_u32().await.ok()?;
        let mut body = vec![0; usize::try_from(length).unwrap() - 4];
        self.socket.read_exact(&mut body).await.ok()?;
        Some((kind, body))
    }

    /// Messages up to one of a kind, or to the end.
    async fn until(&mut self, end: u8) -> Messages {
        let mut all = Vec::new();
        while let Some((kind, body)) = self.next().await {
            all.push((kind, body));
            if kind == end {
                break;
            }
        }
        all
    }

    async fn query(&mut self, text: &str) -> String {
        self.send(b'Q', format!("{text}\0").as_bytes()).await;
        shown(&self.until(b'Z').await)
    }
}

/// The kinds of messages, and what is said in those that say something.
fn shown(messages: &Messages) -> String {
    let kinds: String = messages.iter().map(|(kind, _)| char::from(*kind)).collect();
    let said = messages.iter().filter_map(|(kind, body)| match kind {
        b'C' => Some(String::from_utf8_lossy(&body[..body.len() - 1]).into_owned()),
        b'E' => {
            let text = String::from_utf8_lossy(body);
            let fields = text
                .split('\0')
                .filter(|field| field.starts_with(['C', 'P']));
            Some(fields.collect::<Vec<_>>().join(" "))
        }
        b'Z' => (body != b"I").then(|| String::from_utf8_lossy(body).into_owned()),
        _ => None,
    });
    let said: Vec<String> = said.collect();
    format!("{kinds} {}", said.join(", ")).trim_end().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_simple_query_is_answered_statement_by_statement() {
    let server = server(ServiceOptions::default()).await;
    let mut client = Client::connect(&server).await;
    for (text, answer) in [
        ("SELECT rows 2", "TDDCZ SELECT 2"),
        ("SELECT rows 0", "TCZ SELECT 0"),
        ("  ; -- nothing", "IZ"),
        ("INSERT x", "CZ INSERT 0 2"),
        ("CREATE TABLE t (x)", "CZ CREATE TABLE"),
        ("SELECT rows 1; DELETE x", "TDCCZ SELECT 1, DELETE 2"),
        ("SELECT wrong; SELECT rows 1", "EZ C42703 P8"),
        ("SELECT rows 1;SELECT wrong", "TDCEZ SELECT 1, C42703 P22"),
        ("INSERT x; SELECT rows 1", "CTDCZ INSERT 0 2, SELECT 1"),
        // A message of several statements is one transaction, and a definition is not part of one.
        ("INSERT x; CREATE TABLE t (x)", "EZ C0A000 P1"),
        (
            "SELECT rows 1; CREATE TABLE t (x); SELECT rows 1",
            "EZ C0A000 P15",
        ),
        (
            "SELECT rows 1; CREATE TABLE t (x)",
            "TDCCZ SELECT 1, CREATE TABLE",
        ),
        (
            "INSERT x; COMMIT; INSERT x",
            "CNCCZ INSERT 0 2, COMMIT, INSERT 0 2",
        ),
        ("INSERT x; BEGIN", "CCZ INSERT 0 2, BEGIN, T"),
        ("ROLLBACK; INSERT x", "CCZ ROLLBACK, INSERT 0 2"),
        ("SAVEPOINT a; INSERT x", "EZ C25P01"),
        ("SHOW server_encoding", "TDCZ SHOW"),
        ("SET work_mem = '1MB'", "CZ SET"),
        ("SET application_name = 'x'", "SCZ SET"),
        ("SET client_encoding = 'LATIN1'", "EZ C22023"),
        ("LISTEN x", "EZ C0A000"),
        ("PREPARE p (bigint) AS SELECT rows $1", "CZ PREPARE"),
        ("EXECUTE p (1)", "TDCZ SELECT 1"),
        ("DEALLOCATE p", "CZ DEALLOCATE"),
        ("EXECUTE p (1)", "EZ C26000"),
    ] {
        assert_eq!(client.query(text).await, answer, "{text}");
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_fails_as_a_whole_and_up_to_its_savepoint() {
    let server = server(ServiceOptions::default()).await;
    let mut client = Client::connect(&server).await;
    for (text, answer) in [
        ("BEGIN", "CZ BEGIN, T"),
        ("SELECT rows 1", "TDCZ SELECT 1, T"),
        ("INSERT x", "CZ INSERT 0 2, T"),
        ("SELECT wrong", "EZ C42703 P8, E"),
        ("SELECT rows 1", "EZ C25P02, E"),
        ("SAVEPOINT a", "EZ C25P02, E"),
        ("RELEASE a", "EZ C25P02, E"),
        ("COMMIT", "CZ ROLLBACK"),
        ("COMMIT", "NCZ COMMIT"),
        ("BEGIN", "CZ BEGIN, T"),
        ("BEGIN", "NCZ BEGIN, T"),
        ("CREATE TABLE t (x)", "EZ C0A000, E"),
        ("ROLLBACK", "CZ ROLLBACK"),
        ("BEGIN READ ONLY", "CZ BEGIN, T"),
        ("INSERT x", "EZ C25006, E"),
        ("ABORT", "CZ ROLLBACK"),
        // Each statement sees what is committed by then; who asks for more may read.
        ("BEGIN ISOLATION LEVEL SERIALIZABLE", "CZ BEGIN, T"),
        ("SELECT rows 1", "TDCZ SELECT 1, T"),
        ("INSERT x", "EZ C0A000, E"),
        ("END", "CZ ROLLBACK"),
        ("BEGIN", "CZ BEGIN, T"),
        ("SAVEPOINT a", "CZ SAVEPOINT, T"),
        ("SAVEPOINT b", "CZ SAVEPOINT, T"),
        ("SELECT wrong", "EZ C42703 P8, E"),
        ("ROLLBACK TO SAVEPOINT b", "CZ ROLLBACK, T"),
        ("RELEASE b", "CZ RELEASE, T"),
        ("ROLLBACK TO a", "CZ ROLLBACK, T"),
        ("ROLLBACK TO b", "EZ C3B001, E"),
        ("ROLLBACK TO a", "CZ ROLLBACK, T"),
        ("COMMIT AND CHAIN", "EZ C0A000, E"),
        ("ROLLBACK", "CZ ROLLBACK"),
        ("SAVEPOINT a", "EZ C25P01"),
        ("BEGIN", "CZ BEGIN, T"),
        ("DECLARE c CURSOR FOR SELECT rows 5", "CZ DECLARE CURSOR, T"),
        ("FETCH 4 FROM c", "TDDDDCZ FETCH 4, T"),
        ("FETCH ALL FROM c", "TDCZ FETCH 1, T"),
        ("CLOSE c", "CZ CLOSE CURSOR, T"),
        ("ROLLBACK", "CZ ROLLBACK"),
        ("DECLARE c CURSOR FOR SELECT rows 5", "EZ C25P01"),
    ] {
        assert_eq!(client.query(text).await, answer, "{text}");
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extended_query_goes_in_steps_and_an_error_skips_to_the_next_sync() {
    let server = server(ServiceOptions::default()).await;
    let mut client = Client::connect(&server).await;
    client.send(b'P', b"s\0SELECT rows $1\0\0\0").await;
    client.send(b'D', b"Ss\0").await;
    // $1 = 5 in eight bytes; numbers come back as binary, texts as text.
    let bind = b"p\0s\0\0\x01\0\x01\0\x01\0\0\0\x08\0\0\0\0\0\0\0\x05\0\x02\0\x01\0\0";
    client.send(b'B', bind).await;
    client.send(b'D', b"Pp\0").await;
    client.send(b'E', b"p\0\0\0\0\x04").await;
    client.send(b'E', b"p\0\0\0\0\0").await;
    client.send(b'S', b"").await;
    let messages = client.until(b'Z').await;
    assert_eq!(shown(&messages), "1tT2TDDDDsDCZ SELECT 1");
    let rows = messages.iter().filter(|(kind, _)| *kind == b'D');
    let rows: Vec<&[u8]> = rows.map(|(_, body)| body.as_slice()).collect();
    assert_eq!(rows[0], b"\0\x02\0\0\0\x08\0\0\0\0\0\0\0\0\0\0\0\x05row 0");
    assert_eq!(
        rows[1],
        b"\0\x02\0\0\0\x08\0\0\0\0\0\0\0\x01\xff\xff\xff\xff"
    );
    client.send(b'B', b"\0nowhere\0\0\0\0\0\0\0").await;
    client.send(b'E', b"\0\0\0\0\0").await;
    client.send(b'S', b"").await;
    assert_eq!(shown(&client.until(b'Z').await), "EZ C26000");
    // The name is taken until it is closed.
    client.send(b'P', b"s\0SELECT rows 1\0\0\0").await;
    client.send(b'S', b"").await;
    assert_eq!(shown(&client.until(b'Z').await), "EZ C42P05");
    client.send(b'C', b"Ss\0").await;
    client.send(b'P', b"s\0SELECT rows 1\0\0\0").await;
    client.send(b'S', b"").await;
    assert_eq!(shown(&client.until(b'Z').await), "31Z");
    server.end().await;
}

/// The story: a second Execute of a portal carried out its INSERT again.
#[tokio::test(flavor = "multi_thread")]
async fn a_portal_that_changes_something_runs_once() {
    let server = server(ServiceOptions::default()).await;
    let mut client = Client::connect(&server).await;
    client.send(b'P', b"\0INSERT INTO t VALUES (1)\0\0\0").await;
    client.send(b'B', b"\0\0\0\0\0\0\0\0").await;
    client.send(b'E', b"\0\0\0\0\0").await;
    client.send(b'E', b"\0\0\0\0\0").await;
    client.send(b'S', b"").await;
    assert_eq!(shown(&client.until(b'Z').await), "12CEZ INSERT 0 2, C55000");
    server.end().await;
}

/// What comes in one piece is seen before its turn: a Describe of a portal is answered from the run that its Execute asks for.
#[tokio::test(flavor = "multi_thread")]
async fn messages_that_come_together_are_answered_in_their_order() {
    let server = server(ServiceOptions::default()).await;
    let mut client = Client::connect(&server).await;
    let mut all = Vec::new();
    let mut put = |kind: u8, body: &[u8]| {
        all.push(kind);
        all.extend(u32::try_from(body.len() + 4).unwrap().to_be_bytes());
        all.extend(body);
    };
    put(b'P', b"s\0SELECT rows $1\0\0\0");
    put(b'P', b"i\0INSERT x\0\0\0");
    // 5 rows, then 7: all, or 4 and the rest, or described and left, or of another portal than was described.
    let bind = |portal: &str, rows: u8| {
        let mut body = format!("{portal}\0s\0\0\x01\0\x01\0\x01\0\0\0\x08").into_bytes();
        body.extend([0, 0, 0, 0, 0, 0, 0, rows, 0, 1, 0, 0]);
        body
    };
    put(b'B', &bind("", 5));
    put(b'D', b"P\0");
    put(b'E', b"\0\0\0\0\0");
    put(b'B', b"w\0i\0\0\0\0\0\0\0");
    put(b'D', b"Pw\0");
    put(b'E', b"w\0\0\0\0\0");
    put(b'B', &bind("p", 5));
    put(b'D', b"Pp\0");
    put(b'E', b"p\0\0\0\0\x04");
    put(b'E', b"p\0\0\0\0\0");
    put(b'B', &bind("q", 5));
    put(b'D', b"Pq\0");
    put(b'B', &bind("r", 2));
    put(b'D', b"Pr\0");
    put(b'E', b"q\0\0\0\0\x02");
    put(b'E', b"r\0\0\0\0\0");
    put(b'E', b"q\0\0\0\0\0");
    put(b'S', b"");
    put(b'B', b"\0nowhere\0\0\0\0\0\0\0");
    put(b'E', b"\0\0\0\0\0");
    put(b'S', b"");
    client.socket.write_all(&all).await.unwrap();
    assert_eq!(
        shown(&client.until(b'Z').await),
        "112TDDDDDC2nC2TDDDDsDC2T2TDDsDDCDDDCZ SELECT 5, INSERT 0 2, SELECT 1, SELECT 2, SELECT 3"
    );
    assert_eq!(shown(&client.until(b'Z').await), "EZ C26000");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_breaks_the_protocol_ends_its_own_connection_alone() {
    let server = server(ServiceOptions::default()).await;
    let mut other = Client::connect(&server).await;
    for broken in [
        &b"?\0\0\0\x04"[..],
        b"Q\0\0\0\x03",
        b"Q\0\0\0\x05x",
        b"B\0\0\0\x08\0\0\x7f\xff",
        b"D\0\0\0\x06Xx",
    ] {
        let mut client = Client::connect(&server).await;
        client.socket.write_all(broken).await.unwrap();
        assert_eq!(shown(&client.until(b'!').await), "E C08P01", "{broken:?}");
    }
    // One that is too long is read past.
    let long = format!("SELECT '{}'", "x".repeat(200_000));
    assert_eq!(other.query(&long).await, "EZ C54000");
    assert_eq!(other.query("SELECT rows 1").await, "TDCZ SELECT 1");
    let mut nowhere = Client::hello(&server, "user ada database nowhere").await;
    assert_eq!(shown(&nowhere.until(b'!').await), "E C3D000");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_is_cancelled_by_who_knows_the_secret_and_by_its_time() {
    let server = server(ServiceOptions::default()).await;
    let mut client = Client::connect(&server).await;
    let (number, secret) = client.key;
    client.send(b'Q', b"SELECT slow\0").await;
    for shows in [secret ^ 1, secret] {
        let mut cancel = TcpStream::connect(server.address).await.unwrap();
        let message = [16, 80_877_102, number, shows].map(i32::to_be_bytes);
        cancel.write_all(&message.concat()).await.unwrap();
        let mut nothing = Vec::new();
        cancel.read_to_end(&mut nothing).await.unwrap();
        assert_eq!(nothing, b"");
        if shows != secret {
            let early = tokio::time::timeout(Duration::from_millis(50), client.next());
            assert!(early.await.is_err(), "another secret cancelled it");
        }
    }
    assert_eq!(shown(&client.until(b'Z').await), "EZ C57014");
    assert_eq!(client.query("SET statement_timeout = 20").await, "CZ SET");
    assert_eq!(client.query("SELECT slow").await, "EZ C57014");
    assert_eq!(client.query("SELECT rows 1").await, "TDCZ SELECT 1");
    server.end().await;
}

/// The story: a client took a place only once it had said who it is. 4,000 silent ones were let in where the setting said 10,
/// and each held a file: the server had none left for HTTP.
#[tokio::test(flavor = "multi_thread")]
async fn who_says_nothing_has_a_place_too() {
    let server = server(ServiceOptions::default()).await;
    let mut silent = Vec::new();
    // Three have the places, 64 more are heard a while; whoever comes then is closed at once.
    for _ in 0..67 {
        silent.push(TcpStream::connect(server.address).await.unwrap());
    }
    let mut one_more = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(one_more.read(&mut [0; 1]).await.unwrap_or(0), 0);
    let first = silent.first_mut().unwrap();
    let early = tokio::time::timeout(Duration::from_millis(50), first.read_u8());
    assert!(early.await.is_err(), "the first one has its place");
    assert_eq!(server.limit_hit("pg-connections-max"), 65);
    // Who goes leaves the place.
    drop(silent);
    let mut client = loop {
        let Ok(mut client) = Client::try_hello(&server, "user ada database d").await else {
            continue;
        };
        if client
            .until(b'Z')
            .await
            .last()
            .is_some_and(|(kind, _)| *kind == b'Z')
        {
            break client;
        }
    };
    assert_eq!(client.query("SELECT rows 1").await, "TDCZ SELECT 1");
    drop(client);
    server.end().await;
}

/// The story: only limits that clients of HTTP reached were counted.
#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_a_client_reaches_is_counted() {
    let mut options = ServiceOptions::default();
    options.query.query_ms_max = 20;
    let server = server(options).await;
    let mut client = Client::connect(&server).await;
    let long = format!("SELECT '{}'", "x".repeat(100_000));
    for (statement, setting) in [
        (long.as_str(), "pg-message-bytes-max"),
        ("SELECT slow", "query-ms-max"),
    ] {
        for times in 1..3 {
            assert!(client.query(statement).await.starts_with("EZ"));
            assert_eq!(server.limit_hit(setting), times, "{setting}");
        }
    }
    // What is wrong in another way is none.
    let before = server.service.counters().limits_hit.get();
    assert!(client.query("SELECT wrong").await.starts_with("EZ"));
    assert_eq!(server.service.counters().limits_hit.get(), before);
    drop(client);
    server.end().await;
}

/// The story: as many cursors as there are turns, each of a client that asks something beside it, waited for each other until the
/// time of a query had passed.
#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_that_waits_for_its_client_leaves_its_turn_to_others() {
    let server = server(ServiceOptions {
        queries_max: 1,
        ..ServiceOptions::default()
    })
    .await;
    let mut clients = Vec::new();
    for _ in 0..2 {
        let mut client = Client::connect(&server).await;
        assert_eq!(client.query("BEGIN").await, "CZ BEGIN, T");
        let declared = client.query("DECLARE c CURSOR FOR SELECT rows 10").await;
        assert_eq!(declared, "CZ DECLARE CURSOR, T");
        assert_eq!(client.query("FETCH 2 FROM c").await, "TDDCZ FETCH 2, T");
        clients.push(client);
    }
    for client in &mut clients {
        assert_eq!(client.query("SELECT rows 1").await, "TDCZ SELECT 1, T");
        assert_eq!(client.query("FETCH 3 FROM c").await, "TDDDCZ FETCH 3, T");
    }
    drop(clients);
    server.end().await;
}

/// The story: SHOW QUERIES and KILL waited for a turn behind the statements that they were about.
#[tokio::test(flavor = "multi_thread")]
async fn what_lists_and_ends_others_does_not_wait_for_them() {
    let server = server(ServiceOptions {
        queries_max: 1,
        ..ServiceOptions::default()
    })
    .await;
    let mut slow = Client::connect(&server).await;
    slow.send(b'Q', b"SELECT slow\0").await;
    let mut other = Client::connect(&server).await;
    // Whatever the language says of it: it is asked.
    let asked = other.query("SHOW QUERIES");
    let answer = tokio::time::timeout(Duration::from_mins(1), asked).await;
    assert!(answer.unwrap().starts_with("CZ"));
    assert!(other.query("KILL QUERY 1").await.starts_with("CZ"));
    drop((slow, other));
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_asked_is_offered_scram_and_a_wrong_proof_is_refused() {
    let options = ServiceOptions {
        token: Some(Token::new("a-token-of-the-test", "the test").unwrap()),
        ..ServiceOptions::default()
    };
    let server = server(options).await;
    let mut client = Client::hello(&server, "user ada database d").await;
    let (kind, body) = client.next().await.unwrap();
    assert_eq!(kind, b'R');
    assert_eq!(body, b"\0\0\0\x0aSCRAM-SHA-256\0\0");
    let first = b"n,,n=,r=nonce";
    let mut message = b"SCRAM-SHA-256\0".to_vec();
    message.extend(u32::try_from(first.len()).unwrap().to_be_bytes());
    message.extend(first);
    client.send(b'p', &message).await;
    let (_, body) = client.next().await.unwrap();
    let said = String::from_utf8(body[4..].to_vec()).unwrap();
    let nonce = said.split(',').next().unwrap();
    let proof = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let last = format!("c=biws,{nonce},p={proof}");
    client.send(b'p', last.as_bytes()).await;
    assert_eq!(shown(&client.until(b'!').await), "E C28P01");
    server.end().await;
}
