//! Signed tokens (JWT, RFC 7519) of whoever shares a secret with the server.
//!
//! Does: check the signature (HMAC with SHA-256, SHA-384 or SHA-512), that the token has an end and has not passed it, and
//! say whose it is. Does not: make tokens, or know users: whoever asks looks the name up.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::{Map, Value};

use crate::error::Error;

/// What is longer is some other file.
const SECRET_BYTES_MAX: usize = 4096;

/// Tokens of clients have some hundred bytes.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// The secret that tokens are signed with.
#[derive(Clone)]
pub struct JwtSecret {
    sha256: hmac::Key,
    sha384: hmac::Key,
    sha512: hmac::Key,
}

impl fmt::Debug for JwtSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(set)")
    }
}

impl JwtSecret {
    /// Takes a secret; `origin` says in errors where it came from. White space around it does not count. Without a secret
    /// anybody could sign, so an empty one is refused.
    pub fn new(text: &str, origin: &str) -> Result<Self, Error> {
        let secret = text.trim().as_bytes();
        let unfit = |reason| Error::JwtSecret {
            origin: origin.to_owned(),
            reason,
        };
        if secret.is_empty() {
            return Err(unfit("is empty"));
        }
        if secret.len() > SECRET_BYTES_MAX {
            return Err(unfit("has more than 4096 bytes"));
        }
        Ok(Self {
            sha256: hmac::Key::new(hmac::HMAC_SHA256, secret),
            sha384: hmac::Key::new(hmac::HMAC_SHA384, secret),
            sha512: hmac::Key::new(hmac::HMAC_SHA512, secret),
        })
    }

    /// The name of the user that a token is for, at this time in nanoseconds since 1970.
    pub(super) fn user(&self, token: &[u8], now_ns: i64) -> Result<String, Error> {
        let user = self.checked(token, now_ns);
        user.map_err(|reason| Error::BearerToken { reason })
    }

    /// The reasons are InfluxDB's.
    fn checked(&self, token: &[u8], now_ns: i64) -> Result<String, &'static str> {
        const MALFORMED: &str = "token contains an invalid number of segments";
        if token.len() > TOKEN_BYTES_MAX {
            return Err("token is too long");
        }
        let text = std::str::from_utf8(token).map_err(|_| MALFORMED)?;
        let (signed, signature) = text.rsplit_once('.').ok_or(MALFORMED)?;
        let (header, claims) = signed.split_once('.').ok_or(MALFORMED)?;
        if claims.contains('.') {
            return Err(MALFORMED);
        }
        let header = object(header).ok_or("token header is no JSON object")?;
        let key = match header.get("alg").and_then(Value::as_str) {
            Some("HS256") => &self.sha256,
            Some("HS384") => &self.sha384,
            Some("HS512") => &self.sha512,
            _ => return Err("unexpected signing method"),
        };
        let wrong = "signature is invalid";
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| wrong)?;
        hmac::verify(key, signed.as_bytes(), &signature).map_err(|_| wrong)?;
        let claims = object(claims).ok_or("token claims are no JSON object")?;
        let seconds = now_ns as f64 / 1e9;
        let time = |name: &str| claims.get(name).and_then(Value::as_f64);
        match time("exp") {
            Some(end) if end > 0.0 => {
                if seconds > end {
                    return Err("Token is expired");
                }
            }
            _ => return Err("token expiration required"),
        }
        if time("nbf").is_some_and(|start| seconds < start) {
            return Err("Token is not valid yet");
        }
        match claims.get("username") {
            Some(Value::String(name)) if name.is_empty() => Err("token must contain a username"),
            Some(Value::String(name)) => Ok(name.clone()),
            _ => Err("username in token must be a string"),
        }
    }
}

/// Whether a text has the three parts of a signed token.
pub(super) fn is_like_jwt(token: &[u8]) -> bool {
    token.split(|&byte| byte == b'.').count() == 3
}

fn object(part: &str) -> Option<Map<String, Value>> {
    let bytes = URL_SAFE_NO_PAD.decode(part).ok()?;
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(object)) => Some(object),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of jwt.io: `{"alg":"HS256","typ":"JWT"}`, `{"sub":"1234567890","name":"John Doe","iat":1516239022}`, signed
    /// with `your-256-bit-secret`.
    const PUBLISHED: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2MjM5MDIyfQ.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c";

    fn secret() -> JwtSecret {
        JwtSecret::new("your-256-bit-secret\n", "the test").unwrap()
    }

    fn signed(header: &str, claims: &str, secret: &str) -> String {
        let text = format!(
            "{}.{}",
            URL_SAFE_NO_PAD.encode(header),
            URL_SAFE_NO_PAD.encode(claims)
        );
        let algorithm = if header.contains("HS512") {
            hmac::HMAC_SHA512
        } else {
            hmac::HMAC_SHA256
        };
        let key = hmac::Key::new(algorithm, secret.as_bytes());
        let signature = hmac::sign(&key, text.as_bytes());
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    #[test]
    fn a_published_token_has_a_right_signature_and_is_refused_because_it_never_ends() {
        let secret = secret();
        let why = |token: &str| secret.checked(token.as_bytes(), 0).unwrap_err();
        assert_eq!(why(PUBLISHED), "token expiration required");
        let forged = PUBLISHED.replace("SflKxw", "SflKxx");
        assert_eq!(why(&forged), "signature is invalid");
        let other = JwtSecret::new("another", "the test").unwrap();
        let wrong = other.checked(PUBLISHED.as_bytes(), 0);
        assert_eq!(wrong, Err("signature is invalid"));
    }

    #[test]
    fn a_token_lets_its_user_in_until_its_end_and_no_other_way() {
        const NOW: i64 = 1_000 * 1_000_000_000;
        let header = r#"{"alg":"HS256","typ":"JWT"}"#;
        let right = "your-256-bit-secret";
        for (header, claims, expected) in [
            (header, r#"{"username":"ann","exp":1001}"#, Ok("ann")),
            (
                r#"{"alg":"HS512"}"#,
                r#"{"username":"ann","exp":1001.5}"#,
                Ok("ann"),
            ),
            (
                header,
                r#"{"username":"ann","exp":999}"#,
                Err("Token is expired"),
            ),
            (
                header,
                r#"{"username":"ann","exp":1001,"nbf":1001}"#,
                Err("Token is not valid yet"),
            ),
            (
                header,
                r#"{"username":"ann"}"#,
                Err("token expiration required"),
            ),
            (
                header,
                r#"{"username":"ann","exp":0}"#,
                Err("token expiration required"),
            ),
            (
                header,
                r#"{"username":"ann","exp":"2000"}"#,
                Err("token expiration required"),
            ),
            (
                header,
                r#"{"username":7,"exp":1001}"#,
                Err("username in token must be a string"),
            ),
            (
                header,
                r#"{"exp":1001}"#,
                Err("username in token must be a string"),
            ),
            (
                header,
                r#"{"username":"","exp":1001}"#,
                Err("token must contain a username"),
            ),
            (
                r#"{"alg":"none"}"#,
                r#"{"username":"ann","exp":1001}"#,
                Err("unexpected signing method"),
            ),
            (
                r#"{"alg":"RS256"}"#,
                r#"{"username":"ann","exp":1001}"#,
                Err("unexpected signing method"),
            ),
        ] {
            let token = signed(header, claims, right);
            let found = secret().checked(token.as_bytes(), NOW);
            assert_eq!(found, expected.map(str::to_owned), "{header} {claims}");
        }
        let unsigned = signed(
            r#"{"alg":"none"}"#,
            r#"{"username":"ann","exp":1001}"#,
            right,
        );
        let unsigned = unsigned
            .rsplit_once('.')
            .map(|(text, _)| format!("{text}."));
        for text in [
            unsigned.unwrap(),
            "a.b".to_owned(),
            "....".to_owned(),
            String::new(),
        ] {
            assert!(secret().checked(text.as_bytes(), NOW).is_err(), "{text}");
        }
    }

    #[test]
    fn an_empty_secret_is_none() {
        for text in ["", " \n"] {
            let error = JwtSecret::new(text, "jwt.key").unwrap_err().to_string();
            assert!(
                error.contains("jwt.key") && error.contains("empty"),
                "{error}"
            );
        }
        assert_eq!(format!("{:?}", secret()), "(set)");
    }
}
