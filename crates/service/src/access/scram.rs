//! SCRAM-SHA-256 (RFC 5802, RFC 7677): who knows a password proves it without sending it, and so does the server.
//!
//! Does: answer the two messages of a client, against the verifier that is stored. Does not: bind to a TLS channel, frame
//! messages, or know a password. Whoever is nobody gets a salt of their own all the same, always the same one, so that the
//! answers do not tell which users there are.

use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac};
use subtle::ConstantTimeEq;

use super::principal::Principal;
use super::verifier::salt_of_process;
use crate::error::Error;

/// Bytes of the part of the nonce that is the server's.
const NONCE_BYTES: usize = 18;

/// Longer messages are none: a nonce has some thirty letters.
const MESSAGE_BYTES_MAX: usize = 4096;

/// The exchange with one client.
pub struct Scram {
    verifier: Verifier,
    user: Arc<str>,
    lets_in: Principal,
    step: Option<Step>,
}

impl std::fmt::Debug for Scram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scram")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// What was said so far.
struct Step {
    /// What the client has said of channels, which it repeats.
    header: String,
    client_first: String,
    server_first: String,
    nonce: String,
}

/// The parts of a stored verifier.
struct Verifier {
    rounds: String,
    salt: String,
    stored_key: Vec<u8>,
    server_key: Vec<u8>,
}

impl Verifier {
    /// Of `SCRAM-SHA-256$ROUNDS:SALT$STORED_KEY:SERVER_KEY`; one that cannot be read lets nobody in.
    fn of(text: &str) -> Self {
        let read = || {
            let rest = text.strip_prefix("SCRAM-SHA-256$")?;
            let (rounds_salt, keys) = rest.split_once('$')?;
            let (rounds, salt) = rounds_salt.split_once(':')?;
            let (stored_key, server_key) = keys.split_once(':')?;
            Some(Self {
                rounds: rounds.to_owned(),
                salt: salt.to_owned(),
                stored_key: STANDARD.decode(stored_key).ok()?,
                server_key: STANDARD.decode(server_key).ok()?,
            })
        };
        read().unwrap_or_else(|| Self {
            rounds: "4096".to_owned(),
            salt: STANDARD.encode([0; 16]),
            stored_key: Vec::new(),
            server_key: Vec::new(),
        })
    }
}

impl Scram {
    pub(super) fn new(verifier: &str, user: &str, lets_in: Principal) -> Self {
        Self {
            verifier: Verifier::of(verifier),
            user: Arc::from(user),
            lets_in,
            step: None,
        }
    }

    /// Answers the client's first message.
    pub fn first(&mut self, message: &[u8]) -> Result<String, Error> {
        let mut random = [0; NONCE_BYTES];
        SystemRandom::new()
            .fill(&mut random)
            .map_err(|_| wrong("the system gives no random numbers"))?;
        self.first_with(message, &STANDARD.encode(random))
    }

    fn first_with(&mut self, message: &[u8], server_nonce: &str) -> Result<String, Error> {
        let message = text(message)?;
        let mut parts = message.splitn(3, ',');
        let (binding, authzid, bare) = (parts.next(), parts.next(), parts.next());
        match binding {
            Some("n" | "y") => {}
            Some(binding) if binding.starts_with("p=") => {
                return Err(wrong("channel binding was not offered"));
            }
            _ => return Err(wrong("its first message begins otherwise")),
        }
        let bare = bare.ok_or_else(|| wrong("its first message is cut short"))?;
        let header = format!(
            "{},{},",
            binding.unwrap_or_default(),
            authzid.unwrap_or_default()
        );
        if bare.starts_with("m=") {
            return Err(wrong("it asks for an extension"));
        }
        // The name is the one that the connection was begun with.
        let client_nonce = bare
            .split(',')
            .find_map(|part| part.strip_prefix("r="))
            .filter(|nonce| !nonce.is_empty())
            .ok_or_else(|| wrong("its first message has no nonce"))?;
        let nonce = format!("{client_nonce}{server_nonce}");
        let server_first = format!(
            "r={nonce},s={},i={}",
            self.verifier.salt, self.verifier.rounds
        );
        self.step = Some(Step {
            header,
            client_first: bare.to_owned(),
            server_first: server_first.clone(),
            nonce,
        });
        Ok(server_first)
    }

    /// Answers the client's last message, and says who it is; an error = it does not know the password.
    pub fn last(self, message: &[u8]) -> Result<(String, Principal), Error> {
        let step = self
            .step
            .ok_or_else(|| wrong("its messages come in another order"))?;
        let message = text(message)?;
        let (without_proof, proof) = message
            .rsplit_once(",p=")
            .ok_or_else(|| wrong("its last message has no proof"))?;
        let mut parts = without_proof.split(',');
        let channel = parts.next().and_then(|part| part.strip_prefix("c="));
        if channel != Some(STANDARD.encode(&step.header).as_str()) {
            return Err(wrong("it says another thing of channels than before"));
        }
        if parts.next().and_then(|part| part.strip_prefix("r=")) != Some(step.nonce.as_str()) {
            return Err(wrong("it has another nonce than before"));
        }
        let said = format!(
            "{},{},{without_proof}",
            step.client_first, step.server_first
        );
        let proof = STANDARD
            .decode(proof)
            .map_err(|_| wrong("its proof is not in base64"))?;
        let sign =
            |key: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), said.as_bytes());
        let signature = sign(&self.verifier.stored_key);
        if proof.len() != signature.as_ref().len() {
            return Err(wrong("its proof has another length"));
        }
        let client_key: Vec<u8> = proof
            .iter()
            .zip(signature.as_ref())
            .map(|(proof, signature)| proof ^ signature)
            .collect();
        let stored = digest::digest(&digest::SHA256, &client_key);
        let is_right: bool = stored.as_ref().ct_eq(&self.verifier.stored_key).into();
        if !is_right {
            tracing::warn!(
                user = &*self.user,
                "a login failed: no such user, or another password"
            );
            return Err(Error::WrongPassword);
        }
        let server = STANDARD.encode(sign(&self.verifier.server_key).as_ref());
        Ok((format!("v={server}"), self.lets_in))
    }
}

/// The verifiers of whoever is nobody: of each name always the same, and of no password.
#[derive(Debug, Default)]
pub(super) struct Nobody(OnceLock<[u8; 16]>);

impl Nobody {
    pub(super) fn verifier(&self, user: &str) -> String {
        let key = self.0.get_or_init(salt_of_process);
        let key = hmac::Key::new(hmac::HMAC_SHA256, key);
        let hash = hmac::sign(&key, user.as_bytes());
        let salt = hash.as_ref().get(..16).unwrap_or_default();
        // No client key has this hash, since nobody can be found whose it is.
        let stored = digest::digest(&digest::SHA256, hash.as_ref());
        format!(
            "SCRAM-SHA-256$4096:{}${}:{}",
            STANDARD.encode(salt),
            STANDARD.encode(stored.as_ref()),
            STANDARD.encode(stored.as_ref()),
        )
    }
}

fn text(message: &[u8]) -> Result<&str, Error> {
    if message.len() > MESSAGE_BYTES_MAX {
        return Err(wrong("a message is too long"));
    }
    std::str::from_utf8(message).map_err(|_| wrong("a message is no text"))
}

fn wrong(reason: &'static str) -> Error {
    Error::Scram { reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verifier of RFC 7677's example (user `user`, password `pencil`) and its messages.
    const PENCIL: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
    const SERVER_NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const FIRST: &str = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    const LAST: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

    fn begun() -> Scram {
        let mut scram = Scram::new(PENCIL, "user", Principal::anyone());
        let first = scram.first_with(FIRST.as_bytes(), SERVER_NONCE).unwrap();
        assert_eq!(
            first,
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        );
        scram
    }

    #[test]
    fn the_exchange_is_that_of_the_rfc() {
        let (last, _) = begun().last(LAST.as_bytes()).unwrap();
        assert_eq!(last, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    #[test]
    fn what_is_not_said_as_agreed_lets_nobody_in() {
        for (wrong, why) in [
            (LAST.replace("p=dHz", "p=eHz"), "no user"),
            (LAST.replace("c=biws", "c=eSws"), "channels"),
            (LAST.replace("r=rOpr", "r=xOpr"), "nonce"),
            (LAST.replace("p=", "q="), "no proof"),
            (LAST.replace("ndVQ=", ""), "base64"),
            ("c=biws".to_owned(), "no proof"),
            (String::new(), "no proof"),
        ] {
            let error = begun().last(wrong.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(why), "{wrong}: {error}");
        }
        for first in [
            "",
            "n",
            "n,,",
            "n,,n=user",
            "p=tls-unique,,n=user,r=x",
            "x,,n=user,r=x",
            "n,,m=x,r=x",
        ] {
            let mut scram = Scram::new(PENCIL, "user", Principal::anyone());
            assert!(scram.first(first.as_bytes()).is_err(), "{first}");
        }
        let unasked = Scram::new(PENCIL, "user", Principal::anyone());
        assert!(unasked.last(LAST.as_bytes()).is_err());
    }

    #[test]
    fn nobody_has_a_salt_that_stays_the_same() {
        let nobody = Nobody::default();
        assert_eq!(nobody.verifier("a"), nobody.verifier("a"));
        assert_ne!(nobody.verifier("a"), nobody.verifier("b"));
        assert_ne!(nobody.verifier("a"), Nobody::default().verifier("a"));
    }
}
