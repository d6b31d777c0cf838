//! The messages of an Arrow stream, one at a time, as large as the limits let them be.
//!
//! A message says how long it is, and its compressed buffers say how long they will be; both are held against the limits
//! before anything is made that large. Nothing else of a message is understood here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow_ipc::{Message, RecordBatch, root_as_message};
use axum::body::Body;
use axum::http::{HeaderMap, StatusCode};
use nilometer_http::{ErrorResponse, Http, body};
use nilometer_service::{BodyPermit, Executor};

/// Starts a message; older writers leave it out.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// What describes a batch: some hundred bytes a column.
const HEAD_BYTES_MAX: usize = 16 << 20;

/// Stands where a compressed buffer's length would, before one that is not compressed.
const NOT_COMPRESSED: i64 = -1;

pub(super) struct Messages {
    body: Body,
    /// What has come and was not handed out.
    bytes: Vec<u8>,
    held: BodyPermit,
    /// Bytes of the dictionaries that the reader keeps, by their ids.
    dictionaries: BTreeMap<i64, usize>,
    message_bytes_max: usize,
    read_ms_max: u64,
    executor: Arc<dyn Executor>,
}

impl Messages {
    pub(super) fn new(body: Body, http: &Http) -> Self {
        Self {
            body,
            bytes: Vec::new(),
            held: http.service().body_memory().hold(),
            dictionaries: BTreeMap::new(),
            message_bytes_max: http.config().body_bytes_max,
            read_ms_max: http.config().body_read_ms_max,
            executor: Arc::clone(http.service().executor()),
        }
    }

    /// The bytes of the next message; `None` = the stream is at its end.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<u8>>, ErrorResponse> {
        let time_max = Duration::from_millis(self.read_ms_max);
        let executor = Arc::clone(&self.executor);
        if let Some(read) = executor.within(time_max, self.read()).await {
            return read;
        }
        let what = format!("a message did not arrive within {} ms", self.read_ms_max);
        Err(ErrorResponse::limit(
            StatusCode::REQUEST_TIMEOUT,
            what,
            "body-read-ms-max",
        ))
    }

    /// Reads on after a refusal, as far as that helps the client to see it.
    pub(super) async fn discard(mut self, headers: &HeaderMap) {
        self.bytes = Vec::new();
        body::discard_rest(headers, &mut self.body, &self.executor).await;
    }

    async fn read(&mut self) -> Result<Option<Vec<u8>>, ErrorResponse> {
        if !self.fill(4).await? {
            return if self.bytes.is_empty() {
                Ok(None)
            } else {
                Err(broken())
            };
        }
        let marked = self.bytes.starts_with(&CONTINUATION);
        let prefix = if marked { 8 } else { 4 };
        self.need(prefix).await?;
        let head_bytes = le_u32(&self.bytes, prefix - 4).unwrap_or(0) as usize;
        if head_bytes == 0 {
            // The end mark. What comes after it is none of the stream.
            return Ok(None);
        }
        check(head_bytes, HEAD_BYTES_MAX.min(self.message_bytes_max))?;
        let body_at = prefix + head_bytes;
        self.need(body_at).await?;
        let body_bytes = self.message(prefix, body_at)?.bodyLength();
        let body_bytes = usize::try_from(body_bytes).map_err(|_| broken())?;
        check(body_bytes, self.message_bytes_max)?;
        self.need(body_at + body_bytes).await?;
        let body = self.bytes.get(body_at..).unwrap_or_default();
        let inflated = inflated_bytes(&self.message(prefix, body_at)?, body).ok_or_else(broken)?;
        check(inflated, self.message_bytes_max)?;
        let dictionary = self
            .message(prefix, body_at)?
            .header_as_dictionary_batch()
            .map(|dictionary| (dictionary.id(), dictionary.isDelta()));
        if let Some((id, is_delta)) = dictionary {
            let kept = self.dictionaries.entry(id).or_default();
            let before = if is_delta { *kept } else { 0 };
            *kept = before + body_bytes.max(inflated);
        }
        let kept: usize = self.dictionaries.values().sum();
        self.held.cover(self.bytes.len() + inflated + kept)?;
        let rest = self.bytes.split_off(body_at + body_bytes);
        Ok(Some(std::mem::replace(&mut self.bytes, rest)))
    }

    fn message(&self, from: usize, to: usize) -> Result<Message<'_>, ErrorResponse> {
        let head = self.bytes.get(from..to).unwrap_or_default();
        root_as_message(head).map_err(|_| broken())
    }

    async fn need(&mut self, bytes: usize) -> Result<(), ErrorResponse> {
        if self.fill(bytes).await? {
            Ok(())
        } else {
            Err(broken())
        }
    }

    /// Waits for so many bytes; false = the body ended before.
    async fn fill(&mut self, bytes: usize) -> Result<bool, ErrorResponse> {
        while self.bytes.len() < bytes {
            let Some(chunk) = body::next_chunk(&mut self.body).await? else {
                return Ok(false);
            };
            self.held.cover(self.bytes.len() + chunk.len())?;
            self.bytes.extend_from_slice(&chunk);
        }
        Ok(true)
    }
}

fn check(bytes: usize, bytes_max: usize) -> Result<(), ErrorResponse> {
    if bytes <= bytes_max {
        return Ok(());
    }
    let what =
        format!("a message of the stream is larger than {bytes_max} bytes; write smaller batches");
    Err(ErrorResponse::limit(
        StatusCode::PAYLOAD_TOO_LARGE,
        what,
        "body-bytes-max",
    ))
}

fn broken() -> ErrorResponse {
    ErrorResponse::bad_request(
        "the body is not an Arrow stream, or broke off in the middle of a message; every batch before it was written",
    )
}

/// What the buffers of a message are together without their compression; `None` = they are not in it, or contradict
/// themselves.
fn inflated_bytes(message: &Message<'_>, body: &[u8]) -> Option<usize> {
    let batch = message.header_as_record_batch().or_else(|| {
        let dictionary = message.header_as_dictionary_batch();
        dictionary.and_then(|dictionary| dictionary.data())
    });
    let Some(batch) = batch else { return Some(0) };
    are_inside(batch, body.len()).then_some(())?;
    if batch.compression().is_none() {
        return Some(0);
    }
    buffers_bytes(batch, body)
}

/// Whether all buffers are where the message has bytes. Who reads them believes it.
fn are_inside(batch: RecordBatch<'_>, bytes: usize) -> bool {
    let ends = batch.buffers().into_iter().flatten().map(|buffer| {
        let at = usize::try_from(buffer.offset()).ok()?;
        at.checked_add(usize::try_from(buffer.length()).ok()?)
    });
    let mut nodes = batch.nodes().into_iter().flatten();
    let are_counts = nodes.all(|node| node.length() >= 0 && node.null_count() >= 0);
    are_counts
        && batch.length() >= 0
        && ends
            .into_iter()
            .all(|end| end.is_some_and(|end| end <= bytes))
}

fn buffers_bytes(batch: RecordBatch<'_>, body: &[u8]) -> Option<usize> {
    let mut total = 0usize;
    for buffer in batch.buffers().into_iter().flatten() {
        let at = usize::try_from(buffer.offset()).ok()?;
        let length = usize::try_from(buffer.length()).ok()?;
        if length == 0 {
            continue;
        }
        let prefix = body.get(at..at.checked_add(8)?)?;
        let inflated = i64::from_le_bytes(prefix.try_into().ok()?);
        let bytes = match inflated {
            NOT_COMPRESSED => length,
            inflated => usize::try_from(inflated).ok()?,
        };
        total = total.checked_add(bytes)?;
    }
    Some(total)
}

fn le_u32(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}
