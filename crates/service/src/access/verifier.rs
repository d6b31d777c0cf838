//! Verifiers of SCRAM-SHA-256: what is kept of a password by which its owner is known, and no password.

use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac, pbkdf2};
use subtle::ConstantTimeEq;

/// Rounds of SCRAM, as `PostgreSQL` has it; whoever verifies reads them from the verifier.
const SCRAM_ROUNDS: NonZeroU32 = NonZeroU32::new(4096).expect("it is not 0");

/// The verifier of RFC 5803. The password is not normalised by `SASLprep`, as `PostgreSQL` does not either where it cannot.
pub(crate) fn scram(password: &str, salt: &[u8]) -> String {
    scram_of(password, salt, SCRAM_ROUNDS)
}

fn scram_of(password: &str, salt: &[u8], rounds: NonZeroU32) -> String {
    let mut salted = [0; digest::SHA256_OUTPUT_LEN];
    let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
    pbkdf2::derive(algorithm, rounds, salt, password.as_bytes(), &mut salted);
    let key = hmac::Key::new(hmac::HMAC_SHA256, &salted);
    let client = hmac::sign(&key, b"Client Key");
    let stored = digest::digest(&digest::SHA256, client.as_ref());
    let server = hmac::sign(&key, b"Server Key");
    format!(
        "SCRAM-SHA-256${rounds}:{}${}:{}",
        STANDARD.encode(salt),
        STANDARD.encode(stored.as_ref()),
        STANDARD.encode(server.as_ref()),
    )
}

/// Whether a verifier is that of a password, for who sends the password itself. Takes as long as the verifier's rounds.
pub(super) fn knows(verifier: &str, password: &str) -> bool {
    let made_again = || {
        let rest = verifier.strip_prefix("SCRAM-SHA-256$")?;
        let (rounds, rest) = rest.split_once(':')?;
        let (salt, _) = rest.split_once('$')?;
        let salt = STANDARD.decode(salt).ok()?;
        Some(scram_of(password, &salt, rounds.parse().ok()?))
    };
    made_again().is_some_and(|made| made.as_bytes().ct_eq(verifier.as_bytes()).into())
}

/// Random bytes; where the system gives none, no password is right that is proved by them, but none is told either.
pub(crate) fn salt_of_process() -> [u8; 16] {
    let mut salt = [0; 16];
    let _ = SystemRandom::new().fill(&mut salt);
    salt
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys of RFC 7677's example: user `user`, password `pencil`. `python3 -c` with `hashlib.pbkdf2_hmac`, `hmac` and
    /// `hashlib.sha256` says the same.
    #[test]
    fn the_scram_verifier_is_that_of_the_rfc() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let expected = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
        assert_eq!(scram("pencil", &salt), expected);
        assert!(knows(expected, "pencil"));
        assert!(!knows(expected, "Pencil"));
        assert!(!knows(&expected.replace("4096", "4097"), "pencil"));
        for none in ["", "!", "SCRAM-SHA-256$", "SCRAM-SHA-256$0:W22Z$a:b"] {
            assert!(!knows(none, ""), "{none}");
        }
    }
}
