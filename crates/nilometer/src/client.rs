//! A server over HTTP, as the commands of this program see it.
//!
//! Does: keep connections, send the token, trust a certificate authority of the user's, turn answers other than success
//! into sentences. Does not: decide what to send, or try again.

#[cfg(feature = "sql")]
pub(crate) mod answers;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::Value;
use ureq::http::Response;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};
use ureq::{Agent, Body};

/// How long a connection may take to come about.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// Bytes of an error's body that are read.
const ERROR_BYTES_MAX: u64 = 4 << 20;

/// The server to connect to, and the credentials.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerArgs {
    /// Server URL.
    #[arg(
        long,
        value_name = "URL",
        env = "NILOMETER_URL",
        default_value = "http://127.0.0.1:8086"
    )]
    pub(crate) url: String,
    /// Access token.
    #[arg(
        long,
        value_name = "TOKEN",
        env = "NILOMETER_TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,
    /// PEM file with the certificate authorities to trust instead of the system's.
    #[arg(long, value_name = "FILE", env = "NILOMETER_CA")]
    ca: Option<PathBuf>,
    /// Allow sending the token over unencrypted HTTP to another machine.
    #[arg(long, env = "NILOMETER_INSECURE")]
    insecure: bool,
}

/// Connections to a server. Cheap to clone; clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    agent: Agent,
    url: String,
    token: Option<String>,
}

/// An answer other than success.
#[derive(Debug, Clone)]
pub(crate) struct Refused {
    pub(crate) status: u16,
    /// JSON, if it was.
    pub(crate) body: Value,
    pub(crate) text: String,
    pub(crate) retry_after: Option<Duration>,
}

impl Server {
    pub(crate) fn new(args: &ServerArgs) -> anyhow::Result<Self> {
        let url = args.url.trim_end_matches('/').to_owned();
        if !url.starts_with("http://") && !url.starts_with("https://") {
            bail!("{url:?} is not a server URL; write it as in http://127.0.0.1:8086");
        }
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT_TIME_MAX));
        if url.starts_with("https://") {
            config = config.tls_config(tls(args.ca.as_deref())?);
        } else if args.token.is_some() && !args.insecure && !is_loopback(&url) {
            bail!(
                "the token would be sent to {url} unencrypted; use https, or add --insecure if the network is trusted"
            );
        }
        Ok(Self {
            agent: config.build().into(),
            url,
            token: args.token.clone(),
        })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Asks for a page.
    pub(crate) fn get(
        &self,
        path: &str,
        parameters: &[(&str, &str)],
    ) -> anyhow::Result<Response<Body>> {
        let mut request = self
            .agent
            .get(format!("{}{path}", self.url))
            .query_pairs(parameters.iter().copied());
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        request.call().map_err(|error| self.unreachable(error))
    }

    /// Sends a body to a page.
    pub(crate) fn post(
        &self,
        path: &str,
        parameters: &[(&str, &str)],
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> anyhow::Result<Response<Body>> {
        let mut request = self
            .agent
            .post(format!("{}{path}", self.url))
            .query_pairs(parameters.iter().copied());
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send(body).map_err(|error| self.unreachable(error))
    }

    fn unreachable(&self, error: ureq::Error) -> anyhow::Error {
        let url = &self.url;
        let said = error.to_string();
        let advice = match certificate_advice(&said) {
            Some(advice) => format!("the certificate of {url} is not accepted; {advice}"),
            None => format!(
                "cannot reach a server at {url}; start one with `nilometer serve`, give another --url, or open a stopped store with --data DIR"
            ),
        };
        anyhow::Error::new(error).context(advice)
    }
}

/// What to do about a certificate, by what the library for TLS says of it; `None` = it is about something else.
fn certificate_advice(said: &str) -> Option<&'static str> {
    if !said.contains("invalid peer certificate") {
        return None;
    }
    Some(if said.contains("CaUsedAsEndEntity") {
        "it is one for an authority (CA:TRUE) and none for a server: make it again with -addext basicConstraints=critical,CA:FALSE, as the guide to HTTP has it"
    } else if said.contains("not valid for name") || said.contains("NotValidForName") {
        "give the server's name as the certificate has it in --url, or make a certificate with this name in its subjectAltName"
    } else if said.contains("expired") || said.contains("not valid yet") {
        "look at the clocks of both machines, or renew it"
    } else {
        "nobody whom this machine trusts has signed it: give the authority's certificate, or the server's own, with --ca FILE"
    })
}

impl Refused {
    pub(crate) fn of(mut response: Response<Body>) -> Self {
        let header = |name: &str| {
            let value = response.headers().get(name)?;
            Some(value.to_str().ok()?.to_owned())
        };
        let retry_after = header("retry-after").and_then(|value| value.parse().ok());
        let mut text = String::new();
        let reader = response.body_mut().as_reader();
        // What came of a body that breaks off is still the best that there is to show.
        drop(reader.take(ERROR_BYTES_MAX).read_to_string(&mut text));
        Self {
            status: response.status().as_u16(),
            body: serde_json::from_str(&text).unwrap_or(Value::Null),
            text,
            retry_after: retry_after.map(Duration::from_secs),
        }
    }

    /// What to tell the user.
    pub(crate) fn sentence(&self, server: &Server) -> String {
        let said = self.body.get("error").and_then(Value::as_str);
        let said = said.unwrap_or(self.text.trim());
        let place = match (self.number("line"), self.number("column")) {
            (Some(line), Some(column)) => place(said, line, column),
            _ => String::new(),
        };
        match self.status {
            401 => format!(
                "{} refused access: {said}; give the access token with --token or NILOMETER_TOKEN",
                server.url
            ),
            403 => format!("{} refused access: {said}", server.url),
            _ if said.is_empty() => format!(
                "{} answered with status {} and no reason; is it a Nilometer server?",
                server.url, self.status
            ),
            _ => format!("{said}{place}"),
        }
    }

    pub(crate) fn number(&self, member: &str) -> Option<u64> {
        self.body.get(member)?.as_u64()
    }
}

/// The place of an error, unless what is said names it already.
pub(crate) fn place(said: &str, line: u64, column: u64) -> String {
    let place = format!("line {line}, column {column}");
    if said.contains(&place) {
        String::new()
    } else {
        format!(" ({place})")
    }
}

fn is_loopback(url: &str) -> bool {
    let host = url.trim_start_matches("http://");
    let host = host.split('/').next().unwrap_or_default();
    host.starts_with("127.") || host.starts_with("localhost") || host.starts_with("[::1]")
}

fn tls(ca: Option<&Path>) -> anyhow::Result<TlsConfig> {
    let provider = tokio_rustls::rustls::crypto::ring::default_provider();
    let roots = match ca {
        None => RootCerts::PlatformVerifier,
        Some(path) => RootCerts::new_with_certs(&certificates(path)?),
    };
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(provider))
        .root_certs(roots)
        .build())
}

fn certificates(path: &Path) -> anyhow::Result<Vec<Certificate<'static>>> {
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut certificates = Vec::new();
    for item in parse_pem(&text) {
        let item = item.with_context(|| format!("{} is not a PEM file", path.display()))?;
        if let PemItem::Certificate(certificate) = item {
            certificates.push(certificate);
        }
    }
    if certificates.is_empty() {
        bail!(
            "{} contains no certificate; give the PEM file of the authority that signed the server's certificate",
            path.display()
        );
    }
    Ok(certificates)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(url: &str, token: Option<&str>) -> ServerArgs {
        ServerArgs {
            url: url.to_owned(),
            token: token.map(str::to_owned),
            ca: None,
            insecure: false,
        }
    }

    #[test]
    fn a_token_does_not_leave_the_machine_in_the_clear() {
        for url in [
            "http://127.0.0.1:8086",
            "http://localhost:1/",
            "http://[::1]:8086",
            "https://db.example.org",
        ] {
            assert!(Server::new(&args(url, Some("t"))).is_ok(), "{url}");
        }
        let error = Server::new(&args("http://db.example.org:8086", Some("t"))).unwrap_err();
        assert!(error.to_string().contains("https"), "{error}");
        assert!(Server::new(&args("http://db.example.org:8086", None)).is_ok());
        assert!(Server::new(&args("db.example.org", None)).is_err());
    }
}
