//! Mutual TLS 1.3.

use rustls::client::{Resumption, verify_server_name};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// ALPN protocol: the handshake fails if the peer offers only other protocols. The certificate, not
/// the protocol, identifies a peer.
const PROTOCOL: &[u8] = b"doorbell-link";

/// Certificate and key of this side, and the CA of the peers, for both directions.
#[derive(Clone)]
pub struct LinkTls {
    pub(crate) connector: TlsConnector,
    pub(crate) acceptor: TlsAcceptor,
}

impl fmt::Debug for LinkTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LinkTls")
    }
}

impl LinkTls {
    /// Reads PEM files: CA certificates of the peers, the chain of this side, its key.
    ///
    /// # Errors
    /// A file cannot be used. The message contains its name.
    pub fn from_files(ca: &Path, cert: &Path, key: &Path) -> Result<Self, String> {
        let named = |path: &Path, error: &dyn fmt::Display| format!("{}: {error}", path.display());
        let mut roots = RootCertStore::empty();
        for root in certificates(ca)? {
            roots.add(root).map_err(|error| named(ca, &error))?;
        }
        let chain = certificates(cert)?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| named(key, &error))?;
        Self::build(roots, chain, private).map_err(|error| named(cert, &error))
    }

    fn build(
        roots: RootCertStore,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, String> {
        let provider: Arc<CryptoProvider> = Arc::new(aws_lc_rs::default_provider());
        let roots = Arc::new(roots);
        let text = |error: rustls::Error| error.to_string();
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(text)?
            .with_root_certificates(Arc::clone(&roots))
            .with_client_auth_cert(chain.clone(), key.clone_key())
            .map_err(text)?;
        client.alpn_protocols = vec![PROTOCOL.to_vec()];
        // Certificates are verified on every connection.
        client.resumption = Resumption::disabled();
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider))
            .build()
            .map_err(|error| error.to_string())?;
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(text)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(text)?;
        server.alpn_protocols = vec![PROTOCOL.to_vec()];
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        let (connector, acceptor) = (Arc::new(client).into(), Arc::new(server).into());
        Ok(Self { connector, acceptor })
    }
}

/// Whether a certificate is valid for a name.
pub(crate) fn is_for(certificate: &CertificateDer<'_>, name: &str) -> bool {
    let Ok(name) = ServerName::try_from(name) else { return false };
    ParsedCertificate::try_from(certificate)
        .is_ok_and(|certificate| verify_server_name(&certificate, &name).is_ok())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let named = |error: &dyn fmt::Display| format!("{}: {error}", path.display());
    let list = CertificateDer::pem_file_iter(path).map_err(|error| named(&error))?;
    let list: Vec<_> = list.collect::<Result<_, _>>().map_err(|error| named(&error))?;
    if list.is_empty() { Err(named(&"contains no certificate")) } else { Ok(list) }
}
