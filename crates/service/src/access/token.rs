//! The access token: with it everything is allowed.
//!
//! Does: take the token, compare what somebody shows with it. Does not: keep the token's text (a hash is enough), find what
//! a request shows (each surface has places of its own for that), or know users and roles.

use std::fmt;

use ring::digest::{Digest, SHA256, digest};
use subtle::ConstantTimeEq;

use super::verifier::{salt_of_process, scram};
use crate::error::Error;

/// Shorter ones can be guessed.
const BYTES_MIN: usize = 16;

/// A longer text is some other file.
const BYTES_MAX: usize = 4096;

/// A token, kept as its hash.
#[derive(Clone)]
pub struct Token {
    hash: Digest,
    /// What is kept of it for protocols in which it never leaves the client; another one in each process.
    scram: String,
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
        if text.len() < BYTES_MIN {
            return Err(unfit("has fewer than 16 characters"));
        }
        if text.len() > BYTES_MAX {
            return Err(unfit("has more than 4096 characters"));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(unfit(
                "has blanks or characters that no HTTP header can carry",
            ));
        }
        Ok(Self {
            hash: hash(text.as_bytes()),
            scram: scram(text, &salt_of_process()),
        })
    }

    /// Its verifier of SCRAM-SHA-256.
    pub(crate) fn scram(&self) -> &str {
        &self.scram
    }

    /// Refuses whoever shows nothing that is the token.
    pub fn check(&self, shown: &[impl AsRef<[u8]>]) -> Result<(), Error> {
        // Every one is looked at, so that the time does not tell which was right.
        let matches = shown
            .iter()
            .fold(false, |found, secret| found | self.is(secret.as_ref()));
        if matches {
            Ok(())
        } else {
            Err(Error::WrongToken)
        }
    }

    fn is(&self, shown: &[u8]) -> bool {
        // Hashes have one length, so the time says nothing about the token, not even its length.
        hash(shown).as_ref().ct_eq(self.hash.as_ref()).into()
    }
}

fn hash(bytes: &[u8]) -> Digest {
    digest(&SHA256, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "0123456789abcdef:x";

    #[test]
    fn one_that_is_right_is_enough_and_nothing_else_counts() {
        let token = Token::new(SECRET, "the test").unwrap();
        assert!(token.check(&[SECRET]).is_ok());
        assert!(token.check(&["wrong", SECRET]).is_ok());
        assert!(token.check(&[SECRET, "wrong"]).is_ok());
        for wrong in [
            "",
            "0123456789abcdef:",
            "0123456789abcdef:xx",
            "0123456789abcdef:y",
        ] {
            let error = token.check(&[wrong]).unwrap_err();
            assert!(matches!(error, Error::WrongToken), "{error}");
        }
        assert!(token.check(&[""; 0]).is_err());
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
        assert_eq!(hash(b"abc").as_ref(), want);
    }
}
