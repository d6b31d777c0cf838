//! TLS: certificate, key, and clear errors when they do not fit.
//!
//! Does not: read files, make certificates, or take new ones while the server runs; a new certificate takes a restart.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nilometer_service::Service;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::time_provider::TimeProvider;

const CERT: &str = "--tls-cert";
const KEY: &str = "--tls-key";

/// The certificate, the key or those that vouch for clients are not what TLS needs.
#[derive(Debug, thiserror::Error)]
#[error("{path} ({setting}) {reason}")]
pub struct TlsError {
    /// The flag that names the file.
    setting: &'static str,
    /// The file.
    path: PathBuf,
    /// What is wrong with it, and what to do.
    reason: String,
}

/// A file that was read; its path goes into errors, its bytes do not.
pub struct PemFile {
    /// Where it was read.
    pub path: PathBuf,
    /// What is in it.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for PemFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)
    }
}

/// What a server shows of itself to clients that encrypt.
#[derive(Clone)]
pub struct Tls {
    config: Arc<rustls::ServerConfig>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(set)")
    }
}

impl Tls {
    /// Takes a certificate, with those that vouch for it after it, and its key.
    pub fn new(cert: &PemFile, key: &PemFile) -> Result<Self, TlsError> {
        Self::for_clients(cert, key, None)
    }

    /// The same, for clients that must show a certificate which one of the certificates of a file vouches for, if there is such
    /// a file; it comes with the flag that names it.
    pub fn for_clients(
        cert: &PemFile,
        key: &PemFile,
        clients: Option<(&'static str, &PemFile)>,
    ) -> Result<Self, TlsError> {
        let certificates = chain(CERT, cert)?;
        let secret = private_key(key)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = match clients {
            None => WebPkiClientVerifier::no_client_auth(),
            Some(clients) => verifier(clients, &provider)?,
        };
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| unfit(CERT, cert, format!("cannot be used: {error}")))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(certificates, secret)
            .map_err(|error| why(&error, cert, key))?;
        Ok(Self {
            config: Arc::new(config),
        })
    }

    /// For connections of a protocol, by its name in the negotiation.
    pub fn acceptor(&self, service: &Arc<Service>, protocol: &[u8]) -> TlsAcceptor {
        let mut config = rustls::ServerConfig::clone(&self.config);
        config.alpn_protocols = vec![protocol.to_vec()];
        config.time_provider = Arc::new(StoreTime(Arc::clone(service)));
        TlsAcceptor::from(Arc::new(config))
    }
}

/// The store's clock. The library's own reading of the time fails when that is before 1970.
#[derive(Debug)]
struct StoreTime(Arc<Service>);

impl TimeProvider for StoreTime {
    fn current_time(&self) -> Option<UnixTime> {
        let since = u64::try_from(self.0.wall_ns()).unwrap_or(0);
        Some(UnixTime::since_unix_epoch(Duration::from_nanos(since)))
    }
}

fn unfit(setting: &'static str, file: &PemFile, reason: String) -> TlsError {
    TlsError {
        setting,
        path: file.path.clone(),
        reason,
    }
}

/// Which of the two files is wrong, and what to do about it.
fn why(error: &rustls::Error, cert: &PemFile, key: &PemFile) -> TlsError {
    match error {
        rustls::Error::InconsistentKeys(_) => {
            let reason = format!(
                "is not the key of the certificate in {}; give the key that the certificate was made for",
                cert.path.display()
            );
            unfit(KEY, key, reason)
        }
        rustls::Error::InvalidCertificate(reason) => {
            let reason = format!("holds no usable certificate ({reason}); ask for it again in PEM");
            unfit(CERT, cert, reason)
        }
        other => {
            let reason = format!(
                "holds a key that TLS cannot use ({other}); take an ECDSA P-256, RSA (2048 bits or more) or Ed25519 key"
            );
            unfit(KEY, key, reason)
        }
    }
}

/// Who checks the certificates of clients.
fn verifier(
    (setting, clients): (&'static str, &PemFile),
    provider: &Arc<rustls::crypto::CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in chain(setting, clients)? {
        roots.add(certificate).map_err(|error| {
            let reason = format!("holds no usable certificate ({error}); ask for it again in PEM");
            unfit(setting, clients, reason)
        })?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| unfit(setting, clients, format!("cannot be used: {error}")))
}

fn chain(setting: &'static str, file: &PemFile) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    const MUST: &str = "it must have a part that starts with -----BEGIN CERTIFICATE-----";
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&file.bytes).collect();
    match chain {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        Ok(_) => Err(unfit(
            setting,
            file,
            format!("holds no certificate; {MUST}"),
        )),
        Err(error) => Err(unfit(
            setting,
            file,
            format!("is not PEM ({error}); {MUST}"),
        )),
    }
}

fn private_key(file: &PemFile) -> Result<PrivateKeyDer<'static>, TlsError> {
    const MUST: &str =
        "it must have a part that starts with -----BEGIN PRIVATE KEY----- and is not encrypted";
    PrivateKeyDer::from_pem_slice(&file.bytes).map_err(|error| match error {
        pem::Error::NoItemsFound => unfit(KEY, file, format!("holds no private key; {MUST}")),
        // What else the library says may repeat bytes of the file, which is a secret.
        _ => unfit(KEY, file, format!("is not PEM; {MUST}")),
    })
}
