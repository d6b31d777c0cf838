//! PUT and PUTA: records in.
//!
//! Does: read batches of records as they come, store them in chunks while the next ones are read, answer once the last chunk is
//! durable. Does not: hold more than a few chunks, or keep records of a client that breaks off: chunks that were stored before
//! stay, what was not answered is not promised.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Buf, BufMut, BytesMut};
use nilometer_engine::ingest::{OnConflict, SeenKeys};
use nilometer_engine::{Duplicates, Error as EngineError};
use nilometer_service::{Error as ServiceError, RowTarget, Service};
use tokio::io::AsyncRead;
use tokio::task::JoinHandle;

use crate::chunk::{Chunk, Row};
use crate::connection::Shared;
use crate::error::Error;
use crate::incoming::Incoming;
use crate::metrics::{UNREACHABLE, WRITTEN};
use crate::table::{self, Shape};
use crate::wire::{END, EPOCH_NS, PUT_BYTES, PUTA_BYTES, Status, put_header};

/// Chunks of one request that are stored at one time: one waits for the disk while another is encoded, and a third is read.
const STORING_MAX: usize = 2;

/// Payloads up to this length are waited for as a whole, in the buffer that they come to.
const WHOLE_BYTES_MAX: usize = 64 << 10;

/// First and last stamp of a chunk; nothing was stored = `None`.
type Stamped = Option<(i64, i64)>;

/// A PUT that is running.
struct Put<'a> {
    shared: &'a Arc<Shared>,
    has_acq: bool,
    /// The batch that is open: whose it is, and bytes of it that are still to come.
    cid: i32,
    left: usize,
    is_at_end: bool,
    chunk: Chunk,
    storing: VecDeque<JoinHandle<Result<(i64, i64), Error>>>,
    stamped: Stamped,
}

/// Reads records up to their end, and stores them; appends the answer.
pub(crate) async fn put<R: AsyncRead + Unpin>(
    shared: &Arc<Shared>,
    incoming: &mut Incoming<R>,
    has_acq: bool,
    answer: &mut BytesMut,
) -> Result<(), Error> {
    let mut put = Put {
        shared,
        has_acq,
        cid: END,
        left: 0,
        is_at_end: false,
        chunk: Chunk::new(shared.service.body_memory()),
        storing: VecDeque::new(),
        stamped: None,
    };
    while !put.is_at_end {
        let taken = put.take(incoming.here())?;
        incoming.advance(taken);
        if put.chunk.is_full() {
            put.store().await?;
        } else if !put.is_at_end && taken == 0 {
            put.wait(incoming).await?;
        }
    }
    let (first, last) = put.finish().await?;
    put_header(answer, Status::Ok, 16);
    answer.put_i64_le(first);
    answer.put_i64_le(last);
    Ok(())
}

impl Put<'_> {
    /// Bytes of a record before its payload, with its size.
    fn fixed(&self) -> usize {
        4 + if self.has_acq { PUTA_BYTES } else { PUT_BYTES }
    }

    /// Takes what is here as a whole, heads of batches and records, until the chunk is full or the request at its end. How many
    /// bytes that was.
    fn take(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        let mut rest = bytes;
        while !self.is_at_end && !self.chunk.is_full() {
            if self.left == 0 {
                let Some(cid) = i32_of(rest) else { break };
                if cid == END {
                    self.is_at_end = true;
                    rest = rest.get(4..).unwrap_or_default();
                    break;
                }
                if cid < 0 {
                    return Err(Error::Malformed("a client id is negative"));
                }
                let Some(size) = rest.get(4..).and_then(i32_of) else {
                    break;
                };
                let size = usize::try_from(size);
                self.left = size.map_err(|_| Error::Malformed("a batch has a negative size"))?;
                self.cid = cid;
                rest = rest.get(8..).unwrap_or_default();
                continue;
            }
            let Some(payload) = self.payload_bytes(rest)? else {
                break;
            };
            let all = self.fixed() + payload;
            let Some((record, later)) = rest.split_at_checked(all) else {
                break;
            };
            let (head, payload) = record.split_at_checked(self.fixed()).unwrap_or_default();
            if let Some(row) = self.row(head)? {
                self.chunk.payload(payload)?;
                self.chunk.push(&row);
            }
            self.left -= all;
            rest = later;
        }
        Ok(bytes.len() - rest.len())
    }

    /// Bytes of the payload of a record that begins here; `None` = its size is not here.
    fn payload_bytes(&self, bytes: &[u8]) -> Result<Option<usize>, Error> {
        let Some(size) = i32_of(bytes) else {
            return Ok(None);
        };
        let payload = usize::try_from(size)
            .ok()
            .and_then(|size| (size + 4).checked_sub(self.fixed()));
        let payload = payload.ok_or(Error::Malformed("a record is shorter than its key"))?;
        if self.fixed() + payload > self.left {
            return Err(Error::Malformed("a record is longer than its batch"));
        }
        let bytes_max = self.shared.config.payload_bytes_max;
        if payload > bytes_max {
            let bytes = payload;
            return Err(Error::Payload { bytes, bytes_max });
        }
        Ok(Some(payload))
    }

    /// What a record says before its payload; `None` = no box has it: boxes end below their upper corner.
    fn row(&self, mut head: &[u8]) -> Result<Option<Row>, Error> {
        if head.len() < self.fixed() {
            return Ok(None);
        }
        head.advance(4);
        let (mid, moid, cap) = (head.get_i64_le(), head.get_i32_le(), head.get_i64_le());
        let acq = self.has_acq.then(|| head.get_i64_le());
        if self.cid == i32::MAX
            || mid == i64::MAX
            || moid == i32::MAX
            || cap == i64::MAX
            || acq == Some(i64::MAX)
        {
            let counters = self.shared.service.counters();
            counters.counter(&UNREACHABLE).add(1);
            return Ok(None);
        }
        Ok(Some(Row {
            cid: self.cid,
            mid,
            moid,
            cap: since_1970(cap)?,
            acq: acq.map(since_1970).transpose()?,
        }))
    }

    /// Waits for more of what comes next; of a record of many bytes it takes what comes as it comes.
    async fn wait<R: AsyncRead + Unpin>(
        &mut self,
        incoming: &mut Incoming<R>,
    ) -> Result<(), Error> {
        let here = incoming.here().len();
        if self.left == 0 {
            return incoming.need(here + 1).await;
        }
        let Some(payload) = self.payload_bytes(incoming.here())? else {
            return incoming.need(here + 1).await;
        };
        let fixed = self.fixed();
        if payload <= WHOLE_BYTES_MAX {
            return incoming.need(fixed + payload).await;
        }
        incoming.need(fixed).await?;
        let row = self.row(incoming.here().get(..fixed).unwrap_or_default())?;
        incoming.advance(fixed);
        match row {
            None => incoming.pass(payload).await?,
            Some(row) => {
                let chunk = &mut self.chunk;
                incoming
                    .pieces(payload, |piece| Ok(chunk.payload(piece)?))
                    .await?;
                chunk.push(&row);
            }
        }
        self.left -= fixed + payload;
        Ok(())
    }

    /// Begins to store what was read.
    async fn store(&mut self) -> Result<(), Error> {
        while self.storing.len() >= STORING_MAX {
            self.stored().await?;
        }
        let empty = Chunk::new(self.shared.service.body_memory());
        let chunk = std::mem::replace(&mut self.chunk, empty);
        let shared = Arc::clone(self.shared);
        self.storing.push_back(tokio::spawn(store(shared, chunk)));
        Ok(())
    }

    /// Waits for the first of the chunks that are being stored.
    async fn stored(&mut self) -> Result<(), Error> {
        let Some(storing) = self.storing.pop_front() else {
            return Ok(());
        };
        let panicked = |_| ServiceError::Panicked { what: "write" };
        let (first, last) = storing.await.map_err(panicked)??;
        let (lowest, highest) = self.stamped.unwrap_or((first, last));
        self.stamped = Some((lowest.min(first), highest.max(last)));
        Ok(())
    }

    /// Stores the rest, waits for all of it, and says between which times it was stamped, as the wire has them.
    async fn finish(&mut self) -> Result<(i64, i64), Error> {
        if self.chunk.rows() > 0 {
            self.store().await?;
        }
        while !self.storing.is_empty() {
            self.stored().await?;
        }
        if self.has_acq {
            return Ok((-1, -1));
        }
        let (first, last) = if let Some(stamped) = self.stamped {
            stamped
        } else {
            let now = self.shared.service.complete_acquisition().await?;
            (now, now)
        };
        Ok((first - EPOCH_NS, last - EPOCH_NS))
    }
}

/// The integer that begins here.
fn i32_of(bytes: &[u8]) -> Option<i32> {
    bytes.first_chunk().copied().map(i32::from_le_bytes)
}

/// A time of the wire in nanoseconds since 1970.
fn since_1970(ns: i64) -> Result<i64, Error> {
    // The last of them is no time of the store.
    let time = ns.checked_add(EPOCH_NS).filter(|time| *time < i64::MAX);
    time.ok_or(Error::Malformed(
        "a time is after 2262-04-11, where those of the store end",
    ))
}

/// Stores a chunk, durably when this returns; between which times it was stamped.
async fn store(shared: Arc<Shared>, chunk: Chunk) -> Result<(i64, i64), Error> {
    let service = &shared.service;
    let (rows, bytes) = (chunk.rows(), chunk.payload_bytes());
    let shape = shape(&shared).await?;
    // In the order of the chunks, as far as the tasks begin in it.
    let stamps = service.stamps(rows).await?;
    let stamped = (stamps.first, stamps.last);
    let name = &shared.config.table;
    let target = RowTarget {
        principal: shared.principal()?,
        scope: name.scope(),
        creates: false,
        table: name.table.clone(),
        tags: None,
        has_checked: false,
        adds_columns: false,
        guesses_tags: false,
        duplicates: Duplicates::Keep,
        on_conflict: OnConflict::Replace,
    };
    let stored = service.write(move |service| {
        let batch = chunk.into_batch(&shape, stamps.first);
        let (batch, _memory) = batch?;
        stamps.store(|| service.store_rows(&target, &batch, (0, None), &mut SeenKeys::new(0)))
    });
    stored.await?;
    let counters = service.counters();
    counters.counter(&WRITTEN).add(rows as u64);
    counters.body_bytes.add(bytes as u64);
    Ok(stamped)
}

/// What the table looks like; it is made if nobody has.
async fn shape(shared: &Arc<Shared>) -> Result<Shape, Error> {
    let name = &shared.config.table;
    if let Some(shape) = shape_now(shared)? {
        return Ok(shape);
    }
    let (principal, scope, table) = (shared.principal()?, name.scope(), name.table.clone());
    let make =
        move |service: &Service| service.make_table(&principal, &scope, &table, &table::new());
    shared.service.write(make).await?;
    let dropped = || EngineError::NotFound {
        what: "table",
        name: name.to_string(),
        place: "this store".to_owned(),
        hint: "it was dropped meanwhile".to_owned(),
    };
    let made = shape_now(shared)?;
    Ok(made.ok_or_else(|| ServiceError::Engine(dropped()))?)
}

/// What the table looks like, with the numbers of its payloads; `None` = nobody has made it.
fn shape_now(shared: &Arc<Shared>) -> Result<Option<Shape>, Error> {
    let (snapshot, name) = (shared.service.snapshot(), &shared.config.table);
    let Some(found) = table::find(&snapshot, name) else {
        return Ok(None);
    };
    let mut shape = Shape::of(&found)?;
    shape.numbers = table::numbers(&snapshot, name, &found);
    Ok(Some(shape))
}
