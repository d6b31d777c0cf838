//! The secret of device keys: every device has a key of its own that the server can compute.
//!
//! Does: derive the keys of a device, sign what a device sends, compare a signature with what a device has sent, read which keys are
//! revoked. Does not: keep a list of devices, or know a request; a surface says what was signed.
//! Next: docs/format/device-sync.md for what is signed and how keys are derived.

use std::collections::BTreeMap;
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

/// The key of one device.
#[derive(Clone)]
pub struct DeviceKey([u8; HASH_BYTES]);

/// Which keys of devices do not open the server any more, though they are of its secret.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RevokedKeys(BTreeMap<String, Option<u32>>);

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

    /// The first key of a device: HMAC-SHA256 of its name under the secret.
    pub fn key(&self, device: &str) -> DeviceKey {
        self.derive(device.as_bytes())
    }

    /// The key of a device with this number, 1 or more, that opens one database, or those that are listed. Names have no control
    /// characters, so that no two keys are derived from one text.
    pub fn key_of(&self, device: &str, number: u32, database: Option<&str>) -> DeviceKey {
        if number == 1 && database.is_none() {
            return self.key(device);
        }
        let database = database.unwrap_or_default();
        self.derive(format!("nilometer-edge-key\n{number}\n{database}\n{device}").as_bytes())
    }

    /// Whether parts are signed with a key of the device that is in force and opens the database.
    pub fn has_signed(
        &self,
        (device, database): (&str, &str),
        revoked: &RevokedKeys,
        parts: &[&[u8]],
        signature: &[u8],
    ) -> bool {
        let Some(number) = revoked.number_in_force(device) else {
            return false;
        };
        let keys = [None, Some(database)].map(|database| self.key_of(device, number, database));
        // Both are compared, whichever it is.
        let signed = keys.map(|key| key.has_signed(parts, signature));
        signed.contains(&true)
    }

    fn derive(&self, text: &[u8]) -> DeviceKey {
        let tag = hmac::sign(&self.0, text);
        let mut key = [0; HASH_BYTES];
        key.copy_from_slice(tag.as_ref());
        DeviceKey(key)
    }
}

impl RevokedKeys {
    /// Reads a list: a line is the name of a device none of whose keys counts any more, or a number, a tab and the name of a device
    /// whose keys with numbers up to it do not. Empty lines and such that begin with `#` say nothing. `origin` says in errors where it came
    /// from.
    pub fn parse(text: &str, origin: &str) -> Result<Self, Error> {
        let mut revoked = BTreeMap::new();
        for (at, line) in text.lines().enumerate() {
            let unfit = |reason| Error::RevokedKeys {
                origin: origin.to_owned(),
                line: at + 1,
                reason,
            };
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let (number, device) = match line.split_once('\t') {
                None => (None, line),
                Some((number, device)) => {
                    let number = number.trim().parse().ok();
                    let number = number.filter(|number: &u32| (1..u32::MAX).contains(number));
                    let wrong = "does not begin with the number of a key, 1 or more";
                    (Some(number.ok_or_else(|| unfit(wrong))?), device)
                }
            };
            if device.is_empty() || device.chars().any(char::is_control) {
                return Err(unfit(
                    "has no name of a device, or one with control characters",
                ));
            }
            if revoked.insert(device.to_owned(), number).is_some() {
                return Err(unfit("names a device that another line names already"));
            }
        }
        Ok(Self(revoked))
    }

    /// The number of the device's only key that counts: 1 as long as none was revoked; `None` = no key does.
    fn number_in_force(&self, device: &str) -> Option<u32> {
        match self.0.get(device) {
            None => Some(1),
            Some(None) => None,
            // Numbers end before the largest one.
            Some(Some(number)) => number.checked_add(1),
        }
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

    /// `printf 'nilometer-edge-key\n2\n\ndev-1' | openssl dgst -sha256 -hmac 0123456789abcdef`, then the same with number 1 and database `plant`.
    const SECOND: &str = "96786322198f99058de53f783143a69f428c27f02d492b274c4010830f02c406";
    const OF_PLANT: &str = "b6980e6a6f5d270cd23c8513cfb83bd17aecd207010e232a55b733374e6362df";

    #[test]
    fn keys_with_numbers_and_of_databases_are_those_of_another_program() {
        let secret = DeviceSecret::new("0123456789abcdef", "the test").unwrap();
        assert_eq!(secret.key_of("dev-1", 1, None).to_hex(), KEY);
        assert_eq!(secret.key_of("dev-1", 2, None).to_hex(), SECOND);
        assert_eq!(secret.key_of("dev-1", 1, Some("plant")).to_hex(), OF_PLANT);
    }

    #[test]
    fn a_key_counts_until_it_is_revoked_and_a_key_of_a_database_for_no_other() {
        let secret = DeviceSecret::new("0123456789abcdef", "the test").unwrap();
        let list = "# stolen\n1\tdev-1\n\n3\tdev-2\ndev-3\n";
        let revoked = RevokedKeys::parse(list, "list").unwrap();
        let none = RevokedKeys::default();
        let counts = |device: &str, number, of: Option<&str>, database: &str, revoked| {
            let signature = secret.key_of(device, number, of).sign(&[b"body"]);
            secret.has_signed(
                (device, database),
                revoked,
                &[b"body"],
                signature.as_bytes(),
            )
        };
        // Device, number, whose database, which database, whether it counts without the list and with it.
        for (device, number, of, database, before, after) in [
            ("dev-1", 1, None, "plant", true, false),
            ("dev-1", 2, None, "plant", false, true),
            ("dev-1", 3, None, "plant", false, false),
            ("dev-1", 1, Some("plant"), "plant", true, false),
            ("dev-1", 2, Some("plant"), "plant", false, true),
            ("dev-1", 2, Some("plant"), "other", false, false),
            ("dev-2", 4, None, "plant", false, true),
            ("dev-3", 1, None, "plant", true, false),
            ("dev-3", 2, None, "plant", false, false),
            ("dev-4", 1, None, "plant", true, true),
            ("dev-4", 1, Some("plant"), "plant", true, true),
            ("dev-4", 1, Some("plant"), "other", false, false),
        ] {
            let label = format!("{device} {number} {of:?} {database}");
            assert_eq!(
                counts(device, number, of, database, &none),
                before,
                "{label}"
            );
            assert_eq!(
                counts(device, number, of, database, &revoked),
                after,
                "{label}"
            );
        }
    }

    #[test]
    fn a_list_that_says_nothing_clear_is_refused_with_its_line() {
        for (text, line) in [
            ("dev\n0\tdev-1", "line 2"),
            ("x\tdev", "line 1"),
            ("4294967295\tdev", "line 1"),
            ("1\t", "line 1"),
            ("1\tdev\ta", "line 1"),
            ("dev\n\n1\tdev", "line 3"),
        ] {
            let error = RevokedKeys::parse(text, "revoked.txt")
                .unwrap_err()
                .to_string();
            assert!(
                error.contains(line) && error.contains("revoked.txt"),
                "{text:?}: {error}"
            );
        }
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
