//! Another surface, as small as it can be: SQL over TCP, a line each way. It is made of what ARCHITECTURE.md names under
//! "Adding a surface"; if it needs more one day, either that section or the seam is wrong.

use std::io;
use std::sync::Arc;

use arrow::util::display::array_value_to_string;
use futures::StreamExt;
use futures::future::BoxFuture;
use nilometer_engine::disk::MemoryDisk;
use nilometer_lineproto::Precision;
use nilometer_service::{
    CancellationToken, Class, Error, LineTarget, Params, Scope, Service, ServiceOptions, Session,
    Surface,
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::support::{engine_on, service_over};

/// SQL over TCP, one client after the other.
struct Lines(TcpListener);

impl Surface for Lines {
    fn serve(
        self: Box<Self>,
        service: Arc<Service>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), Error>> {
        let broken = |error: io::Error| Error::Surface(Box::new(error));
        Box::pin(async move {
            loop {
                let (socket, _) = tokio::select! {
                    () = stop.cancelled() => return Ok(()),
                    accepted = self.0.accept() => accepted.map_err(broken)?,
                };
                let talked = stop.run_until_cancelled(talk(socket, &service)).await;
                talked.unwrap_or(Ok(())).map_err(broken)?;
            }
        })
    }
}

/// Its clients' words for what errors mean.
fn code_of(class: Class) -> &'static str {
    match class {
        Class::BadRequest => "MALFORMED",
        Class::TooLarge | Class::TooMany | Class::Busy => "LIMIT",
        _ => "FAILED",
    }
}

/// The rows of an answer, with commas and semicolons between.
async fn answer(service: &Service, statement: &str) -> Result<String, Error> {
    // Its clients have no way to say who they are.
    let principal = service.access().standing_for(None)?;
    let (session, parameters) = (Session::new("d", principal), Params::new());
    let _turn = service.turn_for(statement).await?;
    let sql = service.language("sql")?;
    let outcome = session.run(&**sql, statement, &parameters).await?;
    let mut rows = outcome.into_rows()?;
    let mut lines = Vec::new();
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter();
            let values = values.map(|column| array_value_to_string(column, row).unwrap());
            lines.push(values.collect::<Vec<_>>().join(","));
        }
    }
    Ok(lines.join(";"))
}

async fn talk(socket: TcpStream, service: &Service) -> io::Result<()> {
    let (read, mut write) = socket.into_split();
    let mut statements = BufReader::new(read).lines();
    while let Some(statement) = statements.next_line().await? {
        let line = match answer(service, &statement).await {
            Ok(rows) => format!("OK {rows}\n"),
            Err(error) => {
                let text = error.to_string().replace('\n', " ");
                format!("{} {text}\n", code_of(error.class()))
            }
        };
        write.write_all(line.as_bytes()).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn sql_over_tcp_takes_a_surface_a_language_and_a_table_of_codes() {
    let engine = engine_on(Arc::new(MemoryDisk::default()));
    let service = service_over(engine, ServiceOptions::default());
    let target = LineTarget {
        principal: nilometer_service::Principal::anyone(),
        scope: Scope::of_database("d"),
        creates: true,
        precision: Precision::Nanosecond,
        key: None,
        keeps_policy: false,
    };
    let lines = || Ok::<_, Error>(b"m,h=a v=1.5 1\nm,h=b v=2.5 2");
    let report = service.write_lines(target, lines).await;
    assert_eq!(report.unwrap().rows, 2);

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let surface = tokio::spawn(service.serve(vec![Box::new(Lines(listener))], stopped));
    let mut client = BufReader::new(TcpStream::connect(address).await.unwrap());
    for (statement, expected) in [
        ("SELECT h, v FROM m ORDER BY h", "OK a,1.5;b,2.5\n"),
        ("DELETE FROM m WHERE h = 'a'", "OK 1\n"),
        ("SELECT count(*) FROM m", "OK 1\n"),
    ] {
        assert_eq!(ask(&mut client, statement).await, expected, "{statement}");
    }
    for (statement, said) in [("SELECT * FROM absent", "absent"), ("SELEC", "SELEC")] {
        let refused = ask(&mut client, statement).await;
        assert!(refused.starts_with("MALFORMED "), "{refused}");
        assert!(refused.contains(said), "{refused}");
    }
    // It stops while its client is there.
    stop.send(()).unwrap();
    surface.await.unwrap().unwrap();
    drop(client);
}

async fn ask(client: &mut BufReader<TcpStream>, statement: &str) -> String {
    let line = format!("{statement}\n");
    client.get_mut().write_all(line.as_bytes()).await.unwrap();
    let mut answer = String::new();
    client.read_line(&mut answer).await.unwrap();
    answer
}
