//! The header `Idempotency-Key`: a write that is sent again with it is not stored twice.
//!
//! Does: turn the header into the sixteen bytes that the engine remembers. Does not: remember anything.

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::error::ErrorResponse;

const HEADER: HeaderName = HeaderName::from_static("idempotency-key");

/// Said of an answer that was given before.
const REPLAYED_HEADER: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Longer keys are refused, so that the header stays a name and does not become the body.
const TEXT_BYTES_MAX: usize = 256;

/// FNV-1a of 128 bits, as its authors give it.
const FNV_BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const FNV_PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// The key of a request to a database, if it has one.
///
/// 32 hexadecimal digits, with or without the hyphens of a UUID, are the key. Any other text is hashed together with the
/// database's name, so that short texts such as `batch-1` do not meet those of another database.
pub fn key_of(headers: &HeaderMap, database: &str) -> Result<Option<[u8; 16]>, ErrorResponse> {
    let mut values = headers.get_all(HEADER).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(refused("it is there more than once; send it once"));
    }
    let text = value
        .to_str()
        .map_err(|_| refused("it has bytes that are not printable ASCII"))?
        .trim();
    // A structured header has its text in quotes.
    let text = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
        .unwrap_or(text);
    if text.is_empty() {
        return Err(refused("it is empty"));
    }
    if text.len() > TEXT_BYTES_MAX {
        return Err(refused("it is longer than 256 bytes"));
    }
    Ok(Some(digits(text).unwrap_or_else(|| hash(database, text))))
}

/// The key of the nth part of what has a key, for bodies that are stored part by part.
pub fn key_of_part(key: [u8; 16], nth: u64) -> [u8; 16] {
    let all = key.into_iter().chain(nth.to_le_bytes());
    fnv(all).to_le_bytes()
}

/// Success without a body, which says whether it was one before.
pub fn answer(is_repeated: bool) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    if is_repeated {
        let replayed = HeaderValue::from_static("true");
        response.headers_mut().insert(REPLAYED_HEADER, replayed);
    }
    response
}

fn refused(why: &str) -> ErrorResponse {
    ErrorResponse::bad_request(format!("invalid Idempotency-Key: {why}"))
}

/// The bytes of 32 hexadecimal digits, or of a UUID.
fn digits(text: &str) -> Option<[u8; 16]> {
    let hyphens: Vec<usize> = text.match_indices('-').map(|(at, _)| at).collect();
    let bare = match hyphens.as_slice() {
        [] => text.to_owned(),
        [8, 13, 18, 23] => text.replace('-', ""),
        _ => return None,
    };
    let nibbles: Option<Vec<u32>> = bare.chars().map(|digit| digit.to_digit(16)).collect();
    let pairs = nibbles?;
    let bytes: Option<Vec<u8>> = pairs
        .chunks(2)
        .map(|pair| match pair {
            &[high, low] => u8::try_from(high << 4 | low).ok(),
            _ => None,
        })
        .collect();
    bytes?.try_into().ok()
}

/// The same in every version: the key of a text is on disk.
fn hash(database: &str, text: &str) -> [u8; 16] {
    // No database has a zero byte in its name, so what comes before it is not mistaken for what comes after.
    let all = database.bytes().chain([0]).chain(text.bytes());
    fnv(all).to_le_bytes()
}

fn fnv(bytes: impl Iterator<Item = u8>) -> u128 {
    bytes.fold(FNV_BASIS, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(FNV_PRIME)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Result<Option<[u8; 16]>, ErrorResponse> {
        let mut headers = HeaderMap::new();
        headers.insert(HEADER, text.parse().unwrap());
        key_of(&headers, "d")
    }

    #[test]
    fn the_hash_is_fnv_1a_as_published() {
        for (text, hash) in [
            ("", 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d),
            ("a", 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964),
            ("ab", 0x0880_9544_bbab_1be9_5aa0_7330_55b6_9a62),
            ("abc", 0xa68d_622c_ec8b_5822_836d_bc79_77af_7f3b),
        ] {
            assert_eq!(fnv(text.bytes()), hash, "{text:?}");
        }
    }

    #[test]
    fn digits_are_taken_as_they_are_in_every_spelling() {
        let bytes = [
            0x8e, 0x03, 0x97, 0x8e, 0x40, 0xd5, 0x43, 0xdd, 0xbc, 0x93, 0x68, 0x94, 0xa5, 0x7f,
            0x93, 0x24,
        ];
        for text in [
            "8e03978e-40d5-43dd-bc93-6894a57f9324",
            "8E03978E40D543DDBC936894A57F9324",
            "\"8e03978e-40d5-43dd-bc93-6894a57f9324\"",
            " 8e03978e40d543ddbc936894a57f9324 ",
        ] {
            assert_eq!(key(text).unwrap(), Some(bytes), "{text}");
        }
    }

    #[test]
    fn other_texts_are_different_keys_in_different_databases() {
        let mut keys = std::collections::BTreeSet::new();
        let texts = [
            "1",
            "2",
            "8e03978e-40d5-43dd-bc93-6894a57f932",
            "+e03978e40d543ddbc936894a57f9324",
            "8e0-3978e-40d5-43dd-bc936894a57f9324",
        ];
        for database in ["d", "e", "d1"] {
            for text in texts {
                let mut headers = HeaderMap::new();
                headers.insert(HEADER, text.parse().unwrap());
                assert!(
                    keys.insert(key_of(&headers, database).unwrap()),
                    "{database} {text}"
                );
            }
        }
        assert_eq!(key_of(&HeaderMap::new(), "d").unwrap(), None);
    }

    #[test]
    fn a_key_that_is_none_is_refused_with_the_reason() {
        let long = "k".repeat(257);
        for (text, why) in [
            ("", "it is empty"),
            ("\"\"", "it is empty"),
            (long.as_str(), "it is longer than 256 bytes"),
        ] {
            assert_eq!(
                key(text).unwrap_err().error,
                format!("invalid Idempotency-Key: {why}")
            );
        }
        assert!(key(&"k".repeat(256)).unwrap().is_some());
        let mut headers = HeaderMap::new();
        headers.append(HEADER, "a".parse().unwrap());
        headers.append(HEADER, "a".parse().unwrap());
        assert!(key_of(&headers, "d").unwrap_err().error.contains("once"));
    }

    #[test]
    fn whatever_bytes_come_are_a_key_or_refused() {
        for byte in 0..=u8::MAX {
            for length in [1, 2, 32, 36, 256, 257] {
                let bytes = vec![byte; length];
                let Ok(value) = axum::http::HeaderValue::from_bytes(&bytes) else {
                    continue;
                };
                let headers = HeaderMap::from_iter([(HEADER, value)]);
                let key = key_of(&headers, "d");
                let is_text = byte.is_ascii_graphic() && byte != b'"';
                assert!(
                    key.is_ok() == (is_text && length <= 256) || byte == b'"',
                    "{bytes:?}"
                );
            }
        }
    }
}
