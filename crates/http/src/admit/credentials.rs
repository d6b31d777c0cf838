//! Credentials of a request: what it shows in each of the places where clients put a token, or a name and a password.
//!
//! Does not: check them (the service does).

use axum::http::header;
use axum::http::request::Parts;
use nilometer_service::Credentials;

use crate::parameters::Parameters;

/// Everything in a request that may let it in.
pub(crate) fn shown(request: &Parts) -> Vec<Credentials> {
    let mut found = Vec::new();
    let query = request.uri.query().unwrap_or_default();
    if query.contains("p=") {
        let parameters = Parameters::parse(query.as_bytes());
        if let Some(password) = parameters.get("p") {
            found.push(Credentials::Password {
                user: parameters.get("u").unwrap_or_default().to_owned(),
                password: password.to_owned(),
            });
        }
    }
    for value in request.headers.get_all(header::AUTHORIZATION) {
        let Some((scheme, rest)) = split_once(value.as_bytes(), b' ') else {
            continue;
        };
        let rest = rest.trim_ascii();
        if scheme.eq_ignore_ascii_case(b"bearer") {
            found.push(Credentials::Token(rest.to_vec()));
        } else if scheme.eq_ignore_ascii_case(b"token") {
            found.push(Credentials::Token(rest.to_vec()));
            found.extend(pair(rest));
        } else if scheme.eq_ignore_ascii_case(b"basic")
            && let Some(decoded) = decode_base64(rest)
        {
            found.extend(pair(&decoded));
        }
    }
    found
}

/// `user:password`.
fn pair(bytes: &[u8]) -> Option<Credentials> {
    let (user, password) = split_once(bytes, b':')?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some(Credentials::Password {
        user: text(user),
        password: text(password),
    })
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

    fn shown_in(uri: &str, authorization: &[&str]) -> Vec<Credentials> {
        let mut request = Request::get(uri);
        for value in authorization {
            request = request.header(header::AUTHORIZATION, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        shown(&parts)
    }

    fn password(user: &str, password: &str) -> Credentials {
        Credentials::Password {
            user: user.to_owned(),
            password: password.to_owned(),
        }
    }

    fn token(text: &str) -> Credentials {
        Credentials::Token(text.into())
    }

    #[test]
    fn credentials_are_found_wherever_a_client_puts_them() {
        // The base64 texts are what `printf u:0123456789abcdef:x | base64` says.
        for (uri, authorization, expected) in [
            ("/", "Bearer a:b", vec![token("a:b")]),
            ("/", "bearer  a ", vec![token("a")]),
            ("/", "Token a", vec![token("a")]),
            (
                "/",
                "Token u:a:b",
                vec![token("u:a:b"), password("u", "a:b")],
            ),
            (
                "/",
                "Basic dTowMTIzNDU2Nzg5YWJjZGVmOng=",
                vec![password("u", "0123456789abcdef:x")],
            ),
            (
                "/",
                "Basic dTowMTIzNDU2Nzg5YWJjZGVmOng",
                vec![password("u", "0123456789abcdef:x")],
            ),
            (
                "/write?db=d&u=u&p=a%3Ab",
                "Bearer t",
                vec![password("u", "a:b"), token("t")],
            ),
            (
                "/write?p=a",
                "Bearer t",
                vec![password("", "a"), token("t")],
            ),
        ] {
            assert_eq!(
                shown_in(uri, &[authorization]),
                expected,
                "{uri} {authorization}"
            );
        }
        let two = shown_in("/", &["Bearer wrong", "Bearer right"]);
        assert_eq!(two, [token("wrong"), token("right")]);
    }

    #[test]
    fn nothing_else_is_taken_for_one() {
        for (uri, authorization) in [
            ("/", None),
            ("/", Some("Bearer")),
            ("/", Some("0123456789abcdef:x")),
            ("/", Some("Digest 0123456789abcdef:x")),
            ("/", Some("Basic 0123456789abcdef:x")),
            ("/", Some("Basic !!!!")),
            ("/?u=0123456789abcdef:x", None),
            ("/?pp=0123456789abcdef:x", None),
        ] {
            let headers: Vec<&str> = authorization.into_iter().collect();
            assert_eq!(shown_in(uri, &headers), [], "{uri} {authorization:?}");
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
