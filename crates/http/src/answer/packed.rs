//! Answers packed with zstd or gzip, for clients that ask for it.
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

/// The fastest of the levels that have a number: answers wait for it.
const ZSTD_LEVEL: i32 = 1;

/// Smaller answers gain less than the header costs.
const BYTES_MIN: u64 = 1024;

/// What is packed: the beginnings of content types.
const TYPES: [&str; 4] = [
    "text/",
    "application/json",
    "application/csv",
    "application/x-msgpack",
];

/// How an answer is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    Zstd,
    Gzip,
}

impl Coding {
    /// What a client likes best of what it names; of two that it likes as much, zstd, which is smaller and costs less. `None` =
    /// as it is. `*` names nothing: who says that takes anything, and may be able to unpack nothing.
    pub(crate) fn preferred(headers: &HeaderMap) -> Option<Self> {
        let values = headers.get_all(header::ACCEPT_ENCODING).iter();
        let codings = values
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','));
        let (mut zstd, mut gzip, mut plain) = (0.0, 0.0, 0.0);
        for coding in codings {
            let (name, parameters) = coding.split_once(';').unwrap_or((coding, ""));
            let weight = weight(parameters);
            match name.trim() {
                name if name.eq_ignore_ascii_case("zstd") => zstd = weight,
                name if name.eq_ignore_ascii_case("gzip") => gzip = weight,
                name if name.eq_ignore_ascii_case("x-gzip") => gzip = weight,
                name if name.eq_ignore_ascii_case("identity") => plain = weight,
                _ => {}
            }
        }
        let best = f32::max(zstd, gzip);
        if best <= 0.0 || plain > best {
            None
        } else if zstd >= gzip {
            Some(Self::Zstd)
        } else {
            Some(Self::Gzip)
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
        }
    }

    fn encoder(self) -> io::Result<Encoder> {
        Ok(match self {
            Self::Zstd => {
                let encoder = zstd::stream::write::Encoder::new(Vec::new(), ZSTD_LEVEL)?;
                Encoder::Zstd(Box::new(encoder))
            }
            Self::Gzip => Encoder::Gzip(Box::new(GzEncoder::new(Vec::new(), Compression::fast()))),
        })
    }
}

/// The weight among parameters, 1 if there is none; 0 if it is no weight, so that what nobody understands is not sent.
fn weight(parameters: &str) -> f32 {
    let weights = parameters.split(';').filter_map(|it| {
        let (name, value) = it.split_once('=')?;
        name.trim().eq_ignore_ascii_case("q").then(|| value.trim())
    });
    let weight = weights.map(|value| value.parse().unwrap_or(0.0)).next();
    weight.unwrap_or(1.0)
}

/// The answer, packed if that is worth it. Of what may be packed caches are told that it depends on the asker.
pub(crate) fn packed(mut response: Response, coding: Option<Coding>) -> Response {
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
    // Without the memory that a coder needs it stays as it is.
    let Some((coding, Ok(encoder))) = coding.map(|coding| (coding, coding.encoder())) else {
        return response;
    };
    headers.remove(header::CONTENT_LENGTH);
    let name = HeaderValue::from_static(coding.name());
    headers.insert(header::CONTENT_ENCODING, name);
    let encoder = Some(encoder);
    response.map(|body| Body::new(Packed { body, encoder }))
}

enum Encoder {
    Zstd(Box<zstd::stream::write::Encoder<'static, Vec<u8>>>),
    Gzip(Box<GzEncoder<Vec<u8>>>),
}

struct Packed {
    body: Body,
    /// `None` = the end was given.
    encoder: Option<Encoder>,
}

impl Packed {
    /// Packs and flushes: what was computed is to be seen, however slowly the rest comes.
    fn pack(&mut self, data: &[u8]) -> io::Result<Vec<u8>> {
        let out = match &mut self.encoder {
            None => return Ok(Vec::new()),
            Some(Encoder::Zstd(encoder)) => {
                encoder.write_all(data)?;
                encoder.flush()?;
                encoder.get_mut()
            }
            Some(Encoder::Gzip(encoder)) => {
                encoder.write_all(data)?;
                encoder.flush()?;
                encoder.get_mut()
            }
        };
        Ok(std::mem::take(out))
    }

    fn end(&mut self) -> Option<io::Result<Vec<u8>>> {
        Some(match self.encoder.take()? {
            Encoder::Zstd(encoder) => encoder.finish(),
            Encoder::Gzip(encoder) => encoder.finish(),
        })
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
    fn the_coding_with_the_greatest_weight_is_taken_and_zstd_of_equals() {
        let (zstd, gzip) = (Some(Coding::Zstd), Some(Coding::Gzip));
        for (value, want) in [
            ("gzip", gzip),
            ("zstd", zstd),
            ("gzip, zstd", zstd),
            ("ZSTD;q=0.5, gzip; Q=0.50", zstd),
            ("zstd;q=0.4, gzip;q=0.5", gzip),
            ("zstd;q=0, gzip;q=0.1", gzip),
            ("deflate, GZIP;q=0.5, br", gzip),
            ("gzip;q=0.5, identity;q=0.9", None),
            ("gzip;q=0.5, identity;q=0.5", gzip),
            ("gzip;q=0", None),
            ("zstd;q=much", None),
            ("*", None),
            ("identity", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
            assert_eq!(Coding::preferred(&headers), want, "{value}");
        }
        assert_eq!(Coding::preferred(&HeaderMap::new()), None);
        let mut headers = HeaderMap::new();
        for value in ["gzip;q=0.5", "zstd;q=0.2"] {
            headers.append(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
        }
        assert_eq!(Coding::preferred(&headers), gzip, "in two headers");
    }

    /// What was computed can be unpacked before the rest is there.
    #[tokio::test]
    async fn each_frame_can_be_read_before_the_next_one_is_computed() {
        use http_body_util::BodyExt;
        use std::io::Read;

        for coding in [Coding::Zstd, Coding::Gzip] {
            let (tell, told) = tokio::sync::mpsc::channel::<io::Result<Bytes>>(1);
            let frames = futures::stream::unfold(told, |mut told| async move {
                Some((told.recv().await?, told))
            });
            let response = Response::builder().header(header::CONTENT_TYPE, "text/csv");
            let response = response.body(Body::from_stream(frames)).unwrap();
            let mut body = packed(response, Some(coding)).into_body();
            let mut got = Vec::new();
            let mut want = Vec::new();
            for n in 0..3_u8 {
                let text = vec![b'a' + n; 5_000];
                want.extend_from_slice(&text);
                tell.send(Ok(Bytes::from(text))).await.unwrap();
                let frame = body.frame().await.unwrap().unwrap();
                got.extend_from_slice(&frame.into_data().unwrap());
                let mut unpacked = vec![0; want.len()];
                let mut decoder: Box<dyn Read> = match coding {
                    Coding::Zstd => Box::new(zstd::stream::read::Decoder::new(&got[..]).unwrap()),
                    Coding::Gzip => Box::new(flate2::read::GzDecoder::new(&got[..])),
                };
                decoder.read_exact(&mut unpacked).unwrap();
                assert!(unpacked == want, "{coding:?}, frame {n}");
            }
            drop(tell);
            let rest = body.collect().await.unwrap().to_bytes();
            got.extend_from_slice(&rest);
            let whole = match coding {
                Coding::Zstd => zstd::decode_all(&got[..]).unwrap(),
                Coding::Gzip => {
                    let mut whole = Vec::new();
                    let mut decoder = flate2::read::GzDecoder::new(&got[..]);
                    decoder.read_to_end(&mut whole).unwrap();
                    whole
                }
            };
            assert!(whole == want, "{coding:?}");
        }
    }
}
