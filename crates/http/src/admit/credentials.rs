//! Who may ask: whoever shows the token. Who does not may ask whether the server lives.
//!
//! Does: find what a request shows in each of the places where clients put a token. Does not: compare it (the service
//! does), or know users and roles.

use axum::http::header;
use axum::http::request::Parts;
use nilometer_service::{Class, Token};

use crate::error::ErrorResponse;
use crate::parameters::Parameters;

/// Refuses a request that does not show the token.
pub(crate) fn check(token: &Token, request: &Parts) -> Result<(), ErrorResponse> {
    let shown = shown(request);
    if shown.is_empty() {
        return Err(ErrorResponse::of(
            Class::Unauthorized,
            "unable to parse authentication credentials: send the header 'Authorization: Bearer TOKEN', or the token as a password",
        ));
    }
    Ok(token.check(&shown)?)
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

    fn shown_in(uri: &str, authorization: &[&str]) -> Result<(), ErrorResponse> {
        let mut request = Request::get(uri);
        for value in authorization {
            request = request.header(header::AUTHORIZATION, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        check(&Token::new(SECRET, "the test").unwrap(), &parts)
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
            assert!(shown_in(uri, &headers).is_ok(), "{uri} {authorization:?}");
        }
        assert!(shown_in("/", &["Bearer wrong", "Bearer 0123456789abcdef:x"]).is_ok());
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
            let refusal = shown_in(uri, &headers).unwrap_err();
            assert_eq!(refusal.status.as_u16(), 401, "{uri} {authorization:?}");
            assert!(!refusal.error.contains("0123456789"), "{}", refusal.error);
        }
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
