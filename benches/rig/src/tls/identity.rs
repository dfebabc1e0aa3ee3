//! The certificate of all servers in a run, and how the client verifies it.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

use crate::error::RigError;
use crate::image::servers::{Entry, ServerEnvironment, Setup};

/// The DNS name of the certificate.
pub(super) const NAME: &str = "rig.test";

/// A self-signed certificate with an ECDSA key on P-256.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// The certificate in PEM.
    pub(super) certificate: String,
    /// The key in PEM.
    pub(super) key: String,
    pub(super) der: CertificateDer<'static>,
}

impl Identity {
    /// Generates a new certificate and key.
    pub(super) fn generate() -> Result<Self, RigError> {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]);
        let made = made.map_err(|error| RigError::command("making a certificate", error))?;
        Ok(Self {
            certificate: made.cert.pem(),
            key: made.signing_key.serialize_pem(),
            der: made.cert.der().clone(),
        })
    }

    /// Returns the setup of a catalogue entry with this certificate. HAProxy needs certificate and
    /// key in one file.
    pub(super) fn setup(&self, entry: &Entry, program: &str, place: &ServerEnvironment<'_>) -> Setup {
        let mut setup = entry.at(program, &ServerEnvironment { has_tls: true, ..*place });
        let Self { certificate, key, .. } = self;
        for (name, text) in [
            ("cert.pem", certificate.clone()),
            ("key.pem", key.clone()),
            ("both.pem", format!("{certificate}{key}")),
        ] {
            setup.files.push((format!("{}/{name}", place.folder), text));
        }
        setup
    }
}

/// A verifier that accepts only the certificate of an [`Identity`]. Whether the server has the key
/// is verified once per measurement, because verification in each handshake would make the client
/// slower than the servers.
#[derive(Debug)]
pub(super) struct Known {
    certificate: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
    verifies_signature: bool,
}

impl Known {
    pub(super) fn new(identity: &Identity, verifies_signature: bool) -> Self {
        let provider = Arc::new(aws_lc_rs::default_provider());
        Self { certificate: identity.der.clone(), provider, verifies_signature }
    }
}

impl ServerCertVerifier for Known {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if *end_entity == self.certificate {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(Error::InvalidCertificate(CertificateError::UnknownIssuer))
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("only TLS 1.3 is measured".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if self.verifies_signature {
            let algorithms = &self.provider.signature_verification_algorithms;
            return verify_tls13_signature(message, certificate, signed, algorithms);
        }
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}
