//! A client of the protocol, written from its description alone: it shares no line with the surface.

use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// cid, mid, moid, cap, acq.
pub(crate) type Key = (i32, i64, i32, i64, i64);

/// Everything below the upper corner.
pub(crate) const MIN: Key = (0, i64::MIN, i32::MIN, i64::MIN, i64::MIN);
pub(crate) const MAX: Key = (i32::MAX, i64::MAX, i32::MAX, i64::MAX, i64::MAX);

/// A record as it is read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Record {
    pub(crate) key: Key,
    pub(crate) payload: Vec<u8>,
}

/// A record of `payload` with this key; the last part counts in a PUTA only.
pub(crate) fn record(key: Key, payload: impl Into<Vec<u8>>) -> Record {
    let payload = payload.into();
    Record { key, payload }
}

/// What a server answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer<T> {
    Ok(T),
    /// The status of an error.
    Status(i32),
}

impl<T> Answer<T> {
    #[track_caller]
    pub(crate) fn ok(self) -> T {
        match self {
            Self::Ok(it) => it,
            Self::Status(status) => panic!("status {status}"),
        }
    }
}

pub(crate) fn header(command: i32, size: u64) -> Vec<u8> {
    let mut bytes = command.to_le_bytes().to_vec();
    bytes.extend(size.to_le_bytes());
    bytes
}

fn put_key(key: Key, to: &mut Vec<u8>) {
    to.extend(key.0.to_le_bytes());
    to.extend(key.1.to_le_bytes());
    to.extend(key.2.to_le_bytes());
    to.extend(key.3.to_le_bytes());
    to.extend(key.4.to_le_bytes());
}

pub(crate) fn get_request(min: Key, max: Key) -> Vec<u8> {
    let mut bytes = header(1, 64);
    put_key(min, &mut bytes);
    put_key(max, &mut bytes);
    bytes
}

pub(crate) fn get_acq_request(min: Key, max: Key) -> Vec<u8> {
    let mut bytes = header(7, 64);
    put_key(min, &mut bytes);
    put_key(max, &mut bytes);
    bytes
}

/// Batches of records of one client each, in the order in which they are given.
pub(crate) fn put_request(records: &[Record], has_acq: bool) -> Vec<u8> {
    let mut bytes = header(if has_acq { 6 } else { 5 }, 0);
    for batch in records.chunk_by(|one, other| one.key.0 == other.key.0) {
        let mut body = Vec::new();
        for record in batch {
            let fixed = if has_acq { 28 } else { 20 };
            let size = i32::try_from(fixed + record.payload.len()).unwrap();
            body.extend(size.to_le_bytes());
            body.extend(record.key.1.to_le_bytes());
            body.extend(record.key.2.to_le_bytes());
            body.extend(record.key.3.to_le_bytes());
            if has_acq {
                body.extend(record.key.4.to_le_bytes());
            }
            body.extend(&record.payload);
        }
        bytes.extend(batch[0].key.0.to_le_bytes());
        bytes.extend(i32::try_from(body.len()).unwrap().to_le_bytes());
        bytes.extend(body);
    }
    bytes.extend((-1_i32).to_le_bytes());
    bytes
}

#[derive(Debug)]
pub(crate) struct Client {
    /// To be written to; answers are read in large pieces.
    pub(crate) socket: TcpStream,
    answers: BufReader<TcpStream>,
    /// Bytes of answers that were read.
    pub(crate) read: u64,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        // A server that hangs fails the test.
        socket
            .set_read_timeout(Some(Duration::from_mins(1)))
            .unwrap();
        socket.set_nodelay(true).unwrap();
        let answers = BufReader::with_capacity(64 << 10, socket.try_clone().unwrap());
        Self {
            socket,
            answers,
            read: 0,
        }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    pub(crate) fn end(&self) {
        // The server may be gone already.
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    fn exact<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.answers.read_exact(&mut bytes).unwrap();
        self.read += N as u64;
        bytes
    }

    fn i32(&mut self) -> i32 {
        i32::from_le_bytes(self.exact())
    }

    fn i64(&mut self) -> i64 {
        i64::from_le_bytes(self.exact())
    }

    /// A header whose size is what it has to be.
    fn header(&mut self, size: u64) -> Option<i32> {
        let status = self.i32();
        let said = u64::from_le_bytes(self.exact());
        if status != 0 {
            assert_eq!(said, 0);
            return Some(status);
        }
        assert_eq!(said, size);
        None
    }

    pub(crate) fn read_get(&mut self) -> Answer<(Vec<Record>, i64)> {
        if let Some(status) = self.header(0) {
            return Answer::Status(status);
        }
        let mut records = Vec::new();
        loop {
            let size = self.i32();
            if size == 0 {
                break;
            }
            let key = (self.i32(), self.i64(), self.i32(), self.i64(), self.i64());
            let mut payload = vec![0; usize::try_from(size - 32).unwrap()];
            self.answers.read_exact(&mut payload).unwrap();
            self.read += payload.len() as u64;
            records.push(Record { key, payload });
        }
        if let Some(status) = self.header(8) {
            return Answer::Status(status);
        }
        records.sort();
        Answer::Ok((records, self.i64()))
    }

    pub(crate) fn read_acq(&mut self) -> Answer<i64> {
        match self.header(8) {
            Some(status) => Answer::Status(status),
            None => Answer::Ok(self.i64()),
        }
    }

    pub(crate) fn read_put(&mut self) -> Answer<(i64, i64)> {
        match self.header(16) {
            Some(status) => Answer::Status(status),
            None => Answer::Ok((self.i64(), self.i64())),
        }
    }

    /// So many bytes of what the server sends.
    pub(crate) fn exactly(&mut self, bytes: usize) -> Vec<u8> {
        let mut read = vec![0; bytes];
        self.answers.read_exact(&mut read).unwrap();
        read
    }

    /// Everything that the server still sends; an error = it closed without it.
    pub(crate) fn rest(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.answers.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The first byte of an answer, or none if the server closes.
    pub(crate) fn first_byte_or_end(&mut self) -> Option<u8> {
        let mut byte = [0];
        let read = self.answers.read(&mut byte);
        read.is_ok_and(|read| read == 1).then_some(byte[0])
    }

    /// What the server answers to one question, or nothing if it does not listen.
    pub(crate) fn rest_of_one_request(&mut self) -> Vec<u8> {
        if self.socket.write_all(&get_acq_request(MIN, MAX)).is_err() {
            return Vec::new();
        }
        self.end();
        self.rest().unwrap_or_default()
    }

    pub(crate) fn get(&mut self, min: Key, max: Key) -> Answer<(Vec<Record>, i64)> {
        self.send(&get_request(min, max));
        self.read_get()
    }

    pub(crate) fn get_acq(&mut self, min: Key, max: Key) -> Answer<i64> {
        self.send(&get_acq_request(min, max));
        self.read_acq()
    }

    pub(crate) fn put(&mut self, records: &[Record]) -> Answer<(i64, i64)> {
        self.send(&put_request(records, false));
        self.read_put()
    }

    pub(crate) fn puta(&mut self, records: &[Record]) -> Answer<(i64, i64)> {
        self.send(&put_request(records, true));
        self.read_put()
    }
}
