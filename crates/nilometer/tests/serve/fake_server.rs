//! A server that answers writes as it is told and remembers them: for what a real one does only by accident.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

#[derive(Debug, Default)]
struct Orders {
    /// Writes that are taken before the others are refused.
    takes: usize,
    /// Writes that are told to come again.
    busy: usize,
    /// Seconds after which.
    retry_after: u32,
    /// Keys and bodies of the writes that were taken or put off.
    writes: Vec<(String, String)>,
}

/// Listens until the test ends.
#[derive(Debug)]
pub(crate) struct FakeServer {
    port: u16,
    orders: Arc<Mutex<Orders>>,
}

impl FakeServer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("a port").port();
        let orders = Arc::new(Mutex::new(Orders {
            takes: usize::MAX,
            ..Orders::default()
        }));
        let kept = Arc::clone(&orders);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let orders = Arc::clone(&kept);
                thread::spawn(move || serve(stream, &orders));
            }
        });
        Self { port, orders }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn refuse_after(&self, writes: usize) {
        self.orders().takes = writes;
    }

    pub(crate) fn be_busy(&self, writes: usize) {
        self.orders().busy = writes;
    }

    /// Tells writes to come again after so many seconds.
    pub(crate) fn be_busy_for(&self, writes: usize, seconds: u32) {
        let mut orders = self.orders();
        (orders.busy, orders.retry_after) = (writes, seconds);
    }

    /// Writes that have come.
    pub(crate) fn writes(&self) -> usize {
        self.orders().writes.len()
    }

    /// What was written since the last call.
    pub(crate) fn take(&self) -> Vec<(String, String)> {
        std::mem::take(&mut self.orders().writes)
    }

    fn orders(&self) -> std::sync::MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers the requests of one connection until it closes.
fn serve(stream: TcpStream, orders: &Mutex<Orders>) {
    let mut out = stream.try_clone().expect("a connection has two ends");
    let mut input = BufReader::new(stream);
    loop {
        let (mut first, mut length, mut key) = (String::new(), 0, String::new());
        if input.read_line(&mut first).unwrap_or(0) == 0 {
            return;
        }
        loop {
            let mut line = String::new();
            if input.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            match line.trim_end().split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.parse().expect("a length");
                }
                Some((name, value)) if name.eq_ignore_ascii_case("idempotency-key") => {
                    value.clone_into(&mut key);
                }
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        if input.read_exact(&mut body).is_err() {
            return;
        }
        let answer = if first.contains("/query_sql") {
            "404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned()
        } else if first.starts_with("POST") {
            write(orders, key, String::from_utf8_lossy(&body).into_owned())
        } else {
            "204 No Content\r\n\r\n".to_owned()
        };
        if out
            .write_all(format!("HTTP/1.1 {answer}").as_bytes())
            .is_err()
        {
            return;
        }
    }
}

fn write(orders: &Mutex<Orders>, key: String, body: String) -> String {
    let mut orders = orders.lock().unwrap_or_else(PoisonError::into_inner);
    let error = |status: &str, text: &str| {
        format!("{status}\r\ncontent-length: {}\r\n\r\n{text}", text.len())
    };
    if orders.takes == 0 {
        return error("403 Forbidden", "{\"error\": \"no more today\"}");
    }
    orders.writes.push((key, body));
    if orders.busy > 0 {
        orders.busy -= 1;
        let seconds = orders.retry_after;
        return error(
            &format!("503 Service Unavailable\r\nretry-after: {seconds}"),
            "{\"error\": \"busy\"}",
        );
    }
    orders.takes -= 1;
    "204 No Content\r\n\r\n".to_owned()
}
