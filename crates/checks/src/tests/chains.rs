//! Limits on the remaining lifetime of certificates, against a server that sends a certificate that
//! its verified chain does not need.

use super::kinds::tls_server_with;
use super::*;
use crate::connect::certificate::tests::cross_signed;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;

#[test]
fn only_the_verified_chain_counts_for_the_lifetime_of_certificates() {
    let (chain, key, root) = cross_signed(2085);
    let ca = std::env::temp_dir().join(format!("doorbell-chain-{}.crt", std::process::id()));
    std::fs::write(&ca, root.pem()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = Arc::new(config.with_no_client_auth().with_single_cert(chain.to_vec(), key).unwrap());
    let addr = tls_server_with(Duration::ZERO, move || Arc::clone(&config));
    let name = Some("a.test".to_owned());
    let verified = ClientTls { ca: Some(ca.clone()), server_name: name, ..ClientTls::default() };
    let certificate =
        CertificateRule { expires_after: Some(Duration::from_secs(86_400)), ..CertificateRule::default() };
    for (client, reason) in [(verified, ""), (unverified(), "the certificate has expired")] {
        let tls = TlsCheck { tls: client.clone(), certificate, ..TlsCheck::new(address(addr)) };
        let https = HttpCheck { tls: client, certificate, ..HttpCheck::new(url(format!("https://{addr}/"))) };
        for kind in [CheckKind::from(tls), CheckKind::from(https)] {
            let finding = block_on(runner(kind.clone()).run());
            assert_eq!(finding.reason, reason, "{kind:?}");
        }
    }
    std::fs::remove_file(&ca).unwrap();
}

/// As `openssl req -x509` creates it: the certificate of an authority, used by a server.
#[test]
fn a_server_with_the_certificate_of_an_authority_is_reported_in_words() {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let own = params.self_signed(&key).unwrap();
    let ca = std::env::temp_dir().join(format!("doorbell-own-ca-{}.crt", std::process::id()));
    std::fs::write(&ca, own.pem()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config =
        Arc::new(config.with_no_client_auth().with_single_cert(vec![own.der().clone()], key).unwrap());
    let addr = tls_server_with(Duration::ZERO, move || Arc::clone(&config));
    let tls =
        ClientTls { ca: Some(ca.clone()), server_name: Some("a.test".to_owned()), ..ClientTls::default() };
    let finding = block_on(runner(TlsCheck { tls, ..TlsCheck::new(address(addr)) }).run());
    std::fs::remove_file(&ca).unwrap();
    let reason =
        "TLS: the server uses the certificate of a certificate authority as its own: issue one with CA:FALSE";
    assert_eq!((finding.outcome, finding.reason.as_str()), (Outcome::Failure, reason));
}
