//! Frames off a socket.
//!
//! Does: read a frame when its length is allowed and there is memory for it, read past one that is too long, tell the kinds
//! of messages apart. Does not: know what a message means for the connection.

use bytes::{Bytes, BytesMut};
use nilometer_service::{BodyMemory, BodyPermit, Error};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::cursor::{Cursor, Malformed};

/// What a socket is read in, and the largest frame that the memory of bodies is not asked for.
const BUFFER_BYTES: usize = 16 << 10;

/// Read ahead while a statement runs: what a client sends meanwhile waits in its own buffers.
const AHEAD_BYTES_MAX: usize = 64 << 10;

/// A buffer that has grown larger is given back when it is empty.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// A longer Execute has a long name of a portal, which is not looked at before its turn.
const EXECUTE_BYTES_MAX: usize = 128;

/// The largest message of a client that is not known yet, as PostgreSQL has it.
const STARTUP_BYTES_MAX: usize = 10_000;

/// Why there is no message.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The client is gone, or the socket broke.
    Gone,
    /// What came is no message of this protocol.
    Malformed(&'static str),
}

impl From<Malformed> for ReadError {
    fn from(_: Malformed) -> Self {
        Self::Malformed("a message is not what its kind says")
    }
}

/// A message of a client, with the memory that it takes.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) body: Bytes,
    /// Given back when the message is done with.
    pub(crate) permit: Option<BodyPermit>,
}

/// What came.
#[derive(Debug)]
pub(crate) enum Received {
    Frame(Frame),
    /// A message for which there is no room: it was read past.
    Refused {
        kind: u8,
        why: Refusal,
    },
}

/// Why a message was read past.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// It is longer than a message may be.
    TooLong { bytes: usize, bytes_max: usize },
    /// There is no memory for it now.
    Memory(Error),
}

/// The reading half of a connection.
#[derive(Debug)]
pub(crate) struct Frames<R> {
    socket: R,
    buffer: BytesMut,
    memory: BodyMemory,
    bytes_max: usize,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    pub(crate) fn new(socket: R, memory: BodyMemory, bytes_max: usize) -> Self {
        Self {
            socket,
            buffer: BytesMut::with_capacity(BUFFER_BYTES),
            memory,
            bytes_max,
        }
    }

    /// The socket, which nothing was read ahead of. `None` = something was.
    pub(crate) fn into_socket(self) -> Option<R> {
        self.buffer.is_empty().then_some(self.socket)
    }

    /// Waits for the client to send something or to go, and keeps what comes; for while a statement runs. `false` = it is
    /// gone. Nothing is lost if nobody waits for it any more.
    pub(crate) async fn is_there(&mut self) -> bool {
        if self.buffer.len() >= AHEAD_BYTES_MAX {
            return std::future::pending().await;
        }
        match self.socket.read_buf(&mut self.buffer).await {
            Ok(0) | Err(_) => false,
            Ok(_) => true,
        }
    }

    /// Reads until so many bytes are there.
    async fn fill(&mut self, bytes: usize) -> Result<(), ReadError> {
        while self.buffer.len() < bytes {
            let missing = bytes - self.buffer.len();
            self.buffer.reserve(missing.max(BUFFER_BYTES / 2));
            match self.socket.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => return Err(ReadError::Gone),
                Ok(_) => {}
            }
        }
        Ok(())
    }

    /// How many rows the next message asks a portal for, if that has come already and is an Execute of it.
    pub(crate) fn asks_next(&self, portal: &str) -> Option<usize> {
        let length = self.number(1);
        if self.buffer.first() != Some(&b'E') || length > EXECUTE_BYTES_MAX {
            return None;
        }
        let body = self.buffer.get(5..1 + length)?;
        match Message::of(b'E', Bytes::copy_from_slice(body)) {
            Ok(Message::Execute {
                portal: name,
                rows_max,
            }) if name == portal => Some(rows_max),
            _ => None,
        }
    }

    fn number(&self, at: usize) -> usize {
        let bytes: [u8; 4] = self
            .buffer
            .get(at..at + 4)
            .and_then(|bytes| bytes.try_into().ok())
            .unwrap_or_default();
        u32::from_be_bytes(bytes) as usize
    }

    /// The first message of a connection, which has no kind.
    pub(crate) async fn first(&mut self) -> Result<Bytes, ReadError> {
        self.fill(4).await?;
        let length = self.number(0);
        if !(8..=STARTUP_BYTES_MAX).contains(&length) {
            return Err(ReadError::Malformed(
                "the first message has an impossible length",
            ));
        }
        self.fill(length).await?;
        Ok(self.buffer.split_to(length).split_off(4).freeze())
    }

    /// The next message. Not to be dropped before it is there: a part of one may have been read past.
    pub(crate) async fn next(&mut self) -> Result<Received, ReadError> {
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT_BYTES_MAX {
            self.buffer = BytesMut::with_capacity(BUFFER_BYTES);
        }
        self.fill(5).await?;
        let kind = self.buffer.first().copied().unwrap_or_default();
        if !b"QPBDECSHXdcfpF".contains(&kind) {
            return Err(ReadError::Malformed("there is no message of this kind"));
        }
        let length = self.number(1);
        let Some(body) = length.checked_sub(4) else {
            return Err(ReadError::Malformed("a message has an impossible length"));
        };
        if length > i32::MAX as usize {
            return Err(ReadError::Malformed("a message has an impossible length"));
        }
        if body > self.bytes_max {
            self.pass(1 + length).await?;
            let (bytes, bytes_max) = (body, self.bytes_max);
            let why = Refusal::TooLong { bytes, bytes_max };
            return Ok(Received::Refused { kind, why });
        }
        let mut permit = None;
        if body > BUFFER_BYTES {
            let mut held = self.memory.hold();
            if let Err(error) = held.cover(body) {
                self.pass(1 + length).await?;
                let why = Refusal::Memory(error);
                return Ok(Received::Refused { kind, why });
            }
            permit = Some(held);
        }
        self.fill(1 + length).await?;
        let body = self.buffer.split_to(1 + length).split_off(5).freeze();
        Ok(Received::Frame(Frame { kind, body, permit }))
    }

    /// Reads past so many bytes.
    async fn pass(&mut self, mut bytes: usize) -> Result<(), ReadError> {
        loop {
            let here = bytes.min(self.buffer.len());
            drop(self.buffer.split_to(here));
            bytes -= here;
            if bytes == 0 {
                return Ok(());
            }
            self.fill(1).await?;
        }
    }
}

/// A message of a client that is known.
#[derive(Debug)]
pub(crate) enum Message {
    Query(String),
    Parse {
        name: String,
        text: String,
        oids: Vec<u32>,
    },
    Bind(Bind),
    DescribeStatement(String),
    DescribePortal(String),
    Execute {
        portal: String,
        /// 0 = all.
        rows_max: usize,
    },
    CloseStatement(String),
    ClosePortal(String),
    Sync,
    Flush,
    Terminate,
    CopyData(Bytes),
    CopyDone,
    CopyFail(String),
    Password(Bytes),
    /// A function by its number; nobody sends it any more.
    FunctionCall,
}

/// Values for a statement.
#[derive(Debug)]
pub(crate) struct Bind {
    pub(crate) portal: String,
    pub(crate) statement: String,
    pub(crate) formats: Vec<i16>,
    pub(crate) values: Vec<Option<Bytes>>,
    pub(crate) result_formats: Vec<i16>,
}

impl Message {
    /// What a frame says.
    pub(crate) fn of(kind: u8, body: Bytes) -> Result<Self, Malformed> {
        let mut body = Cursor(body);
        let message = match kind {
            b'Q' => Self::Query(body.text()?),
            b'P' => {
                let (name, text) = (body.text()?, body.text()?);
                let count = body.count()?;
                let oids: Result<Vec<u32>, Malformed> = (0..count).map(|_| body.u32()).collect();
                Self::Parse {
                    name,
                    text,
                    oids: oids?,
                }
            }
            b'B' => Self::Bind(bind(&mut body)?),
            b'D' | b'C' => {
                let (what, name) = (body.u8()?, body.text()?);
                match (kind, what) {
                    (b'D', b'S') => Self::DescribeStatement(name),
                    (b'D', b'P') => Self::DescribePortal(name),
                    (b'C', b'S') => Self::CloseStatement(name),
                    (b'C', b'P') => Self::ClosePortal(name),
                    _ => return Err(Malformed),
                }
            }
            b'E' => {
                let (portal, rows_max) = (body.text()?, body.i32()?);
                let rows_max = usize::try_from(rows_max).unwrap_or(0);
                Self::Execute { portal, rows_max }
            }
            b'S' => Self::Sync,
            b'H' => Self::Flush,
            b'X' => Self::Terminate,
            b'd' => Self::CopyData(body.rest()),
            b'c' => Self::CopyDone,
            b'f' => Self::CopyFail(body.text()?),
            b'p' => Self::Password(body.rest()),
            b'F' => {
                body.rest();
                Self::FunctionCall
            }
            _ => return Err(Malformed),
        };
        body.end()?;
        Ok(message)
    }
}

fn bind(body: &mut Cursor) -> Result<Bind, Malformed> {
    let (portal, statement) = (body.text()?, body.text()?);
    let formats = formats(body)?;
    let count = body.count()?;
    let values: Result<Vec<Option<Bytes>>, Malformed> = (0..count).map(|_| body.value()).collect();
    Ok(Bind {
        portal,
        statement,
        formats,
        values: values?,
        result_formats: self::formats(body)?,
    })
}

fn formats(body: &mut Cursor) -> Result<Vec<i16>, Malformed> {
    let count = body.count()?;
    (0..count).map(|_| body.i16()).collect()
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8], bytes_max: usize) -> Result<Received, ReadError> {
        let memory = BodyMemory::new(1 << 20);
        let mut frames = Frames::new(bytes, memory, bytes_max);
        frames.next().now_or_never().expect("the bytes are there")
    }

    proptest! {
        /// The decoders of the library read counts before they know that the bytes are there, and panic.
        #[test]
        fn no_bytes_are_a_panic(kind in any::<u8>(), body in vec(any::<u8>(), 0..200)) {
            let _ = Message::of(kind, Bytes::from(body.clone()));
            let mut bytes = vec![kind];
            bytes.extend(body);
            let _ = read(&bytes, 100);
            let mut frames = Frames::new(&bytes[..], BodyMemory::new(1 << 20), 100);
            let _ = frames.first().now_or_never();
        }

        #[test]
        fn a_message_cut_anywhere_is_none(cut in 0usize..24) {
            let body = b"portal\0statement\0\0\x01\0\x01\0\x01\0\0\0\x041234\0\x01\0\x01";
            prop_assert!(matches!(Message::of(b'B', Bytes::from_static(body)), Ok(Message::Bind(_))));
            let cut = body.len() - 1 - cut;
            prop_assert!(Message::of(b'B', Bytes::copy_from_slice(&body[..cut])).is_err());
        }
    }

    #[test]
    fn an_execute_is_seen_before_its_turn_once_it_is_all_there() {
        let bytes = b"S\0\0\0\x04E\0\0\0\x0ap\0\0\0\0\x07";
        let asks = |count: usize, portal: &str| {
            let mut frames = Frames::new(&bytes[..count], BodyMemory::new(1 << 20), 100);
            frames.next().now_or_never().unwrap().unwrap();
            frames.asks_next(portal)
        };
        assert_eq!(asks(bytes.len(), "p"), Some(7));
        assert_eq!(asks(bytes.len(), "q"), None);
        for cut in 5..bytes.len() {
            assert_eq!(asks(cut, "p"), None, "{cut}");
        }
    }

    #[test]
    fn a_frame_that_is_too_long_is_read_past_and_the_next_one_is_there() {
        let mut bytes = b"d\0\0\0\x0eabcdefghij".to_vec();
        bytes.extend(b"S\0\0\0\x04");
        let mut frames = Frames::new(&bytes[..], BodyMemory::new(1 << 20), 9);
        let first = frames.next().now_or_never().unwrap().unwrap();
        assert!(matches!(
            first,
            Received::Refused {
                kind: b'd',
                why: Refusal::TooLong {
                    bytes: 10,
                    bytes_max: 9
                }
            }
        ));
        let next = frames.next().now_or_never().unwrap().unwrap();
        assert!(matches!(next, Received::Frame(Frame { kind: b'S', .. })));
    }

    #[test]
    fn what_says_that_it_is_a_gigabyte_takes_no_memory() {
        // Nothing of it has come, and the memory of bodies has 1 MiB.
        let read = read(b"Q\x3f\xff\xff\xff", usize::MAX);
        assert!(matches!(read, Err(ReadError::Gone)));
        for bytes in [&b"Q\0\0\0\x03"[..], b"Q\xff\xff\xff\xff", b"?\0\0\0\x04"] {
            assert!(matches!(
                self::read(bytes, 100),
                Err(ReadError::Malformed(_))
            ));
        }
    }
}
