//! The one token: who shows it may do everything, who does not may ask whether the server lives.
//!
//! Does: read the token, find what a request shows in each of the places where clients put it, compare. Does not: keep
//! the token's text (a hash is enough), or know users and roles.

use std::fmt;
use std::sync::Arc;

use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use subtle::ConstantTimeEq;
use tokio_rustls::rustls::SupportedCipherSuite;
use tokio_rustls::rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;

use crate::error::{Error, Refusal};
use crate::parameters::Parameters;

/// Shorter ones can be guessed.
const TOKEN_BYTES_MIN: usize = 16;

/// A longer text is some other file.
const TOKEN_BYTES_MAX: usize = 4096;

/// A token, kept as its hash.
#[derive(Clone)]
pub struct Token {
    hash: Arc<[u8]>,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(set)")
    }
}

impl Token {
    /// Takes a token; `origin` says in errors where it came from. White space around it does not count.
    pub fn new(text: &str, origin: &str) -> Result<Self, Error> {
        let text = text.trim();
        let unfit = |reason| Error::Token {
            origin: origin.to_owned(),
            reason,
        };
        if text.len() < TOKEN_BYTES_MIN {
            return Err(unfit("has fewer than 16 characters"));
        }
        if text.len() > TOKEN_BYTES_MAX {
            return Err(unfit("has more than 4096 characters"));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(unfit(
                "has blanks or characters that no HTTP header can carry",
            ));
        }
        Ok(Self {
            hash: hash(text.as_bytes()),
        })
    }

    fn is(&self, shown: &[u8]) -> bool {
        // Hashes have one length, so the time says nothing about the token, not even its length.
        hash(shown).ct_eq(&self.hash).into()
    }

    /// Refuses a request that does not show the token.
    pub(crate) fn check(&self, request: &Parts) -> Result<(), Refusal> {
        let shown = shown(request);
        if shown.is_empty() {
            return Err(Refusal::new(
                StatusCode::UNAUTHORIZED,
                "unable to parse authentication credentials: send the header 'Authorization: Bearer TOKEN', or the token as a password",
            ));
        }
        // Every one is looked at, so that the time does not tell which place was right.
        let matches = shown
            .iter()
            .fold(false, |found, secret| found | self.is(secret));
        if matches {
            Ok(())
        } else {
            Err(Refusal::new(
                StatusCode::UNAUTHORIZED,
                "authorization failed: this is not the server's token",
            ))
        }
    }
}

/// Everything in a request that may be the token.
fn shown(request: &Parts) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let query = request.uri.query().unwrap_or_default();
    if query.contains("p=") {
        // Any user will do; there is one token.
        if let Some(password) = Parameters::parse(query.as_bytes()).get("p") {
            found.push(password.as_bytes().to_vec());
        }
    }
    for value in request.headers.get_all(header::AUTHORIZATION) {
        let Some((scheme, rest)) = split_once(value.as_bytes(), b' ') else {
            continue;
        };
        let rest = rest.trim_ascii();
        if scheme.eq_ignore_ascii_case(b"bearer") {
            found.push(rest.to_vec());
        } else if scheme.eq_ignore_ascii_case(b"token") {
            found.push(rest.to_vec());
            found.extend(split_once(rest, b':').map(|(_user, password)| password.to_vec()));
        } else if scheme.eq_ignore_ascii_case(b"basic")
            && let Some(pair) = decode_base64(rest)
        {
            found.extend(split_once(&pair, b':').map(|(_user, password)| password.to_vec()));
        }
    }
    found
}

fn split_once(bytes: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|&byte| byte == separator)?;
    Some((bytes.get(..at)?, bytes.get(at + 1..)?))
}

/// SHA-256 of the library that does TLS.
fn hash(bytes: &[u8]) -> Arc<[u8]> {
    let SupportedCipherSuite::Tls13(suite) = TLS13_AES_128_GCM_SHA256 else {
        unreachable!("the name of the suite says that it is one of TLS 1.3");
    };
    suite.common.hash_provider.hash(bytes).as_ref().into()
}

/// The bytes of a base64 text, with or without padding; `None` = it is none.
fn decode_base64(text: &[u8]) -> Option<Vec<u8>> {
    let text = text.strip_suffix(b"==").unwrap_or(text);
    let text = text.strip_suffix(b"=").unwrap_or(text);
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for group in text.chunks(4) {
        let mut bits = 0u32;
        for &digit in group {
            let value = match digit {
                b'A'..=b'Z' => digit - b'A',
                b'a'..=b'z' => digit - b'a' + 26,
                b'0'..=b'9' => digit - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            bits = bits << 6 | u32::from(value);
        }
        // One digit is less than a byte.
        let count = match group.len() {
            4 => 3,
            3 => 2,
            2 => 1,
            _ => return None,
        };
        bits <<= 6 * (4 - group.len());
        let [low, middle, high, _] = bits.to_le_bytes();
        bytes.extend_from_slice([high, middle, low].get(..count)?);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;

    const SECRET: &str = "0123456789abcdef:x";

    fn check(uri: &str, authorization: &[&str]) -> Result<(), Refusal> {
        let mut request = Request::get(uri);
        for value in authorization {
            request = request.header(header::AUTHORIZATION, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        Token::new(SECRET, "the test").unwrap().check(&parts)
    }

    #[test]
    fn the_token_counts_wherever_a_client_puts_it() {
        // The base64 texts are what `printf u:SECRET | base64` says.
        for (uri, authorization) in [
            ("/", Some("Bearer 0123456789abcdef:x")),
            ("/", Some("bearer  0123456789abcdef:x ")),
            ("/", Some("Token 0123456789abcdef:x")),
            ("/", Some("Token u:0123456789abcdef:x")),
            ("/", Some("Basic dTowMTIzNDU2Nzg5YWJjZGVmOng=")),
            ("/", Some("Basic dTowMTIzNDU2Nzg5YWJjZGVmOng")),
            ("/write?db=d&u=u&p=0123456789abcdef%3Ax", None),
        ] {
            let headers: Vec<&str> = authorization.into_iter().collect();
            assert!(check(uri, &headers).is_ok(), "{uri} {authorization:?}");
        }
        assert!(check("/", &["Bearer wrong", "Bearer 0123456789abcdef:x"]).is_ok());
    }

    #[test]
    fn nothing_else_counts() {
        for (uri, authorization) in [
            ("/", None),
            ("/", Some("Bearer")),
            ("/", Some("Bearer 0123456789abcdef:")),
            ("/", Some("Bearer 0123456789abcdef:xx")),
            ("/", Some("0123456789abcdef:x")),
            ("/", Some("Digest 0123456789abcdef:x")),
            ("/", Some("Basic 0123456789abcdef:x")),
            ("/", Some("Basic !!!!")),
            ("/?u=0123456789abcdef:x", None),
            ("/?p=", None),
            ("/?pp=0123456789abcdef:x", None),
        ] {
            let headers: Vec<&str> = authorization.into_iter().collect();
            let refusal = check(uri, &headers).unwrap_err();
            assert_eq!(refusal.status.as_u16(), 401, "{uri} {authorization:?}");
            assert!(!refusal.error.contains("0123456789"), "{}", refusal.error);
        }
    }

    #[test]
    fn an_unfit_token_is_refused_without_saying_it() {
        for text in [
            "",
            "short",
            "has a blank in it, and is long",
            &"x".repeat(4097),
        ] {
            let error = Token::new(text, "NILOMETER_TOKEN").unwrap_err().to_string();
            assert!(
                error.contains("NILOMETER_TOKEN") && error.contains("openssl"),
                "{error}"
            );
            assert!(text.is_empty() || !error.contains(text), "{error}");
        }
        assert_eq!(format!("{:?}", Token::new(SECRET, "").unwrap()), "(set)");
    }

    #[test]
    fn the_hash_is_sha_256_as_published() {
        let want = [
            0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40, 0xde, 0x5d, 0xae,
            0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17, 0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61,
            0xf2, 0x00, 0x15, 0xad,
        ];
        assert_eq!(*hash(b"abc"), want);
    }

    #[test]
    fn base64_is_that_of_rfc_4648_and_whatever_bytes_come_are_text_or_refused() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(decode_base64(text.as_bytes()).unwrap(), bytes.as_bytes());
        }
        for byte in 0..=u8::MAX {
            for length in 0..9 {
                let decoded = decode_base64(&vec![byte; length]);
                assert!(decoded.is_none_or(|bytes| bytes.len() <= length));
            }
        }
    }
}
