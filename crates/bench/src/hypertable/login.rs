//! SCRAM-SHA-256 (RFC 5802, RFC 7677) from the client's side: a password is proved without being sent.
//!
//! Does: make the client's two messages, check the server's last one. Does not: frame messages, or bind to a TLS channel.

use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac, pbkdf2};

/// Bytes of the client's part of the nonce.
const NONCE_BYTES: usize = 18;
/// A server that asks for more rounds keeps this program busy for minutes.
const ROUNDS_MAX: u32 = 10_000_000;

/// The exchange with one server.
#[derive(Debug)]
pub(super) struct Scram {
    nonce: String,
    /// What the server's last message has to say.
    signature: Option<String>,
}

impl Scram {
    pub(super) fn begin() -> Result<Self, String> {
        let mut random = [0; NONCE_BYTES];
        let filled = SystemRandom::new().fill(&mut random);
        filled.map_err(|_| "the system gives no random numbers".to_owned())?;
        Ok(Self::with(STANDARD.encode(random)))
    }

    fn with(nonce: String) -> Self {
        Self {
            nonce,
            signature: None,
        }
    }

    /// The client's first message. The server knows the user from before.
    pub(super) fn first(&self) -> String {
        format!("n,,n=,r={}", self.nonce)
    }

    /// The client's last message.
    pub(super) fn last(&mut self, password: &str, server_first: &[u8]) -> Result<String, String> {
        self.last_of(password, "n=", server_first)
    }

    fn last_of(&mut self, password: &str, user: &str, said: &[u8]) -> Result<String, String> {
        let wrong = || "its login says something else than SCRAM-SHA-256 does".to_owned();
        let said = std::str::from_utf8(said).map_err(|_| wrong())?;
        let part = |name: &str| said.split(',').find_map(|part| part.strip_prefix(name));
        let nonce = part("r=").filter(|nonce| nonce.starts_with(&self.nonce));
        let nonce = nonce.ok_or_else(wrong)?;
        let salt = part("s=").and_then(|salt| STANDARD.decode(salt).ok());
        let salt = salt.ok_or_else(wrong)?;
        let rounds = part("i=").and_then(|rounds| rounds.parse().ok());
        let rounds = rounds.filter(|rounds: &NonZeroU32| rounds.get() <= ROUNDS_MAX);
        let rounds = rounds.ok_or_else(wrong)?;
        let mut salted = [0; digest::SHA256_OUTPUT_LEN];
        let kind = pbkdf2::PBKDF2_HMAC_SHA256;
        pbkdf2::derive(kind, rounds, &salt, password.as_bytes(), &mut salted);
        let without_proof = format!("c=biws,r={nonce}");
        let all = format!("{user},r={},{said},{without_proof}", self.nonce);
        let client_key = sign(&salted, b"Client Key");
        let stored = digest::digest(&digest::SHA256, client_key.as_ref());
        let signature = sign(stored.as_ref(), all.as_bytes());
        let proof: Vec<u8> = client_key
            .as_ref()
            .iter()
            .zip(signature.as_ref())
            .map(|(key, signature)| key ^ signature)
            .collect();
        let server_key = sign(&salted, b"Server Key");
        let server = sign(server_key.as_ref(), all.as_bytes());
        self.signature = Some(format!("v={}", STANDARD.encode(server.as_ref())));
        Ok(format!("{without_proof},p={}", STANDARD.encode(proof)))
    }

    /// Whether the server knows the password too.
    pub(super) fn check(&self, server_last: &[u8]) -> Result<(), String> {
        let is_right = self.signature.as_deref().map(str::as_bytes) == Some(server_last);
        is_right
            .then_some(())
            .ok_or_else(|| "it does not know the password that it asks for".to_owned())
    }
}

fn sign(key: &[u8], text: &[u8]) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677: user `user`, password `pencil`.
    #[test]
    fn the_exchange_is_that_of_the_rfc() {
        let mut scram = Scram::with("rOprNGfwEbeRWgbNEkqO".to_owned());
        let first = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        assert_eq!(
            scram.last_of("pencil", "n=user", first).unwrap(),
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        let right = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
        assert_eq!(scram.check(right), Ok(()));
        assert!(scram.check(b"v=AAAA").is_err());
    }

    #[test]
    fn a_server_that_says_otherwise_is_refused() {
        for first in [
            &b"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"[..],
            b"r=mine1,s=%,i=4096",
            b"r=mine1,s=AAAA,i=0",
            b"r=mine1,s=AAAA,i=4000000000",
            b"\xff",
        ] {
            let mut scram = Scram::with("mine".to_owned());
            assert!(scram.last("pencil", first).is_err(), "{first:?}");
        }
    }
}
