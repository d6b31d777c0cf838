//! The secret of device keys: every device has a key of its own that the server can compute.
//!
//! Does: derive the key of a device, sign what a device sends, compare a signature with what a device has sent. Does not: keep a
//! list of devices, or know a request; a surface says what was signed.
//! Next: docs/format/device-sync.md for what is signed.

use std::fmt;
use std::fmt::Write as _;

use ring::hmac;
use subtle::ConstantTimeEq;

use crate::error::Error;

/// Shorter ones can be guessed.
const BYTES_MIN: usize = 16;

/// A longer text is some other file.
const BYTES_MAX: usize = 4096;

/// Bytes of a key and of a signature.
const HASH_BYTES: usize = 32;

/// The secret that keys of devices are derived from.
#[derive(Clone)]
pub struct DeviceSecret(hmac::Key);

/// The key of one device: HMAC-SHA256 of its id under the secret.
#[derive(Clone)]
pub struct DeviceKey([u8; HASH_BYTES]);

impl fmt::Debug for DeviceSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(set)")
    }
}

impl fmt::Debug for DeviceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(set)")
    }
}

impl DeviceSecret {
    /// Takes a secret; `origin` says in errors where it came from. White space around it does not count.
    pub fn new(text: &str, origin: &str) -> Result<Self, Error> {
        let secret = text.trim().as_bytes();
        let unfit = |reason| Error::DeviceSecret {
            origin: origin.to_owned(),
            reason,
        };
        if secret.len() < BYTES_MIN {
            return Err(unfit("has fewer than 16 characters"));
        }
        if secret.len() > BYTES_MAX {
            return Err(unfit("has more than 4096 characters"));
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, secret)))
    }

    /// The key of a device.
    pub fn key(&self, device: &str) -> DeviceKey {
        let tag = hmac::sign(&self.0, device.as_bytes());
        let mut key = [0; HASH_BYTES];
        key.copy_from_slice(tag.as_ref());
        DeviceKey(key)
    }
}

impl DeviceKey {
    /// A key as `nilometer edge key` prints it: 64 hexadecimal digits; `None` = it is none.
    pub fn from_hex(text: &str) -> Option<Self> {
        bytes_of_hex(text.trim().as_bytes()).map(Self)
    }

    /// The key in hexadecimal digits.
    pub fn to_hex(&self) -> String {
        hex(&self.0)
    }

    /// The signature of parts that follow each other, in hexadecimal digits.
    pub fn sign(&self, parts: &[&[u8]]) -> String {
        hex(self.tag(parts).as_ref())
    }

    /// Whether a signature is the one of these parts. The time says nothing about how much of it was right.
    pub fn has_signed(&self, parts: &[&[u8]], signature: &[u8]) -> bool {
        let shown = bytes_of_hex(signature).unwrap_or_default();
        // One that is no signature is compared too: zeros are those of nothing that anybody can send.
        let is_one = signature.len() == 2 * HASH_BYTES;
        bool::from(self.tag(parts).as_ref().ct_eq(&shown)) && is_one
    }

    fn tag(&self, parts: &[&[u8]]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &self.0));
        for part in parts {
            context.update(part);
        }
        context.sign()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn bytes_of_hex(text: &[u8]) -> Option<[u8; HASH_BYTES]> {
    if text.len() != 2 * HASH_BYTES {
        return None;
    }
    let mut bytes = [0; HASH_BYTES];
    for (byte, digits) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        let digits = std::str::from_utf8(digits).ok()?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        *byte = u8::from_str_radix(digits, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `printf dev-1 | openssl dgst -sha256 -hmac 0123456789abcdef` says.
    const KEY: &str = "988ba193c9f10f190cf27361a390aebb6fe4a4b3c2ace1778ff8c79e1087ccdd";

    #[test]
    fn keys_and_signatures_are_those_of_another_program() {
        let secret = DeviceSecret::new(" 0123456789abcdef\n", "the test").unwrap();
        let key = secret.key("dev-1");
        assert_eq!(key.to_hex(), KEY);
        assert_eq!(DeviceKey::from_hex(KEY).unwrap().to_hex(), KEY);
        // printf 'a\nb' | openssl dgst -sha256 -mac HMAC -macopt hexkey:$KEY
        let signature = "3cc2ddaf2e6816f144e98afa15c5e7757b99fd6cfa7c0229996b49b4979baf82";
        assert_eq!(key.sign(&[b"a", b"\n", b"b"]), signature);
        assert!(key.has_signed(&[b"a\nb"], signature.as_bytes()));
        assert!(key.has_signed(&[b"a\nb"], signature.to_uppercase().as_bytes()));
        for wrong in [
            "",
            "00",
            &signature[1..],
            &"0".repeat(64),
            &"+f".repeat(32),
            KEY,
        ] {
            assert!(!key.has_signed(&[b"a\nb"], wrong.as_bytes()), "{wrong}");
        }
        assert!(
            !secret
                .key("dev-2")
                .has_signed(&[b"a\nb"], signature.as_bytes())
        );
        assert_eq!(format!("{secret:?} {key:?}"), "(set) (set)");
    }

    #[test]
    fn an_unfit_secret_is_refused_without_saying_it() {
        for text in ["", "short", &"x".repeat(4097)] {
            let error = DeviceSecret::new(text, "edge.secret")
                .unwrap_err()
                .to_string();
            assert!(error.contains("edge.secret"), "{error}");
            assert!(text.is_empty() || !error.contains(text), "{error}");
        }
    }
}
