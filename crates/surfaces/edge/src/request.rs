//! A request of a device: its parameters, and the signature over them and the body.
//!
//! Does: read the parameters, say what is signed. Does not: look at pages.

use std::collections::BTreeMap;

use axum::http::HeaderMap;
use nilometer_http::{ErrorResponse, Parameters};
use nilometer_service::{DeviceSecret, Error as ServiceError, RevokedKeys};

/// The header with the signature, in hexadecimal digits.
pub const SIGNATURE_HEADER: &str = "x-nilometer-signature";

/// Longest name of a device.
const DEVICE_BYTES_MAX: usize = 255;

/// Clocks that a request may tell; a device has started a few times since it was last heard of.
const CLOCKS_MAX: usize = 1024;

/// What a device asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) database: String,
    pub(crate) device: String,
    /// The number of its flash's life.
    pub(crate) store: i64,
    /// The last page before those of the body; `None` = it was not said.
    pub(crate) after: Option<u64>,
    /// What to add to the ticks of a boot, by boot.
    pub(crate) clocks: BTreeMap<u32, i64>,
    /// What is signed of the head.
    signed: String,
    signature: Vec<u8>,
}

/// What is signed before the body: `values` are those of `db`, `device`, `store`, `after` and `clock` as they are sent, before
/// they are escaped for a URL; empty where one is not sent.
pub fn signed_head(values: [&str; 5]) -> String {
    let mut head = String::from("nilometer-edge-1\n");
    for value in values {
        head.push_str(value);
        head.push('\n');
    }
    head
}

impl Asked {
    pub(crate) fn of(query: &[u8], headers: &HeaderMap) -> Result<Self, ErrorResponse> {
        let parameters = Parameters::parse(query);
        let value = |name| parameters.get(name).unwrap_or_default();
        let names = ["db", "device", "store", "after", "clock"];
        for name in names {
            // What is signed has a line for each.
            if value(name).chars().any(char::is_control) {
                return Err(invalid(name, "it has control characters"));
            }
        }
        let device = parameters.required("device")?.to_owned();
        if device.len() > DEVICE_BYTES_MAX {
            return Err(invalid("device", "it has more than 255 bytes"));
        }
        let store = parameters.required("store")?.parse().ok();
        let store = store.filter(|store: &i64| *store >= 0);
        let store = store.ok_or_else(|| {
            invalid(
                "store",
                "it is the number of the flash's life, a whole number from 0 on",
            )
        })?;
        let after = match value("after") {
            "" => None,
            text => Some(text.parse().map_err(|_| {
                invalid(
                    "after",
                    "it is the sequence of a page, or 0 before the first",
                )
            })?),
        };
        let signature = headers.get(SIGNATURE_HEADER);
        Ok(Self {
            database: parameters.required("db")?.to_owned(),
            device,
            store,
            after,
            clocks: clocks(value("clock"))?,
            signed: signed_head(names.map(value)),
            signature: signature.map_or_else(Vec::new, |it| it.as_bytes().to_vec()),
        })
    }

    /// Refuses what is not signed with a key of the device that counts and opens the database. `body` is as it was sent.
    pub(crate) fn check_signature(
        &self,
        secret: &DeviceSecret,
        revoked: &RevokedKeys,
        body: &[u8],
    ) -> Result<(), ServiceError> {
        let whose = (self.device.as_str(), self.database.as_str());
        let parts = [self.signed.as_bytes(), body];
        if secret.has_signed(whose, revoked, &parts, &self.signature) {
            return Ok(());
        }
        Err(ServiceError::DeviceSignature {
            device: self.device.clone(),
        })
    }
}

fn invalid(name: &str, reason: &str) -> ErrorResponse {
    ErrorResponse::bad_request(format!("invalid query parameter '{name}': {reason}"))
}

/// `BOOT:TICKS,...`.
fn clocks(text: &str) -> Result<BTreeMap<u32, i64>, ErrorResponse> {
    let wrong = || {
        invalid(
            "clock",
            "it is BOOT:TICKS, with a comma between several: the number of a start of the device, and what to add to its ticks",
        )
    };
    let mut clocks = BTreeMap::new();
    for clock in text.split(',').filter(|clock| !clock.is_empty()) {
        let (boot, shift) = clock.split_once(':').ok_or_else(wrong)?;
        let boot: u32 = boot.parse().map_err(|_| wrong())?;
        let shift: i64 = shift.parse().map_err(|_| wrong())?;
        if boot == 0 || clocks.insert(boot, shift).is_some() || clocks.len() > CLOCKS_MAX {
            return Err(wrong());
        }
    }
    Ok(clocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(query: &str) -> Result<Asked, String> {
        Asked::of(query.as_bytes(), &HeaderMap::new()).map_err(|refused| refused.error)
    }

    #[test]
    fn parameters_are_read_and_signed_as_they_are_without_escapes() {
        let asked = asked("db=d%20e&device=a%2Cb&store=3&after=17&clock=7:-5,9:1700").unwrap();
        assert_eq!(
            (asked.database.as_str(), asked.device.as_str()),
            ("d e", "a,b")
        );
        assert_eq!((asked.store, asked.after), (3, Some(17)));
        assert_eq!(asked.clocks, BTreeMap::from([(7, -5), (9, 1700)]));
        let signed = "nilometer-edge-1\nd e\na,b\n3\n17\n7:-5,9:1700\n";
        assert_eq!(asked.signed, signed);
    }

    #[test]
    fn what_cannot_be_is_refused_by_its_name() {
        for (query, name) in [
            ("device=a&store=1", "db"),
            ("db=d&store=1", "device"),
            ("db=d&device=a", "store"),
            ("db=d&device=a&store=-1", "store"),
            ("db=d&device=a&store=9223372036854775808", "store"),
            ("db=d&device=a&store=1&after=-1", "after"),
            ("db=d&device=a&store=1&after=x", "after"),
            ("db=d&device=a&store=1&clock=7", "clock"),
            ("db=d&device=a&store=1&clock=0:5", "clock"),
            ("db=d&device=a&store=1&clock=7:5,7:6", "clock"),
            ("db=d&device=a%0Ab&store=1", "device"),
            ("db=d%0A&device=a&store=1", "db"),
        ] {
            let error = asked(query).unwrap_err();
            assert!(error.contains(&format!("'{name}'")), "{query}: {error}");
        }
        let long = format!("db=d&store=1&device={}", "x".repeat(256));
        assert!(asked(&long).is_err());
    }
}
