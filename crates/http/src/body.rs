//! Request bodies: bounded in bytes, in time, and in memory over all requests.
//!
//! Nothing is allocated because a number says so: a buffer grows with the bytes that have come.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use http_body_util::BodyExt;
use nilometer_service::{BodyPermit, Error as ServiceError, Executor, Sabotage};

use crate::error::ErrorResponse;
use crate::http::Http;

/// Largest buffer that is made at once for an announced length.
const FIRST_BUFFER_BYTES_MAX: usize = 4 << 20;

/// What is read and thrown away of a refused body, so that a client that sends before it reads sees the refusal.
const DISCARD_BYTES_MAX: usize = 64 << 20;
const DISCARD_TIME_MAX: Duration = Duration::from_secs(5);

/// A body may always grow to this, whatever the ratio: small bodies inflate well and harm nobody.
const RATIO_FREE_BYTES: usize = 1 << 20;

/// How a body is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Not at all.
    Identity,
    /// By gzip.
    Gzip,
    /// By Zstandard.
    Zstd,
}

impl Encoding {
    /// What the headers of a request say.
    pub fn of(headers: &HeaderMap) -> Result<Self, ErrorResponse> {
        let Some(value) = headers.get(header::CONTENT_ENCODING) else {
            return Ok(Self::Identity);
        };
        match value
            .to_str()
            .unwrap_or_default()
            .to_ascii_lowercase()
            .trim()
        {
            "" | "identity" => Ok(Self::Identity),
            "gzip" | "x-gzip" => Ok(Self::Gzip),
            "zstd" => Ok(Self::Zstd),
            other => Err(ErrorResponse::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                format!("unknown Content-Encoding '{other}': use identity, gzip or zstd"),
            )),
        }
    }
}

/// A body as it was sent.
#[derive(Debug)]
pub struct Received {
    bytes: Vec<u8>,
    encoding: Encoding,
    held: BodyPermit,
    largest: Largest,
    body_ratio_max: usize,
}

/// A body as it was before it was packed. Its memory is counted as long as this lives.
#[derive(Debug)]
pub struct Inflated {
    bytes: Vec<u8>,
    _held: BodyPermit,
}

impl AsRef<[u8]> for Inflated {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// How large a body may be, what says so, and what else to do.
#[derive(Debug, Clone, Copy)]
pub struct Largest {
    /// So many bytes.
    pub bytes: usize,
    /// The setting that says so.
    pub setting: &'static str,
    /// What whoever sent it is told to do.
    pub advice: &'static str,
}

impl Largest {
    /// Of a body of rows.
    pub fn of_rows(http: &Http) -> Self {
        Self {
            bytes: http.config().body_bytes_max,
            setting: "body-bytes-max",
            advice: "send it in parts",
        }
    }

    fn refuse(self) -> ErrorResponse {
        let Self { bytes, advice, .. } = self;
        let what = format!("the body is larger than {bytes} bytes; {advice}");
        ErrorResponse::limit(StatusCode::PAYLOAD_TOO_LARGE, what, self.setting)
    }
}

/// Reads a body to its end.
pub async fn receive(
    headers: &HeaderMap,
    mut body: Body,
    http: &Http,
    largest: Largest,
) -> Result<Received, ErrorResponse> {
    let time_max = Duration::from_millis(http.config().body_read_ms_max);
    let executor = http.service().executor();
    let read = executor.within(time_max, read(headers, &mut body, http, largest));
    let refusal = match read.await {
        Some(Ok(received)) => return Ok(received),
        Some(Err(refusal)) => refusal,
        None => {
            let what = format!(
                "the body did not arrive within {} ms",
                http.config().body_read_ms_max
            );
            return Err(ErrorResponse::limit(
                StatusCode::REQUEST_TIMEOUT,
                what,
                "body-read-ms-max",
            ));
        }
    };
    discard_rest(headers, &mut body, executor).await;
    Err(refusal)
}

/// Reads on after a refusal, so that a client that sends before it reads sees it.
pub async fn discard_rest(headers: &HeaderMap, body: &mut Body, executor: &Arc<dyn Executor>) {
    // Who asked for permission first has not sent anything yet.
    if !headers.contains_key(header::EXPECT) {
        // A client too slow for this sees a broken connection instead, which is all that can be done.
        let _ = executor.within(DISCARD_TIME_MAX, discard(body)).await;
    }
}

async fn read(
    headers: &HeaderMap,
    body: &mut Body,
    http: &Http,
    largest: Largest,
) -> Result<Received, ErrorResponse> {
    let encoding = Encoding::of(headers)?;
    let too_large = || {
        if encoding == Encoding::Identity {
            largest.refuse()
        } else {
            let limit = http.config().body_compressed_bytes_max;
            let what =
                format!("the compressed body is larger than {limit} bytes; send it in parts");
            ErrorResponse::limit(
                StatusCode::PAYLOAD_TOO_LARGE,
                what,
                "body-compressed-bytes-max",
            )
        }
    };
    let bytes_max = match encoding {
        Encoding::Identity => largest.bytes,
        _ => http.config().body_compressed_bytes_max.min(largest.bytes),
    };
    let announced = announced(headers);
    if announced.is_some_and(|length| length > bytes_max) {
        return Err(too_large());
    }
    let mut held = http.service().body_memory().hold();
    held.cover(announced.unwrap_or(0))?;
    held.is_kept = http.service().has(Sabotage::BodyMemoryKept);
    let mut bytes = Vec::with_capacity(announced.unwrap_or(0).min(FIRST_BUFFER_BYTES_MAX));
    loop {
        let chunk = match next_chunk(body).await {
            Ok(Some(chunk)) => chunk,
            Ok(None) => break,
            Err(_) if http.service().has(Sabotage::HalfBodyStored) => break,
            Err(refusal) => return Err(refusal),
        };
        if bytes.len() + chunk.len() > bytes_max {
            return Err(too_large());
        }
        held.cover(bytes.len() + chunk.len())?;
        bytes.extend_from_slice(&chunk);
    }
    held.is_kept = false;
    Ok(Received {
        bytes,
        encoding,
        held,
        largest,
        body_ratio_max: http.config().body_ratio_max,
    })
}

fn announced(headers: &HeaderMap) -> Option<usize> {
    headers
        .get(header::CONTENT_LENGTH)?
        .to_str()
        .ok()?
        .parse()
        .ok()
}

/// The next piece of a body; `None` = that was all.
pub async fn next_chunk(body: &mut Body) -> Result<Option<Bytes>, ErrorResponse> {
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Ok(frame)) => {
                // Trailers are no part of the body.
                if let Ok(chunk) = frame.into_data() {
                    return Ok(Some(chunk));
                }
            }
            Some(Err(error)) => {
                return Err(ErrorResponse::bad_request(format!(
                    "the body broke off: {error}"
                )));
            }
        }
    }
}

async fn discard(body: &mut Body) {
    let mut bytes = 0;
    while let Ok(Some(chunk)) = next_chunk(body).await {
        bytes += chunk.len();
        if bytes > DISCARD_BYTES_MAX {
            return;
        }
    }
}

impl Received {
    /// Whether nothing came. Some clients name a compression for a body that they do not send.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes as they came, with their compression.
    pub fn as_sent(&self) -> &[u8] {
        &self.bytes
    }

    /// The body without its compression. Computes, so it belongs on a blocking thread.
    pub fn inflate(self) -> Result<Inflated, ErrorResponse> {
        if self.encoding == Encoding::Identity {
            return Ok(Inflated {
                bytes: self.bytes,
                _held: self.held,
            });
        }
        let ratio_bytes = self
            .bytes
            .len()
            .saturating_mul(self.body_ratio_max)
            .max(RATIO_FREE_BYTES);
        let mut sink = Sink {
            bytes: Vec::new(),
            bytes_max: self.largest.bytes.min(ratio_bytes),
            counted: self.bytes.len(),
            held: self.held,
            refusal: None,
        };
        let is_ratio = ratio_bytes < self.largest.bytes;
        let inflated = match self.encoding {
            Encoding::Zstd => inflate_zstd(&self.bytes, &mut sink),
            _ => inflate_gzip(&self.bytes, &mut sink),
        };
        match inflated {
            Ok(()) => Ok(Inflated {
                bytes: sink.bytes,
                _held: sink.held,
            }),
            Err(error) => Err(match sink.refusal {
                Some(Overflow::Memory(error)) => error.into(),
                Some(Overflow::Size) if is_ratio => {
                    let what = format!(
                        "the body decompresses to more than {} times its compressed size",
                        self.body_ratio_max
                    );
                    ErrorResponse::limit(StatusCode::PAYLOAD_TOO_LARGE, what, "body-ratio-max")
                }
                Some(Overflow::Size) => self.largest.refuse(),
                None => {
                    ErrorResponse::bad_request(format!("the body cannot be decompressed: {error}"))
                }
            }),
        }
    }
}

fn inflate_gzip(bytes: &[u8], sink: &mut Sink) -> io::Result<()> {
    let mut decoder = flate2::read::MultiGzDecoder::new(bytes);
    io::copy(&mut decoder, sink).map(drop)
}

fn inflate_zstd(bytes: &[u8], sink: &mut Sink) -> io::Result<()> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(bytes)?;
    // A frame may ask for a window of gigabytes; what the format's own tool takes is enough.
    decoder.window_log_max(27)?;
    io::copy(&mut decoder, sink).map(drop)
}

enum Overflow {
    Size,
    Memory(ServiceError),
}

/// Takes inflated bytes until a limit.
struct Sink {
    bytes: Vec<u8>,
    bytes_max: usize,
    /// Bytes of the compressed body, which is in memory at the same time.
    counted: usize,
    held: BodyPermit,
    refusal: Option<Overflow>,
}

impl Write for Sink {
    fn write(&mut self, chunk: &[u8]) -> io::Result<usize> {
        let length = self.bytes.len() + chunk.len();
        let overflow = if length > self.bytes_max {
            Some(Overflow::Size)
        } else {
            self.held
                .cover(self.counted + length)
                .err()
                .map(Overflow::Memory)
        };
        if overflow.is_some() {
            self.refusal = overflow;
            return Err(io::Error::other("over a limit"));
        }
        self.bytes.extend_from_slice(chunk);
        Ok(chunk.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
