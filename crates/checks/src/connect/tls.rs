//! TLS as a client: roots, verification, client certificates.

use crate::connect::connector::Conn;
use crate::finding::Issue;
use crate::options::ClientTls;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, ProtocolVersion, RootCertStore, SignatureScheme};
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncRead as _, ReadBuf};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// TLS configuration of a check.
#[derive(Clone)]
pub(crate) enum Tls {
    /// TLS is not needed, or there are no usable roots.
    None,
    Client(TlsClient),
}

/// A TLS client configuration, ready for handshakes.
#[derive(Clone, Debug)]
pub struct TlsClient {
    /// Configuration of the handshakes.
    pub config: Arc<ClientConfig>,
    /// Roots for the verification of the server's certificate; `None` without verification.
    pub roots: Option<Arc<RootCertStore>>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "Tls::None",
            Self::Client(_) => "Tls::Client",
        })
    }
}

/// The TLS configurations of all checks; equal configurations are shared.
#[derive(Debug, Default)]
pub(crate) struct TlsPool(Vec<(ClientTls, Protocols, Tls)>);

/// Protocols that are offered by ALPN, in the order of preference.
pub(crate) type Protocols = &'static [&'static str];

impl TlsPool {
    /// Returns an existing equal configuration, or the result of [`Tls::build`].
    pub(crate) fn take(
        &mut self,
        tls: &ClientTls,
        protocols: Protocols,
        is_needed: bool,
    ) -> Result<Tls, String> {
        // The server name is a parameter of each handshake.
        let key = ClientTls { server_name: None, ..tls.clone() };
        let found = self.0.iter().find(|(known, spoken, _)| *known == key && *spoken == protocols);
        match found {
            Some((_, _, Tls::None)) | None => {}
            Some((_, _, built)) => return Ok(built.clone()),
        }
        let built = Tls::build(tls, protocols, is_needed)?;
        self.0.push((key, protocols, built.clone()));
        Ok(built)
    }
}

impl Tls {
    /// Builds a configuration that offers `protocols` by ALPN. A system without roots is an error
    /// only if `is_needed`.
    fn build(tls: &ClientTls, protocols: &[&str], is_needed: bool) -> Result<Self, String> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let (builder, roots) = if tls.verify {
            let roots = match &tls.ca {
                Some(ca) => Arc::new(roots_of(ca)?),
                None => system_roots(),
            };
            if roots.is_empty() {
                let why =
                    "this system trusts no certificate authority; name one with `tls = { ca = \"..\" }`";
                return if is_needed { Err(why.to_owned()) } else { Ok(Self::None) };
            }
            (builder.with_root_certificates(Arc::clone(&roots)), Some(roots))
        } else {
            (builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider))), None)
        };
        let mut config = match tls.identity() {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let chain = certificates(cert)?;
                let private = PrivateKeyDer::from_pem_file(key).map_err(|error| named(key, &error))?;
                builder.with_client_auth_cert(chain, private).map_err(|error| named(cert, &error))?
            }
        };
        // A resumed session has the certificates of its first handshake, which are not verified
        // again.
        config.resumption = Resumption::disabled();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        Ok(Self::Client(TlsClient { config: Arc::new(config), roots }))
    }

    /// Roots for the verification of the server's certificate, if it is verified.
    pub(crate) fn roots(&self) -> Option<&RootCertStore> {
        match self {
            Self::None => None,
            Self::Client(client) => client.roots.as_deref(),
        }
    }
}

/// Builds a TLS client configuration for use outside of checks.
///
/// `protocol` is offered by ALPN unless empty.
///
/// # Errors
/// A file cannot be used, or this system has no roots.
pub fn tls_client(tls: &ClientTls, protocol: &str) -> Result<TlsClient, String> {
    let protocols: &[&str] = if protocol.is_empty() { &[] } else { &[protocol] };
    match Tls::build(tls, protocols, true)? {
        Tls::Client(client) => Ok(client),
        Tls::None => Err("this system trusts no certificate authority".into()),
    }
}

/// Performs a handshake with the server `name`.
pub(crate) async fn handshake(tls: &Tls, name: &str, conn: Conn) -> Result<TlsStream<Conn>, Issue> {
    let Tls::Client(TlsClient { config, .. }) = tls else {
        return Err(Issue::error("this system trusts no certificate authority"));
    };
    let name = ServerName::try_from(name.to_owned());
    let name = name.map_err(|_| Issue::error("the name is not valid in a certificate"))?;
    let connected = TlsConnector::from(Arc::clone(config)).connect(name, conn).await;
    connected.map_err(|error| Issue::failure(format!("TLS: {}", handshake_failure(&error))))
}

/// The reason of a failed handshake.
pub fn handshake_failure(error: &io::Error) -> String {
    match error_of_tls(error) {
        Some(cause) => reason_of(cause),
        None if error.kind() == ErrorKind::UnexpectedEof => {
            "the connection ended before the handshake was complete".to_owned()
        }
        None => crate::finding::cause_of(error),
    }
}

/// Waits until the server has accepted or refused the certificate of this client, at most `wait`.
/// In TLS 1.3 the handshake of a client is complete before the server has verified the certificate
/// (RFC 8446 2); a refusal is an alert that follows. A session ticket, data or the end of the
/// connection shows that there is none.
pub(crate) async fn accepted(stream: &mut TlsStream<Conn>, wait: Duration) -> Result<(), Issue> {
    if stream.get_ref().1.protocol_version() != Some(ProtocolVersion::TLSv1_3) {
        return Ok(());
    }
    let mut byte = [0];
    let refused = poll_fn(|cx| {
        let read = Pin::new(&mut *stream).poll_read(cx, &mut ReadBuf::new(&mut byte));
        // A read does not end with a ticket.
        let is_accepted = stream.get_ref().1.tls13_tickets_received() > 0;
        if read.is_pending() && is_accepted { Poll::Ready(Ok(())) } else { read }
    });
    let Ok(Err(error)) = timeout(wait, refused).await else { return Ok(()) };
    let refusal = error_of_tls(&error).map(reason_of);
    refusal.map_or(Ok(()), |reason| Err(Issue::failure(format!("TLS: {reason}"))))
}

fn error_of_tls(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}

/// The reason of a failed handshake. The texts of rustls for frequent causes are replaced, because
/// they name types of rustls or times in seconds since 1970.
fn reason_of(error: &rustls::Error) -> String {
    use rustls::{CertificateError as Certificate, Error, InvalidMessage, OtherError};
    let text = match error {
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "the server does not speak TLS here: is this the right port?"
        }
        Error::InvalidCertificate(Certificate::Expired | Certificate::ExpiredContext { .. }) => {
            "the certificate has expired"
        }
        Error::InvalidCertificate(Certificate::NotValidYet | Certificate::NotValidYetContext { .. }) => {
            "the certificate is not valid yet"
        }
        // The error of webpki has no text, only the name of its variant.
        Error::InvalidCertificate(Certificate::Other(OtherError(cause))) => {
            match cause.to_string().as_str() {
                "CaUsedAsEndEntity" => {
                    "the server uses the certificate of a certificate authority as its own: issue one with CA:FALSE"
                }
                variant => return format!("invalid certificate: {variant}"),
            }
        }
        other => return other.to_string(),
    };
    text.to_owned()
}

/// The roots of this system, read once.
fn system_roots() -> Arc<RootCertStore> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let read = || {
        let mut roots = RootCertStore::empty();
        let (_taken, _refused) =
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(roots)
    };
    Arc::clone(ROOTS.get_or_init(read))
}

fn roots_of(ca: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(ca)? {
        roots.add(certificate).map_err(|error| named(ca, &error))?;
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).map_err(|error| named(path, &error))?;
    let all: Vec<_> = read.collect::<Result<_, _>>().map_err(|error| named(path, &error))?;
    if all.is_empty() {
        return Err(format!("{}: contains no certificate", path.display()));
    }
    Ok(all)
}

fn named(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}

/// Accepts any certificate, as the kubelet does. Handshake signatures are still verified, so the
/// peer proves possession of the key of its certificate.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
