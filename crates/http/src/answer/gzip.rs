//! Answers packed with gzip, for clients that ask for it.
//!
//! Does: pack text and `MessagePack` as they come, so that an answer still begins before it is whole. Does not: pack small answers, refusals,
//! or Arrow streams, which pack their own buffers.

use std::io::{self, Write};
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::Frame;

/// Smaller answers gain less than the header costs.
const BYTES_MIN: u64 = 1024;

/// What is packed: the beginnings of content types.
const TYPES: [&str; 4] = [
    "text/",
    "application/json",
    "application/csv",
    "application/x-msgpack",
];

/// Whether a client takes gzip.
pub(crate) fn is_taken(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter();
    let codings = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    codings.into_iter().any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = weight.trim().strip_prefix("q=").unwrap_or("1");
        let is_wanted = weight.parse::<f32>().is_ok_and(|weight| weight > 0.0);
        name.trim().eq_ignore_ascii_case("gzip") && is_wanted
    })
}

/// The answer, packed if that is worth it. Of what may be packed caches are told that it depends on the asker.
pub(crate) fn packed(mut response: Response, is_taken: bool) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_text = TYPES.iter().any(|text| kind.starts_with(text));
    let is_small = response
        .body()
        .size_hint()
        .upper()
        .is_some_and(|bytes| bytes < BYTES_MIN);
    let is_plain = !response.headers().contains_key(header::CONTENT_ENCODING);
    if !response.status().is_success() || !is_text || is_small || !is_plain {
        return response;
    }
    let headers = response.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("accept-encoding"));
    if !is_taken {
        return response;
    }
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    response.map(|body| {
        Body::new(Packed {
            body,
            encoder: Some(GzEncoder::new(Vec::new(), Compression::fast())),
        })
    })
}

struct Packed {
    body: Body,
    /// `None` = the end was given.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl Packed {
    fn pack(&mut self, data: &[u8]) -> io::Result<Vec<u8>> {
        let Some(encoder) = &mut self.encoder else {
            return Ok(Vec::new());
        };
        encoder.write_all(data)?;
        // What was computed is to be seen, however slowly the rest comes.
        encoder.flush()?;
        Ok(std::mem::take(encoder.get_mut()))
    }

    fn end(&mut self) -> Option<io::Result<Vec<u8>>> {
        self.encoder.take().map(GzEncoder::finish)
    }
}

impl HttpBody for Packed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.encoder.is_none() {
            return Poll::Ready(None);
        }
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(context));
        let bytes = match frame {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => Some(self.pack(&data)),
                Err(other) => return Poll::Ready(Some(Ok(other))),
            },
            Some(Err(error)) => return Poll::Ready(Some(Err(error))),
            None => self.end(),
        };
        let frame = bytes.map(|bytes| {
            let bytes = bytes.map_err(axum::Error::new)?;
            Ok(Frame::data(Bytes::from(bytes)))
        });
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.encoder.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_taken_by_who_names_it() {
        for (value, want) in [
            ("gzip", true),
            ("deflate, GZIP;q=0.5, br", true),
            ("gzip;q=0", false),
            ("identity", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
            assert_eq!(is_taken(&headers), want, "{value}");
        }
        assert!(!is_taken(&HeaderMap::new()));
    }
}
