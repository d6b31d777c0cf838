//! A client of TStorage's protocol, as far as its benchmark needs one: PUT, GET and `GET_ACQ` over a blocking socket.
//!
//! Does: send requests that were made beforehand, hand over records as they arrive. Does not: make TLS, or try again.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use crate::{Error, Result};

const GET: i32 = 1;
const PUT: i32 = 5;
const GET_ACQ: i32 = 7;
/// cid, mid, moid, cap, acq.
const KEY_BYTES: usize = 32;
/// What a record of a PUT has before its payload: its own size, and the key without cid and acq.
const RECORD_BYTES: usize = 4 + 20;
/// Room for what has arrived: an answer of many records takes few calls.
const BUFFER_BYTES: usize = 1 << 18;

/// A box over clients and times; everything else is open.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClientBox {
    /// The first client, and the one after the last.
    pub(super) cids: (i32, i32),
    /// The first time, and the one after the last, in nanoseconds since 2001.
    pub(super) caps: (i64, i64),
}

/// Begins a PUT.
pub(super) fn begin_put(to: &mut Vec<u8>) {
    to.extend_from_slice(&PUT.to_le_bytes());
    to.extend_from_slice(&0_u64.to_le_bytes());
}

/// Adds a record to a PUT, in a batch of its own: records come in the order of time, so the next one is another client's.
pub(super) fn add_record(cid: i32, cap: i64, payload: &[u8], to: &mut Vec<u8>) {
    let record = RECORD_BYTES + payload.len();
    let narrow = |bytes: usize| i32::try_from(bytes).unwrap_or(i32::MAX).to_le_bytes();
    to.extend_from_slice(&cid.to_le_bytes());
    to.extend_from_slice(&narrow(record));
    to.extend_from_slice(&narrow(record - 4));
    // mid and moid.
    to.extend_from_slice(&[0; 12]);
    to.extend_from_slice(&cap.to_le_bytes());
    to.extend_from_slice(payload);
}

/// Ends a PUT.
pub(super) fn end_put(to: &mut Vec<u8>) {
    to.extend_from_slice(&(-1_i32).to_le_bytes());
}

/// A connection.
#[derive(Debug)]
pub(super) struct Client {
    stream: BufReader<TcpStream>,
    /// A record that did not arrive as a whole.
    parts: Vec<u8>,
    /// Bytes of the last answer.
    pub(super) answer_bytes: usize,
}

impl Client {
    pub(super) fn connect(address: &str) -> Result<Self> {
        let unreachable = |source: io::Error| Error::Unreachable {
            url: format!("tstorage://{address}"),
            why: source.to_string(),
        };
        let stream = TcpStream::connect(address).map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        Ok(Self {
            stream: BufReader::with_capacity(BUFFER_BYTES, stream),
            parts: Vec::new(),
            answer_bytes: 0,
        })
    }

    /// Sends a PUT; its records are on stable storage when this returns. The last of their stamps.
    pub(super) fn put(&mut self, request: &[u8]) -> Result<i64> {
        self.send("PUT", request)?;
        self.header("PUT", 16)?;
        self.bytes::<8>("PUT")?;
        Ok(i64::from_le_bytes(self.bytes("PUT")?))
    }

    /// Up to when a box is complete.
    pub(super) fn complete(&mut self, of: &ClientBox) -> Result<i64> {
        self.send("GET_ACQ", &boxed(GET_ACQ, of))?;
        self.header("GET_ACQ", 8)?;
        Ok(i64::from_le_bytes(self.bytes("GET_ACQ")?))
    }

    /// Hands over client, time and payload of every record of a box; how many there were.
    pub(super) fn get(
        &mut self,
        of: &ClientBox,
        mut each: impl FnMut(i32, i64, &[u8]),
    ) -> Result<usize> {
        const NAME: &str = "GET";
        self.answer_bytes = 0;
        self.send(NAME, &boxed(GET, of))?;
        self.header(NAME, 0)?;
        let mut records = 0;
        loop {
            let size = i32::from_le_bytes(self.bytes(NAME)?);
            if size == 0 {
                break;
            }
            let bytes = usize::try_from(size).ok();
            let Some(bytes) = bytes.filter(|bytes| *bytes >= KEY_BYTES) else {
                return Err(strange(NAME, format!("a record of {size} bytes")));
            };
            let here = self.stream.buffer().get(..bytes);
            if let Some(record) = here {
                hand_over(record, &mut each);
                self.stream.consume(bytes);
                self.answer_bytes += bytes;
            } else {
                let mut record = std::mem::take(&mut self.parts);
                record.resize(bytes, 0);
                self.read(NAME, &mut record)?;
                hand_over(&record, &mut each);
                self.parts = record;
            }
            records += 1;
        }
        self.header(NAME, 8)?;
        self.bytes::<8>(NAME)?;
        Ok(records)
    }

    fn send(&mut self, name: &str, request: &[u8]) -> Result<()> {
        let sent = self.stream.get_mut().write_all(request);
        sent.map_err(|source| lost(name, &source))
    }

    fn header(&mut self, name: &str, size: u64) -> Result<()> {
        let status = i32::from_le_bytes(self.bytes(name)?);
        let found = u64::from_le_bytes(self.bytes(name)?);
        if status == 0 && found == size {
            return Ok(());
        }
        Err(strange(name, format!("status {status}, size {found}")))
    }

    fn bytes<const N: usize>(&mut self, name: &str) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read(name, &mut bytes)?;
        Ok(bytes)
    }

    fn read(&mut self, name: &str, to: &mut [u8]) -> Result<()> {
        self.answer_bytes += to.len();
        let read = self.stream.read_exact(to);
        read.map_err(|source| lost(name, &source))
    }
}

/// Client, time and payload of a record, which begins with its key.
fn hand_over(record: &[u8], each: &mut impl FnMut(i32, i64, &[u8])) {
    let Some((key, payload)) = record.split_first_chunk::<KEY_BYTES>() else {
        return;
    };
    let (cid, rest) = key.split_first_chunk().unwrap_or((&[0; 4], &[]));
    let cap = rest.get(12..).and_then(<[u8]>::first_chunk);
    let cap = cap.copied().map_or(0, i64::from_le_bytes);
    each(i32::from_le_bytes(*cid), cap, payload);
}

fn boxed(command: i32, of: &ClientBox) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(12 + 2 * KEY_BYTES);
    bytes.extend_from_slice(&command.to_le_bytes());
    bytes.extend_from_slice(&(2 * KEY_BYTES as u64).to_le_bytes());
    let mut key = |cid: i32, mid: i64, moid: i32, cap: i64, acq: i64| {
        bytes.extend_from_slice(&cid.to_le_bytes());
        bytes.extend_from_slice(&mid.to_le_bytes());
        bytes.extend_from_slice(&moid.to_le_bytes());
        bytes.extend_from_slice(&cap.to_le_bytes());
        bytes.extend_from_slice(&acq.to_le_bytes());
    };
    key(of.cids.0, i64::MIN, i32::MIN, of.caps.0, i64::MIN);
    key(of.cids.1, i64::MAX, i32::MAX, of.caps.1, i64::MAX);
    bytes
}

fn lost(name: &str, source: &io::Error) -> Error {
    Error::NoAnswer {
        name: name.to_owned(),
        why: source.to_string(),
    }
}

fn strange(name: &str, why: String) -> Error {
    Error::Answer {
        name: name.to_owned(),
        format: "TStorage's protocol",
        why,
    }
}
